//! The same drawn jobs on this kernel and in the simulator, one by one: which are late, and by which event of the trace where
//! the two differ.
//!
//! Budgets end on the tick here, so what a job has done when a tick comes decides whether it is late by a period. The
//! simulator releases at the instant; a kernel's timer and switch take what the machine needs to leave an idle state, so threads of
//! `SCHED_IDLE` keep all CPUs busy. What differs then had less than that between its end and a tick. How late the machine is comes
//! from the jobs that no other delayed; a job that such a delay may have decided is listed apart, and there are few of these.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;
use surety_units::Nanos;

use crate::common::{alone, errors, is_root, surety, text};

const WORKLOAD: &str = r#"
format = 1

[[task]]
name = "t"
period = "10ms"
work = { kind = "uniform", low = "1ms", high = "5ms" }
reservation = { runtime = "4ms", period = "10ms" }
late = "queue"
promise = ["response <= 10ms @ 99%"]

[[load]]
name = "awake"
kind = "spinners"
count = 2
policy = "idle"
"#;

const PERIOD: i64 = 10_000_000;
const TICK: i64 = 4_000_000;
const BUDGET: i64 = 4_000_000;

/// Of jobs that the machine's own delays may decide, the largest part that leaves something to compare.
const UNDECIDED: f64 = 0.1;

/// The longest delay of a machine that can be compared, ns.
const DELAY: i64 = 1_000_000;

/// Jobs before the measurement begins: the warm-up.
const BEFORE: usize = 50;

/// Times of one kind, one for each job in order.
fn each(result: &Value, times: &str) -> Vec<i64> {
    let values = &result["activities"][0][times]["sequence"]["values"];
    values.as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
}

/// Why a run says that it was disturbed: others, or the hypervisor, had more than 1 % of its CPUs. That so little may still explain
/// some misses, which is a caveat of the record, counts here against the simulator.
fn objections(host: &Value) -> Vec<String> {
    host["degraded"].as_array().unwrap().iter().map(Value::to_string).collect()
}

/// The events of a job in a trace shown as text: from its release to its end.
fn events_of(trace: &str, job: usize) -> Vec<(f64, &str)> {
    let time = |line: &str| line.split_whitespace().next().and_then(|time| time.parse::<f64>().ok());
    let begins = format!("says: surety:b:{job}:");
    let ends = format!("says: surety:e:{job}");
    let Some(begin) = trace.lines().find(|line| line.contains(&begins)) else { return Vec::new() };
    let release: f64 = begin.rsplit(':').next().and_then(|ns| ns.parse().ok()).unwrap_or_default();
    let lines = trace.lines().skip_while(|line| *line != begin);
    let until = lines.take_while(|line| !line.ends_with(&ends));
    until.filter_map(|line| Some((time(line)? * 1e3 - release / 1e6, line))).collect()
}

/// What decided when a job was done, in ms after its release.
struct Decided {
    begin: f64,
    /// The events that take the CPU away because of a budget, this thread's or that of a fair server.
    throttled: Vec<f64>,
}

impl Decided {
    fn of(trace: &str, job: usize) -> Option<Decided> {
        let events = events_of(trace, job);
        let (begin, _) = *events.first()?;
        let throttled = events.iter().filter(|(_, line)| line.contains("(budget) is set to"));
        Some(Decided { begin, throttled: throttled.map(|(at, _)| *at).collect() })
    }

    fn text(&self) -> String {
        format!("begins at {:.3} ms, throttled at {:.3?} ms", self.begin, self.throttled)
    }
}

/// Whether the machine's own delays decided a job. `delay` is how late jobs begin there that no other delayed.
///
/// - It began at another instant by more than that: the machine was late, or the job before it, which is judged itself.
/// - It ended so near the tick that throttled it in the other world that what it began later on the host and the delay lie
///   between.
/// - Its budget ended as near ahead of the tick that throttled it in the simulator.
fn within_delays(host: (&Decided, i64), sim: (&Decided, i64), delay: i64) -> bool {
    let ms = |ns: i64| ns as f64 / 1e6;
    let (at_host, at_sim, delay) = (ms(host.1), ms(sim.1), ms(delay));
    let (host, sim) = (host.0, sim.0);
    let later = (host.begin - sim.begin).max(0.0) + delay;
    let crossed_on_host = |tick: f64| at_sim <= tick + delay && tick < at_sim + later;
    let crossed_in_sim = |tick: f64| (at_host - tick).abs() <= delay;
    let had_budget = |tick: f64| tick - sim.begin >= ms(BUDGET) && tick - sim.begin - later < ms(BUDGET);
    (host.begin - sim.begin).abs() > delay
        || host.throttled.iter().any(|tick| crossed_on_host(*tick))
        || sim.throttled.iter().any(|tick| crossed_in_sim(*tick) || had_budget(*tick))
}

/// How late the machine began jobs that no other delayed: the 99th percentile, ns.
fn delay_of(latencies: &[i64], responses: &[i64]) -> i64 {
    let undelayed = responses.iter().zip(&latencies[1..]).filter(|(before, _)| **before <= PERIOD);
    let mut late: Vec<i64> = undelayed.map(|(_, latency)| *latency).collect();
    late.sort_unstable();
    late.get(late.len() * 99 / 100).copied().unwrap_or(0)
}

/// One run in both worlds.
struct Run {
    objections: Vec<String>,
    jobs: usize,
    /// Each job that differs, in a line.
    differing: Vec<String>,
    /// Those that the machine's delays decided.
    undecided: Vec<String>,
    /// Those delays, ns.
    delay: i64,
}

impl Run {
    fn is_alike(&self) -> bool {
        self.differing.len() * 100 <= self.jobs && self.undecided.len() as f64 <= self.jobs as f64 * UNDECIDED
    }

    fn text(&self) -> String {
        let (differing, undecided) = (self.differing.len(), self.undecided.len());
        let delay = Nanos::new(self.delay);
        format!(
            "{} of {} jobs differ; more than the machine's delays ({delay}) decided {differing}:\n{}\nthe delays decided \
             {undecided}:\n{}",
            differing + undecided,
            self.jobs,
            self.differing.join("\n"),
            self.undecided.join("\n")
        )
    }
}

fn compared(directory: &Path) -> Run {
    let file = directory.join("jobs.toml");
    let trace = directory.join("t.dat");
    fs::write(&file, WORKLOAD).unwrap();
    let [file, trace] = [&file, &trace].map(|path| path.to_str().unwrap());
    let window = ["--for", "5s", "--warm-up", "500ms"];
    let worlds = ["run", file, "--on", "host", "sim", "--json", "--trace", trace];
    let output = surety(&[worlds.as_slice(), window.as_slice()].concat());
    let document: Value =
        serde_json::from_str(&text(&output)).unwrap_or_else(|e| panic!("{e}: {}", errors(&output)));
    let of = |world: &str| {
        let results = document["results"].as_array().unwrap().iter();
        results.clone().find(|result| result["world"] == world).expect("the world has run").clone()
    };
    let shown = |world: &str| {
        let name = directory.join(format!("t.{world}.dat"));
        text(&surety(&["trace", "show", name.to_str().unwrap()]))
    };
    let [(host, host_trace), (sim, sim_trace)] = ["host", "sim"].map(|world| (of(world), shown(world)));
    let (on_host, in_sim) = (each(&host, "response_ns"), each(&sim, "response_ns"));
    let objections = objections(&host);
    assert!(!objections.is_empty() || on_host.len() == in_sim.len(), "as many jobs");
    let pairs = on_host.iter().copied().zip(in_sim.iter().copied());
    let differs = |(a, b): (i64, i64)| (a > PERIOD) != (b > PERIOD) || (a - b).abs() > TICK;
    let delay = delay_of(&each(&host, "latency_ns"), &on_host);
    let mut run =
        Run { objections, jobs: on_host.len(), differing: Vec::new(), undecided: Vec::new(), delay };
    for (index, (a, b)) in pairs.enumerate().filter(|(_, pair)| differs(*pair)) {
        let mut line = format!("job {index}: {:.3} ms, simulated {:.3} ms", a as f64 / 1e6, b as f64 / 1e6);
        let both = [&host_trace, &sim_trace].map(|trace| Decided::of(trace, BEFORE + index));
        let [Some(host), Some(sim)] = both else {
            run.differing.push(line + "; its events are not in the trace");
            continue;
        };
        write!(line, "; host {}; sim {}", host.text(), sim.text()).unwrap();
        let undecided = within_delays((&host, a), (&sim, b), delay);
        if undecided { run.undecided.push(line) } else { run.differing.push(line) }
    }
    run
}

#[test]
fn jobs_that_overrun_are_late_on_this_kernel_and_in_the_simulator_alike() {
    let _alone = alone();
    if !is_root() {
        return eprintln!("SKIPPED: reservations and the trace need root");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut best: Option<Run> = None;
    let mut disturbed = Vec::new();
    for _ in 0..3 {
        let mut run = compared(directory.path());
        if run.delay > DELAY {
            run.objections.push(format!("jobs begin {} late", Nanos::new(run.delay)));
        }
        if !run.objections.is_empty() {
            disturbed.push(run.objections);
            continue;
        }
        let is_enough = run.is_alike();
        if best.as_ref().is_none_or(|best| run.differing.len() < best.differing.len()) {
            best = Some(run);
        }
        if is_enough {
            break;
        }
    }
    let Some(run) = best else { return eprintln!("SKIPPED: every run was disturbed: {disturbed:?}") };
    let told = run.text();
    eprintln!("{told}");
    assert!(run.is_alike(), "more than 1 % of jobs differ, or too many are undecided:\n{told}");
}
