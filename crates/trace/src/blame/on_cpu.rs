//! [`OnCpu`]: what a CPU does, in few bytes, for jobs that wait for seconds are told from what was remembered.

use std::collections::BTreeMap;

use super::{CHANGES_MAX, CPU_CHANGES_MAX, CPU_CHANGES_MIN};
use crate::jobs::interrupts::Context;
use crate::jobs::watch::Occupant;

const IDLE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;

/// Changes that are remembered of each of `cpus` CPUs.
pub(super) fn changes_of_each(cpus: usize) -> usize {
    (CHANGES_MAX / cpus.max(1)).clamp(CPU_CHANGES_MIN, CPU_CHANGES_MAX)
}

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnCpu {
    slot: u32,
    prio: i16,
    /// Number of its innermost interrupt in [`Contexts`]; 0 is none.
    context: u16,
}

impl OnCpu {
    /// Who has it, below the interrupts.
    pub(super) fn occupant(self) -> Occupant {
        match self.slot {
            IDLE => Occupant::Idle,
            UNKNOWN => Occupant::Unknown,
            slot => usize::try_from(slot).map_or(Occupant::Unknown, Occupant::Thread),
        }
    }

    /// That one's priority.
    pub(super) fn prio(self) -> i32 {
        self.prio.into()
    }
}

/// The interrupts of a trace by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Contexts {
    list: Vec<Context>,
    numbers: BTreeMap<Context, u16>,
}

impl Contexts {
    /// Puts together what a CPU does. Interrupts beyond 65,535 different ones, and threads beyond some 4 billion, are not known.
    pub(super) fn pack(&mut self, occupant: Occupant, prio: i32, context: Option<Context>) -> OnCpu {
        let slot = match occupant {
            Occupant::Idle => IDLE,
            Occupant::Unknown => UNKNOWN,
            Occupant::Thread(slot) => u32::try_from(slot).unwrap_or(UNKNOWN).min(UNKNOWN),
        };
        // The kernel's priorities end at 139.
        let prio = i16::try_from(prio).unwrap_or(if prio < 0 { i16::MIN } else { i16::MAX });
        match context.map(|context| self.number(context)) {
            None => OnCpu { slot, prio, context: 0 },
            Some(Some(context)) => OnCpu { slot, prio, context },
            Some(None) => OnCpu { slot: UNKNOWN, prio, context: 0 },
        }
    }

    /// The innermost interrupt.
    pub(super) fn of(&self, on: OnCpu) -> Option<Context> {
        usize::from(on.context).checked_sub(1).map(|index| self.list[index])
    }

    fn number(&mut self, context: Context) -> Option<u16> {
        if let Some(number) = self.numbers.get(&context) {
            return Some(*number);
        }
        let number = u16::try_from(self.list.len() + 1).ok()?;
        self.list.push(context);
        self.numbers.insert(context, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_comes_apart_again() {
        let mut contexts = Contexts::default();
        let parts = [
            (Occupant::Idle, 120, None),
            (Occupant::Unknown, 0, Some(Context::Irq(u32::MAX))),
            (Occupant::Thread(7), -1, Some(Context::Vector("local_timer"))),
            (Occupant::Thread(0), 139, Some(Context::Softirq(3))),
        ];
        let packed = parts.map(|(occupant, prio, context)| contexts.pack(occupant, prio, context));
        assert_eq!(packed.map(|on| (on.occupant(), on.prio(), contexts.of(on))), parts);
        assert_eq!(size_of::<(surety_units::Nanos, OnCpu)>(), 16);
    }

    #[test]
    fn more_interrupts_than_numbers_are_not_known() {
        let mut contexts = Contexts::default();
        let last = (0..1 << 17).map(|irq| contexts.pack(Occupant::Idle, 0, Some(Context::Irq(irq)))).last();
        let last = last.unwrap();
        assert_eq!((last.occupant(), contexts.of(last)), (Occupant::Unknown, None));
    }

    #[test]
    fn many_cpus_share_what_is_remembered() {
        assert_eq!(
            [0, 1, 4, 16, 64, 4096].map(changes_of_each),
            [1 << 20, 1 << 20, 1 << 20, 1 << 18, 1 << 16, 1 << 16]
        );
    }
}
