//! [`Fault`]: bytes of an emulated disk that cannot be had.
//!
//! As on a disk with a medium that went bad: a read is answered with what lies before the bad place, so that the kernel asks for the rest alone and gets an
//! error for that; a write is refused whole. Both take their time by the model first; a real disk tries again for seconds.

use std::ops::Range;

use surety_device::Op;

/// A part of a disk whose reads, writes or both fail with EIO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Bytes of the disk, whole sectors.
    pub range: Range<u64>,
    pub reads: bool,
    pub writes: bool,
}

impl Fault {
    fn concerns(&self, op: Op) -> bool {
        match op {
            Op::Read => self.reads,
            Op::Write => self.writes,
            Op::Discard | Op::Flush => false,
        }
    }
}

/// How many bytes of a request come before the first that fails; `None`: none does.
pub(crate) fn good_bytes(faults: &[Fault], op: Op, range: &Range<u64>) -> Option<u64> {
    let touches = |fault: &&Fault| {
        let both = fault.range.start.max(range.start)..fault.range.end.min(range.end);
        fault.concerns(op) && !both.is_empty()
    };
    let first = faults.iter().filter(touches).map(|fault| fault.range.start.max(range.start)).min()?;
    Some(first - range.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What comes before the first byte that fails is counted byte by byte.
        #[test]
        fn as_byte_by_byte(
            faults in prop::collection::vec((0_u64..100, 0_u64..30, any::<bool>(), any::<bool>()), 0..5),
            (start, length) in (0_u64..100, 1_u64..40),
            is_read in any::<bool>(),
        ) {
            let fault = |(at, bytes, reads, writes)| Fault { range: at..at + bytes, reads, writes };
            let faults: Vec<Fault> = faults.into_iter().map(fault).collect();
            let op = if is_read { Op::Read } else { Op::Write };
            let fails = |byte: u64| {
                let of = |fault: &Fault| if is_read { fault.reads } else { fault.writes };
                faults.iter().any(|fault| of(fault) && fault.range.contains(&byte))
            };
            let first = (start..start + length).position(fails);
            prop_assert_eq!(good_bytes(&faults, op, &(start..start + length)), first.map(|n| n as u64));
            prop_assert_eq!(good_bytes(&faults, Op::Flush, &(start..start + length)), None);
        }
    }
}
