//! Several runs in turns: the combinations of `[vary]`, `--repeat`, and the two sides of `--ab`.

use surety_compare::Side;
use surety_compare::order::{interleaved, least_disturbed};
use surety_compare::pool::pool;
use surety_model::formats::toml::vary::{Settings, combinations, shown, with};
use surety_model::record::{Disturbance, InForce, Record};
use surety_model::workload::{VaryValue, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_report::{Report, Row};
use surety_units::Nanos;

use crate::args::RunArgs;
use crate::compare::{options, publish};
use crate::exit::{Code, Failure};
use crate::gates;
use crate::input::read_varied;
use crate::load::append_loads;
use crate::run::{Runner, located, options_of};
use crate::session::Session;

/// One line of the table: a combination in a world, and the runs of it.
struct Variant {
    label: String,
    world: usize,
    workload: Workload,
    runs: Vec<Record>,
    /// Why it cannot be run.
    refused: Option<WorldError>,
}

/// Runs every combination in every world, in turns, and prints one table.
pub fn varied(
    workload: &Workload,
    args: &RunArgs,
    runner: &Runner<'_>,
    session: &Session,
) -> Result<Code, Failure> {
    let mut variants = Vec::new();
    for settings in combinations(workload)? {
        let set = with(workload, &settings)?;
        for (world, word) in runner.worlds().into_iter().enumerate() {
            let label = match (settings.0.is_empty(), runner.worlds().len()) {
                (true, _) => word.to_owned(),
                (false, 1) => label_of(&settings),
                (false, _) => format!("{word} {}", label_of(&settings)),
            };
            let workload = set.clone();
            variants.push(Variant { label, world, workload, runs: Vec::new(), refused: None });
        }
    }
    let rounds = interleaved(variants.len(), args.repeat as usize, args.running.seed);
    announce(variants.len() * rounds.len(), args, session);
    for (round, order) in rounds.into_iter().enumerate() {
        let options = options_of_round(args, session, round);
        for index in order {
            let variant = &mut variants[index];
            if variant.refused.is_some() {
                continue;
            }
            match runner.run(variant.world, &variant.workload, &options, &variant.label, None) {
                Ok(record) => variant.runs.push(record),
                Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
                Err(why) => variant.refused = Some(why),
            }
        }
    }
    if let Some(why) = variants[0].refused.clone().filter(|_| variants.iter().all(|v| v.runs.is_empty())) {
        return Err(located(why.into(), workload));
    }
    let pooled: Vec<Record> = variants.iter().map(one_record).collect();
    let rows: Vec<Row<'_>> =
        variants.iter().zip(&pooled).map(|(v, record)| Row::new(&v.label, record, &v.workload)).collect();
    let refused = variants.iter().any(|v| v.refused.is_some());
    let code = match Code::of_outcome(surety_report::summary_of_all(&rows).outcome) {
        Code::Kept if refused => Code::Undecided,
        code => code,
    };
    // What could not be run has nothing to hold an expectation against; that it is missing is in the code already.
    let ran = rows.iter().zip(&variants).filter(|(_, variant)| !variant.runs.is_empty());
    let code =
        gates::check(&args.gates, ran.map(|(row, _)| (row.label.as_str(), row.record)), code, session)?;
    let every_run: Vec<Row<'_>> = variants
        .iter()
        .zip(&rows)
        .flat_map(|(v, whole)| {
            let label =
                |n: usize| if args.repeat > 1 { format!("{} #{n}", v.label) } else { v.label.clone() };
            let runs = v.runs.iter().enumerate();
            let runs: Vec<_> = runs.map(|(i, r)| Row::new(&label(i + 1), r, &v.workload)).collect();
            if runs.is_empty() { vec![whole.clone()] } else { runs }
        })
        .collect();
    let report = Report {
        title: workload.title.as_deref(),
        file: workload.source.name(),
        // Programs get every run, people one line for all runs of a kind.
        rows: if session.json { &every_run } else { &rows },
        all_rows: true,
        plan: None,
        exit: Some(code as u8),
        made: None,
    };
    session.publish(&report, &args.running)?;
    if args.repeat > 1 && !session.json {
        session.note(&format!(
            "each line holds the activations of {} runs taken in turns; write them with --json and compare \
             lines with `surety compare FILE FILE --result LABEL --result LABEL`",
            args.repeat
        ));
    }
    Ok(code)
}

/// The keys' last words with their values: `count=4 policy=fifo:80`; as much of the path as tells them apart.
fn label_of(settings: &Settings) -> String {
    let last = |path: &str, words: usize| {
        let parts: Vec<&str> = path.split('.').collect();
        parts[parts.len().saturating_sub(words)..].join(".")
    };
    let clear = |path: &str| {
        let is_clear = |words: &usize| {
            settings.0.iter().filter(|(p, _)| last(p, *words) == last(path, *words)).count() == 1
        };
        let words = (1..=path.split('.').count()).find(is_clear);
        words.map_or_else(|| path.to_owned(), |words| last(path, words))
    };
    // Counts of several objects are clear by the objects' names: `readers=10 writers=5`.
    let named = |path: &str| {
        let word = clear(path);
        word.strip_suffix(".count").map_or(word.clone(), str::to_owned)
    };
    let parts = settings.0.iter().map(|(path, value)| format!("{}={}", named(path), shown(value)));
    parts.collect::<Vec<_>>().join(" ")
}

/// All runs as one record; without any, an empty one that says why.
fn one_record(variant: &Variant) -> Record {
    let runs: Vec<&Record> = variant.runs.iter().collect();
    let why = variant.refused.as_ref().map(|error| format!("could not be run: {error}"));
    let mut record = pool(&runs, &variant.workload).unwrap_or_else(|| Record {
        world: String::new(),
        reserved: variant.workload.is_reserved(),
        seed: None,
        duration: None,
        in_force: InForce::default(),
        degraded: Vec::new(),
        activities: Vec::new(),
        trace: None,
        hash: None,
    });
    record.degraded.extend(why);
    record
}

/// Each round has a seed of its own, the same for all that run in it: they draw the same work.
fn options_of_round(args: &RunArgs, session: &Session, round: usize) -> RunOptions {
    let options = options_of(&args.running, session);
    RunOptions { seed: options.seed.wrapping_add(round as u64), ..options }
}

fn announce(runs: usize, args: &RunArgs, session: &Session) {
    let each = args.running.duration.saturating_add(args.running.warm_up);
    let worlds = args.worlds();
    let real = worlds.iter().filter(|word| *word == "host").count();
    if real > 0 && runs > 1 {
        let all = (0..runs * real / worlds.len()).fold(Nanos::ZERO, |sum, _| sum.saturating_add(each));
        session.step(&format!("{runs} runs in turns: at least {all}"));
    }
}

/// Runs two sides in turns and compares them.
pub fn ab(
    text: &str,
    workload: &Workload,
    args: &RunArgs,
    runner: &Runner<'_>,
    session: &Session,
) -> Result<Code, Failure> {
    let bad = |what: String, help: &str| Failure::new(Code::BadInput, what).help(help);
    if runner.worlds().len() != 1 {
        return Err(bad("--ab compares runs of one world".to_owned(), "name one world after --on"));
    }
    if !workload.vary.is_empty() {
        let what = format!("{} varies keys itself", args.workload.display());
        return Err(bad(what, "leave out [vary], or run it without --ab"));
    }
    let (sides, studied) = sides_of(text, workload, args)?;
    let pairs = args.pairs as usize;
    announce(2 * pairs, args, session);
    let mut runs: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    let mut disturbed: Vec<f64> = Vec::new();
    for (round, order) in interleaved(2, 2 * pairs, args.running.seed).iter().enumerate() {
        let calm = disturbed.iter().filter(|part| **part <= Disturbance::LIMIT).count();
        if calm >= pairs || (args.keep_disturbed && round >= pairs) {
            break;
        }
        let options = options_of_round(args, session, round);
        let mut worst = 0.0_f64;
        for &side in order {
            let again = if round < pairs { "" } else { ", for a disturbed pair" };
            let label = format!("{} {} of {pairs}{again}", ["A", "B"][side], round + 1);
            let (_, workload) = &sides[side];
            let record = runner.run(0, workload, &options, &label, None);
            let record = record.map_err(|error| located(error.into(), workload))?;
            worst = worst.max(record.in_force.disturbance.map_or(0.0, Disturbance::worst));
            runs[side].push(record);
        }
        disturbed.push(worst);
    }
    let kept = least_disturbed(&disturbed, pairs);
    if disturbed.len() > pairs {
        session.note(&format!(
            "{} pairs were taken because the machine was disturbed; the {pairs} least disturbed are compared",
            disturbed.len()
        ));
    }
    let side = |index: usize| Side {
        label: sides[index].0.clone(),
        runs: kept.iter().map(|place| &runs[index][*place]).collect(),
        workload: Some(sides[index].0.clone()).filter(|_| studied.is_none()),
    };
    let options = options(&args.judging, args.running.seed, studied.clone());
    publish(&surety_compare::compare(&side(0), &side(1), &options), session)
}

/// The two sides with their names, and the path that is varied.
type Sides = ([(String, Workload); 2], Option<String>);

/// Reads `--ab`: `KEY=VALUE_A,VALUE_B`, or the file of `B`.
fn sides_of(text: &str, workload: &Workload, args: &RunArgs) -> Result<Sides, Failure> {
    let Some((path, values)) = text.split_once('=').filter(|_| !std::path::Path::new(text).exists()) else {
        let mut other = read_varied(text.as_ref())?;
        append_loads(&mut other, &args.beside.load)?;
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
