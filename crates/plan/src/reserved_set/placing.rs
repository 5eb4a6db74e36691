//! [`Search`]: the reservation of one task beside those kept before: the frame with the least bandwidth in which all its
//! requests can be kept.

use std::rc::Rc;

use surety_analysis::cbs::Fineness;
use surety_model::plan::{Front, FrontPoint, Mark};
use surety_model::promise::Promise;
use surety_model::reservation::Reservation;
use surety_model::workload::Task;
use surety_units::Nanos;

use crate::Request;
use crate::demand::Demand;
use crate::frame::Frame;
use crate::kept::{Argument, Kept};
use crate::refusal::Refused;
use crate::reserved_set::ReservedSet;
use crate::response::Searched;
use crate::share;
use crate::synthesis::{by_bandwidth, frames, pareto};

/// A frame that needs this many times the least bandwidth on a rough grid is not the best on a fine one.
const ROUGHLY: f64 = 1.02;

/// On rough grids only so many frames are looked at: the task's own period and its largest parts.
const FRAMES_ROUGH: usize = 12;

/// What is asked of a task's reservation.
pub(crate) struct Wanted<'a> {
    pub(crate) task: &'a Task,
    pub(crate) demand: &'a Demand,
    pub(crate) requests: &'a [(Promise, Request)],
}

impl Wanted<'_> {
    /// A reservation in this frame with no request kept yet.
    fn nothing_in(&self, frame: Frame) -> Kept {
        Kept {
            task: self.task.clone(),
            demand: self.demand.clone(),
            frame,
            runtime: Nanos::ZERO,
            promises: Vec::new(),
        }
    }

    fn refused(&self, why: &Refused) -> Vec<(Promise, Refused)> {
        self.requests.iter().map(|(promise, _)| (*promise, why.clone())).collect()
    }
}

/// What came of a search.
#[derive(Default)]
pub(crate) struct Found {
    /// The reservation, with the requests it keeps; `None` where it keeps none.
    pub(crate) kept: Option<Kept>,
    /// The others, and why.
    pub(crate) refused: Vec<(Promise, Refused)>,
    /// What was compared, where that was asked for.
    pub(crate) front: Option<Front>,
}

/// A search for one task's reservation.
pub(crate) struct Search<'s, 'a> {
    set: &'s ReservedSet<'a>,
    wanted: &'s Wanted<'s>,
    searched: Rc<Searched>,
}

impl<'s, 'a> Search<'s, 'a> {
    /// Beside what is kept so far.
    pub(crate) fn new(set: &'s ReservedSet<'a>, wanted: &'s Wanted<'s>) -> Search<'s, 'a> {
        Search { set, wanted, searched: Rc::clone(set.searched()) }
    }

    /// All requests in the frame with the least bandwidth; where there is none for all, as many as can be kept in the
    /// task's own period. `fronts`: what was compared, too.
    pub(crate) fn run(&self, fronts: bool) -> Found {
        let frames = match self.frames() {
            Ok(frames) => frames,
            Err(why) => return Found { refused: self.wanted.refused(&why), ..Found::default() },
        };
        // What is rough already needs no rougher look before.
        let few = (!self.set.is_rough()).then(|| self.promising(&frames)).flatten();
        let chosen = few.and_then(|few| self.cheapest(&few, false));
        let chosen = chosen.or_else(|| self.cheapest(&frames, true));
        let mut refused = Vec::new();
        let kept = chosen.unwrap_or_else(|| {
            let mut kept = self.wanted.nothing_in(frames[0]);
            for (promise, request) in self.wanted.requests {
                if let Err(why) = self.set.try_one(&mut kept, promise, *request, &self.searched) {
                    refused.push((*promise, why));
                }
            }
            kept
        });
        let front = fronts.then(|| self.front(&frames, &kept));
        Found { kept: (!kept.promises.is_empty()).then_some(kept), refused, front }
    }

    /// The frames to look at, the task's own first.
    fn frames(&self) -> Result<Vec<Frame>, Refused> {
        let options = self.set.options();
        let limits = self.wanted.requests.iter().filter_map(|(_, r)| match r {
            Request::Response { limit, .. } => Some(*limit),
            Request::Share { .. } => None,
        });
        let Some(limit) = limits.min() else { return Ok(vec![self.share_frame()]) };
        let mut found = frames(self.wanted.task, limit, &options.platform, &options.periods)?;
        let in_step = self.wanted.demand.in_step;
        if self.wanted.demand.wakes_between() || !in_step {
            // With D < T a wake-up inside a period would cut what a job finds of its budget, or have it wait for the next one.
            found.retain(|frame| frame.deadline == frame.period);
            if found.is_empty() {
                let why = if in_step {
                    "it wakes between its jobs"
                } else {
                    "its thread may be reserved at any moment between its releases"
                };
                return Err(Refused::infeasible(format!(
                    "{why}, so its server period has to be at most {limit} with the deadline at its end, and budgets are \
                     enforced on a tick of {}",
                    options.platform.tick
                )));
            }
        }
        if self.set.is_implicit() && found.iter().any(|frame| frame.deadline == frame.period) {
            found.retain(|frame| frame.deadline == frame.period);
        }
        if self.set.is_rough() {
            found.truncate(FRAMES_ROUGH);
        }
        if options.search.is_reached() {
            found.truncate(1);
        }
        Ok(found)
    }

    fn share_frame(&self) -> Frame {
        let window = self.wanted.requests.iter().filter_map(|(_, r)| match r {
            Request::Share { over, .. } => *over,
            Request::Response { .. } => None,
        });
        let interval = self.wanted.task.release.interval();
        let period = share::period(interval, window.min(), &self.set.options().platform);
        Frame { deadline: period, period, gap: period, jitter: Nanos::ZERO, spread: 1 }
    }

    /// The frames in which all requests can be sized, within their deadlines; `own` is the task's own period.
    fn all_sized(&self, frames: &[Frame], own: Nanos, searched: &Searched) -> Vec<Kept> {
        let in_frame = |frame: &Frame| {
            let mut kept = self.wanted.nothing_in(*frame);
            for (promise, request) in self.wanted.requests {
                self.set.sized(&mut kept, promise, *request, searched).ok()?;
            }
            let fits = kept.runtime <= frame.deadline && !self.is_lumpy(&kept, own);
            fits.then_some(kept)
        };
        frames.iter().filter_map(in_frame).collect()
    }

    /// The frames that a rough look leaves in question for the least bandwidth; the task's own stays first.
    fn promising(&self, frames: &[Frame]) -> Option<Vec<Frame>> {
        let rough = self.all_sized(frames, frames[0].period, &self.searched.anew(Fineness::Rough));
        let least = rough.iter().map(Kept::reservation).min_by(by_bandwidth)?;
        let limit = least.bandwidth().as_f64() * ROUGHLY;
        let is_near = |kept: &&Kept| kept.reservation().bandwidth().as_f64() <= limit;
        let near = rough.iter().filter(is_near).map(|kept| kept.frame).filter(|frame| *frame != frames[0]);
        Some(std::iter::once(frames[0]).chain(near).collect())
    }

    /// All requests kept in the frame with the least bandwidth, if nothing objects; `all`: else in the next one.
    fn cheapest(&self, frames: &[Frame], all: bool) -> Option<Kept> {
        let mut sized = self.all_sized(frames, frames[0].period, &self.searched);
        sized.sort_by(|a, b| by_bandwidth(&a.reservation(), &b.reservation()));
        let few = if all { sized.len() } else { 1 };
        let set = self.set;
        sized.into_iter().take(few).find(|kept| set.objection(kept).is_none() && set.is_proven(kept))
    }

    /// Whether budgets are below the tick in a period shorter than need be: the kernel would give several at once and then
    /// none for several periods.
    fn is_lumpy(&self, kept: &Kept, own: Nanos) -> bool {
        let enforcement = self.set.options().platform.enforcement;
        kept.frame.period < own && kept.runtime < enforcement.overrun_max()
    }

    /// What all frames need.
    fn front(&self, frames: &[Frame], chosen: &Kept) -> Front {
        let mut sized = self.all_sized(frames, frames[0].period, &self.searched);
        sized.sort_by(|a, b| {
            b.frame.period.cmp(&a.frame.period).then(b.frame.deadline.cmp(&a.frame.deadline))
        });
        let reservations: Vec<Reservation> = sized.iter().map(Kept::reservation).collect();
        let undominated = pareto(&reservations);
        let points = sized.iter().zip(undominated).map(|(kept, undominated)| {
            let reservation = kept.reservation();
            let is_chosen = !chosen.promises.is_empty() && reservation == chosen.reservation();
            let (proven, exact) = self.fractions(kept);
            FrontPoint {
                reservation,
                bandwidth: reservation.bandwidth().as_f64(),
                without_costs: kept.worth().get() as f64 / reservation.period.get() as f64,
                proven,
                exact,
                mark: match (is_chosen, undominated) {
                    (true, _) => Mark::Chosen,
                    (false, true) => Mark::Front,
                    (false, false) => Mark::Dominated,
                },
                objection: self.set.objection(kept),
            }
        });
        Front {
            activity: chosen.task.name.clone(),
            promises: self.wanted.requests.iter().map(|(promise, _)| *promise).collect(),
            points: points.collect(),
        }
    }

    /// The smallest proven fraction of its response promises, and the exact one where it is known.
    fn fractions(&self, kept: &Kept) -> (Option<f64>, Option<f64>) {
        let enforcement = self.set.options().platform.enforcement;
        let mut least: Option<(f64, Option<f64>)> = None;
        for (_, argument) in &kept.promises {
            let Argument::Response { limit, sizing, .. } = argument else { continue };
            let found = self.searched.respond(&kept.task, kept.frame, sizing, kept.worth(), enforcement);
            let Ok(response) = found else {
                continue;
            };
            let within = response.task().budgets_within(*limit);
            let capped = |fraction: f64| fraction.min(sizing.at_most);
            let found = (capped(response.probability(within)), response.exact(within).map(capped));
            if least.is_none_or(|(p, _)| found.0 < p) {
                least = Some(found);
            }
        }
        least.map_or((None, None), |(proven, exact)| (Some(proven), exact))
    }
}
