//! `surety latency`: how late threads wake that sleep until planned instants.

use std::fmt::Write;

use surety_host::latency::{
    LatencyEnd, LatencyOptions, LatencyProbe, LatencyRun, Live, Spike, TRACE_KEPT, Watcher,
};
use surety_host::probe_setup::ProbePolicy;
use surety_model::latency::Sleep;
use surety_model::record::{NextLargest, Record};
use surety_model::workload::{ActivityKind, PolicySpec};
use surety_model::world::{Cancel, LAB_PREFIX};
use surety_report::{Report, Row};
use surety_session::guests::store;
use surety_session::probe::{look_ahead, on_kernel};
use surety_units::Nanos;

use crate::abilities::{PRIORITY, one_way_to_more, probe_policy};
use crate::args::{JOBS_MAX, LatencyArgs};
use crate::exit::{Code, Failure};
use crate::files;
use crate::gates;
use crate::load::parse_loads;
use crate::session::{Session, draw};
use crate::trace::record::output::Output;

/// How long a run is unless it is said.
const DURATION: Nanos = Nanos::from_secs(10);
/// The longest a rule is waited for unless it is said.
const DURATION_UNTIL: Nanos = Nanos::from_secs(600);

/// What is asked of the probe.
fn options_of(args: &LatencyArgs, policy: ProbePolicy, cancel: Cancel) -> Result<LatencyOptions, Failure> {
    let loads = parse_loads(&args.beside.load)?;
    let longest = if args.until.is_some() { DURATION_UNTIL } else { DURATION };
    let duration = args.duration.unwrap_or(longest);
    let jobs =
        args.jobs.unwrap_or_else(|| duration.div_ceil(args.period).max(1).unsigned_abs()).min(JOBS_MAX);
    Ok(LatencyOptions {
        cpus: args.cpus,
        period: args.period,
        sleep: if args.relative { Sleep::Relative } else { Sleep::Absolute },
        policy,
        jobs,
        warm_up: args.warm_up,
        until: args.until,
        stop_over: args.stop_over,
        loads,
        seed: args.seed,
        cancel,
    })
}

/// The verb. A run that ends at a spike ends in 1, one whose rule was not met in 4.
pub fn latency(args: &LatencyArgs, session: &Session) -> Result<Code, Failure> {
    let outputs = [args.html.as_ref(), args.gates.told.junit.as_ref(), args.gates.told.tap.as_ref()];
    files::check_outputs(outputs.into_iter().chain([args.stop_over.map(|_| &args.output)]))?;
    if args.on != "host" {
        return on_lab(args, session);
    }
    if let (Some(rule), None) = (args.until, args.duration) {
        session.step(&format!("until {rule}, for {} at most", DURATION_UNTIL.to_exact_string()));
    }
    let options = options_of(args, policy_here(args, session), session.cancel.clone())?;
    let output = args.stop_over.map(|_| Output::open(&args.output)).transpose()?;
    let probe = LatencyProbe::new(&session.kernel, session.journal());
    let mut screen = Screen::default();
    let mut show = |live: &[Live<'_>]| screen.show(live, session.width());
    let watcher: Option<Watcher<'_>> = if session.is_live() { Some(&mut show) } else { None };
    let run = probe.run(&options, watcher);
    screen.clear();
    let mut run = run?;
    let mut code = match run.end {
        LatencyEnd::Spike => Code::Broken,
        LatencyEnd::Done if args.until.is_some() => Code::Undecided,
        LatencyEnd::Done | LatencyEnd::Until => Code::Kept,
        LatencyEnd::Cancelled => Code::Interrupted,
    };
    if code == Code::Kept {
        code = code_of(&run.record);
    }
    let rule = rule_in_words(args, &run);
    if run.end == LatencyEnd::Spike {
        let at_its_largest =
            "the run was stopped by a latency above --stop-over, so its length depends on its values";
        for probe in run.record.activities.iter_mut().filter(|a| a.kind == ActivityKind::Probe) {
            probe.next_largest = Some(NextLargest::untold(probe.activations, at_its_largest));
        }
    } else {
        look_ahead(&mut run.record, &run.samples, args.period, args.seed);
    }
    let code = publish(args, &run.record, &rule, code, session)?;
    if let Some(spike) = &run.spike {
        tell_spike(args, output, &run, spike, session)?;
    }
    Ok(code)
}

/// Whether the run measured what was asked for: some wake-ups, under the class and on the CPUs that were asked for until its end.
fn code_of(record: &Record) -> Code {
    let is_empty = record.activities.iter().all(|a| a.activations == 0);
    let is_withheld = record.activities.iter().any(|a| a.withheld().is_some());
    if is_empty || is_withheld { Code::Undecided } else { Code::Kept }
}

/// What is asked of the probe in a guest, from which no rule about what was measured comes back.
pub fn in_guest(args: &LatencyArgs, session: &Session) -> Result<LatencyOptions, Failure> {
    for (name, is_set) in [("--stop-over", args.stop_over.is_some()), ("--until", args.until.is_some())] {
        if is_set {
            let said = format!("{name} is of a probe on this machine; in the lab a run has its length");
            return Err(Failure::new(Code::BadInput, said).help("say how long with --for or --jobs"));
        }
    }
    // In a guest the probe is root.
    let usual = ProbePolicy::Class(PolicySpec::Fifo { priority: PRIORITY });
    options_of(args, args.policy.unwrap_or(usual), session.cancel.clone())
}

/// The policy asked for, else the most that this user may have, with a word where that is less than usual.
fn policy_here(args: &LatencyArgs, session: &Session) -> ProbePolicy {
    if let Some(policy) = args.policy {
        return policy;
    }
    let (policy, refused) = probe_policy(&session.kernel);
    if let Some(why) = refused {
        let how = if policy == ProbePolicy::Class(PolicySpec::default()) {
            ", as an ordinary program runs,"
        } else {
            ""
        };
        session.note(&format!(
            "measured under `{policy}`{how} not under `fifo:{PRIORITY}`: {why}; {}",
            one_way_to_more()
        ));
    }
    policy
}

/// The same in a guest of the lab.
fn on_lab(args: &LatencyArgs, session: &Session) -> Result<Code, Failure> {
    let options = in_guest(args, session)?;
    let Some(name) = args.on.strip_prefix(LAB_PREFIX) else {
        let said = format!("the probe runs on `host` or `{LAB_PREFIX}KERNEL`, not on `{}`", args.on);
        return Err(Failure::new(Code::BadInput, said).help("`surety lab list` names the kernels"));
    };
    let stored = store(session)?.kernel(name)?;
    let mut record = on_kernel(&options, &args.guest.options(args.seed), stored, session)?;
    look_ahead(&mut record, &[], args.period, args.seed);
    publish(args, &record, "", code_of(&record), session)
}

/// Holds the expectations, and prints what was measured.
fn publish(
    args: &LatencyArgs,
    record: &Record,
    rule: &str,
    code: Code,
    session: &Session,
) -> Result<Code, Failure> {
    let code = gates::check(&args.gates, [("latency", record)], code, session)?;
    let rows = [Row::new("latency", record)];
    let lead = surety_report::table::latest(record);
    let lead = lead.as_deref().or(Some("No latency is stated: see what degrades the run."));
    let report = Report {
        title: Some("wake-up latency"),
        heading: Some("Wake-up latency"),
        lead,
        rows: &rows,
        exit: Some(code as u8),
        ..Report::default()
    };
    session.publish_as(&report, args.html.as_deref(), || {
        surety_report::table::latency(&rows[0], &session.style()) + rule
    })?;
    Ok(code)
}

/// What became of the rule on each CPU; nothing without one.
fn rule_in_words(args: &LatencyArgs, run: &LatencyRun) -> String {
    let Some(rule) = args.until else { return String::new() };
    let mut text = "\n".to_owned();
    for (cpu, look) in &run.looks {
        let width = look.width.map_or("unbounded".to_owned(), |width| format!("{:.2} %", width * 100.0));
        let word = if look.is_met { "met" } else { "not met" };
        let end = |bound: surety_stats::bounds::Bound| match bound.value() {
            Some(ns) => Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX)).to_string(),
            None => bound.to_string(),
        };
        text += &format!(
            "cpu{cpu}: {rule} {word} at look {}: from {} to {}, width {width}; 95 % for independent samples, whatever the number of looks\n",
            look.number,
            end(look.interval.low),
            end(look.interval.high)
        );
    }
    text
}

/// Names the wake-up, writes its trace, and says how to look into it.
fn tell_spike(
    args: &LatencyArgs,
    output: Option<Output<'_>>,
    run: &LatencyRun,
    spike: &Spike,
    session: &Session,
) -> Result<(), Failure> {
    let text = format!(
        "spike: cpu{} woke {} after its activation {} was due (at {} on the clock), thread {}",
        spike.cpu,
        spike.latency,
        spike.activation,
        spike.planned.to_exact_string(),
        spike.tid
    );
    let say = |text: &str| {
        if session.json {
            session.note(text);
            return Ok(());
        }
        session.print(&format!("{text}\n"))
    };
    say(&text)?;
    if spike.latency >= TRACE_KEPT {
        say(&format!(
            "the trace keeps the last {} only: it does not hold all of it",
            TRACE_KEPT.to_exact_string()
        ))?;
    }
    let (Some(trace), Some(mut output)) = (&run.trace, output) else { return Ok(()) };
    output.write(trace)?;
    output.read_back()?;
    output.keep()?;
    say(&format!(
        "trace written to {0}; `surety trace explain {0} --tid {1}` says who delayed it",
        args.output.display(),
        spike.tid
    ))?;
    Ok(())
}

/// The lines on the terminal that are written over twice a second.
#[derive(Default)]
struct Screen {
    lines: usize,
}

impl Screen {
    fn show(&mut self, live: &[Live<'_>], width: usize) {
        let mut text = self.back();
        let time = |ns: Option<u64>| {
            ns.map_or("-".to_owned(), |ns| Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX)).to_string())
        };
        for Live { cpu, totals } in live {
            let histogram = &totals.intended.histogram;
            let mean = |mean: Option<f64>| time(mean.map(|m| Nanos::from_f64_rounded(m).get_unsigned()));
            let line = format!(
                "cpu{cpu:<3} {:>9} planned {:>6} missed  min {} avg {} max {}  p99 {}  last second {}",
                totals.planned,
                totals.missed,
                time(histogram.min()),
                mean(totals.intended.moments.mean()),
                time(histogram.max()),
                time(histogram.quantile(0.99)),
                mean(totals.moving_mean),
            );
            let line: String = line.chars().take(width.saturating_sub(1)).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        }
        self.lines = live.len();
        draw(&text);
    }

    /// Goes back over the last lines, and erases them.
    fn back(&self) -> String {
        if self.lines > 0 { format!("\x1b[{}A\x1b[J", self.lines) } else { String::new() }
    }

    fn clear(&mut self) {
        draw(&self.back());
        self.lines = 0;
    }
}
