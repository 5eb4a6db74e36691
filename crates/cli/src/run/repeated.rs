//! Several runs in turns: the combinations of `[vary]`, `--repeat`, and the two sides of `--ab`.

use std::path::Path;

use surety_model::formats::toml::vary::{Settings, with};
use surety_model::record::Record;
use surety_model::workload::{VaryValue, Workload};
use surety_report::{Report, Row, Timeline};
use surety_session::gather::Gathered;
use surety_session::pairs::{self, Named};
use surety_session::runs::{self, Finished, Rounds, Variant};
use surety_session::worlds::Worlds;

use crate::args::RunArgs;
use crate::compare::{gathered, options, publish};
use crate::exit::{Code, Failure, located};
use crate::files;
use crate::gates;
use crate::input::read_varied;
use crate::load::append_loads;
use crate::run::{WITHOUT_TIMELINE, options_of, unless_cut_short};
use crate::session::Session;

/// Runs every combination in every world, in turns, and prints one table.
pub fn varied(
    workload: &Workload,
    baseline: Option<&Gathered>,
    args: &RunArgs,
    worlds: &Worlds<'_>,
    session: &Session,
) -> Result<Code, Failure> {
    let mut variants = runs::variants(workload, worlds)?;
    let rounds =
        Rounds { count: args.repeat as usize, options: options_of(&args.running, workload, session)? };
    let at_home = variants.iter().filter(|v| worlds.entry(v.world).is_this_machine() && v.refused.is_none());
    let at_home = at_home.map(|variant| &variant.workload);
    announce((0..rounds.count).flat_map(|_| at_home.clone()), args, session);
    let finished = runs::make(&mut variants, &rounds, worlds).map_err(|error| located(error, workload))?;
    present(workload, (&variants, finished, &[]), baseline, args, session)
}

/// Prints what came of variants; the code is that of the worst.
///
/// # Errors
/// None of them could be run.
pub fn present(
    workload: &Workload,
    (variants, finished, timelines): (&[Variant], Finished, &[Timeline]),
    baseline: Option<&Gathered>,
    args: &RunArgs,
    session: &Session,
) -> Result<Code, Failure> {
    if let Some(why) = runs::refusal_of_all(variants) {
        return Err(located(why.into(), workload));
    }
    let pooled: Vec<Record> = variants.iter().map(Variant::one_record).collect();
    let rows: Vec<Row<'_>> =
        variants.iter().zip(&pooled).map(|(v, record)| Row::new(&v.label, record)).collect();
    let refused = variants.iter().any(|v| v.refused.is_some());
    let code = match Code::of_outcome(surety_report::summary_of_all(&rows).outcome) {
        // Whether it became worse is asked then, not whether promises are kept.
        _ if baseline.is_some() => Code::Kept,
        Code::Kept if refused => Code::Undecided,
        code => code,
    };
    // What could not be run has nothing to hold an expectation against; that it is missing is in the code already.
    let ran = rows.iter().zip(variants).filter(|(_, variant)| !variant.runs.is_empty());
    let code =
        gates::check(&args.gates, ran.map(|(row, _)| (row.label.as_str(), row.record)), code, session)?;
    let code = unless_cut_short(code, finished, session);
    let every_run = every_run(variants, &rows, args.repeat > 1);
    let several = args.repeat > 1 || !workload.vary.is_empty();
    let how = if several {
        "Who ran around the longest response: run it once, without --repeat and [vary]."
    } else {
        WITHOUT_TIMELINE
    };
    let report = Report {
        timelines,
        without_timeline: Some(how),
        title: workload.title.as_deref(),
        file: workload.source.name(),
        // Programs get every run, people one line for all runs of a kind.
        rows: if session.json { &every_run } else { &rows },
        all_rows: true,
        judged: Some(&rows),
        exit: Some(code as u8),
        ..Report::default()
    };
    if let Some(baseline) = baseline {
        let whole = Report { rows: &every_run, ..report };
        let document = surety_report::json::record_json(&whole).to_string();
        if session.json {
            // One document alone: that of the comparison.
            args.running
                .html
                .as_ref()
                .map_or(Ok(()), |page| files::write(page, &surety_report::html::page(&report)))?;
        } else {
            session.publish(&report, &args.running)?;
            session.print("\n")?;
        }
        let found = against(baseline, &document, args, session)?;
        return Ok(unless_cut_short(worse_of(code, found), finished, session));
    }
    session.publish(&report, &args.running)?;
    if args.repeat > 1 && !session.json && finished.finished == finished.asked {
        session.note(&format!(
            "each line holds the activations of {} runs taken in turns; write them with --json and compare \
             lines with `surety compare FILE FILE --result LABEL --result LABEL`",
            args.repeat
        ));
    }
    Ok(code)
}

/// A row for each run; of what was not run, that of the whole.
fn every_run<'a>(variants: &'a [Variant], rows: &[Row<'a>], are_numbered: bool) -> Vec<Row<'a>> {
    let of_variant = |(variant, whole): (&'a Variant, &Row<'a>)| {
        let label = |n: usize| {
            if are_numbered { format!("{} #{n}", variant.label) } else { variant.label.clone() }
        };
        let runs = variant.runs.iter().enumerate();
        let runs: Vec<_> = runs.map(|(i, r)| Row::new(&label(i + 1), r)).collect();
        if runs.is_empty() { vec![whole.clone()] } else { runs }
    };
    variants.iter().zip(rows).flat_map(of_variant).collect()
}

/// The stored runs that those of a world are compared with.
///
/// # Errors
/// They cannot be read, or this command makes runs of several kinds.
pub fn baseline(path: &Path, workload: &Workload, worlds: &Worlds<'_>) -> Result<Gathered, Failure> {
    let several = worlds.names().len() > 1 || !workload.vary.is_empty();
    let names = worlds.names();
    let Some(world) = names.first().filter(|_| !several) else {
        let what = "--baseline compares runs of one kind: one world, nothing varied";
        return Err(
            Failure::new(Code::BadInput, what).help("name one world after --on, and leave out [vary]")
        );
    };
    gathered(&[path.to_owned()], Some(world))
}

/// How the runs in a document compare with stored ones.
fn against(a: &Gathered, document: &str, args: &RunArgs, session: &Session) -> Result<Code, Failure> {
    let read = surety_model::formats::record::read(document);
    let file = read.map_err(|error| Failure::new(Code::Internal, format!("its own results: {error}")))?;
    let b = Gathered::of(vec![(String::new(), file)], None)?;
    let label = format!("{} (the baseline)", a.name);
    let options = options(&args.judging, args.running.seed, None);
    publish(&surety_compare::compare(&a.side(label), &b.side("this run".to_owned()), &options), None, session)
}

/// The code of expectations and of a comparison: what failed before what is undecided.
fn worse_of(expected: Code, compared: Code) -> Code {
    match (expected, compared) {
        (Code::Kept, code) | (code, Code::Kept) => code,
        (Code::Undecided, code) | (code, Code::Undecided) => code,
        (code, _) => code,
    }
}

/// Says how long runs on this machine take at least, before the first of them, and what makes that shorter.
fn announce<'w>(workloads: impl Iterator<Item = &'w Workload>, args: &RunArgs, session: &Session) {
    let workloads: Vec<&Workload> = workloads.collect();
    if workloads.len() > 1 {
        let is_repeated = args.repeat > 1 || args.ab.is_some();
        if let Ok(options) = options_of(&args.running, workloads[0], session) {
            session.step(&runs::estimate(&workloads, &options, is_repeated));
        }
    }
}

/// Runs two sides in turns and compares them.
pub fn ab(
    text: &str,
    workload: &Workload,
    args: &RunArgs,
    worlds: &Worlds<'_>,
    session: &Session,
) -> Result<Code, Failure> {
    let bad = |what: String, help: &str| Failure::new(Code::BadInput, what).help(help);
    if worlds.names().len() != 1 {
        return Err(bad("--ab compares runs of one world".to_owned(), "name one world after --on"));
    }
    if !workload.vary.is_empty() {
        let what = format!("{} varies keys itself", args.workload.display());
        return Err(bad(what, "leave out [vary], or run it without --ab"));
    }
    let (sides, studied) = sides_of(text, workload, args)?;
    let rounds =
        Rounds { count: args.pairs as usize, options: options_of(&args.running, workload, session)? };
    let at_home = sides.iter().filter(|_| worlds.entry(0).is_this_machine()).map(|(_, workload)| workload);
    announce((0..rounds.count).flat_map(|_| at_home.clone()), args, session);
    let of_side = |ended: pairs::PairFailure| located(ended.failure, &sides[ended.side].1);
    let mut pairs = pairs::take(&sides, &rounds, args.keep_disturbed, worlds).map_err(of_side)?;
    let ended = pairs.ended.take().map(of_side);
    if pairs.taken() > pairs.asked {
        session.note(&format!(
            "{} pairs were taken because the machine was disturbed; the {} least disturbed are compared",
            pairs.taken(),
            pairs.asked
        ));
    }
    let side = |index: usize| {
        let label = sides[index].0.clone();
        pairs.side(index, &label, Some(label.clone()).filter(|_| studied.is_none()))
    };
    let options = options(&args.judging, args.running.seed, studied.clone());
    let comparison = surety_compare::compare(&side(0), &side(1), &options);
    if let Some(ended) = &ended {
        let (taken, asked) = (pairs.taken(), pairs.asked);
        let why = ended.ended_by();
        session.note(&format!("{why}: {taken} of {asked} pairs are finished and compared"));
    }
    let code = publish(&comparison, args.running.html.as_deref(), session)?;
    Ok(ended.map_or(code, |ended| ended.code))
}

/// The two sides with their names, and the path that is varied.
type Sides = ([Named; 2], Option<String>);

/// Reads `--ab`: `KEY=VALUE_A,VALUE_B`, or the file of `B`.
fn sides_of(text: &str, workload: &Workload, args: &RunArgs) -> Result<Sides, Failure> {
    let Some((path, values)) = text.split_once('=').filter(|_| !std::path::Path::new(text).exists()) else {
        let mut other = read_varied(text.as_ref())?;
        append_loads(&mut other, &args.beside.load)?;
        args.rights.give(&mut other)?;
        if !other.vary.is_empty() {
            return Err(Failure::new(Code::BadInput, format!("{text} varies keys itself"))
                .help("leave out its [vary]"));
        }
        let names = [args.workload.display().to_string(), text.to_owned()];
        let [a, b] = names;
        return Ok(([(a, workload.clone()), (b, other)], None));
    };
    let values: Vec<&str> = values.split(',').map(str::trim).collect();
    let [a, b] = values.as_slice() else {
        return Err(Failure::new(Code::BadInput, format!("`{text}` does not have two values"))
            .help("write KEY=VALUE_A,VALUE_B, such as load.busy.count=2,8"));
    };
    let path = path.trim();
    let set = |text: &str| -> Result<(String, Workload), Failure> {
        let settings = Settings(vec![(path.to_owned(), value_of(text))]);
        let name = if text.is_empty() { "''" } else { text };
        Ok((format!("{path}={name}"), with(workload, &settings)?))
    };
    Ok(([set(a)?, set(b)?], Some(path.to_owned())))
}

fn value_of(text: &str) -> VaryValue {
    match (text.parse(), text.parse()) {
        (Ok(number), _) => VaryValue::Integer(number),
        (_, Ok(yes)) => VaryValue::Boolean(yes),
        _ => VaryValue::Text(text.to_owned()),
    }
}
