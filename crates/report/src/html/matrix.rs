//! Every promise with what each row says: at a glance, and with the reasons.

use std::fmt::Write;

use surety_model::verdict::{Outcome, Verdict};

use super::{escape, section};
use crate::compare::{self, Judged};
use crate::quantity::number_of;
use crate::row::Row;
use crate::text::Tone;

/// A matrix of more columns has a mark in each cell in place of a word, and numbers for titles.
const WORDS_MAX: usize = 6;
/// Of more verdicts the reasons of each promise are folded.
const REASONS_MAX: usize = 40;
/// Of those, as many promises that a result breaks or leaves undecided are on paper with their reasons.
const REASONS_ON_PAPER: usize = 10;

/// The word on a badge.
fn badge(outcome: Outcome) -> String {
    format!("<span class=\"badge {}\">{outcome}</span>", Tone::of(outcome).word())
}

/// The mark in a narrow cell, readable without colour.
fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Kept => "✓",
        Outcome::Broken => "✗",
        Outcome::Undecided => "?",
        Outcome::NotObservable => "–",
    }
}

/// What the cells of one line are of, and what is said in them.
struct Line<'a> {
    head: String,
    verdicts: Vec<Option<&'a Verdict>>,
}

/// What the row with a label says of a promise.
fn said<'a>(judged: &Judged<'a>, label: &str) -> Option<&'a Verdict> {
    judged.by_row.iter().find(|(of, _)| *of == label).map(|(_, verdict)| *verdict)
}

/// Every promise with what each row says, at a glance.
pub(super) fn matrix<'a>(out: &mut String, rows: &'a [Row<'_>]) {
    let judged: Vec<Judged<'a>> = compare::judged(rows);
    if judged.is_empty() {
        return;
    }
    let promise = |j: &Judged<'_>| format!("{} <code>{}</code>", escape(j.activity), escape(&j.promise));
    // What there is more of stands below one another.
    let (titles, lines): (Vec<String>, Vec<Line<'_>>) = if rows.len() > judged.len() {
        let of_row = |row: &Row<'_>| Line {
            head: escape(&row.label),
            verdicts: judged.iter().map(|j| said(j, &row.label)).collect(),
        };
        (judged.iter().map(promise).collect(), rows.iter().map(of_row).collect())
    } else {
        let of_promise = |j: &Judged<'a>| Line {
            head: promise(j),
            verdicts: rows.iter().map(|row| said(j, &row.label)).collect(),
        };
        (rows.iter().map(|r| escape(&r.label)).collect(), judged.iter().map(of_promise).collect())
    };
    let content = if titles.len() > WORDS_MAX { marks(&titles, &lines) } else { words(&titles, &lines) };
    section(out, "Promises", &content);
}

fn words(titles: &[String], lines: &[Line<'_>]) -> String {
    // On a narrow page each cell says what it is of.
    let listed = if titles.len() > 2 { " listed" } else { "" };
    let of: Vec<String> =
        titles.iter().map(|title| format!("<span class=\"again\">{title}</span> ")).collect();
    let titles: String = titles.iter().map(|title| format!("<th scope=\"col\">{title}</th>")).collect();
    let cell = |(verdict, of): (&Option<&Verdict>, &String)| {
        let of = if listed.is_empty() { "" } else { of.as_str() };
        format!("<td>{}</td>", verdict.map_or_else(String::new, |v| format!("{of}{}", badge(v.outcome))))
    };
    let line = |line: &Line<'_>| {
        let cells: String = line.verdicts.iter().zip(&of).map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", line.head)
    };
    let lines: String = lines.iter().map(line).collect();
    format!(
        "<div class=\"scroll\"><table class=\"matrix{listed}\">\n<thead><tr><th></th>{titles}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>\n"
    )
}

fn marks(titles: &[String], lines: &[Line<'_>]) -> String {
    let key: String = titles.iter().map(|title| format!("<li>{title}</li>")).collect();
    let numbers: String = (1..=titles.len()).map(|n| format!("<span class=\"mark\">{n}</span>")).collect();
    let cell = |(n, verdict): (usize, &Option<&Verdict>)| {
        let (class, mark, word) = match verdict {
            Some(v) => (Tone::of(v.outcome).word(), mark(v.outcome), v.outcome.to_string()),
            None => ("faint", "", "no verdict".to_owned()),
        };
        format!("<span class=\"mark badge {class}\" title=\"{}: {word}\">{mark}</span>", n + 1)
    };
    let line = |line: &Line<'_>| {
        let cells: String = line.verdicts.iter().enumerate().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th><td>{cells}</td></tr>\n", line.head)
    };
    let lines: String = lines.iter().map(line).collect();
    let all = [Outcome::Kept, Outcome::Broken, Outcome::Undecided, Outcome::NotObservable];
    let meaning = all.map(|outcome| {
        format!(
            "<span class=\"nowrap\"><span class=\"mark badge {}\">{}</span> {outcome}</span>",
            Tone::of(outcome).word(),
            mark(outcome)
        )
    });
    format!(
        "<p class=\"meaning\">{}</p>\n<ol class=\"key\">{key}</ol>\n<table class=\"matrix dense\">\n\
         <thead><tr><th></th><td>{numbers}</td></tr></thead>\n<tbody>\n{lines}</tbody></table>\n",
        meaning.join(" &nbsp; ")
    )
}

/// Every promise with what each row says, and why.
pub(super) fn reasons(out: &mut String, rows: &[Row<'_>]) {
    let judged = compare::judged(rows);
    if judged.is_empty() {
        return;
    }
    let is_folded = judged.iter().map(|j| j.by_row.len()).sum::<usize>() > REASONS_MAX;
    let mut content = String::new();
    let mut on_paper = REASONS_ON_PAPER;
    for judged in judged {
        let title = format!("<b>{}</b> <code>{}</code>", escape(judged.activity), escape(&judged.promise));
        let caption = if is_folded { String::new() } else { format!("<caption>{title}</caption>\n") };
        let mut table = format!("<div class=\"scroll\"><table class=\"promise\">\n{caption}<tbody>\n");
        for (label, verdict) in &judged.by_row {
            let _ = writeln!(
                table,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
                escape(label),
                badge(verdict.outcome),
                escape(&verdict.because)
            );
        }
        table += "</tbody></table></div>\n";
        content += &if is_folded {
            let counts = counts(&judged);
            let is_kept =
                |(_, v): &(_, &Verdict)| matches!(v.outcome, Outcome::Kept | Outcome::NotObservable);
            let shut =
                if on_paper == 0 || judged.by_row.iter().all(is_kept) { " class=\"shut\"" } else { "" };
            on_paper -= usize::from(shut.is_empty());
            format!("<details{shut}><summary>{title} <span>{counts}</span></summary>\n{table}</details>\n")
        } else {
            table
        };
    }
    section(out, "Why", &content);
}

/// How many results say what of a promise: `16 broken, 4 undecided of 20 results`.
fn counts(judged: &Judged<'_>) -> String {
    let count = |outcome| judged.by_row.iter().filter(|(_, v)| v.outcome == outcome).count();
    let all = [Outcome::Broken, Outcome::Undecided, Outcome::Kept, Outcome::NotObservable];
    let said: Vec<String> = all
        .into_iter()
        .filter(|outcome| count(*outcome) > 0)
        .map(|outcome| format!("{} {outcome}", count(outcome)))
        .collect();
    format!("{} of {}", said.join(", "), number_of(judged.by_row.len(), "result"))
}
