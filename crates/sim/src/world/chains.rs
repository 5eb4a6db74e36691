//! [`Chains`]: events on their way through the tasks of their chains, by the rules of [`surety_model::workload::Chain`].
//!
//! Each task that a chain passes has an inbox. The first one's fills by itself; a fed task sleeps until the next event comes, as a thread does
//! that a timer wakes, or until another task hands something on, as one that reads from an `eventfd`.

use std::collections::VecDeque;
use std::ops::Range;

use surety_model::activation::Stamp;
use surety_model::record::{ActivityRecord, Basis, Pass, chain_record};
use surety_model::workload::{Arrivals, Chain, Events, Workload};
use surety_model::world::Observer;
use surety_units::Nanos;

use crate::cpu::program::Step;

/// Where chains deliver to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// The place of its inbox.
    pub(super) inbox: usize,
    /// Whether what is delivered releases its jobs.
    pub(super) is_fed: bool,
}

/// Events of a chain that are handed to one of its stages together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    chain: usize,
    stage: usize,
    events: Range<u64>,
    /// When they came.
    pub(super) at: Nanos,
}

/// What was delivered to a task and is not taken yet.
#[derive(Clone, Debug, Default)]
struct Inbox {
    waiting: VecDeque<Delivery>,
    /// Chains that begin here.
    begins: Vec<usize>,
    /// What wakes a fed task that other tasks hand something.
    signal: Option<usize>,
    /// Whether the task waits for that.
    is_awaited: bool,
}

/// The way of a chain.
#[derive(Clone, Debug)]
struct Way {
    events: Events,
    /// Those that came.
    came: Vec<Nanos>,
    /// The inbox of each stage.
    inboxes: Vec<usize>,
    /// The jobs of each stage.
    passes: Vec<Vec<Pass>>,
}

/// All chains of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    /// By the place of the task.
    seats: Vec<Option<Seat>>,
    inboxes: Vec<Inbox>,
    ways: Vec<Way>,
}

impl Chains {
    /// Those of a workload; `signal` makes an event that a thread can wait for.
    pub(super) fn new(workload: &Workload, seed: u64, mut signal: impl FnMut() -> usize) -> Chains {
        let mut chains = Chains { seats: vec![None; workload.tasks.len()], ..Chains::default() };
        for (number, chain) in workload.chains.iter().enumerate() {
            let mut inboxes = Vec::with_capacity(chain.through.len());
            for (stage, name) in chain.through.iter().enumerate() {
                let found = workload.tasks.iter().position(|task| task.name == *name);
                let task = found.expect("a workload names tasks that are there");
                let is_fed = workload.is_fed(&workload.tasks[task]);
                let seat = *chains.seats[task].get_or_insert_with(|| {
                    chains.inboxes.push(Inbox::default());
                    Seat { inbox: chains.inboxes.len() - 1, is_fed }
                });
                let inbox = &mut chains.inboxes[seat.inbox];
                if stage == 0 {
                    inbox.begins.push(number);
                } else if is_fed && inbox.signal.is_none() {
                    inbox.signal = Some(signal());
                }
                inboxes.push(seat.inbox);
            }
            let passes = vec![Vec::new(); inboxes.len()];
            chains.ways.push(Way { events: chain.events(seed), came: Vec::new(), inboxes, passes });
        }
        chains
    }

    /// Where chains deliver to a task of the workload.
    pub(super) fn seat(&self, task: usize) -> Option<Seat> {
        self.seats.get(task).copied().flatten()
    }

    /// Puts the events that have come by `now` into an inbox, in the order of their instants.
    fn arrive(&mut self, inbox: usize, now: Nanos) {
        let Inbox { waiting, begins, .. } = &mut self.inboxes[inbox];
        for chain in begins {
            let way = &mut self.ways[*chain];
            while way.events.peek() <= now
                && let Some(at) = way.events.next()
            {
                let number = way.came.len() as u64;
                way.came.push(at);
                let place = waiting.partition_point(|delivery| delivery.at <= at);
                let events = number..number + 1;
                waiting.insert(place, Delivery { chain: *chain, stage: 0, events, at });
            }
        }
    }

    /// What has waited longest.
    pub(super) fn take_one(&mut self, inbox: usize, now: Nanos) -> Option<Delivery> {
        self.arrive(inbox, now);
        self.inboxes[inbox].waiting.pop_front()
    }

    /// All that waits, that of one chain together.
    pub(super) fn take_all(&mut self, inbox: usize, now: Nanos) -> Vec<Delivery> {
        self.arrive(inbox, now);
        let mut taken: Vec<Delivery> = Vec::new();
        for delivery in self.inboxes[inbox].waiting.drain(..) {
            match taken.iter_mut().find(|before| before.chain == delivery.chain) {
                Some(before) => before.events.end = delivery.events.end,
                None => taken.push(delivery),
            }
        }
        taken
    }

    /// How a fed task waits for the next delivery.
    pub(super) fn listen(&mut self, inbox: usize) -> Step {
        let inbox = &mut self.inboxes[inbox];
        let next = inbox.begins.iter().map(|chain| self.ways[*chain].events.peek()).min();
        inbox.is_awaited = inbox.signal.is_some();
        match (inbox.signal, next) {
            (Some(signal), Some(next)) => Step::WaitUntil(signal, next),
            (Some(signal), None) => Step::Wait(signal),
            (None, next) => Step::SleepUntil(next.expect("a chain begins where no task hands anything on")),
        }
    }

    /// A job that took a delivery is complete; who is to be woken of the next stage.
    pub(super) fn hand_on(&mut self, taken: Delivery, stamp: &Stamp) -> Option<usize> {
        let completion = stamp.completion?;
        let Delivery { chain, stage, events, .. } = taken;
        let way = &mut self.ways[chain];
        let pass =
            Pass { events: events.clone(), start: stamp.start, completion, execution: stamp.execution };
        way.passes[stage].push(pass);
        let inbox = &mut self.inboxes[*way.inboxes.get(stage + 1)?];
        inbox.waiting.push_back(Delivery { chain, stage: stage + 1, events, at: completion });
        std::mem::take(&mut inbox.is_awaited).then_some(inbox.signal).flatten()
    }

    /// When what waits in an inbox was delivered.
    pub(super) fn waiting(&self, inbox: usize) -> impl Iterator<Item = Nanos> + '_ {
        self.inboxes[inbox].waiting.iter().map(|delivery| delivery.at)
    }

    /// The record of each chain, of events in `[observe, end)`.
    pub(super) fn close(&mut self, workload: &Workload, span: (Nanos, Nanos)) -> Vec<ActivityRecord> {
        for inbox in 0..self.inboxes.len() {
            self.arrive(inbox, span.1);
        }
        let record =
            |(chain, way): (&Chain, &Way)| chain_record(chain, Basis::Sample, span, &way.came, &way.passes);
        workload.chains.iter().zip(&self.ways).map(record).collect()
    }
}

/// Says what is assumed where a workload leaves it open.
pub(super) fn notices(workload: &Workload, observer: &mut dyn Observer) {
    for chain in &workload.chains {
        if let Arrivals::Sporadic { gap } = chain.start {
            observer.notice(&format!(
                "chain.{}: its gap is all that is known of it; simulated at its densest, one event every {gap}",
                chain.name
            ));
        }
    }
}
