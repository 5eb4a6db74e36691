//! Expectations held against records, as a build reads them: lines for a terminal, JSON, JUnit's XML, TAP version 13.
//!
//! One test is one expectation of one record. What cannot be told is not passed: JUnit calls it an error, TAP
//! `not ok`, and both say why.

use serde_json::{Value, json};
use surety_model::expectation::{Checked, Standing};

use crate::text::{Style, Tone, clean, paragraph};

/// The expectations of one record.
#[derive(Clone, Debug)]
pub struct Gate<'a> {
    /// The record's label.
    pub label: &'a str,
    /// Every expectation with what became of it.
    pub checked: Vec<Checked>,
}

/// The worst of all; `None` without an expectation.
pub fn worst(gates: &[Gate<'_>]) -> Option<Standing> {
    gates.iter().flat_map(|g| &g.checked).map(|c| c.standing).max()
}

/// A line for each expectation of each record with the observed values below.
pub fn text(gates: &[Gate<'_>], style: &Style) -> String {
    let mut out = String::new();
    for gate in gates {
        for checked in &gate.checked {
            let (sign, tone) = match checked.standing {
                Standing::Held => ("held         ", Tone::Good),
                Standing::CannotTell => ("cannot tell  ", Tone::Open),
                Standing::Failed => ("FAILED       ", Tone::Bad),
            };
            out += &paragraph(style, sign, tone, &format!("{}: {}", gate.label, checked.expectation));
            for finding in &checked.findings {
                let what = format!("{}: {}", finding.about, finding.because);
                let lead = match checked.findings.len() {
                    1 => " ".repeat(13),
                    _ => format!("  {:11}  ", finding.standing),
                };
                out += &paragraph(style, &lead, Tone::Faint, &what);
            }
        }
    }
    out
}

/// The same as a value: an array of objects, one for each expectation of each record.
pub fn json(gates: &[Gate<'_>]) -> Value {
    let tests = gates.iter().flat_map(|gate| {
        gate.checked.iter().map(|checked| {
            let findings = checked.findings.iter().map(
                |f| json!({ "about": f.about, "standing": f.standing.to_string(), "because": f.because }),
            );
            json!({
                "result": gate.label,
                "expected": checked.expectation.to_string(),
                "standing": checked.standing.to_string(),
                "findings": findings.collect::<Vec<_>>(),
            })
        })
    });
    tests.collect()
}

/// What was found, in one line.
fn found(checked: &Checked) -> String {
    let findings = checked.findings.iter().map(|f| format!("{}: {} ({})", f.about, f.because, f.standing));
    clean(&findings.collect::<Vec<_>>().join("; "))
}

/// An XML document of the form that JUnit's readers share: one suite for each record.
pub fn junit(gates: &[Gate<'_>]) -> String {
    let count = |gate: &Gate<'_>, standing| gate.checked.iter().filter(|c| c.standing == standing).count();
    let totals = |wanted| gates.iter().map(|g| count(g, wanted)).sum::<usize>();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    out += &format!(
        "<testsuites tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
        gates.iter().map(|g| g.checked.len()).sum::<usize>(),
        totals(Standing::Failed),
        totals(Standing::CannotTell),
    );
    for gate in gates {
        let label = xml(gate.label);
        out += &format!(
            "  <testsuite name=\"{label}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\">\n",
            gate.checked.len(),
            count(gate, Standing::Failed),
            count(gate, Standing::CannotTell),
        );
        for checked in &gate.checked {
            let name = xml(&checked.expectation.to_string());
            let found = xml(&found(checked));
            out += &format!("    <testcase classname=\"{label}\" name=\"{name}\">\n");
            out += &match checked.standing {
                Standing::Held => format!("      <system-out>{found}</system-out>\n"),
                Standing::Failed => format!("      <failure type=\"failed\" message=\"{found}\"/>\n"),
                Standing::CannotTell => format!("      <error type=\"cannot tell\" message=\"{found}\"/>\n"),
            };
            out += "    </testcase>\n";
        }
        out += "  </testsuite>\n";
    }
    out + "</testsuites>\n"
}

/// Text inside XML 1.0: markup escaped, and what no document may hold replaced.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A TAP document with what was found as the diagnostic of each test: version 13, which harnesses of version 14 read too.
pub fn tap(gates: &[Gate<'_>]) -> String {
    let total: usize = gates.iter().map(|g| g.checked.len()).sum();
    let mut out = format!("TAP version 13\n1..{total}\n");
    let tests = gates.iter().flat_map(|g| g.checked.iter().map(move |c| (g.label, c)));
    for (number, (label, checked)) in tests.enumerate() {
        let word = if checked.standing == Standing::Held { "ok" } else { "not ok" };
        let description = clean(&format!("{label}: {}", checked.expectation));
        // A bare `#` would begin a directive.
        let description = description.replace('\\', "\\\\").replace('#', "\\#");
        out += &format!("{word} {} - {description}\n", number + 1);
        // A JSON string is a YAML one.
        out += &format!(
            "  ---\n  standing: {}\n  found: {}\n  ...\n",
            checked.standing,
            Value::String(found(checked))
        );
    }
    out
}
