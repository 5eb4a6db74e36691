//! What a die does next.
//!
//! Reads first; then what they interrupted; then, when no page is free, cleaning; then programs, of which every second step is
//! one of cleaning while only the reserve is free; then, after a rest, the fast cells are emptied.

use surety_units::Nanos;

use super::die::{Cleaning, READS_IN_A_ROW, Work};
use super::{Event, Flash, RESERVE_BLOCKS, transfer};
use crate::model::SECTOR;

/// A die that has had nothing to do for so long empties fast cells.
const REST: Nanos = Nanos::from_millis(10);

impl Flash {
    /// Gives a die its next work, interrupting what may be.
    pub(super) fn kick(&mut self, die: usize, now: Nanos) {
        let is_interrupted = match (self.parameters.suspend, self.dies[die].reads.is_empty()) {
            (Some(_), false) => self.dies[die].interrupt(now),
            _ => false,
        };
        if self.dies[die].work.is_none() {
            let wait = match self.parameters.suspend {
                Some(suspend) if is_interrupted => suspend,
                _ => Nanos::ZERO,
            };
            self.begin(die, now, wait);
        }
    }

    /// Begins the next work of a die that does nothing.
    fn begin(&mut self, die: usize, now: Nanos, wait: Nanos) {
        let is_patient = self.dies[die].reads_in_a_row < READS_IN_A_ROW;
        let resumes = self.dies[die].paused.is_some();
        if (is_patient || !resumes)
            && let Some((slot, sectors)) = self.dies[die].reads.pop_front()
        {
            self.dies[die].reads_in_a_row += u32::from(resumes);
            return self.run(die, now + wait + self.parameters.read, Work::Read { slot, sectors });
        }
        self.dies[die].reads_in_a_row = 0;
        if let Some((left, work)) = self.dies[die].paused.take() {
            // It is not interrupted again before it has got on.
            self.dies[die].reads_in_a_row = if is_patient { 0 } else { READS_IN_A_ROW };
            return self.run(die, now + left, work);
        }
        let is_low = self.dies[die].free <= RESERVE_BLOCKS * self.parameters.pages_per_block;
        let cleans = is_low && !self.dies[die].programs.is_empty();
        if cleans && (self.dies[die].free == 0 || !self.dies[die].cleaned) {
            return self.clean(die, now);
        }
        if let Some(program) = self.dies[die].programs.pop_front() {
            let state = &mut self.dies[die];
            state.cleaned = false;
            state.free = state.free.saturating_sub(1);
            let moved = self.over_channel(die, now, u64::from(self.parameters.page_sectors));
            return self.run(die, moved + self.program_time(program.fast), Work::Program(program));
        }
        if self.fast_used > 0 {
            let turn = self.dies[die].turn;
            self.push(now + REST, Event::Idle(die, turn));
        }
    }

    /// One step of cleaning.
    fn clean(&mut self, die: usize, now: Nanos) {
        let pages = self.parameters.pages_per_block;
        let cleaning = match self.dies[die].cleaning {
            Some(cleaning) => cleaning,
            None => {
                let share = self.space.valid_share(&mut self.chance);
                let copies = (share * f64::from(pages)) as u32;
                Cleaning { copies, gain: pages - copies }
            }
        };
        self.dies[die].cleaned = true;
        if cleaning.copies > 0 {
            self.dies[die].cleaning = Some(Cleaning { copies: cleaning.copies - 1, ..cleaning });
            self.run(die, now + self.parameters.read + self.parameters.program, Work::Copy);
        } else {
            self.dies[die].cleaning = Some(cleaning);
            self.run(die, now + self.parameters.erase, Work::Erase);
        }
    }

    fn run(&mut self, die: usize, until: Nanos, work: Work) {
        let state = &mut self.dies[die];
        state.work = Some((until, work));
        state.turn += 1;
        let turn = state.turn;
        self.push(until, Event::Die(die, turn));
    }

    /// Moves sectors over the channel of a die; returns when they are there.
    fn over_channel(&mut self, die: usize, now: Nanos, sectors: u64) -> Nanos {
        let channel = die % self.channel_free.len();
        let begin = self.channel_free[channel].max(now);
        self.channel_free[channel] = begin + transfer(sectors * SECTOR, self.parameters.channel);
        self.channel_free[channel]
    }

    /// A die is done with what it began in a turn, unless it was interrupted since.
    pub(super) fn die_done(&mut self, die: usize, turn: u64, now: Nanos) {
        if self.dies[die].turn != turn {
            return;
        }
        let Some((_, work)) = self.dies[die].work.take() else { return };
        match work {
            Work::Read { slot, sectors } => self.page_read(die, slot, sectors, now),
            Work::Program(program) => self.programmed(program, now),
            Work::Copy => {}
            Work::Erase => {
                let gain = self.dies[die].cleaning.take().map_or(0, |cleaning| cleaning.gain);
                self.dies[die].free += gain;
            }
            Work::Fold => {
                self.fast_used = self.fast_used.saturating_sub(u64::from(self.parameters.page_sectors))
            }
        }
        if work == Work::Fold && self.fast_used > 0 && !self.dies[die].is_wanted() {
            // The rest goes on until somebody comes.
            return self.run(die, now + self.parameters.read + self.parameters.program, Work::Fold);
        }
        if self.dies[die].work.is_none() {
            self.begin(die, now, Nanos::ZERO);
        }
    }

    /// A page of a read is in the die's register.
    fn page_read(&mut self, die: usize, slot: usize, sectors: u32, now: Nanos) {
        let moved = self.over_channel(die, now, u64::from(sectors));
        let state = &mut self.slots[slot];
        state.pages -= 1;
        // The frames of a command are counted with its last page.
        let frame = if state.pages == 0 { self.parameters.frame } else { Nanos::ZERO };
        let link = frame + transfer(u64::from(sectors) * SECTOR, self.parameters.link);
        self.link_free = self.link_free.max(moved) + link;
        state.last = state.last.max(self.link_free);
        if state.pages == 0 {
            let last = state.last;
            self.finish(slot, last, self.parameters.read);
        }
    }

    /// A die has rested since a turn: it moves a page from the fast cells to the others.
    pub(super) fn die_idle(&mut self, die: usize, turn: u64, now: Nanos) {
        if self.dies[die].turn == turn && !self.dies[die].is_wanted() && self.fast_used > 0 {
            self.run(die, now + self.parameters.read + self.parameters.program, Work::Fold);
        }
    }
}
