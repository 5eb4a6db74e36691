//! What every schedulability test says about the threads of a workload.

use surety_model::plan::Plan;
use surety_model::tested::{TestAnswer, Tested, TestedSet};
use surety_units::Nanos;

use crate::quantity::chosen_time;
use crate::sheet::{Cell, Column, Line, Sheet};
use crate::text::{Style, Tone, paragraph};

/// For each set the threads, the tests that apply with their answers and sources, and the others with the reason.
pub fn tested(plan: &Plan, sets: &[TestedSet], style: &Style) -> String {
    let mut out = String::new();
    for set in sets {
        if !out.is_empty() {
            out.push('\n');
        }
        one(set, &mut out, style);
    }
    super::refusals(plan, &mut out, style);
    if sets.is_empty() {
        out += &paragraph(
            style,
            "",
            Tone::Plain,
            "No thread is reserved and none is a real-time thread: there is nothing to test.",
        );
    }
    out
}

fn one(set: &TestedSet, out: &mut String, style: &Style) {
    *out += &paragraph(style, "", Tone::Strong, &set.about);
    if !set.threads.is_empty() {
        *out += &threads(set).text(style);
        out.push('\n');
    }
    let (others, made): (Vec<&Tested>, Vec<&Tested>) =
        set.tests.iter().partition(|tested| tested.answer == TestAnswer::NotApplicable);
    if !made.is_empty() {
        *out += &answers(&made).text(style);
    }
    for tested in &made {
        let tone = if tested.named { Tone::Good } else { Tone::Faint };
        let kind = if tested.exact { "exact" } else { "sufficient" };
        let head = format!("  {}: ", tested.test);
        *out += &paragraph(style, &head, tone, &format!("{}; {kind}; {}", tested.theorem, tested.source));
        // One that holds says so in its last step; one that does not, why.
        for step in tested.steps.iter().rev().take(1) {
            *out += &paragraph(style, "    ", Tone::Plain, step);
        }
    }
    if let Some(named) = made.iter().find(|tested| tested.named) {
        let words = format!("{}: the least pessimistic of those that hold", named.test);
        *out += &paragraph(style, "  -> ", Tone::Good, &words);
    } else if !made.is_empty() {
        *out += &paragraph(style, "  -> ", Tone::Bad, "no test shows that every deadline is kept");
    }
    for words in &set.beside {
        *out += &paragraph(style, "  beside: ", Tone::Faint, words);
    }
    for (why, tests) in by_reason(&others) {
        let words = format!("{}: {why}", tests.join(", "));
        *out += &paragraph(style, "  not applicable: ", Tone::Faint, &words);
    }
}

/// The tests that do not apply by their reason, in the order in which these come.
fn by_reason<'a>(others: &[&'a Tested]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for tested in others {
        let why = tested.steps.last().map_or("", String::as_str);
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, tests)) => tests.push(&tested.test),
            None => reasons.push((why, vec![&tested.test])),
        }
    }
    reasons
}

fn threads(set: &TestedSet) -> Sheet {
    let late = set.threads.iter().any(|thread| thread.jitter.is_positive());
    let mut columns = vec![Column::numbers("task", 0), Column::words("thread")];
    columns.extend(["work", "deadline", "period"].map(|title| Column::numbers(title, 0)));
    columns.extend(late.then(|| Column::numbers("jitter", 0)));
    let lines = set.threads.iter().enumerate().map(|(place, thread)| {
        let mut cells = vec![Cell::plain(place.to_string()), Cell::plain(&*thread.name)];
        cells.push(Cell::plain(chosen_time(thread.work)));
        cells.extend([thread.deadline, thread.period].map(|time| Cell::plain(span(time))));
        cells.extend(late.then(|| Cell::plain(chosen_time(thread.jitter))));
        Line::Cells(cells)
    });
    Sheet { columns, lines: lines.collect() }
}

/// A time; the longest that a task may have, 2^40 ns, stands for none.
fn span(time: Nanos) -> String {
    if time >= Nanos::new(1 << 40) { "-".to_owned() } else { chosen_time(time) }
}

fn answers(made: &[&Tested]) -> Sheet {
    let columns = vec![
        Column::words("test"),
        Column::words("verdict"),
        Column::numbers("holds up to", 0),
        Column::words(""),
    ];
    let lines = made.iter().map(|tested| {
        let tone = match tested.answer {
            TestAnswer::Holds => Tone::Good,
            TestAnswer::Fails => Tone::Bad,
            TestAnswer::NotShown | TestAnswer::NotApplicable => Tone::Faint,
        };
        let scale = tested.scale_permille.map_or_else(|| "-".to_owned(), times);
        Line::Cells(vec![
            Cell::plain(&*tested.test),
            Cell::toned(tested.answer.word(), tone),
            Cell::plain(scale),
            Cell::toned(if tested.named { "least pessimistic" } else { "" }, Tone::Good),
        ])
    });
    Sheet { columns, lines: lines.collect() }
}

/// A factor of the works.
fn times(permille: u64) -> String {
    format!("{}.{:03}x", permille / 1000, permille % 1000)
}
