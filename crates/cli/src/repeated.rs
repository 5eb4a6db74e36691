//! Several runs in turns: the combinations of `[vary]`, `--repeat`, and the two sides of `--ab`.

use surety_compare::Side;
use surety_compare::order::{interleaved, least_disturbed};
use surety_compare::pool::pool;
use surety_model::formats::toml::vary::{Settings, combinations, shown, with};
use surety_model::record::{Disturbance, InForce, Record};
use surety_model::workload::{Startup, VaryValue, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_report::{Report, Row};
use surety_units::Nanos;

use crate::args::{RunArgs, Running};
use crate::compare::{options, publish};
use crate::exit::{Code, Failure};
use crate::gates;
use crate::input::read_varied;
use crate::load::append_loads;
use crate::run::{Runner, located, options_of, unless_cut_short};
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
    let (finished, asked) = make_runs(&mut variants, args, runner, session)?;
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
    let code = unless_cut_short(code, finished, asked, session);
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
        judged: Some(&rows),
        plan: None,
        exit: Some(code as u8),
        made: None,
    };
    session.publish(&report, &args.running)?;
    if args.repeat > 1 && !session.json && finished == asked {
        session.note(&format!(
            "each line holds the activations of {} runs taken in turns; write them with --json and compare \
             lines with `surety compare FILE FILE --result LABEL --result LABEL`",
            args.repeat
        ));
    }
    Ok(code)
}

/// Makes every run of every variant: in turns, each kernel of the lab in as few boots as hold its runs, models last. How many came to
/// their end or were refused, and how many were asked for: Ctrl-C leaves the others out, and is a failure where it leaves none.
fn make_runs(
    variants: &mut [Variant],
    args: &RunArgs,
    runner: &Runner<'_>,
    session: &Session,
) -> Result<(usize, usize), Failure> {
    let rounds = interleaved(variants.len(), args.repeat as usize, args.running.seed);
    let at_home = variants.iter().filter(|variant| runner.is_host(variant.world));
    let at_home = at_home.map(|variant| &variant.workload);
    announce(rounds.iter().flat_map(|_| at_home.clone()), args, session);
    let runs: Vec<(usize, RunOptions)> = rounds
        .into_iter()
        .enumerate()
        .flat_map(|(round, order)| {
            let options = options_of_round(args, session, round);
            order.into_iter().map(move |index| (index, options.clone()))
        })
        .collect();
    let mut finished = 0;
    for world in runner.order().into_iter().filter(|world| runner.is_lab(*world)) {
        let of_world: Vec<_> = runs.iter().filter(|(index, _)| variants[*index].world == world).collect();
        let planned = of_world.iter().map(|(index, options)| {
            let variant = &variants[*index];
            (variant.workload.clone(), options.clone(), variant.label.clone())
        });
        let made = runner.run_first(of_world.len(), world, &planned.collect::<Vec<_>>());
        for ((index, _), record) in of_world.into_iter().zip(made) {
            finished += usize::from(variants[*index].take(record));
        }
    }
    let mut others: Vec<_> =
        runs.iter().filter(|(index, _)| !runner.is_lab(variants[*index].world)).collect();
    others.sort_by_key(|(index, _)| runner.is_model(variants[*index].world));
    for (index, options) in others {
        let variant = &mut variants[*index];
        let made = variant
            .refused
            .is_none()
            .then(|| runner.run(variant.world, &variant.workload, options, &variant.label, None));
        if !made.is_none_or(|record| variant.take(record)) {
            break;
        }
        finished += 1;
    }
    if finished < runs.len() {
        if variants.iter().all(|variant| variant.runs.is_empty()) {
            return Err(WorldError::Interrupted.into());
        }
        let left = variants.iter_mut().filter(|variant| variant.runs.is_empty() && variant.refused.is_none());
        left.for_each(|variant| variant.refused = Some(WorldError::Interrupted));
    }
    Ok((finished, runs.len()))
}

impl Variant {
    /// Takes what came of a run; whether it came to its end or was refused.
    fn take(&mut self, record: Result<Record, WorldError>) -> bool {
        match record {
            Ok(record) => self.runs.push(record),
            Err(WorldError::Interrupted) => return false,
            Err(why) => self.refused = Some(why),
        }
        true
    }
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
    let mut record = pool(&runs).unwrap_or_else(|| Record {
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
    let one = variant.runs.first().and_then(|run| run.duration);
    record.add_caveats(&variant.workload, one);
    record
}

/// Each round has a seed of its own, the same for all that run in it: they draw the same work.
fn options_of_round(args: &RunArgs, session: &Session, round: usize) -> RunOptions {
    let options = options_of(&args.running, session);
    RunOptions { seed: options.seed.wrapping_add(round as u64), ..options }
}

/// Says how long runs on this machine take at least, before the first of them, and what makes that shorter.
fn announce<'w>(workloads: impl Iterator<Item = &'w Workload>, args: &RunArgs, session: &Session) {
    let workloads: Vec<&Workload> = workloads.collect();
    if workloads.len() > 1 {
        session.step(&estimate(&workloads, &args.running, args.repeat > 1 || args.ab.is_some()));
    }
}

/// The runs' least time in words. Start-ups come first on the idle machine, each with its gap.
fn estimate(workloads: &[&Workload], running: &Running, is_repeated: bool) -> String {
    let each = running.duration.saturating_add(running.warm_up);
    let gaps = |workload: &&Workload| -> Nanos {
        let of = |startup: &Startup| startup.gap * i64::from(startup.repeat);
        workload.startups.iter().map(of).fold(Nanos::ZERO, Nanos::saturating_add)
    };
    let idle = workloads.iter().map(gaps).fold(Nanos::ZERO, Nanos::saturating_add);
    let all = workloads.iter().fold(idle, |sum, _| sum.saturating_add(each));
    let start_ups = if idle.is_positive() { ", and the idle start-ups before each run" } else { "" };
    let fewer = if is_repeated { "fewer runs (--repeat, --pairs)" } else { "fewer combinations in [vary]" };
    format!(
        "{} runs in turns, {} each with its warm-up: at least {all}{start_ups}; shorter with --for, --warm-up or {fewer}",
        workloads.len(),
        each.to_exact_string()
    )
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
    let at_home = sides.iter().filter(|_| runner.is_host(0)).map(|(_, workload)| workload);
    announce((0..pairs).flat_map(|_| at_home.clone()), args, session);
    let (runs, disturbed) = if runner.is_lab(0) {
        pairs_in_one_guest(&sides, args, runner, session)?
    } else {
        pairs_in_turns(&sides, args, runner, session)?
    };
    let kept = least_disturbed(&disturbed, pairs.min(disturbed.len()));
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
    let comparison = surety_compare::compare(&side(0), &side(1), &options);
    if disturbed.len() < pairs {
        session.note(&format!("interrupted: {} of {pairs} pairs are finished and compared", disturbed.len()));
    }
    let code = publish(&comparison, session)?;
    Ok(if disturbed.len() < pairs { Code::Interrupted } else { code })
}

/// The runs of both sides, and how much each pair was disturbed.
type Pairs = ([Vec<Record>; 2], Vec<f64>);

/// Takes pairs until as many are calm as were asked for.
fn pairs_in_turns(
    sides: &[(String, Workload); 2],
    args: &RunArgs,
    runner: &Runner<'_>,
    session: &Session,
) -> Result<Pairs, Failure> {
    let pairs = args.pairs as usize;
    let mut runs: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    let mut disturbed: Vec<f64> = Vec::new();
    'pairs: for (round, order) in interleaved(2, 2 * pairs, args.running.seed).iter().enumerate() {
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
            let record = match runner.run(0, workload, &options, &label, None) {
                Err(WorldError::Interrupted) if !disturbed.is_empty() => break 'pairs,
                record => record.map_err(|error| located(error.into(), workload))?,
            };
            worst = worst.max(record.in_force.disturbance.map_or(0.0, Disturbance::worst));
            runs[side].push(record);
        }
        disturbed.push(worst);
    }
    Ok((runs, disturbed))
}

/// Takes as many pairs as were asked for in one boot: nobody else runs in a guest, so none is taken again.
fn pairs_in_one_guest(
    sides: &[(String, Workload); 2],
    args: &RunArgs,
    runner: &Runner<'_>,
    session: &Session,
) -> Result<Pairs, Failure> {
    let pairs = args.pairs as usize;
    let orders = interleaved(2, pairs, args.running.seed).into_iter().enumerate();
    let order: Vec<(usize, usize)> =
        orders.flat_map(|(round, order)| order.into_iter().map(move |side| (round, side))).collect();
    let planned = order.iter().map(|(round, side)| {
        let label = format!("{} {} of {pairs}", ["A", "B"][*side], round + 1);
        (sides[*side].1.clone(), options_of_round(args, session, *round), label)
    });
    let made = runner.run_first(order.len(), 0, &planned.collect::<Vec<_>>());
    let mut runs: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    for ((_, side), record) in order.into_iter().zip(made) {
        match record {
            Err(WorldError::Interrupted) if runs.iter().all(|made| !made.is_empty()) => break,
            record => runs[side].push(record.map_err(|error| located(error.into(), &sides[side].1))?),
        }
    }
    // A pair of which one run was made is none.
    let finished = runs[0].len().min(runs[1].len());
    Ok((runs, vec![0.0; finished]))
}

/// The two sides with their names, and the path that is varied.
type Sides = ([(String, Workload); 2], Option<String>);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_said_before_the_first_run_and_what_makes_it_shorter() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let workload =
            read_varied(&root.join("examples/startup-under-io.toml")).unwrap_or_else(|_| panic!("no file"));
        let all = combinations(&workload).unwrap_or_else(|_| panic!("no combinations"));
        let workloads = vec![&workload; all.len()];
        let running = Running {
            duration: Nanos::from_secs(4),
            warm_up: Nanos::from_millis(500),
            seed: 1,
            cpus: None,
            html: None,
        };
        // 12 runs of 4.5 s, and 5 idle start-ups of each with gaps of 100 ms.
        let said = estimate(&workloads, &running, false);
        assert!(
            said.starts_with(
                "12 runs in turns, 4500ms each with its warm-up: at least 60.00 s, and the idle"
            ),
            "{said}"
        );
        assert!(said.ends_with("shorter with --for, --warm-up or fewer combinations in [vary]"), "{said}");
        let plain = Workload::default();
        assert!(!estimate(&[&plain, &plain], &running, true).contains("idle"));
    }
}
