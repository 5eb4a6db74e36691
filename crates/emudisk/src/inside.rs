//! [`State`]: what is inside an emulated disk, for the threads that share it: requests, their answers, and what was counted.

use std::collections::VecDeque;

use surety_device::Request;
use surety_units::Nanos;

use crate::account::{Account, Answered};
use crate::core::{Core, Done, Event};
use crate::leads::Leads;

/// Nothing happens any more.
pub(crate) const NEVER: i64 = i64::MAX;

/// What is inside.
pub(crate) struct State {
    pub core: Core,
    pub slots: Vec<Option<Slot>>,
    pub free: Vec<u32>,
    /// Complete, with what is to be answered, in the order of their instants.
    pub ready: VecDeque<u32>,
    pub done: Vec<Done>,
    /// Requests with an answer begun or sent, which the model is not done with.
    pub early: usize,
    pub leads: Leads,
    pub buffers: Vec<Vec<u8>>,
    pub account: Account,
    /// Until when the reply thread sleeps.
    pub sleeps_until: i64,
    pub trouble: Option<String>,
}

/// A request that is not answered.
pub(crate) struct Slot {
    pub unique: u64,
    pub request: Request,
    /// When it would have come without its way.
    pub arrived: Nanos,
    /// Whether the disk had room for it then.
    pub is_prompt: bool,
    pub answer: Option<Answer>,
    pub done: Option<Done>,
    pub early: Early,
}

/// What became of answering a request before the model was done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    Not,
    Begun,
    /// It was answered at this instant.
    Ended(Nanos),
}

/// What a request is answered with.
pub(crate) enum Answer {
    /// The first bytes of a buffer, and how many.
    Data(Vec<u8>, usize),
    Written(u32),
    Nothing,
    Refused(i32),
}

impl State {
    /// Without requests; an answer has `bytes_max` bytes at most.
    pub fn new(core: Core, bytes_max: u32) -> State {
        State {
            core,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            done: Vec::new(),
            early: 0,
            leads: Leads::new(bytes_max),
            buffers: Vec::new(),
            account: Account::default(),
            sleeps_until: NEVER,
            trouble: None,
        }
    }

    /// A request comes, and gets a tag.
    pub fn enter(&mut self, unique: u64, request: Request, arrived: Nanos) -> u32 {
        let (is_prompt, early) = (true, Early::Not);
        let slot = Some(Slot { unique, request, arrived, is_prompt, answer: None, done: None, early });
        let Some(tag) = self.free.pop() else {
            self.slots.push(slot);
            return (self.slots.len() - 1) as u32;
        };
        self.slots[tag as usize] = slot;
        tag
    }

    /// The model is given a request that came at an instant.
    pub fn give(&mut self, tag: u32, request: Request, arrived: Nanos) {
        self.take(arrived, Event::Arrived { tag, request });
        let is_prompt = !self.core.is_full();
        self.slots[tag as usize].iter_mut().for_each(|slot| slot.is_prompt = is_prompt);
    }

    /// The model goes on to an instant; what is complete by then is settled.
    pub fn take(&mut self, now: Nanos, event: Event) {
        let mut done = std::mem::take(&mut self.done);
        self.core.take(now, event, &mut done);
        done.drain(..).for_each(|done| self.settle(done));
        self.done = done;
    }

    /// A request is complete: it is answered by the reply thread, or by its reader where the data are still on their way; or it was already.
    pub fn settle(&mut self, done: Done) {
        let slot =
            self.slots[done.tag as usize].as_mut().expect("a tag is free only when its request is answered");
        slot.done = Some(done);
        match slot.early {
            Early::Not if slot.answer.is_some() => self.ready.push_back(done.tag),
            Early::Not => {}
            Early::Begun => self.early -= 1,
            Early::Ended(at) => {
                self.early -= 1;
                let slot = self.leave(done.tag);
                self.count(&slot, at);
            }
        }
    }

    /// The next request that the model knows to be complete at an instant, and when its answer is to begin.
    pub fn foreseen(&self) -> Option<(u32, Nanos)> {
        let (tag, due) = self.core.foreseen(self.early)?;
        let slot = self.slots[tag as usize].as_ref()?;
        let is_left = slot.early == Early::Not && slot.answer.is_some();
        is_left.then(|| (tag, due - self.leads.of(slot.request.op, slot.request.bytes())))
    }

    /// What the reply thread needs to answer a foreseen request.
    pub fn begin_early(&mut self, tag: u32) -> (u64, Request, Answer) {
        self.early += 1;
        let slot = self.slots[tag as usize].as_mut().expect("it is foreseen");
        slot.early = Early::Begun;
        (slot.unique, slot.request, slot.answer.take().expect("it is foreseen when that is there"))
    }

    /// It has been answered.
    pub fn end_early(&mut self, tag: u32, at: Nanos) {
        let slot = self.slots[tag as usize].as_mut().expect("nobody else lets it leave");
        slot.early = Early::Ended(at);
        if slot.done.is_some() {
            let slot = self.leave(tag);
            self.count(&slot, at);
        }
    }

    /// Counts a request that was answered at an instant and that the model is done with.
    pub fn count(&mut self, slot: &Slot, at: Nanos) {
        let Some(done) = slot.done else { return };
        let Request { op, sectors, .. } = slot.request;
        let (service, response, lateness) = (done.service, done.due - slot.arrived, at - done.due);
        let is_prompt = slot.is_prompt;
        self.account.count(&Answered { op, sectors, service, response, lateness, is_prompt });
    }

    /// A request leaves.
    pub fn leave(&mut self, tag: u32) -> Slot {
        self.free.push(tag);
        self.slots[tag as usize].take().expect("a tag is free only when its request is answered")
    }

    /// When there is something to do next.
    pub fn next(&self) -> i64 {
        let begin = self.foreseen().map(|(_, begin)| begin);
        [self.core.next(), begin].into_iter().flatten().min().map_or(NEVER, Nanos::get)
    }
}
