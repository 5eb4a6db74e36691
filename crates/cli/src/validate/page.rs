//! The tables of a validation, for the terminal and for a page.

use std::fmt::Write;

use surety_reproduce::validation::{Counts, NotCompared, Row, Shown};

use super::value;
use crate::exit::{Code, Failure};

/// The comments around the tables of a page.
const BEGIN: &str = "<!-- begin of the validation -->\n";
const END: &str = "<!-- end of the validation -->\n";

/// The columns of what is outside.
pub(super) const OUTSIDE: [&str; 9] =
    ["scenario", "kernel", "activity", "figure", "kernel's", "simulated", "with the cause", "shown", "cause"];

/// What stands for a cause that nobody knows.
const OPEN: &str = "not known";

fn kernels(rows: &[Row], unfit: &[NotCompared]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for kernel in rows.iter().map(|row| &row.kernel).chain(unfit.iter().map(|not| &not.kernel)) {
        if !found.contains(kernel) {
            found.push(kernel.clone());
        }
    }
    found
}

/// The columns of the summary.
pub(super) fn titles(rows: &[Row], unfit: &[NotCompared]) -> Vec<String> {
    std::iter::once("scenario".to_owned()).chain(kernels(rows, unfit)).collect()
}

/// A line for each scenario: how many of its figures agree on each kernel.
pub(super) fn summary(rows: &[Row], unfit: &[NotCompared]) -> Vec<Vec<String>> {
    let kernels = kernels(rows, unfit);
    let mut names: Vec<&String> = Vec::new();
    for name in rows.iter().map(|row| &row.scenario).chain(unfit.iter().map(|not| &not.scenario)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let cell = |name: &String, kernel: &String| {
        let of = rows.iter().filter(|row| row.scenario == *name && row.kernel == *kernel);
        let (all, agree) = of.fold((0, 0), |(all, agree), row| (all + 1, agree + usize::from(row.agrees())));
        match all {
            0 if unfit.iter().any(|not| not.scenario == *name && not.kernel == *kernel) => {
                "not compared".to_owned()
            }
            0 => String::new(),
            _ => format!("{agree} of {all}"),
        }
    };
    let line = |name: &String| {
        std::iter::once(name.clone()).chain(kernels.iter().map(|kernel| cell(name, kernel))).collect()
    };
    names.into_iter().map(line).collect()
}

/// A figure that is outside.
pub(super) fn line(row: &Row) -> Vec<String> {
    let cause = row.cause.unwrap_or(OPEN);
    let words = [&row.scenario, &row.kernel, &row.activity, row.figure];
    let mut line: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let counter = row.counter.map(|counter| value(row.unit, counter)).unwrap_or_default();
    let shown = match row.shown() {
        Some(Shown::Yes) => "yes",
        Some(Shown::Nearer) => "nearer",
        Some(Shown::No) => "no nearer",
        None => "",
    };
    let (measured, simulated) = (value(row.unit, row.measured), value(row.unit, row.simulated));
    line.extend([measured, simulated, counter, shown.to_owned(), cause.to_owned()]);
    line
}

/// A table of Markdown.
fn markdown<'t>(titles: impl IntoIterator<Item = &'t str>, lines: &[Vec<String>]) -> String {
    let titles: Vec<&str> = titles.into_iter().collect();
    let mut out = format!("| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    for line in lines {
        let _ = writeln!(out, "| {} |", line.join(" | "));
    }
    out
}

/// Gives each cause in the last column a number there: the causes in their order.
fn numbered(lines: &mut [Vec<String>]) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for cell in lines.iter_mut().filter_map(|line| line.last_mut()).filter(|cell| *cell != OPEN) {
        let known = causes.iter().position(|cause| cause == cell);
        let place = known.unwrap_or(causes.len());
        let cause = std::mem::replace(cell, (place + 1).to_string());
        if known.is_none() {
            causes.push(cause);
        }
    }
    causes
}

/// The tables of a page, and what is said of the records: which builds they are of, and of the runs.
pub(super) fn tables(
    rows: &[Row],
    unfit: &[NotCompared],
    (builds, said): (&[String], Option<&str>),
) -> String {
    let columns = titles(rows, unfit);
    let mut out = markdown(columns.iter().map(String::as_str), &summary(rows, unfit));
    if !builds.is_empty() {
        out += "\nA column is of the builds of its records:\n\n";
        builds.iter().for_each(|words| out += &format!("- {words}\n"));
    }
    let mut outside: Vec<Vec<String>> = rows.iter().filter(|row| !row.agrees()).map(line).collect();
    let Counts { all, agree, shown, named, nearer, open } = Counts::of(rows);
    let _ = write!(
        out,
        "\n{agree} of {all} figures agree. Of the {} outside, {shown} have a cause that a counter-run shows, {named} a cause that is named only \
         ({nearer} of them come nearer with the counter-run), and {open} have none:\n\n",
        all - agree
    );
    let causes = numbered(&mut outside);
    out += &markdown(OUTSIDE, &outside);
    if !causes.is_empty() {
        out.push('\n');
    }
    for (place, cause) in causes.iter().enumerate() {
        let _ = writeln!(out, "{}. {cause}", place + 1);
    }
    if let Some(said) = said {
        let _ = writeln!(out, "\n{said}");
    }
    if !unfit.is_empty() {
        out += "\nNot compared:\n\n";
        for NotCompared { scenario, kernel, why } in unfit {
            let _ = writeln!(out, "- {scenario}, {kernel}: {why}");
        }
    }
    out
}

/// A page with these tables in it.
pub(super) fn within(page: &str, tables: &str) -> Result<String, Failure> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = parts else {
        let said = "the page has no place for the tables";
        return Err(Failure::new(Code::BadInput, said).help(format!(
            "add the lines {} and {}",
            BEGIN.trim(),
            END.trim()
        )));
    };
    Ok(format!("{before}{BEGIN}{tables}{END}{after}"))
}
