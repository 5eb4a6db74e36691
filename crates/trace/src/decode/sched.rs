//! Switches and wake-ups: where their fields are.

use surety_model::event::{EventKind, Woken};

use super::fields::{Scalar, Text};
use super::usual;
use crate::endian::Endian;
use crate::format::{EventFormat, FormatError};
use crate::states::StateTable;

/// The fields of `sched_switch`.
#[derive(Clone, Debug)]
pub(super) struct Switch {
    pub(super) prev: Scalar,
    pub(super) prev_comm: Text,
    pub(super) prev_prio: Scalar,
    pub(super) prev_state: Scalar,
    pub(super) next: Scalar,
    pub(super) next_comm: Text,
    pub(super) next_prio: Scalar,
    pub(super) states: StateTable,
    /// They are where [`usual`] has them.
    pub(super) is_usual: bool,
}

/// Which of the wake-ups.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wake {
    Waking,
    Wakeup,
    New,
}

impl Wake {
    #[inline]
    pub(super) fn event(self, woken: Woken) -> EventKind<'static> {
        match self {
            Wake::Waking => EventKind::Waking(woken),
            Wake::Wakeup => EventKind::Wakeup(woken),
            Wake::New => EventKind::WakeupNew(woken),
        }
    }
}

impl Switch {
    pub(super) fn of(format: &EventFormat, endian: Endian) -> Result<Switch, FormatError> {
        let scalar = |name| Scalar::of(format, name);
        let (prev, prev_comm) = (scalar("prev_pid")?, Text::of(format, "prev_comm")?);
        let (prev_prio, prev_state) = (scalar("prev_prio")?, scalar("prev_state")?);
        let (next, next_comm) = (scalar("next_pid")?, Text::of(format, "next_comm")?);
        let next_prio = scalar("next_prio")?;
        let words = [&prev, &prev_prio, &next, &next_prio];
        let is_usual = usual::is_switch(endian, [&prev_comm, &next_comm], words, &prev_state);
        let states = StateTable::parse(&format.print_fmt)
            .ok_or_else(|| FormatError::States { event: format.full_name() })?;
        Ok(Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio, states, is_usual })
    }
}
