//! [`Chain`]: events that pass through tasks, from the instant at which each comes to the end of the last job that handled it.
//!
//! How an event goes from stage to stage, in every world:
//!
//! - A task without releases of its own is *fed*: one job for each delivery, in the order in which they come. A job's release is the instant
//!   of its delivery.
//! - A task with a period, a gap or back to back *samples*: a job takes all that was delivered until it starts, and none of what comes
//!   while it runs. What comes then waits for the next job.
//! - A job hands what it took on at its end, as one delivery to the next stage of each chain: events that were taken by one job stay
//!   together from there on. Those of the last stage are done.
//!
//! So the events of a chain never overtake each other. With sampling stages alone this is the register-based cause-effect chain of Davare et
//! al. (DAC 2007), whose reaction time ends with the first job that starts after its input was there.

use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use super::{Arrivals, Instances, Late, Release, Task, Workload};
use crate::distribution::TimeDistribution;
use crate::promise::Promise;

/// Events that pass through tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Its role.
    pub name: String,
    /// When events come.
    pub start: Arrivals,
    /// Its stages: the tasks an event passes, in order, each once.
    pub through: Vec<String>,
    /// What was promised about it.
    pub promises: Vec<Promise>,
}

impl Chain {
    /// The shortest limit promised for its response.
    pub fn deadline(&self) -> Option<Nanos> {
        self.promises.iter().filter_map(Promise::response_limit).min()
    }

    /// Instants at which its events come, since the start of the run.
    pub fn events(&self, seed: u64) -> Events {
        let first_and_distance = match self.start {
            Arrivals::Periodic { period } => (false, TimeDistribution::Constant(period)),
            // Its gap is all that is known of it: the densest arrivals.
            Arrivals::Sporadic { gap } => (false, TimeDistribution::Constant(gap)),
            Arrivals::Poisson { rate } => {
                let mean = Nanos::from_f64_rounded(1e9 / rate.per_second()).max(Nanos::new(1));
                (true, TimeDistribution::Exponential { mean })
            }
            // Refused where files are read: what is done makes no new event.
            Arrivals::Closed { service, .. } => (true, TimeDistribution::Constant(service)),
        };
        let (is_drawn_first, distance) = first_and_distance;
        let mut events = Events {
            distance,
            seed,
            stream: stream_of(&format!("{}~spacing", self.name)),
            number: 0,
            next: Nanos::ZERO,
        };
        if is_drawn_first {
            events.advance();
        }
        events
    }

    /// Events that come in a run of this length, on average.
    pub fn expected(&self, length: Nanos) -> u64 {
        let each = |distance: Nanos| length.div_ceil(distance.max(Nanos::new(1))).max(0).unsigned_abs();
        match self.start {
            Arrivals::Periodic { period } => each(period),
            Arrivals::Sporadic { gap } => each(gap),
            Arrivals::Poisson { rate } => (length.as_secs_f64() * rate.per_second()).ceil() as u64,
            Arrivals::Closed { .. } => 0,
        }
    }
}

/// The instants of a chain's events, without end: on a grid from 0, or the first at a drawn distance from 0.
#[derive(Clone, Debug)]
pub struct Events {
    distance: TimeDistribution,
    seed: u64,
    stream: u64,
    number: u64,
    next: Nanos,
}

impl Events {
    /// When the next comes.
    pub fn peek(&self) -> Nanos {
        self.next
    }

    fn advance(&mut self) {
        let distance = self.distance.draw_from(&mut Pcg::for_job(self.seed, self.stream, self.number));
        self.number += 1;
        self.next = self.next.saturating_add(distance);
    }
}

impl Iterator for Events {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let at = self.next;
        self.advance();
        Some(at)
    }
}

impl Workload {
    /// Whether chains release the jobs of a task: it is a stage and has no releases of its own.
    pub fn is_fed(&self, task: &Task) -> bool {
        task.release == Release::Unspecified && self.chains.iter().any(|c| c.through.contains(&task.name))
    }

    /// How many jobs of a fed task a run of this length has at most on average: one for each event that passes.
    pub fn deliveries(&self, task: &Task, length: Nanos) -> u64 {
        let passing = self.chains.iter().filter(|chain| chain.through.contains(&task.name));
        passing.map(|chain| chain.expected(length)).fold(0, u64::saturating_add)
    }
}

impl Task {
    /// Why a chain cannot pass it, and what to change: its key, what is wrong, and help.
    pub(crate) fn no_stage(&self) -> Option<(&'static str, &'static str, &'static str)> {
        if !self.body.is_made() {
            let help = "a chain passes tasks with `work` or `phases`";
            return Some(("name", "a program is handed no events", help));
        }
        if self.is_endless() {
            return Some(("work", "a job without end hands nothing on", "give it a time"));
        }
        if self.instances != Instances::Count(1) {
            let help = "write a task for each, and a chain through it";
            return Some(("instances", "a stage of a chain is one thread", help));
        }
        if self.jobs.is_some() {
            return Some(("jobs", "a stage of a chain does not end", "leave `jobs` out"));
        }
        if self.release == Release::Unspecified && self.late == Late::Skip {
            let help = "leave `late` out, or give the task a `period`";
            return Some(("late", "a task that a chain releases handles every event", help));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use surety_units::Frequency;

    use super::*;

    fn chain(start: Arrivals) -> Chain {
        Chain { name: "c".to_owned(), start, through: Vec::new(), promises: Vec::new() }
    }

    #[test]
    fn events_come_on_a_grid_or_independent_of_each_other() {
        let ms = Nanos::from_millis;
        let times = |start| chain(start).events(1).take(3).collect::<Vec<_>>();
        assert_eq!(times(Arrivals::Periodic { period: ms(5) }), [ms(0), ms(5), ms(10)]);
        assert_eq!(times(Arrivals::Sporadic { gap: ms(7) }), [ms(0), ms(7), ms(14)]);
        let poisson = chain(Arrivals::Poisson { rate: Frequency(50_000) });
        let drawn: Vec<Nanos> = poisson.events(1).take_while(|at| *at < Nanos::from_secs(100)).collect();
        // 50 a second: 5000 with a deviation of 71.
        assert!((4720..5280).contains(&drawn.len()), "{}", drawn.len());
        assert_eq!(poisson.expected(Nanos::from_secs(100)), 5_000);
        assert!(drawn.windows(2).all(|pair| pair[0] <= pair[1]) && drawn[0].is_positive());
        assert_ne!(drawn[..9], poisson.events(2).take(9).collect::<Vec<_>>());
    }
}
