//! The simulator against kernels: the same scenarios on both, each figure side by side, and whether the simulator's is near enough.
//!
//! The flow: a [`Scenario`] is run on a kernel, and what came of it is [`Kept`] in a file of that kernel ([`Kernel`]), its figures alone. Later,
//! and as often as wanted, it is simulated on the machine that kernel ran on, and [`judged`] sets both beside each other in [`Row`]s. What is
//! outside the tolerance needs a cause, which `validation/causes.rs` names.
//!
//! Tolerances: shares and misses within a point; quantiles of response and latency within 5 % or 0.3 ms, or within a tick where the
//! kernel decides on the tick ([`decides_on_tick`]), and so the longest wait of a thread without jobs. In the lab, virtual CPUs run in
//! turns: with several of them times are not compared. Runs of the host differ: what is compared is the middle one of several that
//! nobody disturbed ([`UNDISTURBED`]), and an error counts beyond the largest difference of another from it.

mod beside;
mod causes;
mod scenarios;
mod sharing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use surety_model::distribution::TimeDistribution;
use surety_model::platform::{Enforcement, Platform};
use surety_model::record::{ActivityRecord, Disturbance, Record, Share};
use surety_model::workload::{PolicySpec, Task, TaskBody, Work, Workload};
use surety_units::{CpuSet, Nanos};

pub use beside::Beside;
pub use causes::without_use;
pub use scenarios::{Scenario, scenarios};
pub use sharing::Sharing;

/// The word of this machine's kernel.
pub const HOST: &str = "host";

/// The schema of the files.
pub const SCHEMA: &str = "surety.validation/1";

/// Points of a percent within which shares and misses agree.
const POINTS: f64 = 1.0;
/// Part of a time within which it agrees.
const PART: f64 = 0.05;
/// Time within which another agrees.
const SPAN: Nanos = Nanos::from_micros(300);

/// The part of a run's CPUs that others, or the hypervisor, may have before its figures are theirs too: what shares may differ by.
pub const UNDISTURBED: f64 = POINTS / 100.0;

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
    /// By name: percent of a CPU, percent of the activations, nanoseconds. A time that never came is the largest there is.
    pub figures: BTreeMap<String, f64>,
}

/// What is compared of an activity; its word, and whether it is a time.
type Figure = (&'static str, bool, fn(&ActivityRecord) -> Option<f64>);

/// The word of a figure that takes a trace.
const LONGEST_WAIT: &str = "longest wait";

const FIGURES: [Figure; 8] = [
    ("share", false, |a| a.share.as_ref().map(|share| share.fraction() * 100.0)),
    ("spread", false, |a| spread(a.share.as_ref()?)),
    ("missed", false, |a| {
        (a.activations > 0 && a.deadline.is_some()).then(|| a.missed as f64 * 100.0 / a.activations as f64)
    }),
    ("response p50", true, |a| time(a.response.as_ref()?.quantile(0.5))),
    ("response p99", true, |a| time(a.response.as_ref()?.quantile(0.99))),
    ("latency p50", true, |a| time(a.latency.as_ref()?.quantile(0.5))),
    ("latency p99", true, |a| time(a.latency.as_ref()?.quantile(0.99))),
    (LONGEST_WAIT, true, |a| time(a.longest_gap.filter(|_| a.activations == 0))),
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

/// A figure of both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub scenario: String,
    pub kernel: String,
    pub activity: String,
    pub figure: &'static str,
    /// Whether it is a time, in nanoseconds; else percent.
    pub is_time: bool,
    pub measured: f64,
    pub simulated: f64,
    /// The largest difference that agrees.
    pub tolerance: f64,
    /// Why it may be outside, where that is known.
    pub cause: Option<&'static str>,
    /// What is simulated once more to show the cause.
    #[serde(skip)]
    pub beside: Option<Beside>,
    /// What that gives.
    pub counter: Option<f64>,
}

impl Row {
    /// Simulated less measured.
    pub fn error(&self) -> f64 {
        self.simulated - self.measured
    }

    /// How far a value is from the measured one; a time that never came is at any distance from one that did.
    fn distance(&self, value: f64) -> f64 {
        let never = |value: f64| self.is_time && value >= Nanos::MAX.get() as f64;
        match (never(self.measured), never(value)) {
            (false, false) => (value - self.measured).abs(),
            (true, true) => 0.0,
            _ => f64::INFINITY,
        }
    }

    /// Whether the simulator is near enough.
    pub fn agrees(&self) -> bool {
        self.distance(self.simulated) <= self.tolerance
    }

    /// What the counter-run says of the cause; `None` where there is none for this figure.
    pub fn shown(&self) -> Option<Shown> {
        let counter = self.distance(self.counter?);
        Some(match counter < self.distance(self.simulated) {
            _ if counter <= self.tolerance => Shown::Yes,
            true => Shown::Nearer,
            false => Shown::No,
        })
    }
}

/// What a counter-run does to a figure that is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// It comes into the tolerance: the cause is shown.
    Yes,
    /// It comes nearer to the kernel's figure and stays outside.
    Nearer,
    /// It comes no nearer.
    No,
}

/// How many figures agree, and what is known of those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub all: usize,
    pub agree: usize,
    /// Outside, with a cause that a counter-run shows.
    pub shown: usize,
    /// Outside, with a cause that is named and not shown.
    pub named: usize,
    /// Of those, how many a counter-run brings nearer.
    pub nearer: usize,
    /// Outside, without a cause.
    pub open: usize,
}

impl Counts {
    /// Of figures of any scenarios and kernels.
    pub fn of(rows: &[Row]) -> Counts {
        let mut counts = Counts { all: rows.len(), ..Counts::default() };
        for row in rows {
            match (row.agrees(), row.cause, row.shown()) {
                (true, ..) => counts.agree += 1,
                (false, None, _) => counts.open += 1,
                (false, Some(_), Some(Shown::Yes)) => counts.shown += 1,
                (false, Some(_), shown) => {
                    counts.named += 1;
                    counts.nearer += usize::from(shown == Some(Shown::Nearer));
                }
            }
        }
        counts
    }
}

/// A scenario that has no figures of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    pub scenario: String,
    pub kernel: String,
    /// Why it could not be run, or decides nothing.
    pub why: String,
}

/// The figures of a scenario on a kernel beside those of its simulation.
pub fn judged(scenario: &Scenario, kernel: &str, kept: &Kept, simulated: &[Figures]) -> Vec<Row> {
    let Some(machine) = kept.machine.as_ref().filter(|_| kept.unfit.is_none()) else { return Vec::new() };
    let takes_turns = scenario.cpus > 1 && kernel != HOST;
    let words = FIGURES.iter().map(|(word, is_time, _)| (*word, *is_time));
    let words: Vec<(&'static str, bool)> = words.chain(sharing::SHARED.map(|word| (word, false))).collect();
    let mut rows = Vec::new();
    for measured in kept.runs.first().into_iter().flatten() {
        let name = &measured.activity;
        let Some(found) = simulated.iter().find(|f| f.activity == *name) else { continue };
        let tick =
            if decides_on_tick(&scenario.workload, name, machine) { machine.tick } else { Nanos::ZERO };
        for (word, is_time) in words.iter().copied() {
            if takes_turns && is_time {
                continue;
            }
            let of_runs = kept.runs.iter().flatten().filter(|f| f.activity == *name);
            let of_runs = of_runs.filter_map(|f| f.figures.get(word).copied()).collect();
            let (Some((here, floor)), Some(there)) = (middle(of_runs), found.figures.get(word).copied())
            else {
                continue;
            };
            let tolerance = match is_time {
                true => (here * PART).max(SPAN.max(tick).get() as f64),
                false => POINTS,
            };
            let cause = causes::cause(&scenario.title, kernel, name, word);
            rows.push(Row {
                scenario: scenario.title.clone(),
                kernel: kernel.to_owned(),
                activity: name.clone(),
                figure: word,
                is_time,
                measured: here,
                simulated: there,
                tolerance: tolerance + floor,
                cause: cause.map(|cause| cause.why),
                beside: cause.and_then(|cause| cause.beside),
                counter: None,
            });
        }
    }
    rows
}

/// What shows the causes of rows of a scenario that disagree: each thread of the kernel's own beside it, once.
pub fn shown_beside(rows: &[Row]) -> Vec<Beside> {
    let mut all: Vec<Beside> = rows.iter().filter(|row| !row.agrees()).filter_map(|row| row.beside).collect();
    all.dedup();
    all
}

/// Notes what the scenario with such a thread gave, in the rows that it is the cause of.
pub fn note_counters(rows: &mut [Row], beside: Beside, simulated: &[Figures]) {
    for row in rows.iter_mut().filter(|row| !row.agrees() && row.beside == Some(beside)) {
        let found = simulated.iter().find(|figures| figures.activity == row.activity);
        row.counter = found.and_then(|figures| figures.figures.get(row.figure).copied());
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

    fn row(is_time: bool, measured: f64, simulated: f64, counter: Option<f64>) -> Row {
        Row {
            scenario: String::new(),
            kernel: HOST.to_owned(),
            activity: String::new(),
            figure: "share",
            is_time,
            measured,
            simulated,
            tolerance: 1.0,
            cause: Some("why"),
            beside: None,
            counter,
        }
    }

    #[test]
    fn a_cause_is_shown_where_its_counter_run_comes_into_the_tolerance() {
        let never = Nanos::MAX.get() as f64;
        let of = |simulated, counter| row(false, 25.0, simulated, Some(counter)).shown();
        assert_eq!(of(33.0, 25.5), Some(Shown::Yes));
        assert_eq!(of(33.0, 24.0), Some(Shown::Yes));
        assert_eq!(of(33.0, 31.0), Some(Shown::Nearer));
        assert_eq!(of(33.0, 18.0), Some(Shown::Nearer));
        assert_eq!(of(33.0, 33.0), Some(Shown::No));
        assert_eq!(of(33.0, 36.3), Some(Shown::No));
        assert_eq!(row(false, 25.0, 33.0, None).shown(), None);
        // A time that never comes is not nearer for having become another one.
        assert_eq!(row(true, never, 33.0, Some(90.0)).shown(), Some(Shown::No));
        assert_eq!(row(true, never, 33.0, Some(never)).shown(), Some(Shown::Yes));
        assert_eq!(row(true, 25.0, never, Some(90.0)).shown(), Some(Shown::Nearer));
    }

    #[test]
    fn figures_outside_are_counted_by_what_is_known_of_them() {
        let outside = |counter| row(false, 25.0, 33.0, counter);
        let open = Row { cause: None, ..outside(None) };
        let rows = [
            row(false, 25.0, 25.9, None),
            outside(Some(25.1)),
            outside(Some(30.0)),
            outside(Some(40.0)),
            outside(None),
            open,
        ];
        assert_eq!(Counts::of(&rows), Counts { all: 6, agree: 1, shown: 1, named: 3, nearer: 1, open: 1 });
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
