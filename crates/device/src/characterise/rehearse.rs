//! A plan, or requests that were measured, carried to a model with a clock of its own.

use std::collections::VecDeque;

use surety_units::Nanos;

use super::plan::{Plan, Step};
use super::samples::Group;
use crate::model::{Model, Op, Request};

/// A model with what waits in front of it, as an operating system keeps what the device does not take yet.
struct Site<'a> {
    model: &'a mut dyn Model,
    waiting: VecDeque<(u32, Request)>,
    now: Nanos,
}

impl Site<'_> {
    fn issue(&mut self, tag: u32, request: Request) {
        self.waiting.push_back((tag, request));
        self.feed();
    }

    fn feed(&mut self) {
        let sectors = self.model.sectors();
        while self.model.queued() < self.model.depth()
            && let Some((tag, mut request)) = self.waiting.pop_front()
        {
            // A model made from measurements may be some cylinders smaller than what was measured.
            if request.op != Op::Flush && request.end() > sectors {
                request.sector = sectors - u64::from(request.sectors);
            }
            self.model.accept(self.now, tag, &request);
        }
    }

    /// The next completion; `None`: nothing is inside.
    fn complete(&mut self) -> Option<u32> {
        loop {
            if let Some(done) = self.model.advance(self.now) {
                self.feed();
                return Some(done.tag);
            }
            if self.model.queued() == 0 {
                return None;
            }
            self.now = self.model.next()?;
        }
    }
}

/// Carries a plan out on a model that begins at rest at instant 0.
pub fn rehearse(plan: &mut Plan, model: &mut dyn Model) {
    let mut site = Site { model, waiting: VecDeque::new(), now: Nanos::ZERO };
    loop {
        match plan.next(site.now) {
            Step::Issue(tag, request) => site.issue(tag, request),
            Step::Wait => match site.complete() {
                Some(tag) => plan.complete(tag, site.now),
                None => return,
            },
            Step::Done => return,
        }
    }
}

/// The same requests on a model that begins at rest, as many at a time as then. With one at a time each is issued as long after the
/// one before as it was.
pub fn replay(groups: &[&Group], model: &mut dyn Model) -> Vec<Group> {
    let mut site = Site { model, waiting: VecDeque::new(), now: Nanos::ZERO };
    groups.iter().map(|group| replay_group(group, &mut site)).collect()
}

fn replay_group(group: &Group, site: &mut Site<'_>) -> Group {
    let mut samples = group.samples.clone();
    let mut issued = 0;
    loop {
        if issued < samples.len() && issued < group.depth {
            let at = site.now;
            (samples[issued].issued, samples[issued].completed) = (at, at);
            site.issue(issued as u32, samples[issued].request);
            issued += 1;
            continue;
        }
        let Some(tag) = site.complete() else { break };
        samples[tag as usize].completed = site.now;
        if issued < samples.len() {
            if group.depth == 1 {
                let pause = group.samples[issued].issued - group.samples[issued - 1].completed;
                site.now += pause.max(Nanos::ZERO);
            }
            samples[issued].issued = site.now;
            site.issue(issued as u32, samples[issued].request);
            issued += 1;
        }
    }
    Group { samples, ..*group }
}
