//! The record of a chain that has a bound, or has none.

use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::record::{ActivityRecord, Basis, Distribution, Evidence, Promised};
use surety_model::workload::{ActivityKind, Chain};
use surety_units::Nanos;

use super::{ChainBound, SOURCE, THEOREM};

/// What a bound says of the promises of a chain; `found`: the bound, or why there is none.
pub(crate) fn record(chain: &Chain, found: &Result<ChainBound, String>) -> ActivityRecord {
    let mut record = ActivityRecord::new(&chain.name, ActivityKind::Chain, Basis::Bound);
    record.deadline = chain.deadline();
    match found {
        Ok(bound) => {
            record.response = Some(Distribution::Limits(vec![(1.0, bound.limit)]));
            for (place, stage) in bound.stages.iter().enumerate() {
                let limits = Distribution::Limits(vec![(1.0, stage.delay)]);
                record.series.insert(format!("{} {}", place + 1, stage.task), limits);
            }
            record.promised =
                Promised::all(&chain.promises, |promise| evidence(promise, record.deadline, bound));
        }
        Err(why) => {
            record.promised = Promised::not_observable(&chain.promises, &format!("no bound: {why}"));
        }
    }
    record
}

fn evidence(promise: &Promise, deadline: Option<Nanos>, bound: &ChainBound) -> Evidence {
    let below =
        |limit: Nanos| if promise.comparison == Comparison::Below { limit - Nanos::new(1) } else { limit };
    let limit = match (promise.metric, promise.bound) {
        (Metric::Response, _) if promise.over.is_none() => promise.response_limit().map(below),
        (Metric::Missed | Metric::Late, Bound::Count(0)) if promise.comparison != Comparison::Below => {
            deadline
        }
        _ => None,
    };
    let Some(limit) = limit else {
        return Evidence::NotObservable { because: format!("no bound for `{promise}` in this version") };
    };
    let stages: Vec<String> =
        bound.stages.iter().map(|stage| format!("{} {}", stage.task, stage.step)).collect();
    let because = format!("{THEOREM} ({SOURCE}): every event within {}: {}", bound.limit, stages.join("; "));
    let at_least = if bound.limit <= limit { 1.0 } else { 0.0 };
    Evidence::Proven { at_least, because }
}
