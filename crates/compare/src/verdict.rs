//! [`compare`]: a verdict for every metric of two sides, and what to think of before believing it.

use std::fmt;

use surety_model::record::{ActivityRecord, Basis, Distribution, Record};
use surety_stats::bounds::Ranked;
use surety_stats::rank_test::{hodges_lehmann, mann_whitney};

use crate::conditions::{self, Difference};
use crate::floor;
use crate::metric::{Direction, Value, values_of};
use crate::within::Within;
use crate::{Options, Side, within};

/// What is to be said of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `B` is better, beyond chance and floor.
    Better,
    /// `B` is worse, beyond chance and floor.
    Worse,
    /// `B` is higher; nobody said whether that is good.
    Higher,
    /// `B` is lower; nobody said whether that is good.
    Lower,
    /// What was seen is no more than chance or the machine does to equal things.
    NoDifference,
    /// There are too few runs for any outcome to count.
    CannotTell,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Higher => "higher",
            Verdict::Lower => "lower",
            Verdict::NoDifference => "no difference seen",
            Verdict::CannotTell => "cannot tell",
        })
    }
}

/// How many times as large the values of `B` are: the median over all pairs of runs, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub estimate: f64,
    /// Its interval, where there are runs enough for one.
    pub interval: Option<(f64, f64)>,
}

/// One metric with its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    pub activity: String,
    /// Which: `response p50`.
    pub metric: String,
    /// The unit of all its values, see [`Value::unit`].
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// The value of each run of `A`.
    pub a: Vec<f64>,
    /// The value of each run of `B`.
    pub b: Vec<f64>,
    /// The median of each side.
    pub medians: (f64, f64),
    /// The median of all differences `b - a`.
    pub shift: f64,
    /// The interval of the shift at the options' confidence, where there are runs enough for one.
    pub interval: Option<(f64, f64)>,
    /// The same as a factor, `B` over `A`, where no value is 0 or less: what is judged then.
    pub ratio: Option<Ratio>,
    /// Cliff's delta: from -1, every run of `B` lower, to 1, every one higher.
    pub delta: f64,
    /// How far apart two halves of one side are: as a factor of at least 1 where there is a [`Judged::ratio`], else
    /// as a difference; `None` with too few runs.
    pub floor: Option<f64>,
    /// The two-sided p of Mann and Whitney's test, corrected for the number of metrics; `None` where nothing is
    /// tested: the same value everywhere, or a value computed without chance.
    pub p_value: Option<f64>,
    /// Whether both sides are one value each, computed without chance: a proof, a simulated run.
    pub computed: bool,
    /// The shift between two single runs, from within them.
    pub within: Option<Within>,
    /// What stands among the values for a time that never came, where one of them does: more than every time that came.
    pub never: Option<f64>,
    /// What is to be said.
    pub verdict: Verdict,
}

/// Something to think of before a verdict is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The sides differ in something that was not varied on purpose.
    Differs(Difference),
    /// Runs have a reason not to be taken at their word.
    Degraded {
        /// How many runs of `A` and of `B` have it.
        runs: [usize; 2],
        of: [usize; 2],
        /// The reason of the first.
        reason: String,
    },
    /// A metric has no value in some runs and is not compared.
    Missing {
        activity: String,
        metric: String,
        /// How many runs of each side have it.
        known: (usize, usize),
    },
    /// Activations of a task that were skipped, lost or open at the end.
    Unended {
        activity: String,
        /// How many of A and of B.
        count: [u64; 2],
        /// Of how many.
        of: [u64; 2],
    },
    /// Single runs, and the order of the activations is not known: no interval within the runs.
    Unordered { metrics: usize },
    /// No record holds what was asked for.
    NothingToCompare,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Differs(difference) => write!(f, "the sides differ in {difference}"),
            Warning::Degraded { runs: [a, b], of: [of_a, of_b], reason } => write!(
                f,
                "{a} of {of_a} runs of A and {b} of {of_b} of B are not to be taken at their word: {reason}"
            ),
            Warning::Missing { activity, metric, known: (a, b) } => {
                write!(f, "{activity} {metric} is not compared: {a} runs of A and {b} of B have it")
            }
            Warning::Unended { activity, count: [a, b], of: [of_a, of_b] } => write!(
                f,
                "{a} of {of_a} activations of {activity} in A and {b} of {of_b} in B never ended (skipped, lost, or open \
                 at the end): they are longer than every time, and of a quantile among them there is no number"
            ),
            Warning::Unordered { metrics } => write!(
                f,
                "no interval within the runs for {metrics} of the metrics: a file does not hold the order of its \
                 activations, and they may depend on each other"
            ),
            Warning::NothingToCompare => f.write_str(
                "no metric asked for is in every run of both sides: see what they hold with --metric p50, \
                 or run longer",
            ),
        }
    }
}

/// Two sides, compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What the sides are called.
    pub labels: (String, String),
    /// How many runs each has.
    pub runs: (usize, usize),
    /// The probability of calling nothing when there is no difference in anything.
    pub confidence: f64,
    /// For how many metrics the p-values are corrected.
    pub family: usize,
    /// How many more runs of each side a verdict needs; (0, 0) when there are enough.
    pub more_runs: (usize, usize),
    /// Metric by metric, in the order of the records.
    pub rows: Vec<Judged>,
    /// What was varied on purpose and differs.
    pub studied: Vec<Difference>,
    /// What to think of.
    pub warnings: Vec<Warning>,
}

impl Judged {
    /// Of how many runs of A and of B the time never came.
    pub fn never_came(&self) -> (usize, usize) {
        let count = |values: &[f64]| values.iter().filter(|value| Some(**value) == self.never).count();
        (count(&self.a), count(&self.b))
    }

    /// The median of each side; `None`: a time that never came.
    pub fn medians_seen(&self) -> (Option<f64>, Option<f64>) {
        // Between one that came and one that did not lies none that came.
        let seen = |values: &[f64], median: f64| {
            let never = values.iter().filter(|value| Some(**value) == self.never).count();
            (never * 2 < values.len()).then_some(median)
        };
        (seen(&self.a, self.medians.0), seen(&self.b, self.medians.1))
    }
}

impl Comparison {
    /// Whether a metric has this verdict.
    pub fn has(&self, verdict: Verdict) -> bool {
        self.rows.iter().any(|row| row.verdict == verdict)
    }

    /// Whether any difference was called.
    pub fn differs(&self) -> bool {
        [Verdict::Better, Verdict::Worse, Verdict::Higher, Verdict::Lower].into_iter().any(|v| self.has(v))
    }
}

/// The fewest runs of a side that have a floor.
const RUNS_MIN: usize = 4;
/// Nobody needs more runs than this for a test to be able to call a difference.
const RUNS_MAX: usize = 64;

/// The smallest p that `a` and `b` runs can give: every run of one side beyond every one of the other.
fn smallest_p(a: usize, b: usize) -> f64 {
    // 2 / C(a + b, a), factor by factor.
    (1..=a).fold(2.0, |p, i| p * i as f64 / (b + i) as f64).min(1.0)
}

/// How many runs of each side are needed before any outcome counts, with so many metrics judged at once.
pub fn runs_needed(metrics: usize, confidence: f64) -> usize {
    let enough = |runs: &usize| smallest_p(*runs, *runs) * metrics.max(1) as f64 <= 1.0 - confidence;
    (RUNS_MIN..RUNS_MAX).find(enough).unwrap_or(RUNS_MAX)
}

/// Compares two sides.
///
/// Sides without runs give no rows. Confidence outside 0.5 to 0.9999 counts as the nearer of those.
pub fn compare(a: &Side<'_>, b: &Side<'_>, options: &Options) -> Comparison {
    let confidence = options.confidence.clamp(0.5, 0.9999);
    let options = &Options { confidence, ..options.clone() };
    let mut warnings = Vec::new();
    let mut rows = gather(a, b, options, &mut warnings);
    let tested: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].p_value.is_some()).collect();
    let family = tested.len();
    let (runs_a, runs_b) = (a.runs.len(), b.runs.len());
    let risk = 1.0 - confidence;
    let can_tell = runs_a.min(runs_b) >= RUNS_MIN
        && smallest_p(runs_a, runs_b) * family.max(1) as f64 <= risk * (1.0 + 1e-9);
    let more_runs = if can_tell || family == 0 {
        (0, 0)
    } else {
        let needed = runs_needed(family, confidence);
        (needed.saturating_sub(runs_a), needed.saturating_sub(runs_b))
    };
    correct(&mut rows, &tested);
    for &index in &tested {
        let row = &mut rows[index];
        row.verdict = if can_tell { judged(row, risk) } else { Verdict::CannotTell };
    }
    if let ([only_a], [only_b]) = (a.runs.as_slice(), b.runs.as_slice()) {
        let mut unordered = 0;
        for row in rows.iter_mut().filter(|row| row.verdict == Verdict::CannotTell) {
            row.within = within::shift(only_a, only_b, &row.activity, &row.metric, confidence, options.seed);
            let lacks = |run: &Record| within::is_unordered(run, &row.activity, &row.metric);
            unordered += usize::from(lacks(only_a) || lacks(only_b));
        }
        if unordered > 0 {
            warnings.push(Warning::Unordered { metrics: unordered });
        }
    }
    let differences = conditions::differences(a, b, options.studied.as_deref());
    // Where nobody said what was varied, the one thing that differs is it.
    let is_only = options.studied.is_none() && differences.len() == 1;
    let (studied, others): (Vec<_>, Vec<_>) = differences.into_iter().partition(|d| is_only || d.is_studied);
    warnings.extend(others.into_iter().map(Warning::Differs));
    warnings.extend(conditions::degraded(a, b).into_iter().map(|(reason, runs)| Warning::Degraded {
        runs,
        of: [runs_a, runs_b],
        reason,
    }));
    Comparison {
        labels: (a.label.clone(), b.label.clone()),
        runs: (runs_a, runs_b),
        confidence,
        family,
        more_runs,
        rows,
        studied,
        warnings,
    }
}

/// A row for every metric that has a value in every run, not yet judged.
fn gather(a: &Side<'_>, b: &Side<'_>, options: &Options, warnings: &mut Vec<Warning>) -> Vec<Judged> {
    let read = |side: &Side<'_>| -> Vec<Vec<Value>> { side.runs.iter().map(|r| values_of(r)).collect() };
    let (of_a, of_b) = (read(a), read(b));
    let mut names: Vec<(&str, &str)> = Vec::new();
    for value in of_a.iter().chain(&of_b).flatten().filter(|v| v.is_wanted(&options.metrics)) {
        let name = (value.activity.as_str(), value.metric.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut rows = Vec::new();
    for (activity, metric) in names {
        let pick = |runs: &[Vec<Value>]| -> Vec<Value> {
            let of = |values: &Vec<Value>| {
                let found = values.iter().find(|v| v.activity == activity && v.metric == metric)?;
                found.is_wanted(&options.metrics).then(|| found.clone())
            };
            runs.iter().filter_map(of).collect()
        };
        let (from_a, from_b) = (pick(&of_a), pick(&of_b));
        if from_a.len() < a.runs.len() || from_b.len() < b.runs.len() {
            warnings.push(Warning::Missing {
                activity: activity.to_owned(),
                metric: metric.to_owned(),
                known: (from_a.len(), from_b.len()),
            });
            continue;
        }
        let chance = a.runs.iter().chain(&b.runs).any(|run| has_chance(run, activity));
        rows.extend(row_of(&from_a, &from_b, chance, options));
    }
    if rows.is_empty() {
        warnings.push(Warning::NothingToCompare);
    }
    warnings.extend(unended(&rows, a, b));
    rows
}

/// Activations that never ended, of everything with a time among the rows that some of them are above.
fn unended(rows: &[Judged], a: &Side<'_>, b: &Side<'_>) -> Vec<Warning> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| row.never.is_some()) {
        if !names.iter().any(|(activity, _)| *activity == row.activity) {
            names.push((&row.activity, &row.metric));
        }
    }
    let counted = |side: &Side<'_>, name: &str, metric: &str| {
        let of_run = |run: &&Record| {
            let times = times_of(run.activity(name)?, metric)?.observed()?;
            Some((times.without_value(), times.count()))
        };
        side.runs.iter().filter_map(of_run).fold((0u64, 0u64), |(count, of), (more, all)| {
            (count.saturating_add(more), of.saturating_add(all))
        })
    };
    let of_name = |(name, metric): (&str, &str)| {
        let ((count_a, of_a), (count_b, of_b)) = (counted(a, name, metric), counted(b, name, metric));
        let warning =
            Warning::Unended { activity: name.to_owned(), count: [count_a, count_b], of: [of_a, of_b] };
        (count_a + count_b > 0).then_some(warning)
    };
    names.into_iter().filter_map(of_name).collect()
}

/// The times that a quantile or maximum is one of, such as `response p95`.
fn times_of<'a>(activity: &'a ActivityRecord, metric: &str) -> Option<&'a Distribution> {
    match metric.rsplit_once(' ')?.0 {
        "response" => activity.response.as_ref(),
        "latency" => activity.latency.as_ref(),
        "execution" => activity.execution.as_ref(),
        name => activity.series.iter().find(|(series, _)| **series == *name).map(|(_, times)| times),
    }
}

fn has_chance(run: &Record, activity: &str) -> bool {
    run.activity(activity).is_some_and(|a| a.basis == Basis::Sample)
}

/// The statistics of one metric; `p_value` is that of the test alone.
fn row_of(from_a: &[Value], from_b: &[Value], chance: bool, options: &Options) -> Option<Judged> {
    let first = from_a.first()?;
    // Above every time that came, and alike for runs of any length.
    let longest = from_a.iter().chain(from_b).map(|v| v.value).max_by(f64::total_cmp);
    let has_never = from_a.iter().chain(from_b).any(|v| v.is_never);
    let never = longest.filter(|_| has_never).map(|longest| 2.0 * longest);
    let number = |value: &Value| never.filter(|_| value.is_never).unwrap_or(value.value);
    let numbers = |values: &[Value]| -> Vec<f64> { values.iter().map(number).collect() };
    let (a, b) = (numbers(from_a), numbers(from_b));
    let test = mann_whitney(&a, &b).ok()?;
    let shift = hodges_lehmann(&a, &b, options.confidence).ok()?;
    let medians = (median(&a)?, median(&b)?);
    let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
        values.iter().map(|v| (*v > 0.0).then(|| libm::log(*v))).collect()
    };
    let of_side = |values: &[f64]| floor::of_side(values, options.seed);
    // Times and rates differ by factors: a spread of a few long runs must not hide that all others are shorter.
    let (ratio, floor) = match logarithms(&a).zip(logarithms(&b)) {
        Some((log_a, log_b)) => {
            let shift = hodges_lehmann(&log_a, &log_b, options.confidence).ok()?;
            let interval = shift.low.zip(shift.high).map(|(low, high)| (libm::exp(low), libm::exp(high)));
            let floor = of_side(&log_a).zip(of_side(&log_b)).map(|(x, y)| libm::exp(x.max(y)));
            // Closer than two buckets of the histogram, two runs cannot be told apart.
            let floor = floor.map(|floor| floor.max(1.0 + first.resolution));
            (Some(Ratio { estimate: libm::exp(shift.estimate), interval }), floor)
        }
        None => (None, of_side(&a).zip(of_side(&b)).map(|(x, y)| x.max(y))),
    };
    let is_constant = |values: &[f64]| values.windows(2).all(|pair| pair[0] == pair[1]);
    let (constant_a, constant_b) = (is_constant(&a), is_constant(&b));
    let same = constant_a && constant_b && a.first() == b.first();
    let computed = !chance && constant_a && constant_b;
    let mut row = Judged {
        activity: first.activity.clone(),
        metric: first.metric.clone(),
        unit: first.unit.clone(),
        direction: first.direction,
        medians,
        shift: shift.estimate,
        interval: shift.low.zip(shift.high),
        ratio,
        delta: test.cliffs_delta(),
        floor,
        p_value: (!same && !computed).then_some(test.p_value),
        computed,
        within: None,
        never,
        verdict: Verdict::NoDifference,
        a,
        b,
    };
    if computed && !same {
        row.verdict = direction_of(&row);
    }
    Some(row)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(lower + (upper - lower) / 2.0)
}

/// Holm's correction: the smallest p counts for all metrics, the next for one less, and none less than one before.
fn correct(rows: &mut [Judged], tested: &[usize]) {
    let mut order: Vec<(usize, f64)> =
        tested.iter().filter_map(|&i| Some((i, rows.get(i)?.p_value?))).collect();
    order.sort_by(|x, y| x.1.total_cmp(&y.1));
    let mut least = 0.0f64;
    for (place, (index, p)) in order.iter().enumerate() {
        least = least.max(p * (order.len() - place) as f64).min(1.0);
        rows[*index].p_value = Some(least);
    }
}

/// A difference is called when it is beyond chance, and beyond what equal things differ by.
fn judged(row: &Judged, risk: f64) -> Verdict {
    let significant = row.p_value.is_some_and(|p| p <= risk * (1.0 + 1e-9));
    let above_floor = row.floor.is_some_and(|floor| match row.ratio {
        Some(Ratio { estimate, .. }) => estimate.max(1.0 / estimate) > floor,
        None => row.shift.abs() > floor,
    });
    if significant && above_floor { direction_of(row) } else { Verdict::NoDifference }
}

fn direction_of(row: &Judged) -> Verdict {
    match (row.direction, row.shift > 0.0) {
        (Direction::Smaller, false) | (Direction::Larger, true) => Verdict::Better,
        (Direction::Smaller, true) | (Direction::Larger, false) => Verdict::Worse,
        (Direction::Unknown, true) => Verdict::Higher,
        (Direction::Unknown, false) => Verdict::Lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_needed_are_those_whose_best_outcome_counts() {
        // 2/C(8,4) = 0.0286, 2/C(10,5) = 0.0079, 2/C(12,6) = 0.00216, 2/C(16,8) = 0.000155.
        for (metrics, runs) in [(1, 4), (2, 5), (6, 5), (7, 6), (23, 6), (24, 7), (300, 8)] {
            assert_eq!(runs_needed(metrics, 0.95), runs, "{metrics}");
        }
        assert!((smallest_p(4, 4) - 2.0 / 70.0).abs() < 1e-15);
        assert!((smallest_p(3, 6) - 2.0 / 84.0).abs() < 1e-15);
    }
}
