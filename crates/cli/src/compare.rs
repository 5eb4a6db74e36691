//! `surety compare`: files of results against each other; and how every comparison is printed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use surety_compare::{Comparison, Judged, Options, Verdict};
use surety_model::expectation::Change;
use surety_model::formats::record::read;
use surety_report::gates::Gate;
use surety_report::table::amount;
use surety_report::{Paper, Tone, number_of};
use surety_session::gather::Gathered;

use crate::args::{ChangeArgs, CompareArgs, Judging};
use crate::exit::{Code, Failure};
use crate::files;
use crate::gates;
use crate::session::Session;

/// The schema of comparisons, described in `docs/compare.md`.
const SCHEMA: &str = "surety.comparison/1";

/// The verb.
pub fn compare(args: &CompareArgs, session: &Session) -> Result<Code, Failure> {
    let (of_a, of_b) = match (args.files.as_slice(), args.against.as_slice()) {
        ([a, b], []) => (std::slice::from_ref(a), std::slice::from_ref(b)),
        (files, []) => {
            let what = format!("{} files do not say which are A and which are B", files.len());
            return Err(Failure::new(Code::BadInput, what)
                .help("write `surety compare A.json... --against B.json...`"));
        }
        (a, b) => (a, b),
    };
    let (label_a, label_b) = match args.result.as_slice() {
        [] => (None, None),
        [both] => (Some(both.as_str()), Some(both.as_str())),
        [a, b] => (Some(a.as_str()), Some(b.as_str())),
        _ => {
            return Err(Failure::new(
                Code::BadInput,
                "--result is given once for both sides, or once for each",
            )
            .help("leave out the others"));
        }
    };
    let told = &args.gates.told;
    files::check_outputs([args.html.as_ref(), told.junit.as_ref(), told.tap.as_ref()])?;
    let (a, b) = (gathered(of_a, label_a)?, gathered(of_b, label_b)?);
    let names = if a.name == b.name {
        [format!("{} (A)", a.name), format!("{} (B)", b.name)]
    } else {
        [a.name.clone(), b.name.clone()]
    };
    let [name_a, name_b] = names;
    let mut options = options(&args.judging, 1, None);
    if options.metrics.is_empty() {
        // The fewer are compared, the less there is to correct for.
        options.metrics = args.gates.expect.iter().map(Change::words).collect();
    }
    let compared = surety_compare::compare(&a.side(name_a), &b.side(name_b), &options);
    if args.gates.expect.is_empty() {
        return publish(&compared, args.html.as_deref(), session);
    }
    let code = expected(&args.gates, &compared, session)?;
    publish_with(&compared, code, args.html.as_deref(), session)
}

/// Holds expectations against the difference; they alone decide.
fn expected(args: &ChangeArgs, comparison: &Comparison, session: &Session) -> Result<Code, Failure> {
    let missing = needed(comparison).map_or_else(
        || "how much equal runs differ is not known".to_owned(),
        |needed| format!("too few runs: needs {needed}"),
    );
    let words = |row: &Judged| {
        let is_seen = row.never.is_none();
        let interval = interval_of(row).filter(|_| is_seen).map(|(low, high)| {
            let (low, high) = (Form::of(row).show(row, low), Form::of(row).show(row, high));
            format!(" ({}: {low} to {high})", confidence_in_words(comparison))
        });
        let floor =
            row.floor.filter(|_| is_seen).map(|floor| format!(", A/A floor {}", floor_text(row, floor)));
        shifted(row) + &interval.unwrap_or_default() + &floor.unwrap_or_default()
    };
    let rows = comparison.rows.iter();
    let rows: Vec<_> = rows.map(|row| surety_compare::changed(row, words(row), missing.clone())).collect();
    let (label_a, label_b) = &comparison.labels;
    let label = format!("{label_b} against {label_a}");
    let checked = args.expect.iter().map(|change| change.check(&rows)).collect();
    gates::conclude(&[Gate { label: &label, checked }], &args.told, Code::Kept, session)
}

fn confidence_in_words(comparison: &Comparison) -> String {
    let percent = format!("{}", comparison.confidence * 100.0);
    format!("{} %", percent.get(..5).unwrap_or(&percent))
}

/// What was asked of a comparison.
pub fn options(judging: &Judging, seed: u64, studied: Option<String>) -> Options {
    Options { confidence: judging.confidence.as_f64(), metrics: judging.metric.clone(), studied, seed }
}

/// Reads the files of one side.
pub fn gathered(files: &[PathBuf], label: Option<&str>) -> Result<Gathered, Failure> {
    let read = |path: &PathBuf| {
        let file = read(&text_of(path)?).map_err(|error| {
            Failure::new(Code::BadInput, format!("{}: {error}", path.display()))
                .help("compare what `surety run --json` wrote")
        })?;
        Ok((path.display().to_string(), file))
    };
    Ok(Gathered::of(files.iter().map(read).collect::<Result<_, Failure>>()?, label)?)
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let unreadable = |why: String| {
        Failure::new(Code::BadInput, format!("{} cannot be read: {why}", path.display()))
            .help("write results with `surety run WORKLOAD --repeat 8 --json > FILE`")
    };
    files::read_text(path, files::DOCUMENT_MAX).map_err(unreadable)
}

/// Prints a comparison in the form asked for, and writes its page.
pub fn publish(comparison: &Comparison, page: Option<&Path>, session: &Session) -> Result<Code, Failure> {
    let code = if comparison.has(Verdict::Worse) {
        Code::Broken
    } else if comparison.has(Verdict::CannotTell) || comparison.rows.is_empty() {
        Code::Undecided
    } else {
        Code::Kept
    };
    publish_with(comparison, code, page, session)
}

/// The same with a code of the caller's own.
fn publish_with(
    comparison: &Comparison,
    code: Code,
    page: Option<&Path>,
    session: &Session,
) -> Result<Code, Failure> {
    if let Some(path) = page {
        files::write(path, &paper(comparison).page("Comparison"))?;
    }
    if session.json {
        session.print_document(json(comparison, code))?;
    } else {
        session.print(&paper(comparison).text(&session.style()))?;
    }
    Ok(code)
}

/// What is said of a comparison: the answer first.
fn paper(comparison: &Comparison) -> Paper {
    let mut paper = Paper::default();
    let (tone, word) = if comparison.has(Verdict::Worse) {
        (Tone::Bad, "worse")
    } else if comparison.has(Verdict::CannotTell) || comparison.rows.is_empty() {
        (Tone::Open, "undecided")
    } else if comparison.has(Verdict::Better) {
        (Tone::Good, "better")
    } else {
        (Tone::Faint, "")
    };
    paper.found(tone, word, sentence(comparison)).gap();
    let (label_a, label_b) = &comparison.labels;
    for (letter, label, runs) in [("A", label_a, comparison.runs.0), ("B", label_b, comparison.runs.1)] {
        paper.led(format!("{letter}  "), format!("{label}, {}", number_of(runs, "run")));
    }
    let single = comparison.rows.iter().any(|row| row.within.is_some());
    let interval = format!("{} interval", confidence_in_words(comparison));
    let interval = if single { "within the run".to_owned() } else { interval };
    let header =
        [("", 0), ("A", 0), ("B", 0), ("B - A", 0), (&*interval, 0), ("floor", 1), ("p", 2), ("verdict", 0)];
    if !comparison.rows.is_empty() {
        paper.gap().ranked_cells(&header, comparison.rows.iter().map(row_cells).collect());
    }
    if !(comparison.studied.is_empty() && comparison.warnings.is_empty()) {
        paper.gap();
    }
    for difference in &comparison.studied {
        paper.led("varied   ", difference.to_string());
    }
    for warning in &comparison.warnings {
        paper.led("warning  ", warning.to_string());
    }
    paper
}

/// What stands in place of a time that never came, as in every other table.
const NEVER: &str = "never";

fn row_cells(row: &Judged) -> Vec<String> {
    let (a, b) = row.medians_seen();
    let form = Form::of(row);
    let is_seen = row.never.is_none();
    let interval = interval_of(row).filter(|_| is_seen);
    let interval = interval.map(|(low, high)| range(&form.show(row, low), &form.show(row, high)));
    let median = |seen: Option<f64>| seen.map_or_else(|| NEVER.to_owned(), |seen| amount(seen, &row.unit));
    let tested = row.p_value.filter(|_| row.verdict != Verdict::CannotTell);
    let p =
        tested.map_or_else(String::new, |p| if p < 1e-4 { "<0.0001".to_owned() } else { format!("{p:.4}") });
    let verdict = match row.p_value {
        None if row.verdict == Verdict::NoDifference => "the same".to_owned(),
        _ => row.verdict.to_string(),
    };
    vec![
        format!("{} {}", row.activity, row.metric),
        median(a),
        median(b),
        if is_seen { shifted(row) } else { "-".to_owned() },
        interval.unwrap_or_else(|| "-".to_owned()),
        row.floor.filter(|_| is_seen).map_or_else(|| "-".to_owned(), |floor| floor_text(row, floor)),
        p,
        verdict,
    ]
}

/// Two ends, the unit once where both have it: `-2.5 .. +3.1 %`.
fn range(low: &str, high: &str) -> String {
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} .. {high}"),
        _ => format!("{low} .. {high}"),
    }
}

/// How the estimate of a row and both ends of its interval are written: all in one unit.
#[derive(Clone, Copy)]
enum Form {
    /// As factors: `x12.3`.
    Factor,
    /// As a part more or less: `+3.1 %`.
    Part,
    /// As points of a percentage.
    Points,
    Amount,
}

impl Form {
    fn of(row: &Judged) -> Form {
        let (a, _) = row.medians;
        let (low, high) = interval_of(row).unwrap_or_default();
        let shift = estimate_of(row);
        let largest = low.abs().max(high.abs()).max(shift.abs());
        match is_relative(row) {
            true if high.max(shift) > 9.0 => Form::Factor,
            true => Form::Part,
            false if row.unit == "%" => Form::Points,
            false if a > 0.0 && largest < 10.0 * a => Form::Part,
            false => Form::Amount,
        }
    }

    /// A part of A where the row is compared by ratio, else a difference.
    fn show(self, row: &Judged, value: f64) -> String {
        let (a, _) = row.medians;
        let part = if is_relative(row) { value } else { value / a };
        match self {
            Form::Factor => {
                let factor = part + 1.0;
                let decimals = match factor.abs() {
                    f if f < 10.0 => 3,
                    f if f < 100.0 => 2,
                    f if f < 1000.0 => 1,
                    _ => 0,
                };
                let text = format!("{factor:.decimals$}");
                let text =
                    if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
                format!("x{text}")
            }
            Form::Part => format!("{:+.1} %", part * 100.0),
            Form::Points => format!("{:+.2} pt", value * 100.0),
            Form::Amount => {
                format!("{}{}", if value < 0.0 { "-" } else { "+" }, amount(value.abs(), &row.unit))
            }
        }
    }
}

/// Whether the sides are compared by their ratio: then estimate and interval are parts of A.
fn is_relative(row: &Judged) -> bool {
    row.unit != "%" && row.ratio.is_some() && row.within.is_none_or(|within| within.ratio.is_some())
}

/// How much larger B is.
fn estimate_of(row: &Judged) -> f64 {
    match row.ratio.filter(|_| is_relative(row)) {
        Some(ratio) => ratio.estimate - 1.0,
        None => row.shift,
    }
}

/// The interval of [`estimate_of`].
fn interval_of(row: &Judged) -> Option<(f64, f64)> {
    let parts = |(low, high): (f64, f64)| (low - 1.0, high - 1.0);
    match (row.within, row.ratio) {
        (Some(within), _) if is_relative(row) => within.ratio.map(parts),
        (Some(within), _) => Some(within.interval),
        (None, Some(ratio)) if is_relative(row) => ratio.interval.map(parts),
        _ => row.interval,
    }
}

/// How much larger B is, in words.
fn shifted(row: &Judged) -> String {
    if row.never.is_some() {
        let (a, b) = row.never_came();
        return format!(
            "{NEVER} in {a} of {} of A, in {b} of {} of B",
            number_of(row.a.len(), "run"),
            row.b.len()
        );
    }
    Form::of(row).show(row, estimate_of(row))
}

/// The floor as a part, or as a factor where it is a large one.
fn floor_text(row: &Judged, floor: f64) -> String {
    match row.ratio {
        // In the unit of the difference beside it.
        Some(_) if row.unit == "%" => format!("{:.2} pt", row.medians.1 * (floor - 1.0) * 100.0),
        Some(_) if floor > 1.5 => format!("x{floor:.2}"),
        Some(_) => format!("{:.1} %", (floor - 1.0) * 100.0),
        None => Form::of(row).show(row, floor).trim_start_matches('+').to_owned(),
    }
}

/// How many more runs it takes for a verdict; `None` where there are enough.
fn needed(comparison: &Comparison) -> Option<String> {
    Some(match comparison.more_runs {
        (0, 0) => return None,
        (a, b) if a == b => format!("{} of each", number_of(a, "more run")),
        (a, 0) => format!("{} of A", number_of(a, "more run")),
        (0, b) => format!("{} of B", number_of(b, "more run")),
        (a, b) => format!("{a} more runs of A and {b} of B"),
    })
}

/// What is to be said in the end.
fn sentence(comparison: &Comparison) -> String {
    let named = |verdict: Verdict| -> Vec<String> {
        let rows = comparison.rows.iter().filter(|row| row.verdict == verdict);
        rows.map(|row| format!("{} {} ({})", row.activity, row.metric, shifted(row))).collect()
    };
    let mut text = String::new();
    for (verdict, word) in [
        (Verdict::Worse, "B is worse in"),
        (Verdict::Better, "B is better in"),
        (Verdict::Higher, "B is higher in"),
        (Verdict::Lower, "B is lower in"),
    ] {
        let names = named(verdict);
        if !names.is_empty() {
            let _ = write!(text, "{word} {}. ", names.join(", "));
        }
    }
    let risk = (1.0 - comparison.confidence) * 100.0;
    if comparison.has(Verdict::CannotTell) {
        let needed = needed(comparison).unwrap_or_else(|| "more runs".to_owned());
        let _ = write!(text, "Cannot tell: needs {needed}. ");
        if comparison.runs == (1, 1) {
            if comparison.rows.iter().any(|row| row.within.is_some()) {
                text += "The intervals are of the activations within one run each, drawn anew in blocks where \
                         neighbours depend on each other. ";
            }
            text += "How much runs of the same thing differ is not known.";
        }
    } else if comparison.rows.is_empty() {
        text += "Nothing was compared.";
    } else {
        if !comparison.differs() {
            text += "No difference seen. ";
        }
        if comparison.family > 0 {
            let _ = write!(
                text,
                "Equal sides would be called different, in any of the {} metrics, at most {risk:.3} % of the time.",
                comparison.family
            );
        }
    }
    text.trim_end().replace(".000 %", " %").replace("00 %", " %")
}

fn json(comparison: &Comparison, code: Code) -> serde_json::Value {
    let side = |label: &str, runs: usize| serde_json::json!({ "label": label, "runs": runs });
    let difference = |d: &surety_compare::conditions::Difference| serde_json::json!({ "what": d.what, "a": d.a, "b": d.b });
    let rows = comparison.rows.iter().map(|row| {
        let is_seen = row.never.is_none();
        let came = |values: &[f64]| -> Vec<Option<f64>> {
            values.iter().map(|value| Some(*value).filter(|value| Some(*value) != row.never)).collect()
        };
        let (median_a, median_b) = row.medians_seen();
        let interval = row.interval.filter(|_| is_seen);
        let ratio = row.ratio.filter(|_| is_seen);
        serde_json::json!({
            "activity": row.activity,
            "metric": row.metric,
            "unit": row.unit,
            "verdict": row.verdict.to_string(),
            "a": came(&row.a),
            "b": came(&row.b),
            "median_a": median_a,
            "median_b": median_b,
            "shift": is_seen.then_some(row.shift),
            "low": interval.map(|(low, _)| low),
            "high": interval.map(|(_, high)| high),
            "ratio": ratio.map(|r| r.estimate),
            "ratio_low": ratio.and_then(|r| r.interval).map(|(low, _)| low),
            "ratio_high": ratio.and_then(|r| r.interval).map(|(_, high)| high),
            "cliffs_delta": row.delta,
            "floor": row.floor.filter(|_| is_seen),
            "p": row.p_value,
            "within": row.within.as_ref().map(|w| serde_json::json!({
                "shift": w.shift, "low": w.interval.0, "high": w.interval.1,
                "ratio_low": w.ratio.map(|(low, _)| low), "ratio_high": w.ratio.map(|(_, high)| high),
                "block_a": w.blocks.0, "block_b": w.blocks.1,
            })),
        })
    });
    serde_json::json!({
        "schema": SCHEMA,
        "a": side(&comparison.labels.0, comparison.runs.0),
        "b": side(&comparison.labels.1, comparison.runs.1),
        "confidence": comparison.confidence,
        "corrected_for": comparison.family,
        "more_runs": { "a": comparison.more_runs.0, "b": comparison.more_runs.1 },
        "metrics": rows.collect::<Vec<_>>(),
        "varied": comparison.studied.iter().map(difference).collect::<Vec<_>>(),
        "warnings": comparison.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "sentence": sentence(comparison),
        "exit": code as u8,
    })
}
