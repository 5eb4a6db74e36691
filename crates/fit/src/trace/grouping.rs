//! Threads that are alike become instances of one task, or the members of one load.
//!
//! Alike are threads of one name, policy and rule for late jobs whose rules agree: the same period with grids less than
//! a twentieth of it apart, or mean distances that cannot be told apart; and whose mean work cannot be told apart: within
//! four standard errors of the difference and 1 %.

use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::modes::{ModeFit, modes};
use surety_model::workload::{Instances, Load, LoadKind, Release, Task, TaskBody, Work, Workload};
use surety_stats::Moments;
use surety_stats::goodness::independence;
use surety_units::Nanos;

use crate::JOBS_MIN;
use crate::condense::{Side, condense};
use crate::family::{Family, FamilyFit};
use crate::naming::Names;
use crate::policy::{policy_of, was_deadline};
use crate::source::{Rule, Source, Why};
use crate::trace::{FitOptions, Kind, SourceFit, share, total};
use crate::work::Series;
use crate::worker::{Rhythm, rhythm};

/// Grids of instances lie within this part of the period.
const PHASE: f64 = 0.05;
/// Standard errors of a difference that is none.
const ERRORS: f64 = 4.0;
/// A difference this small does not matter.
const ALIKE: f64 = 0.01;
/// The mean of a family lies within this part of the measured one.
const FAMILY_MEAN: f64 = 0.05;
/// A smallest gap of at least this part of the mean distance makes a task sporadic.
const SPORADIC: f64 = 0.1;

/// What became of a group.
pub(crate) struct Found {
    pub(crate) source: SourceFit,
    pub(crate) load: bool,
}

/// Puts threads that are alike together, each with the first of its kind.
pub(crate) fn groups(sources: Vec<Source<'_>>) -> Vec<Vec<Source<'_>>> {
    let mut groups: Vec<(SourceFigures, Vec<Source<'_>>)> = Vec::new();
    for source in sources {
        let figures = SourceFigures::of(&source);
        match groups.iter_mut().find(|(first, members)| {
            members.first().is_some_and(|member| alike((member, first), (&source, &figures)))
        }) {
            Some((_, members)) => members.push(source),
            None => groups.push((figures, vec![source])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

fn alike(a: (&Source<'_>, &SourceFigures), b: (&Source<'_>, &SourceFigures)) -> bool {
    let same_kind = a.0.history.comm == b.0.history.comm
        && policy_of(a.0.history.prio) == policy_of(b.0.history.prio)
        && a.0.late == b.0.late;
    let rules = match (&a.0.rule, &b.0.rule) {
        (Rule::Endless, Rule::Endless) => return same_kind,
        (
            Rule::Periodic { period, start, jitter, .. },
            Rule::Periodic { period: other, start: other_start, jitter: other_jitter, .. },
        ) => {
            let apart = (*start - *other_start).get().rem_euclid(period.get());
            let apart = apart.min(period.get() - apart) as f64;
            period == other
                && apart <= PHASE * period.get() as f64
                && jitter.is_positive() == other_jitter.is_positive()
        }
        (Rule::Spaced(_), Rule::Spaced(_)) => a.1.distance.agrees(&b.1.distance),
        _ => false,
    };
    same_kind && rules && a.1.work.agrees(&b.1.work)
}

/// What decides whether two threads are alike.
#[derive(Clone, Copy, Debug)]
struct SourceFigures {
    work: Mean,
    distance: Mean,
}

impl SourceFigures {
    fn of(source: &Source<'_>) -> SourceFigures {
        let distance = match &source.rule {
            Rule::Spaced(distances) => Mean::of(distances),
            _ => Mean::default(),
        };
        SourceFigures { work: Mean::of(&source.work), distance }
    }
}

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    mean: f64,
    error: f64,
}

impl Mean {
    fn of(values: &[Nanos]) -> Mean {
        let moments: Moments = values.iter().map(|v| v.get() as f64).collect();
        let error = moments.std_dev().unwrap_or(0.0) / (values.len().max(1) as f64).sqrt();
        Mean { mean: moments.mean().unwrap_or(0.0), error }
    }

    fn agrees(&self, other: &Mean) -> bool {
        let error = self.error.hypot(other.error);
        (self.mean - other.mean).abs() <= ERRORS * error + ALIKE * self.mean.max(other.mean)
    }
}

/// Adds a group to the workload, with the figures behind it.
pub(crate) fn add_group(
    workload: &mut Workload,
    group: &[Source<'_>],
    span: (Nanos, Nanos),
    names: &mut Names,
    options: &FitOptions,
) -> Result<Found, Why> {
    let Some(first) = group.first() else { return Err(Why::TooFew(0)) };
    let time = total(group.iter().map(|source| source.history.run));
    let count = u32::try_from(group.len()).unwrap_or(u32::MAX);
    let policy = policy_of(first.history.prio);
    let mut source = SourceFit {
        name: String::new(),
        kind: Kind::Load,
        threads: group.iter().map(|source| source.history.tid).collect(),
        seen_as: first.history.comm.to_string(),
        policy: Some(policy),
        jobs: group.iter().map(|source| source.work.len() as u64).sum(),
        time,
        share: share(time, span),
        interval: None,
        distance: None,
        interval_error: None,
        work: None,
        distribution: None,
        spacing: None,
        poisson: None,
        notes: notes(group),
    };
    let given_up: u64 = group.iter().map(|source| source.history.censored).sum();
    if given_up > 0 {
        source
            .notes
            .push(format!("{given_up} jobs whose beginning or end is not in the trace were given up"));
    }
    if was_deadline(first.history.prio) {
        source.notes.push(
            "it was in the deadline class; its reservation is in no event, so it is written without one"
                .to_owned(),
        );
    }
    if let Rule::Endless = first.rule {
        source.name = names.give(&source.seen_as);
        let mut load = Load::new(&source.name, LoadKind::Spinners, count);
        load.policy = policy;
        workload.loads.push(load);
        return Ok(Found { source, load: true });
    }
    let values: Vec<Nanos> = group.iter().flat_map(|source| source.work.iter().copied()).collect();
    if values.len() < JOBS_MIN {
        return Err(Why::TooFew(values.len() as u64));
    }
    let mut work = Series::new(&values);
    let drawn = distribution(&work, Side::Up, "work", &mut source.notes);
    // The figures name the family that is used, or none.
    work.family = standing(&work);
    for member in group {
        let in_order: Vec<f64> = member.work.iter().map(|t| t.get() as f64).collect();
        if let Some(found) = independence(&in_order, 0.999).filter(|found| !found.holds()) {
            source.notes.push(format!(
                "work of neighbouring jobs of {} is correlated (r1 = {:.2}), which no distribution keeps",
                member.history.tid, found.lag_one
            ));
            let jobs = jobs_in_order(member, options.shortest).history.jobs;
            let gross: Vec<Nanos> = jobs.iter().map(|job| job.execution.max(Nanos::ZERO)).collect();
            source.notes.extend(modes(&gross).iter().map(ModeFit::describe));
            break;
        }
    }
    source.name = names.give(&source.seen_as);
    let mut task = Task::periodic(&source.name, Nanos::SECOND, drawn.clone());
    task.body = TaskBody::Synthetic(Work::Drawn(drawn.clone()));
    task.policy = policy;
    task.late = first.late;
    task.instances = Instances::Count(count);
    source.work = Some(work);
    source.distribution = Some(drawn);
    match &first.rule {
        Rule::Periodic { period, start, jitter, fit } => {
            source.kind = Kind::Periodic;
            source.interval = Some(*period);
            source.distance = Some(*period);
            source.interval_error = Some(fit.period_error);
            source.notes.push(fit.describe());
            task.release = Release::Periodic { period: *period, start: *start, jitter: *jitter };
        }
        Rule::Spaced(_) => spaced(group, &mut task, &mut source)?,
        Rule::Endless => {}
    }
    if options.in_order {
        play_again(first, options.shortest, &mut task, &mut source);
    }
    workload.tasks.push(task);
    Ok(Found { source, load: false })
}

/// The jobs of a thread without its polling.
fn jobs_in_order(member: &Source<'_>, shortest: Nanos) -> Rhythm {
    let mut history = member.history.clone();
    history.jobs.retain(|job| job.execution >= shortest);
    rhythm(&history, Release::Unspecified, 0.01)
}

/// The jobs of one thread in their order, on the grid of their releases; polling between them left out.
fn play_again(member: &Source<'_>, shortest: Nanos, task: &mut Task, source: &mut SourceFit) {
    let found = jobs_in_order(member, shortest);
    let sequence: Vec<Nanos> =
        found.history.jobs.iter().map(|job| job.execution_net().max(Nanos::ZERO)).collect();
    let Ok(kept) = Empirical::in_order(&sequence) else { return };
    let kept = TimeDistribution::Empirical(kept.measured());
    task.body = TaskBody::Synthetic(Work::Drawn(kept.clone()));
    source.distribution = Some(kept);
    let mut told = format!("work: {} jobs kept in their order", sequence.len());
    let small = member.history.jobs.len() - sequence.len();
    if small > 0 {
        told += &format!(", {small} wake-ups for next to nothing left out");
    }
    if let Some(Release::Periodic { period, jitter, .. }) = found.release.map(|fit| fit.release) {
        task.release = Release::Periodic { period, start: Nanos::ZERO, jitter: Nanos::ZERO };
        task.spacing = None;
        told += &format!("; one every {period}, seen up to {jitter} beside the grid, which is left out");
    }
    source.notes.push(told);
}

fn spaced(group: &[Source<'_>], task: &mut Task, source: &mut SourceFit) -> Result<(), Why> {
    let lists = group.iter().filter_map(|member| match &member.rule {
        Rule::Spaced(distances) => Some(distances),
        _ => None,
    });
    let distances: Vec<Nanos> = lists.flatten().copied().collect();
    let Some(gap) = distances.iter().min().copied() else { return Err(Why::TooFew(0)) };
    let series = Series::new(&distances);
    let spacing = distribution(&series, Side::Down, "inter-arrival times", &mut source.notes);
    let mean = Nanos::from_f64_rounded(series.mean);
    let exponential =
        series.family.as_ref().filter(|found| matches!(found.family, Family::Exponential { .. }));
    let poisson = exponential.filter(|_| matches!(spacing, TimeDistribution::Exponential { .. }));
    source.kind = match poisson {
        Some(_) => Kind::Poisson,
        None if gap.get() as f64 >= SPORADIC * series.mean => Kind::Sporadic,
        None => Kind::Aperiodic,
    };
    source.poisson = poisson.map(|found| found.p_value);
    source.interval = Some(gap);
    source.distance = Some(mean);
    source.spacing = Some(spacing.clone());
    task.release = Release::Sporadic { gap };
    task.spacing = Some(spacing);
    Ok(())
}

/// The family that stands and gives the measured mean back. The mean is what makes the share of a CPU, and a family with a
/// long tail may stand with quite another one.
fn standing(series: &Series) -> Option<FamilyFit> {
    series.family.filter(|family| {
        let drawn = family.distribution();
        let same_mean = (drawn.mean_ns() - series.mean).abs() <= FAMILY_MEAN * series.mean;
        same_mean && drawn.check().is_ok()
    })
}

/// The family that stands, else the values in groups. Work of a family that ends is written as values too: a largest one that
/// was seen bounds no other job, and a declared one would.
fn distribution(series: &Series, side: Side, what: &str, notes: &mut Vec<String>) -> TimeDistribution {
    let family = standing(series);
    if let Some(family) = family {
        let said = format!("{what}: {} (p = {:.2})", family.family.word(), family.p_value);
        let seen = match family.family {
            Family::Constant { value } => {
                Empirical::new(vec![(Nanos::from_f64_rounded(value), series.n)]).ok()
            }
            Family::Uniform { .. } => Some(condense(&series.samples, side).values),
            _ => None,
        };
        return match seen.filter(|_| side == Side::Up) {
            Some(seen) => {
                notes.push(format!("{said}, kept as values seen: the largest of them bounds no other job"));
                TimeDistribution::Empirical(seen.measured())
            }
            None => {
                notes.push(said);
                family.distribution()
            }
        };
    }
    let condensed = condense(&series.samples, side);
    let values = condensed.values.pairs().count();
    notes.push(format!(
        "{what}: no family with this mean, kept as {values} values; their mean is {:.2} % {} than measured",
        100.0 * condensed.bias.abs() / series.mean.max(1.0),
        if side == Side::Up { "larger" } else { "smaller" }
    ));
    TimeDistribution::Empirical(match side {
        Side::Up => condensed.values.measured(),
        Side::Down => condensed.values,
    })
}

/// The notes of all members, each once, with how many it is of.
fn notes(group: &[Source<'_>]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for member in group {
        for note in &member.notes {
            let text = if group.len() > 1 { format!("{}: {note}", member.history.tid) } else { note.clone() };
            notes.push(text);
        }
    }
    const SHOWN: usize = 3;
    if notes.len() > SHOWN + 1 {
        let more = notes.len() - SHOWN;
        notes.truncate(SHOWN);
        notes.push(format!("and {more} more such notes"));
    }
    notes
}
