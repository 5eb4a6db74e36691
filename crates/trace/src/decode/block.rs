//! [`Block`]: where the formats of the block layer's events have their fields.
//!
//! Kernels differ: `rwbs` has 8 or 10 letters, `ioprio` came with Linux 6.5, the error was once `errors`.

use surety_model::event::{BlockEvent, BlockStep, Comm, DiskNumber, Rwbs};

use super::fields::{Scalar, Text, signed32, unsigned32};
use crate::endian::Endian;
use crate::format::{EventFormat, FormatError};

/// The fields of one of the events; `None`: this kernel's has no such field.
#[derive(Clone, Debug)]
pub(super) struct Block {
    step: BlockStep,
    disk: Scalar,
    sector: Scalar,
    sectors: Scalar,
    bytes: Option<Scalar>,
    priority: Option<Scalar>,
    rwbs: Text,
    comm: Option<Text>,
    error: Option<Scalar>,
}

impl Block {
    pub(super) fn of(step: BlockStep, format: &EventFormat) -> Result<Block, FormatError> {
        let scalar = |name| Scalar::of(format, name);
        let optional = |is_there: bool, name: &'static str| {
            Some(name).filter(|name| is_there && format.field(name).is_some()).map(scalar).transpose()
        };
        Ok(Block {
            step,
            disk: scalar("dev")?,
            sector: scalar("sector")?,
            sectors: scalar("nr_sector")?,
            bytes: optional(step.has_bytes(), "bytes")?,
            priority: optional(step.has_priority(), "ioprio")?,
            rwbs: Text::of(format, "rwbs")?,
            comm: step.has_name().then(|| Text::of(format, "comm")).transpose()?,
            error: optional(step.has_error(), "error")?.or(optional(step.has_error(), "errors")?),
        })
    }

    #[inline]
    pub(super) fn event(&self, endian: Endian, record: &[u8]) -> Option<BlockEvent> {
        let number = |field: Option<Scalar>| match field {
            Some(field) => field.unsigned(endian, record),
            None => Some(0),
        };
        Some(BlockEvent {
            step: self.step,
            disk: DiskNumber::from_kernel(unsigned32(self.disk.unsigned(endian, record)?)),
            sector: self.sector.unsigned(endian, record)?,
            sectors: unsigned32(self.sectors.unsigned(endian, record)?),
            bytes: unsigned32(number(self.bytes)?),
            // Two bytes of the record.
            priority: number(self.priority)? as u16,
            rwbs: Rwbs::new(self.rwbs.bytes(endian, record)?),
            comm: self.comm.map_or(Some(Comm::default()), |comm| comm.comm(endian, record))?,
            error: self.error.map_or(Some(0), |error| error.signed(endian, record)).map(signed32)?,
        })
    }
}
