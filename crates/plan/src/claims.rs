//! What a plan claims, in numbers: the same as its proofs, for [`crate::check`].

use surety_analysis::overheads;
use surety_model::claim::{Claim, ClaimedArrivals, ClaimedWork, RequestClaim, ResponseClaim, Subject};
use surety_model::platform::Platform;
use surety_model::workload::{Arrivals, Late};
use surety_units::{Nanos, Probability};

use crate::interrupt::{Wish, wish};
use crate::kept::{Argument, Kept, KeptIrq};
use crate::response::Searched;
use crate::response::modes;

/// The claims of a task's reservation.
pub(crate) fn of_task(kept: &Kept, platform: &Platform, searched: &Searched) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (promise, argument) in &kept.promises {
        let about = match argument {
            Argument::Share { share, .. } => Subject::Share { share: *share, over: promise.over },
            Argument::Response { limit, at, sizing } => {
                let found =
                    searched.respond(&kept.task, kept.frame, sizing, kept.worth(), platform.enforcement);
                let Ok(response) = found else { continue };
                let within = response.task().budgets_within(*limit);
                Subject::Response(ResponseClaim {
                    work: ClaimedWork::of(&sizing.proven_for),
                    measured: sizing.measured.is_some(),
                    modes: sizing.modes.as_ref().map(modes::claimed),
                    gap: kept.frame.gap,
                    jitter: kept.frame.jitter - overheads::busy(&platform.overheads),
                    grid: response.task().grid,
                    skips: kept.task.late == Late::Skip,
                    limit: *limit,
                    promised: at.map_or(1.0, Probability::as_f64),
                    proven: response.probability(within).min(sizing.at_most),
                    beside: kept.demand.beside(kept.runtime, &kept.frame),
                    permille: kept.demand.permille(),
                    worth: kept.worth(),
                    solver: response.solver().map(str::to_owned),
                })
            }
        };
        claims.push(Claim {
            activity: kept.task.name.clone(),
            promise: *promise,
            threads: kept.task.instances.on(platform.cpus),
            wakes_inside: kept.sleeps(platform.enforcement),
            about,
        });
    }
    claims
}

/// The claims of an interrupt thread's reservation.
pub(crate) fn of_irq(kept: &KeptIrq) -> Vec<Claim> {
    let irq = &kept.irq;
    let claim = |(promise, _): &(_, _)| {
        let about = match wish(irq, promise).ok()? {
            Wish::Share(share, over) => Subject::Share { share, over },
            wished => Subject::Requests(RequestClaim {
                arrivals: match irq.arrivals {
                    Arrivals::Periodic { period } => ClaimedArrivals::Apart(period),
                    Arrivals::Sporadic { gap } => ClaimedArrivals::Apart(gap),
                    Arrivals::Poisson { rate } => ClaimedArrivals::Independent(rate.per_second()),
                    Arrivals::Closed { outstanding, service } => {
                        ClaimedArrivals::Closed(outstanding, service)
                    }
                },
                work: ClaimedWork::of(&irq.work),
                hard: irq.hard.unwrap_or(Nanos::ZERO),
                buffer: irq.buffer,
                worth: kept.worth,
                rate: match wished {
                    Wish::Rate(rate) => Some(rate),
                    _ => None,
                },
            }),
        };
        let activity = irq.name.clone();
        Some(Claim { activity, promise: *promise, threads: 1, wakes_inside: true, about })
    };
    kept.promises.iter().filter_map(claim).collect()
}
