//! Switches and wake-ups as little-endian kernels of 64 bits lay them out: most records of most traces.
//!
//! Where a format says so, one look at the record's length and loads at constant places are all of the decoding. Any other
//! layout is decoded field by field; what comes out is the same.

use surety_model::event::{Comm, EventKind, Woken};
use surety_units::{CpuId, Tid};

use super::fields::{Scalar, Text, name};
use crate::endian::Endian;
use crate::states::StateTable;

/// What every record begins with: its event's number, flags, the current thread.
const HEAD: usize = 8;
const KIND: usize = 0;
const CURRENT: usize = 4;

/// Bytes of a switch, and of a wake-up, the padding at the end not counted.
const SWITCH: usize = 64;
const WAKE: usize = 36;

const PREV_COMM: usize = 8;
const PREV_PID: usize = 24;
const PREV_PRIO: usize = 28;
const PREV_STATE: usize = 32;
const NEXT_COMM: usize = 40;
const NEXT_PID: usize = 56;
const NEXT_PRIO: usize = 60;

const COMM: usize = 8;
const PID: usize = 24;
const PRIO: usize = 28;
const TARGET: usize = 32;

fn is_word(field: &Scalar, offset: usize) -> bool {
    (field.offset, field.size) == (offset, 4)
}

fn is_comm(field: &Text, at: usize) -> bool {
    matches!(field, Text::Fixed { offset, size: 16 } if *offset == at)
}

/// Whether records begin as usual, in little-endian traces.
pub(super) fn is_head(kind: &Scalar, current: &Scalar) -> bool {
    (kind.offset, kind.size) == (KIND, 2) && is_word(current, CURRENT)
}

/// Whether switches are laid out as usual: names, ids and priorities of the thread that leaves and of the one that comes, and
/// the state of the one that leaves.
pub(super) fn is_switch(
    endian: Endian,
    [prev_comm, next_comm]: [&Text; 2],
    [prev, prev_prio, next, next_prio]: [&Scalar; 4],
    prev_state: &Scalar,
) -> bool {
    endian == Endian::Little
        && is_comm(prev_comm, PREV_COMM)
        && is_word(prev, PREV_PID)
        && is_word(prev_prio, PREV_PRIO)
        && (prev_state.offset, prev_state.size) == (PREV_STATE, 8)
        && is_comm(next_comm, NEXT_COMM)
        && is_word(next, NEXT_PID)
        && is_word(next_prio, NEXT_PRIO)
}

/// Whether wake-ups are.
pub(super) fn is_wake(endian: Endian, comm: &Text, [tid, prio, target]: [&Scalar; 3]) -> bool {
    endian == Endian::Little
        && is_comm(comm, COMM)
        && is_word(tid, PID)
        && is_word(prio, PRIO)
        && is_word(target, TARGET)
}

/// The number of a record's event.
#[inline]
pub(super) fn kind(record: &[u8; HEAD]) -> u16 {
    u16::from_le_bytes([record[KIND], record[KIND + 1]])
}

/// Which thread was current.
#[inline]
pub(super) fn current(record: &[u8; HEAD]) -> Tid {
    Tid(word::<CURRENT, HEAD>(record).cast_signed())
}

/// Who leaves a CPU, how, and who comes.
#[inline(always)]
pub(super) fn switch(record: &[u8; SWITCH], states: &StateTable) -> EventKind<'static> {
    let state = u64::from(word::<PREV_STATE, SWITCH>(record))
        | u64::from(word::<{ PREV_STATE + 4 }, SWITCH>(record)) << 32;
    EventKind::Switch {
        prev: Tid(word::<PREV_PID, SWITCH>(record).cast_signed()),
        prev_comm: comm::<PREV_COMM, SWITCH>(record),
        prev_prio: word::<PREV_PRIO, SWITCH>(record).cast_signed(),
        prev_state: states.state(state),
        next: Tid(word::<NEXT_PID, SWITCH>(record).cast_signed()),
        next_comm: comm::<NEXT_COMM, SWITCH>(record),
        next_prio: word::<NEXT_PRIO, SWITCH>(record).cast_signed(),
    }
}

/// Who is woken.
#[inline(always)]
pub(super) fn woken(record: &[u8; WAKE]) -> Woken {
    Woken {
        tid: Tid(word::<PID, WAKE>(record).cast_signed()),
        comm: comm::<COMM, WAKE>(record),
        prio: word::<PRIO, WAKE>(record).cast_signed(),
        target: CpuId(word::<TARGET, WAKE>(record)),
    }
}

#[inline]
fn word<const AT: usize, const N: usize>(record: &[u8; N]) -> u32 {
    u32::from_le_bytes([record[AT], record[AT + 1], record[AT + 2], record[AT + 3]])
}

#[inline]
fn comm<const AT: usize, const N: usize>(record: &[u8; N]) -> Comm {
    let mut raw = [0; 16];
    raw.copy_from_slice(&record[AT..AT + 16]);
    name(raw)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use surety_model::event::Event;
    use surety_units::Nanos;

    use super::*;
    use crate::decode::EventTable;
    use crate::symbols::Symbols;

    const FORMATS: [(&str, &str); 3] = [
        ("sched:sched_switch", include_str!("../../tests/fixtures/formats/sched/sched_switch.txt")),
        ("sched:sched_waking", include_str!("../../tests/fixtures/formats/sched/sched_waking.txt")),
        ("sched:sched_wakeup", include_str!("../../tests/fixtures/formats/sched/sched_wakeup.txt")),
    ];

    #[test]
    fn todays_formats_are_the_usual_ones() {
        for (endian, is_usual) in [(Endian::Little, true), (Endian::Big, false)] {
            let table = EventTable::new(endian, FORMATS, Symbols::default()).unwrap();
            assert_eq!(table.has_usual_layouts(), [is_usual; 4]);
        }
    }

    proptest! {
        /// Whatever bytes a record has and wherever it ends, the short way gives what the fields give.
        #[test]
        fn both_ways_agree(
            event in 0usize..3, low in any::<bool>(), bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..80),
        ) {
            let table = EventTable::new(Endian::Little, FORMATS, Symbols::default()).unwrap();
            let mut record = bytes;
            for (place, byte) in record.iter_mut().zip(table.id_of(event).to_le_bytes()) {
                *place = byte;
            }
            if low {
                record.iter_mut().skip(PREV_STATE + 1).take(7).for_each(|byte| *byte = 0);
            }
            let (cpu, time, mut scratch) = (CpuId(1), Nanos::new(9), String::new());
            let Some(index) = table.identify(&record) else {
                prop_assert!(record.len() < 2);
                return Ok(());
            };
            let by_fields = table.decode(index, cpu, time, &record, &mut scratch).map(|event| format!("{event:?}"));
            let mut short = None;
            let keep = |event: &Event<'_>| short = Some(format!("{event:?}"));
            prop_assert_eq!(table.decode_to(index, (cpu, time), &record, &mut String::new(), keep), by_fields.is_some());
            prop_assert_eq!(short, by_fields);
        }
    }
}
