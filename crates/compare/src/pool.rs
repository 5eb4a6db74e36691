//! [`pool`]: several runs of one thing as one record, for tables with a line for each thing.
//!
//! Activations are added up, so a line of a table shows the distribution over all of them. What runs differ by is not
//! in it any more: that is what [`crate::compare`] is for.

use std::sync::Arc;

use surety_model::promise::Promise;
use surety_model::record::{
    ActivityRecord, Distribution, Evidence, Figure, Promised, Record, Share, TraceQuality,
};
use surety_model::verdict::{asked_for_no_more, holds};
use surety_units::Nanos;

/// One record of all runs: counts and times added up, figures averaged. `None` without runs.
pub fn pool(runs: &[&Record]) -> Option<Record> {
    let (first, rest) = runs.split_first()?;
    let mut pooled = (*first).clone();
    if rest.is_empty() {
        return Some(pooled);
    }
    pooled.hash = None;
    for run in rest {
        pooled.duration = pooled.duration.zip(run.duration).map(|(a, b)| a.saturating_add(b));
        pooled.reserved |= run.reserved;
        for reason in &run.degraded {
            if !pooled.degraded.contains(reason) {
                pooled.degraded.push(reason.clone());
            }
        }
        pooled.trace = pooled.trace.zip(run.trace).map(|(a, b)| TraceQuality {
            events: a.events.saturating_add(b.events),
            lost: a.lost.saturating_add(b.lost),
            censored_jobs: a.censored_jobs.saturating_add(b.censored_jobs),
        });
    }
    for activity in &mut pooled.activities {
        let others: Vec<&ActivityRecord> =
            rest.iter().filter_map(|run| run.activity(&activity.name)).collect();
        for other in &others {
            add(activity, other);
        }
        average_figures(activity, &others);
        judge_again(activity, &others);
    }
    Some(pooled)
}

fn add(sum: &mut ActivityRecord, other: &ActivityRecord) {
    for (count, more) in [
        (&mut sum.activations, other.activations),
        (&mut sum.completed, other.completed),
        (&mut sum.skipped, other.skipped),
        (&mut sum.unfinished, other.unfinished),
        (&mut sum.missed, other.missed),
    ] {
        *count = count.saturating_add(more);
    }
    merge(&mut sum.response, other.response.as_ref());
    merge(&mut sum.latency, other.latency.as_ref());
    merge(&mut sum.execution, other.execution.as_ref());
    for (name, series) in &other.series {
        let mut merged = sum.series.remove(name);
        merge(&mut merged, Some(series));
        sum.series.extend(merged.map(|m| (name.clone(), m)));
    }
    sum.misses.append(&other.misses);
    for caveat in &other.caveats {
        if !sum.caveats.contains(caveat) {
            sum.caveats.push(caveat.clone());
        }
    }
    sum.longest_gap = sum.longest_gap.max(other.longest_gap);
    sum.share = match (sum.share.take(), &other.share) {
        (Some(a), Some(b)) => Some(together(&a, b)),
        (a, b) => a.or_else(|| b.clone()),
    };
    // Thread ids of one run are nobody's in another.
    sum.threads.clear();
}

fn merge(sum: &mut Option<Distribution>, other: Option<&Distribution>) {
    match (sum.as_mut(), other) {
        (Some(Distribution::Observed(sum)), Some(Distribution::Observed(other))) => {
            Arc::make_mut(sum).merge(other)
        }
        (None, Some(other)) => *sum = Some(other.clone()),
        _ => {}
    }
}

/// CPU time thread by thread where both runs had as many, else of all threads together.
fn together(a: &Share, b: &Share) -> Share {
    let both = |x: Option<Nanos>, y: Option<Nanos>| x.zip(y).map(|(x, y)| x.saturating_add(y));
    let threads = if a.threads.len() == b.threads.len() {
        let pairs = a.threads.iter().zip(&b.threads);
        pairs.map(|((run, waited), (more, wait))| (run.saturating_add(*more), both(*waited, *wait))).collect()
    } else {
        let waited = |s: &Share| s.threads.iter().map(|(_, w)| *w).sum::<Option<Nanos>>();
        vec![(a.run().saturating_add(b.run()), both(waited(a), waited(b)))]
    };
    Share { threads, span: a.span.saturating_add(b.span) }
}

fn average_figures(activity: &mut ActivityRecord, others: &[&ActivityRecord]) {
    for Figure { name, value, .. } in &mut activity.figures {
        let more = others.iter().flat_map(|a| &a.figures).filter(|f| f.name == *name).map(|f| f.value);
        let values: Vec<f64> = std::iter::once(*value).chain(more).filter(|v| v.is_finite()).collect();
        if !values.is_empty() {
            *value = values.iter().sum::<f64>() / values.len() as f64;
        }
    }
}

/// The least value, where each run below what was promised asked for no more: a mean of such runs would break a promise that none broke.
fn least_that_asked_for_no_more<'a>(
    promise: &Promise,
    all: impl Iterator<Item = &'a Evidence>,
) -> Option<Evidence> {
    let values: Option<Vec<(f64, Option<f64>)>> = all
        .map(|evidence| match evidence {
            Evidence::Value { value, of_demand } => Some((*value, *of_demand)),
            _ => None,
        })
        .collect();
    let values = values?;
    let (value, of_demand) = *values.iter().min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let excused = |(value, of_demand): &(f64, Option<f64>)| {
        holds(promise, *value) || asked_for_no_more(promise, *value, *of_demand)
    };
    let is_below = asked_for_no_more(promise, value, of_demand);
    (is_below && values.iter().all(excused)).then_some(Evidence::Value { value, of_demand })
}

/// Evidence over all runs.
fn judge_again(activity: &mut ActivityRecord, others: &[&ActivityRecord]) {
    for (place, Promised { promise, evidence: seen, .. }) in activity.promised.iter_mut().enumerate() {
        let same_place = others.iter().filter_map(|o| o.promised.get(place));
        let of_others: Vec<&Evidence> = same_place.map(|promised| &promised.evidence).collect();
        match seen {
            Evidence::Counted(outside) => {
                for other in of_others {
                    if let Evidence::Counted(more) = other {
                        outside.append(more);
                    }
                }
            }
            Evidence::Value { .. } | Evidence::Runs(_) => {
                let all = || std::iter::once(&*seen).chain(of_others.iter().copied());
                if let Some(least) = least_that_asked_for_no_more(promise, all()) {
                    *seen = least;
                    continue;
                }
                let values = std::iter::once(&*seen).chain(of_others).flat_map(|e| match e {
                    Evidence::Value { value, .. } => vec![*value],
                    Evidence::Runs(values) => values.clone(),
                    _ => Vec::new(),
                });
                *seen = Evidence::Runs(values.collect());
            }
            Evidence::Proven { at_least, because } => {
                for other in of_others {
                    if let Evidence::Proven { at_least: weaker, because: why } = other
                        && *weaker < *at_least
                    {
                        (*at_least, *because) = (*weaker, why.clone());
                    }
                }
            }
            Evidence::NotObservable { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::promise::Promise;
    use surety_model::record::{Account, Basis, InForce, JobOutcome};
    use surety_model::workload::Task;

    /// Pooled runs are the run of all their jobs.
    #[test]
    fn pooling_is_adding_up() {
        let ms = Nanos::from_millis;
        let mut task = Task::periodic("t", ms(40), TimeDistribution::Constant(ms(10)));
        task.promises = ["response <= 30ms @ 99%", "missed <= 3", "share >= 10%"]
            .map(|p| Promise::parse(p).unwrap())
            .to_vec();
        let run = |responses: &[&[i64]], span: i64| {
            let mut account = Account::of_task(&task, Basis::Sample);
            for response in responses.iter().copied().flatten() {
                let (release, completion) = (Nanos::ZERO, ms(*response));
                account.add(JobOutcome::Completed { release, start: release, completion, execution: ms(10) });
            }
            let run = ms(10 * responses.iter().map(|r| r.len() as i64).sum::<i64>());
            let share = Share { threads: vec![(run, Some(ms(1)))], span: ms(span) };
            let activity = account.finish(Some(share));
            Record {
                world: "sim".to_owned(),
                reserved: false,
                seed: Some(1),
                duration: Some(ms(span)),
                in_force: InForce::default(),
                degraded: Vec::new(),
                activities: vec![activity],
                trace: None,
                hash: None,
            }
        };
        let (a, b) = (run(&[&[10, 31]], 80), run(&[&[20, 50, 60]], 120));
        let pooled = pool(&[&a, &b]).unwrap();
        let mut all = run(&[&[10, 31, 20, 50, 60]], 200);
        if let Some(share) = &mut all.activities[0].share {
            share.threads[0].1 = Some(ms(2));
        }
        let (found, wanted) = (&pooled.activities[0], &all.activities[0]);
        assert_eq!((found.activations, found.missed), (wanted.activations, wanted.missed));
        assert_eq!(found.promised[0], wanted.promised[0]);
        // What a run has one value of has one of each run.
        assert_eq!(found.promised[1].evidence, Evidence::Runs(vec![1.0, 2.0]));
        assert_eq!(found.promised[2].evidence, Evidence::Runs(vec![0.25, 0.25]));
        assert_eq!(found.misses, wanted.misses);
        assert_eq!(found.share, wanted.share);
        let quantile = |a: &ActivityRecord| a.response.as_ref().and_then(|d| d.quantile(0.5));
        assert_eq!(quantile(found), quantile(wanted));
        assert!(pool(&[]).is_none());
    }
}
