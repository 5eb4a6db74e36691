//! [`Row`] and [`Report`]: what every form of report is made from.

use surety_model::plan::Plan;
use surety_model::record::Record;
use surety_model::verdict::{Decision, Outcome, Verdict, decide, judge};

use crate::timeline::Timeline;

/// One world's answer: a line in every table.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// What it is called: `host unreserved`, `analysis`, `sim reserved`.
    pub label: String,
    /// What the world returned.
    pub record: &'a Record,
    /// What is to be said of each promise, in the order of the workload.
    pub verdicts: Vec<Verdict>,
}

impl<'a> Row<'a> {
    /// A record with the promises of its activities judged.
    pub fn new(label: &str, record: &'a Record) -> Row<'a> {
        let verdicts = record.activities.iter().flat_map(judge).collect();
        Row { label: label.to_owned(), record, verdicts }
    }
}

/// Everything one run of a command has to say.
#[derive(Clone, Debug, Default)]
pub struct Report<'a> {
    /// The workload's title.
    pub title: Option<&'a str>,
    /// What a page is called in place of the title.
    pub heading: Option<&'a str>,
    /// What was found, where nothing is judged: a page has it in place of a verdict.
    pub lead: Option<&'a str>,
    /// The file the workload was read from.
    pub file: Option<&'a str>,
    /// Rows in the order in which they were made.
    pub rows: &'a [Row<'a>],
    /// Whether every row counts, as of worlds and variations that were asked for; otherwise the last one does: the
    /// state in force after a loop.
    pub all_rows: bool,
    /// The rows that are judged, where those above are only parts of them: single runs of what is judged together.
    pub judged: Option<&'a [Row<'a>]>,
    /// The longest responses with the CPUs around them, for the page.
    pub timelines: &'a [Timeline],
    /// What the page says where there is none: how to get one.
    pub without_timeline: Option<&'a str>,
    /// The plan, where one was made.
    pub plan: Option<&'a Plan>,
    /// The command's exit code, where it is known.
    pub exit: Option<u8>,
    /// When and by what it was made, in words; the clock belongs to the caller.
    pub made: Option<&'a str>,
}

impl Report<'_> {
    /// What is to be said of its promises.
    pub fn summary(&self) -> Summary {
        let rows = self.judged.unwrap_or(self.rows);
        if self.all_rows { summary_of_all(rows) } else { summary(rows) }
    }
}

/// What is to be said in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The worst of the rows that count: broken before undecided before not observable before kept. `None`: no
    /// promise.
    pub outcome: Option<Outcome>,
    /// The label of the row it is about; `None` where it is about several.
    pub row: Option<String>,
    /// How many promises of those rows are kept, broken, undecided, not observable.
    pub counts: [usize; 4],
    /// Of those kept, how many only because another row of the same state proves them.
    pub by_proof: usize,
    /// The sentence, the state before included where there is one.
    pub sentence: String,
}

/// The outcomes from the worst to the best; a summary is as bad as its worst part.
const WORST_FIRST: [Outcome; 4] =
    [Outcome::Broken, Outcome::Undecided, Outcome::NotObservable, Outcome::Kept];

/// Says what became of the promises in the last row, and what became of them before any reservation.
///
/// A promise about every activation is never decided by watching: where the last row leaves one open or cannot see
/// it, a proof in a row of the same state (reserved or not) counts as keeping it, and the sentence says so. A promise
/// seen broken stays broken, whatever is proven.
pub fn summary(rows: &[Row<'_>]) -> Summary {
    let nothing = |sentence: &str| Summary {
        outcome: None,
        row: rows.last().map(|r| r.label.clone()),
        counts: [0; 4],
        by_proof: 0,
        sentence: sentence.to_owned(),
    };
    let Some(last) = rows.last() else { return nothing("Nothing was run.") };
    if last.verdicts.is_empty() {
        return nothing("No promise was made.");
    }
    summary_of(last, rows)
}

/// What became of the promises in one of the rows.
fn summary_of(last: &Row<'_>, rows: &[Row<'_>]) -> Summary {
    let of = last.verdicts.len();
    let decisions: Vec<Decision<'_>> =
        last.verdicts.iter().map(|verdict| decided(verdict, last, rows)).collect();
    let count = |outcome| decisions.iter().filter(|d| d.outcome == outcome).count();
    let outcome = WORST_FIRST.into_iter().find(|o| count(*o) > 0).expect("there is a verdict");
    let mut sentence = match (outcome, of) {
        (Outcome::Kept, 1) => format!("The promise is kept: {}", last.label),
        (Outcome::Kept, _) => format!("All {of} promises are kept: {}", last.label),
        (_, 1) => format!("The promise is {outcome}: {}", last.label),
        _ => {
            let n = count(outcome);
            format!("{n} of {of} promises {} {outcome}: {}", if n == 1 { "is" } else { "are" }, last.label)
        }
    };
    let by_proof = decisions.iter().filter_map(|d| d.kept_by).count();
    if let Some(prover) = decisions.iter().find_map(|d| d.kept_by) {
        sentence += &match of {
            1 => format!(", by proof ({prover})"),
            _ if outcome == Outcome::Kept => format!(", {by_proof} of them by proof ({prover})"),
            _ => format!(", {by_proof} kept by proof ({prover})"),
        };
    }
    if let Some(prover) = decisions.iter().find_map(|d| d.contradicts) {
        sentence += &contradiction(prover);
    }
    if let Some(before) = before(last, rows) {
        let broken = before.verdicts.iter().filter(|v| v.outcome == Outcome::Broken).count();
        sentence += &match broken {
            0 => format!("; none was seen broken before ({})", before.label),
            _ => format!("; {broken} of {} broken before ({})", before.verdicts.len(), before.label),
        };
    }
    sentence.push('.');
    let counts = [Outcome::Kept, Outcome::Broken, Outcome::Undecided, Outcome::NotObservable].map(count);
    Summary { outcome: Some(outcome), row: Some(last.label.clone()), counts, by_proof, sentence }
}

/// Says what became of the promises in every row: those of several worlds, or of the combinations of `[vary]`.
///
/// Proofs count as in [`summary`]. A row that cannot see a promise is passed over where another one tells.
pub fn summary_of_all(rows: &[Row<'_>]) -> Summary {
    let told: Vec<&Row<'_>> = rows.iter().filter(|row| !row.verdicts.is_empty()).collect();
    if told.len() < 2 {
        return told.first().map_or_else(|| summary(rows), |only| summary_of(only, rows));
    }
    let is_seen = |verdict: &Verdict| {
        told.iter().flat_map(|row| &row.verdicts).any(|v| {
            let is_same = v.activity == verdict.activity && v.promise == verdict.promise;
            is_same && v.outcome != Outcome::NotObservable
        })
    };
    let mut outcomes: Vec<(&str, Outcome)> = Vec::new();
    let (mut by_proof, mut contradicted) = (0, None);
    for row in &told {
        for verdict in &row.verdicts {
            let Decision { outcome, kept_by, contradicts } = decided(verdict, row, rows);
            by_proof += usize::from(kept_by.is_some());
            contradicted = contradicted.or(contradicts);
            if outcome != Outcome::NotObservable || !is_seen(verdict) {
                outcomes.push((&row.label, outcome));
            }
        }
    }
    let count = |outcome| outcomes.iter().filter(|(_, o)| *o == outcome).count();
    let outcome = WORST_FIRST.into_iter().find(|o| count(*o) > 0).expect("there is a verdict");
    let mut labels: Vec<&str> = outcomes.iter().filter(|(_, o)| *o == outcome).map(|(l, _)| *l).collect();
    labels.dedup();
    let (bad, of) = (labels.len(), told.len());
    let sentence = match outcome {
        Outcome::Kept => format!("Every promise is kept in all {of} results."),
        _ if bad == of => format!("A promise is {outcome} in each of the {of} results."),
        _ => {
            let named = labels[..bad.min(NAMED_MAX)].join(", ");
            let more = if bad > NAMED_MAX { format!(" and {} more", bad - NAMED_MAX) } else { String::new() };
            format!("A promise is {outcome} in {bad} of {of} results: {named}{more}.")
        }
    };
    let sentence = match contradicted {
        Some(prover) => format!("{}{}.", sentence.trim_end_matches('.'), contradiction(prover)),
        None => sentence,
    };
    let counts = [Outcome::Kept, Outcome::Broken, Outcome::Undecided, Outcome::NotObservable].map(count);
    Summary { outcome: Some(outcome), row: None, counts, by_proof, sentence }
}

/// So many rows are named in a sentence.
const NAMED_MAX: usize = 8;

/// What is said of a proof that a measurement contradicts.
fn contradiction(prover: &str) -> String {
    format!("; this contradicts the proof ({prover}): something it assumes does not hold here")
}

/// The same world's row without reservations, for a row with some.
fn before<'r, 'a>(row: &Row<'_>, rows: &'r [Row<'a>]) -> Option<&'r Row<'a>> {
    rows.iter().find(|r| row.record.reserved && !r.record.reserved && r.record.world == row.record.world)
}

/// A verdict of `row` decided with the proofs of the rows of the same state: reserved or not.
fn decided<'r>(verdict: &Verdict, row: &Row<'_>, rows: &'r [Row<'_>]) -> Decision<'r> {
    let same_state = rows.iter().filter(|other| other.record.reserved == row.record.reserved);
    decide(verdict, same_state.flat_map(|other| other.verdicts.iter().map(|v| (other.label.as_str(), v))))
}
