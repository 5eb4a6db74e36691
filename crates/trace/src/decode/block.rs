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

#[cfg(test)]
mod tests {
    use super::*;

    /// A format with these fields behind the common ones: type and name, offset, size, sign.
    fn format(name: &str, fields: &[(&str, usize, usize, u8)]) -> EventFormat {
        let common = [
            ("unsigned short common_type", 0, 2, 0),
            ("unsigned char common_flags", 2, 1, 0),
            ("unsigned char common_preempt_count", 3, 1, 0),
            ("int common_pid", 4, 4, 1),
        ];
        let lines: String = common
            .iter()
            .chain(fields)
            .map(|(field, offset, size, signed)| {
                format!("\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
            })
            .collect();
        EventFormat::parse("block", &format!("name: {name}\nID: 9\nformat:\n{lines}\nprint fmt: \"\"\n"))
            .unwrap()
    }

    fn record(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut record = vec![0; 72];
        for (at, bytes) in parts {
            record[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        record
    }

    /// The layouts of Linux 6.18, and of 4.4, where a completion had `errors` and letters were eight.
    #[test]
    fn fields_are_where_the_kernels_format_says() {
        let (disk, sector, sectors) =
            ((8u32 << 20 | 16).to_le_bytes(), u64::MAX.to_le_bytes(), 8u32.to_le_bytes());
        let new = format(
            "block_rq_insert",
            &[
                ("dev_t dev", 8, 4, 0),
                ("sector_t sector", 16, 8, 0),
                ("unsigned int nr_sector", 24, 4, 0),
                ("unsigned int bytes", 28, 4, 0),
                ("unsigned short ioprio", 32, 2, 0),
                ("char rwbs[10]", 34, 10, 0),
                ("char comm[16]", 44, 16, 0),
                ("__data_loc char[] cmd", 60, 4, 0),
            ],
        );
        let bytes = record(&[
            (8, &disk),
            (16, &sector),
            (24, &sectors),
            (28, &4096u32.to_le_bytes()),
            (32, &0x4004u16.to_le_bytes()),
            (34, b"FWFSMEDIUA"),
            (44, b"dd\0xx"),
        ]);
        let event = Block::of(BlockStep::Inserted, &new).unwrap().event(Endian::Little, &bytes).unwrap();
        let expected = BlockEvent {
            step: BlockStep::Inserted,
            disk: DiskNumber { major: 8, minor: 16 },
            sector: u64::MAX,
            sectors: 8,
            bytes: 4096,
            priority: 0x4004,
            rwbs: Rwbs::new(b"FWFSMEDIUA"),
            comm: Comm::new("dd"),
            error: 0,
        };
        assert_eq!(event, expected);
        let old = format(
            "block_rq_complete",
            &[
                ("dev_t dev", 8, 4, 0),
                ("sector_t sector", 16, 8, 0),
                ("unsigned int nr_sector", 24, 4, 0),
                ("int errors", 28, 4, 1),
                ("char rwbs[8]", 32, 8, 1),
                ("__data_loc char[] cmd", 40, 4, 1),
            ],
        );
        let bytes =
            record(&[(8, &disk), (16, &sector), (24, &sectors), (28, &(-5i32).to_le_bytes()), (32, b"RA\0")]);
        let decoder = Block::of(BlockStep::Completed, &old).unwrap();
        let (step, rwbs) = (BlockStep::Completed, Rwbs::new(b"RA"));
        let (bytes_of, priority, comm, error) = (0, 0, Comm::default(), -5);
        let expected = BlockEvent { step, rwbs, bytes: bytes_of, priority, comm, error, ..expected };
        assert_eq!(decoder.event(Endian::Little, &bytes), Some(expected));
        assert_eq!(decoder.event(Endian::Little, &bytes[..30]), None, "a record that is cut");
        assert!(Block::of(BlockStep::Issued, &old).is_err(), "a name is missing");
    }
}
