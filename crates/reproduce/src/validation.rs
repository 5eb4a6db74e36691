//! The simulator against kernels: the same scenarios on both, each figure side by side, and whether the simulator's is near enough.
//!
//! The flow: a [`Scenario`] is run on a kernel, and what came of it is [`Kept`] in a file of that kernel ([`Kernel`]), its figures alone. Later,
//! and as often as wanted, it is simulated on the machine that kernel ran on, and [`judged`] sets both beside each other in [`Row`]s. What is
//! outside the tolerance needs a cause, which `validation/causes.rs` names.
//!
//! Tolerances: shares, misses and parts within a point; migrations within one a second or 5 %; quantiles of response and latency within 5 % or 0.3 ms, or
//! within a tick where the kernel decides on the tick ([`decides_on_tick`]), and so the longest wait of a thread without jobs. In the lab, virtual
//! CPUs run in turns: with several of them only times of threads beside which the other CPUs idle are compared. Runs of the host differ: what is compared is the
//! middle one of several that nobody disturbed ([`UNDISTURBED`]), and an error counts beyond the largest difference of another from it.
//!
//! Where threads are placed is taken from a run of its own, which is traced ([`Traced`]).

mod beside;
mod causes;
mod placement;
mod row;
mod scenarios;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use surety_model::distribution::TimeDistribution;
use surety_model::platform::{Enforcement, Platform};
use surety_model::record::{ActivityRecord, Disturbance, Record, Share};
use surety_model::workload::{PolicySpec, Task, TaskBody, Work, Workload};
use surety_units::{CpuSet, Nanos};

pub use beside::Beside;
pub use causes::without_use;
pub use placement::Placement;
pub use row::{Counts, Row, Shown, Unit};
pub use scenarios::{Scenario, scenarios};

/// The word of this machine's kernel.
pub const HOST: &str = "host";

/// The schema of the files.
pub const SCHEMA: &str = "surety.validation/1";

/// The part of a run's CPUs that others, or the hypervisor, may have before its figures are theirs too: what shares may differ by.
pub const UNDISTURBED: f64 = row::POINTS / 100.0;

/// What a kernel did, scenario by scenario.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    pub schema: String,
    /// The word of the world: `lab:6.12-cloud`, `host`.
    pub kernel: String,
    /// What is kept of each, by its title.
    pub scenarios: BTreeMap<String, Kept>,
}

/// What is kept of a scenario's runs on a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The workload file as it was run, with the files that it names: one that reads otherwise now has to be run again.
    pub workload: String,
    /// What its machine was asked to be, as `--platform` takes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub platform: String,
    pub seed: u64,
    pub cpus: CpuSet,
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    #[serde(rename = "warm_up_ns")]
    pub warm_up: Nanos,
    /// The kernel, and what else its figures depend on, by name.
    pub environment: BTreeMap<String, String>,
    /// The machine that is simulated; none where the scenario could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Platform>,
    /// Why it could not be run, or decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// One run, or several of a kernel whose runs differ.
    pub runs: Vec<Vec<Figures>>,
    /// What others took in each run of a machine that has others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
    /// Runs that were made again because they were disturbed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u32,
    /// Where its threads were placed, of several CPUs of the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<Traced>,
}

/// What is kept of a scenario's traced run: a trace delays all that the kernel does, so that shares and times are taken from others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// The kernel, and what else its figures depend on, by name.
    pub environment: BTreeMap<String, String>,
    /// The machine that is simulated.
    pub machine: Platform,
    /// Where its threads were placed, alone.
    pub figures: Vec<Figures>,
}

impl Kept {
    /// Whether the longest wait of a thread is among its figures.
    pub fn has_waits(&self) -> bool {
        self.runs.iter().flatten().any(|of| of.figures.contains_key(LONGEST_WAIT))
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The figures of an activity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub activity: String,
    /// By name: percent of a CPU, percent of the activations, nanoseconds, times per second. A time that never came is the largest there is.
    pub figures: BTreeMap<String, f64>,
}

/// What is compared of an activity; its word, and what it counts.
type Figure = (&'static str, Unit, fn(&ActivityRecord) -> Option<f64>);

/// The word of a figure that takes a trace.
const LONGEST_WAIT: &str = "longest wait";

const FIGURES: [Figure; 8] = [
    ("share", Unit::Percent, |a| a.share.as_ref().map(|share| share.fraction() * 100.0)),
    ("spread", Unit::Percent, |a| spread(a.share.as_ref()?)),
    ("missed", Unit::Percent, |a| {
        (a.activations > 0 && a.deadline.is_some()).then(|| a.missed as f64 * 100.0 / a.activations as f64)
    }),
    ("response p50", Unit::Nanoseconds, |a| time(a.response.as_ref()?.quantile(0.5))),
    ("response p99", Unit::Nanoseconds, |a| time(a.response.as_ref()?.quantile(0.99))),
    ("latency p50", Unit::Nanoseconds, |a| time(a.latency.as_ref()?.quantile(0.5))),
    ("latency p99", Unit::Nanoseconds, |a| time(a.latency.as_ref()?.quantile(0.99))),
    (LONGEST_WAIT, Unit::Nanoseconds, |a| time(a.longest_gap.filter(|_| a.activations == 0))),
];

/// What is taken from a traced run, and what it counts.
const PLACED: [(&str, Unit); 5] = [
    (placement::ON_ONE_CPU, Unit::Percent),
    (placement::MIGRATIONS, Unit::PerSecond),
    (placement::SHARED[0], Unit::Percent),
    (placement::SHARED[1], Unit::Percent),
    (placement::SHARED[2], Unit::Percent),
];

fn time(time: Option<Nanos>) -> Option<f64> {
    time.map(|time| time.get() as f64)
}

/// By how much of a CPU, in percent, the thread that had most is ahead of the one that had least; `None` of one thread.
fn spread(share: &Share) -> Option<f64> {
    let runs = || share.threads.iter().map(|(run, _)| *run);
    let (least, most) = (runs().min()?, runs().max()?);
    (share.threads.len() > 1 && share.span.is_positive())
        .then(|| (most - least).get() as f64 * 100.0 / share.span.get() as f64)
}

/// What is compared of a record.
pub fn figures_of(record: &Record) -> Vec<Figures> {
    let of = |activity: &ActivityRecord| Figures {
        activity: activity.name.clone(),
        figures: FIGURES
            .iter()
            .filter_map(|(word, _, of)| Some(((*word).to_owned(), of(activity)?)))
            .collect(),
    };
    record.activities.iter().map(of).collect()
}

/// A scenario that has no figures of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    pub scenario: String,
    pub kernel: String,
    /// Why it could not be run, or decides nothing.
    pub why: String,
}

/// The figures of a scenario on a kernel beside those of its simulation, where its threads were placed among both.
pub fn judged(scenario: &Scenario, kernel: &str, kept: &Kept, simulated: &[Figures]) -> Vec<Row> {
    let Some(machine) = kept.machine.as_ref().filter(|_| kept.unfit.is_none()) else { return Vec::new() };
    let takes_turns = scenario.cpus > 1 && kernel != HOST;
    let words = || FIGURES.iter().map(|(word, unit, _)| (*word, *unit)).chain(PLACED);
    let placed = || kept.traced.iter().flat_map(|traced| &traced.figures);
    let mut names: Vec<&String> = Vec::new();
    for figures in kept.runs.first().into_iter().flatten().chain(placed()) {
        if !names.contains(&&figures.activity) {
            names.push(&figures.activity);
        }
    }
    let mut rows = Vec::new();
    for name in names {
        let tick =
            if decides_on_tick(&scenario.workload, name, machine) { machine.tick } else { Nanos::ZERO };
        let has_times = !takes_turns || is_alone(scenario, kept, name);
        for (word, unit) in words().filter(|(_, unit)| has_times || *unit != Unit::Nanoseconds) {
            let of_runs = figures(kept.runs.iter().flatten().chain(placed()), name, word).collect();
            let (Some((here, floor)), Some(there)) = (middle(of_runs), figures(simulated, name, word).next())
            else {
                continue;
            };
            let cause = causes::cause(&scenario.title, kernel, name, word);
            rows.push(Row {
                scenario: scenario.title.clone(),
                kernel: kernel.to_owned(),
                activity: name.clone(),
                figure: word,
                unit,
                measured: here,
                simulated: there,
                tolerance: unit.tolerance(here, tick) + floor,
                cause: cause.map(|cause| cause.why),
                beside: cause.and_then(|cause| cause.beside),
                counter: None,
            });
        }
    }
    rows
}

/// Whether other CPUs idle while an activity runs, a chain's stages, in the traced run: what virtual CPUs that take turns need for times to be
/// the kernel's.
fn is_alone(scenario: &Scenario, kept: &Kept, activity: &str) -> bool {
    if let Some(chain) = scenario.workload.chains.iter().find(|chain| chain.name == activity) {
        return chain.through.iter().all(|stage| is_alone(scenario, kept, stage));
    }
    let placed = kept.traced.iter().flat_map(|traced| &traced.figures);
    figures(placed, activity, placement::BESIDE_OTHERS).next().is_some_and(|part| part <= row::POINTS)
}

/// The values of a figure of an activity.
fn figures<'f>(
    all: impl IntoIterator<Item = &'f Figures>,
    activity: &str,
    word: &str,
) -> impl Iterator<Item = f64> {
    let of = all.into_iter().filter(move |figures| figures.activity == activity);
    of.filter_map(move |figures| figures.figures.get(word).copied())
}

/// What shows the causes of rows of a scenario that disagree: each counter-run once.
pub fn shown_beside(rows: &[Row]) -> Vec<Beside> {
    let mut all: Vec<Beside> = Vec::new();
    for beside in rows.iter().filter(|row| !row.agrees()).filter_map(|row| row.beside) {
        if !all.contains(&beside) {
            all.push(beside);
        }
    }
    all
}

/// Notes what the scenario with such a thread gave, in the rows that it is the cause of.
pub fn note_counters(rows: &mut [Row], beside: Beside, simulated: &[Figures]) {
    for row in rows.iter_mut().filter(|row| !row.agrees() && row.beside == Some(beside)) {
        row.counter = figures(simulated, &row.activity, row.figure).next();
    }
}

/// The middle of a figure's values, the lower one of two, and how far another is from it at most; one that never came is no
/// distance.
fn middle(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let middle = *values.get(values.len().checked_sub(1)? / 2)?;
    let came = values.iter().filter(|value| **value < Nanos::MAX.get() as f64);
    Some((middle, came.map(|value| (value - middle).abs()).fold(0.0, f64::max)))
}

/// Whether the tick decides when an activity of a workload runs: what bounds a thread of its class or one above is looked at then. Of a
/// chain it does where it does for one of its stages.
pub fn decides_on_tick(workload: &Workload, activity: &str, machine: &Platform) -> bool {
    if let Some(chain) = workload.chains.iter().find(|chain| chain.name == activity) {
        return chain.through.iter().any(|stage| decides_on_tick(workload, stage, machine));
    }
    let is_fair = |policy: &PolicySpec| policy.realtime_priority().is_none();
    let task = workload.tasks.iter().find(|task| task.name == activity);
    let load = workload.loads.iter().find(|load| load.name == activity);
    let policy = task.map(|task| &task.policy).or(load.map(|load| &load.policy));
    let is_reserved = task.is_some_and(|task| task.reservation.is_some());
    let is_timed = machine.enforcement == Enforcement::Exact;
    let realtime: Vec<&Task> =
        workload.tasks.iter().filter(|task| task.reservation.is_none() && !is_fair(&task.policy)).collect();
    if !is_timed && workload.tasks.iter().any(may_overrun) {
        return true;
    }
    if is_reserved {
        return false;
    }
    let takes_turns = realtime.iter().any(|task| matches!(task.policy, PolicySpec::RoundRobin { .. }));
    // A thread that leaves little to fair ones is held up by the fair server, or by throttling, on the tick.
    let hogs = realtime.iter().any(|task| demand(task) > 0.9);
    takes_turns || hogs || (!is_timed && policy.is_some_and(is_fair))
}

/// The part of a CPU that a task asks for, as far as it is declared.
fn demand(task: &Task) -> f64 {
    let period = task.release.interval();
    match (&task.body, period) {
        (TaskBody::Synthetic(Work::Forever), _) => 1.0,
        (TaskBody::Synthetic(Work::Drawn(TimeDistribution::Constant(work))), Some(period)) => {
            work.get() as f64 / period.get() as f64
        }
        _ => 0.0,
    }
}

/// Whether a job of a reserved thread may need more than a budget.
fn may_overrun(task: &Task) -> bool {
    let Some(reservation) = task.reservation else { return false };
    match &task.body {
        TaskBody::Synthetic(Work::Drawn(TimeDistribution::Constant(work))) => *work >= reservation.runtime,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are compared on several CPUs of the lab where the others idle, as the traced run says, and where threads are is taken from that one.
    #[test]
    fn times_on_several_cpus_of_the_lab_are_compared_where_the_others_idle() {
        let all = scenarios();
        let scenario = all.iter().find(|s| s.title == "4 periodic tasks on 2 CPUs").expect("there is one");
        let figures = |figures: &[(&str, f64)]| {
            let figures = figures.iter().map(|(word, figure)| ((*word).to_owned(), *figure)).collect();
            vec![Figures { activity: "a".to_owned(), figures }]
        };
        let machine = Platform::linux_6_18(2);
        let run = figures(&[("share", 30.0), ("response p50", 6e6)]);
        let words = |beside: Option<f64>, kernel: &str| -> Vec<(&str, f64)> {
            let traced = beside.map(|beside| Traced {
                duration: Nanos::from_secs(2),
                environment: BTreeMap::new(),
                machine: machine.clone(),
                figures: figures(&[(placement::BESIDE_OTHERS, beside), (placement::ON_ONE_CPU, 60.0)]),
            });
            let placed = traced.clone().into_iter().flat_map(|traced| traced.figures);
            let simulated: Vec<Figures> = run.iter().cloned().chain(placed).collect();
            let (machine, runs) = (Some(machine.clone()), vec![run.clone()]);
            let kept = Kept { machine, runs, traced, ..Kept::default() };
            let rows = judged(scenario, kernel, &kept, &simulated);
            rows.iter().map(|row| (row.figure, row.measured)).collect()
        };
        let (share, response, placed) = (("share", 30.0), ("response p50", 6e6), ("on one CPU", 60.0));
        assert_eq!(words(None, "lab:7-cloud"), [share]);
        assert_eq!(words(Some(1.5), "lab:7-cloud"), [share, placed]);
        assert_eq!(words(Some(0.5), "lab:7-cloud"), [share, response, placed]);
        assert_eq!(words(None, HOST), [share, response]);
    }

    #[test]
    fn the_spread_is_between_the_threads_that_had_most_and_least() {
        let of = |runs: &[i64]| {
            let threads = runs.iter().map(|ms| (Nanos::from_millis(*ms), None)).collect();
            spread(&Share { threads, span: Nanos::from_millis(1000) })
        };
        assert_eq!(of(&[300, 340, 310]), Some(4.0));
        assert_eq!(of(&[300]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn runs_that_differ_give_their_middle_and_a_floor() {
        let never = Nanos::MAX.get() as f64;
        assert_eq!(middle(vec![]), None);
        assert_eq!(middle(vec![3.0]), Some((3.0, 0.0)));
        assert_eq!(middle(vec![5.0, 3.0]), Some((3.0, 2.0)));
        assert_eq!(middle(vec![9.0, 3.0, 4.0]), Some((4.0, 5.0)));
        // That it came in most runs and not in one makes not every value right.
        assert_eq!(middle(vec![never, 3.0, 4.0]), Some((4.0, 1.0)));
    }
}
