//! What readers, writers and copiers have in common: blocks moved one after another, at a rate, until the window ends.

use std::io;

use surety_kernel::clock;
use surety_units::Rate;

use super::files::{keep_rate, lost_file};
use super::{Counts, LoadRun};
use crate::meter::ShareMeter;
use crate::window::{Gate, Window};

/// What one step moved.
pub(super) struct Moved {
    pub bytes: u64,
    /// Rounds completed with it: what the load counts beside bytes.
    pub rounds: u64,
    /// Nothing is left to do; the load rests until the end.
    pub is_last: bool,
}

/// Takes steps from the beginning of the window to its end, no faster than `rate`; a step that fails, while `doing` what
/// the load does, ends it.
pub(super) fn block_by_block(
    doing: &str,
    rate: Option<Rate>,
    gate: &Gate,
    window: &Window,
    mut step: impl FnMut() -> io::Result<Moved>,
) -> LoadRun {
    if !gate.sleep_until(window.begin) {
        return LoadRun::default();
    }
    let mut meter = ShareMeter::new(*window);
    let mut done = Counts::default();
    let mut bytes = 0_u64;
    let mut begun = window.begin;
    loop {
        let now = clock::monotonic();
        if gate.is_over(window, now) {
            break;
        }
        meter.look(now);
        let moved = match step() {
            Ok(moved) => moved,
            Err(error) => return lost_file(doing, &error),
        };
        bytes += moved.bytes;
        let mut counted = Counts { bytes: moved.bytes, rounds: moved.rounds, ..Counts::default() };
        if moved.rounds > 0 {
            let ended = clock::monotonic();
            counted.taken = ended - std::mem::replace(&mut begun, ended);
        }
        match (now >= window.observe, moved.is_last) {
            (true, _) => done = done.plus(counted),
            // Done once, in the warm-up: its bytes are not of the observed time, that it was done is.
            (false, true) => done = done.plus(Counts { bytes: 0, ..counted }),
            (false, false) => {}
        }
        if moved.is_last {
            gate.sleep_until(window.end);
            break;
        }
        if !keep_rate(rate, bytes, gate, window) {
            break;
        }
    }
    LoadRun { metered: meter.finish(), is_busy: false, done, ..LoadRun::default() }
}
