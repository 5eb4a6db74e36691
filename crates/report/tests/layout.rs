//! Whatever the names and the width: lines fit, markup from outside stays text.

mod shared;

use std::collections::BTreeSet;

use shared::{plan, records, rows};
use surety_model::record::Record;
use surety_report::table::{self, Check, CheckVerdict};
use surety_report::{Report, Row, Style, html};
use surety_units::Nanos;

/// Columns as a terminal counts them, escape sequences left out; wide characters count twice.
fn columns(line: &str) -> usize {
    let mut count = 0;
    let mut in_escape = false;
    for c in line.chars() {
        match c {
            '\x1b' => in_escape = true,
            'm' if in_escape => in_escape = false,
            _ if in_escape => {}
            '\u{4e00}'..='\u{9fff}' => count += 2,
            _ => count += 1,
        }
    }
    count
}

/// The loop with names that test the layout and the escaping.
fn hostile() -> Vec<(&'static str, Record)> {
    let mut records = records();
    for (_, record) in &mut records {
        record.activities[0].name = "プ日本語の長い名前の活動-player".to_owned();
        record.activities[1].name = "<b>&\"'-x\x1b[31m".to_owned();
        record.world = "<script>alert(1)</script>".to_owned();
        record.degraded.push("the governor is <powersave> & the name is \"long\" ".repeat(4));
        record.in_force.unvalidated.push("<u>class</u> ".repeat(20));
        record.in_force.environment.insert("<i>key</i>".repeat(6), "value & more ".repeat(20));
        for figure in record.activities.iter_mut().flat_map(|a| &mut a.figures) {
            figure.name = format!("<figure> & {}", figure.name.repeat(9));
        }
    }
    records
}

fn all_texts(rows: &[Row<'_>], style: &Style) -> Vec<String> {
    let mut plan = plan();
    plan.reservations[0].activity = "x".repeat(70);
    plan.reservations[0].proof.theorem = "an-unbroken-name-".repeat(12);
    let check = Check {
        name: "n".repeat(50),
        verdict: CheckVerdict::Bad,
        found: "found ".repeat(40),
        remedy: Some("r".repeat(200)),
    };
    let series: Vec<_> = rows
        .iter()
        .filter_map(|r| Some((r.label.as_str(), r.record.activities.first()?.response.as_ref()?)))
        .collect();
    let many: Vec<String> = (0..40).map(|i| format!("cell {i}")).collect();
    let titles: Vec<&str> = (0..40).map(|i| if i % 2 == 0 { "even" } else { "a long title" }).collect();
    let mut texts = vec![
        table::comparison(rows, style),
        table::plan(&plan, style),
        table::explain(&plan, style),
        table::checks(&[check], style),
        table::distributions(&"title ".repeat(30), &series, Some(Nanos::from_millis(40)), style),
        table::distributions("no deadline", &series, None, style),
        table::cells(&titles, &[many.clone(), many], style),
    ];
    texts.extend(rows.iter().map(|row| table::record(row, style)));
    texts
}

#[test]
fn no_line_is_wider_than_asked() {
    let (friendly, hostile) = (records(), hostile());
    for records in [&friendly, &hostile] {
        for suffix in ["", " with a label that is much longer than any table would want it to be"] {
            let labels: Vec<String> = records.iter().map(|(label, _)| format!("{label}{suffix}")).collect();
            let rows: Vec<Row<'_>> = records.iter().zip(&labels).map(|((_, r), l)| Row::new(l, r)).collect();
            for width in [40, 60, 80, 120] {
                for colour in [false, true] {
                    for text in all_texts(&rows, &Style { colour, ..Style::plain(width) }) {
                        for line in text.lines() {
                            assert!(columns(line) <= width, "{width}: {} columns: {line}", columns(line));
                            assert_eq!(line.trim_end(), line, "blanks at the end");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let records = records();
    let rows = rows(&records);
    let strip = |text: &str| {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('\x1b') {
            out += before;
            rest = after.split_once('m').map_or("", |(_, r)| r);
        }
        out + rest
    };
    let plain = all_texts(&rows, &Style::plain(100));
    let painted = all_texts(&rows, &Style { colour: true, ..Style::plain(100) });
    assert!(painted[0].contains("\x1b[1;31m"));
    assert!(plain.iter().all(|t| !t.contains('\x1b')));
    for (plain, painted) in plain.iter().zip(&painted) {
        assert_eq!(*plain, strip(painted));
    }
}

#[test]
fn control_characters_from_outside_do_not_reach_a_terminal() {
    let hostile = hostile();
    let rows = rows(&hostile);
    for text in all_texts(&rows, &Style::plain(100)) {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}

#[test]
fn texts_from_outside_are_no_markup_and_tags_are_balanced() {
    let hostile = hostile();
    let mut rows = rows(&hostile);
    rows[0].label = "<host> & \"before\" 日本".to_owned();
    let mut plan = plan();
    plan.reservations[0].proof.steps.push("a < b && c > \"d\"".to_owned());
    plan.refusals[0].nearest.push("</div><img src=x onerror=alert(1)>".to_owned());
    let report = Report {
        title: Some("<title> & \"quotes\" 日本 </title>"),
        file: Some("a&b.toml"),
        rows: &rows,
        plan: Some(&plan),
        made: Some("<now>"),
        ..Report::default()
    };
    let page = html::page(&report);
    for forbidden in
        ["<script", "<img", "<b>&\"", "<host>", "<powersave>", "<now>", "<i>key", "\x1b", "http:", "https:"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    for expected in ["&lt;host&gt; &amp; &quot;before&quot; 日本", "a &lt; b &amp;&amp; c", "a&amp;b.toml"]
    {
        assert!(page.contains(expected), "{expected}");
    }
    balanced(&page);
}

/// Every element is closed in the order it was opened.
fn balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("split gives one part");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closing {name}");
        } else if !tag.ends_with('/') && !["!DOCTYPE", "meta"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn nothing_to_report_is_said_not_drawn() {
    let page = html::page(&Report::default());
    balanced(&page);
    assert!(page.contains("Nothing was run."));
    assert!(!page.contains("<svg"));
    assert!(table::comparison(&[], &Style::plain(80)).contains("Nothing was run."));
}

#[test]
fn a_page_has_no_number_that_is_none() {
    let mut records = records();
    for figure in records.iter_mut().flat_map(|(_, r)| &mut r.activities).flat_map(|a| &mut a.figures) {
        figure.value = f64::NAN;
    }
    records[0].1.activities[0].share.as_mut().unwrap().span = Nanos::ZERO;
    let rows = rows(&records);
    let page = html::page(&Report { rows: &rows, ..Report::default() });
    assert!(!page.contains("NaN") && !page.contains("inf"), "a number that is none");
}

#[test]
fn in_a_pipe_tables_have_all_their_columns() {
    let records = records();
    let rows = rows(&records);
    let narrow = table::comparison(&rows, &Style::plain(60));
    assert!(narrow.contains("not shown for want of room"), "{narrow}");
    let piped = table::comparison(&rows, &Style { every_column: true, ..Style::plain(60) });
    assert!(!piped.contains("not shown for want of room"), "{piped}");
    let titles = ["activations", "missed", "of all", "mean", "p50", "p95", "p99", "max", "share", "verdict"];
    assert!(piped.lines().any(|line| titles.iter().all(|title| line.contains(title))), "{piped}");
}

#[test]
fn no_word_is_broken_where_it_fits_a_line() {
    let records = records();
    let rows = rows(&records);
    let words = |style: &Style| -> BTreeSet<String> {
        let text = table::comparison(&rows, style) + &table::plan(&plan(), style);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Without the notes on columns that are not shown.
        let parts = text.split("not shown for want of room: ").enumerate();
        let texts = parts.map(|(index, part)| match part.split_once("they are)") {
            Some((_, behind)) if index > 0 => behind,
            _ => part,
        });
        texts.flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    let whole = words(&Style { every_column: true, ..Style::plain(1000) });
    for width in [40, 50, 60, 80] {
        let wrapped = words(&Style::plain(width));
        let broken: Vec<&String> = wrapped.difference(&whole).collect();
        assert!(broken.is_empty(), "{width}: {broken:?}");
    }
}

#[test]
fn what_was_in_force_and_the_environment_are_shown_when_asked_for() {
    let records = records();
    let rows = rows(&records);
    let (short, long) = (Style::plain(100), Style { verbose: true, ..Style::plain(100) });
    let (short, long) = (table::record(&rows[0], &short), table::record(&rows[0], &long));
    for heading in ["\nin force\n", "\nenvironment\n"] {
        assert!(!short.contains(heading) && long.contains(heading), "{heading}");
    }
    assert!(short.contains("\nin force, not as asked\n"), "{short}");
}

/// What no kernel was held against is told once for each result, verbose or not, and on the page; no verdict hangs on it.
#[test]
fn what_is_unvalidated_is_told_once() {
    let mut records = records();
    let before = table::comparison(&rows(&records), &Style::plain(100));
    assert!(!before.contains("unvalidated"), "{before}");
    let words = "fair class eevdf-6.6: no kernel of the lab has it";
    records[0].1.in_force.unvalidated.push(words.to_owned());
    let rows = rows(&records);
    let label = &rows[0].label;
    for text in [table::record(&rows[0], &Style::plain(100)), table::comparison(&rows, &Style::plain(100))] {
        assert_eq!(text.matches(&format!("\nunvalidated\n{label}: {words}\n")).count(), 1, "{text}");
    }
    let page = html::page(&Report { rows: &rows, ..Report::default() });
    assert!(page.contains(&format!("<b>Unvalidated</b> ({label}): {words}")), "{page}");
}
