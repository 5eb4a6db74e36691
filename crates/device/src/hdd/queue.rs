//! Which command is next, and what the moving parts do when there is none.
//!
//! The command whose first sector is under the head soonest goes first, unless one has waited longer than the age limit, which
//! then goes before all others. A flush is not queued among them: it waits for all that came before it, and what comes after it waits for it. What
//! the write buffer holds goes to the medium when no command waits; when it is three quarters full, after every command one
//! run of it.

use super::{Hdd, Work};
use crate::model::{Hit, Op, Parts};

impl Hdd {
    /// Gives the free moving parts their next work at an instant.
    pub(super) fn start(&mut self, at: f64) {
        while let Work::Free = self.work {
            if self.is_filled() && self.spared {
                self.spared = false;
                self.write_back(at);
                continue;
            }
            match self.choose(at) {
                Some(chosen) => self.serve(chosen, at),
                None if !self.dirty.is_empty() => self.write_back(at),
                None => return,
            }
        }
    }

    /// Whether the write buffer is three quarters full, as drives begin to write in between then.
    fn is_filled(&self) -> bool {
        let Some(limit) = self.parameters.write_back else { return false };
        !self.dirty.is_empty()
            && limit.runs > 1
            && (self.dirty_sectors * 4 > limit.sectors * 3 || self.dirty.len() * 4 > limit.runs * 3)
    }

    /// The place among those that wait of the command that is next at an instant.
    fn choose(&self, at: f64) -> Option<usize> {
        let oldest = self.pending.first()?;
        let fence = self.pending.iter().position(|pending| pending.request.op == Op::Flush);
        let open = &self.pending[..fence.unwrap_or(self.pending.len())];
        // A write that the buffer has no room for lets others by.
        let able = |place: usize| open[place].request.op != Op::Write || self.admits(&open[place].request);
        if open.is_empty() {
            // The flush itself, when all that was written is on the medium.
            return self.dirty.is_empty().then_some(0);
        }
        let age = at - oldest.accepted.get() as f64;
        if age > self.parameters.age_limit.get() as f64 && able(0) {
            return Some(0);
        }
        if open.len() == 1 {
            return able(0).then_some(0);
        }
        let arm = self.arm_at(at);
        let positioning = |place: usize| {
            let request = &open[place].request;
            match request.op {
                Op::Discard => 0.0,
                Op::Write if self.is_reported_at_once(request) => 0.0,
                op => {
                    // The arm starts after the command is understood, and commands are understood while others are served.
                    self.mechanism.positioning(arm, at, request.sector, op == Op::Write)
                }
            }
        };
        (0..open.len())
            .filter(|place| able(*place))
            .map(|place| (positioning(place), place))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            .map(|(_, place)| place)
    }

    /// Serves a waiting command.
    fn serve(&mut self, place: usize, at: f64) {
        let command = self.pending.remove(place);
        self.spared = true;
        match command.request.op {
            Op::Read => self.read(&command, at),
            Op::Write => self.write(&command, at),
            Op::Flush | Op::Discard => {
                let parts = self.commanded(&command, at, self.parameters.overheads.write);
                let end = command.accepted.get() as f64 + parts.queue + parts.overhead;
                // What was served before may still be on the wire.
                self.finish(&command, end.max(self.wire_free), Hit::Whole, parts);
            }
        }
    }

    /// The time a command waited until an instant, and what is left of its overhead, which begins when it comes.
    pub(super) fn commanded(&self, command: &super::Pending, at: f64, overhead: [f64; 2]) -> Parts {
        let accepted = command.accepted.get() as f64;
        let overhead = overhead[usize::from(!self.after_read)] * 1e6;
        let queue = (at - accepted).max(0.0);
        Parts { queue, overhead: (overhead - queue).max(0.0), ..Parts::default() }
    }

    /// Serves what needs no moving parts while those are busy, if the drive can.
    pub(super) fn answer_from_buffer(&mut self, now: f64) {
        if !self.parameters.answers_while_busy {
            return;
        }
        let Some(command) = self.pending.last().copied() else { return };
        let is_behind_flush = self.pending.iter().any(|pending| pending.request.op == Op::Flush);
        let request = &command.request;
        let answers = match request.op {
            Op::Read => self.holds_all(request),
            Op::Write => self.is_reported_at_once(request),
            Op::Discard => true,
            Op::Flush => false,
        };
        if answers && !is_behind_flush {
            let place = self.pending.len() - 1;
            let spared = self.spared;
            self.serve(place, now);
            self.spared = spared;
        }
    }
}
