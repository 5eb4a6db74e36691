//! [`Polls`]: the poll of a device (`napi:napi_poll`) that took each packet, and whose thread polled.
//!
//! The kernel writes the event when a poll is over (`__napi_poll` in `net/core/dev.c`), with how many packets it took. A
//! virtual cable that does not gather packets (GRO) is polled through the CPU's backlog, whose events name no device, and
//! both ends of every cable have one name. So a poll is known by what it handed up: it is the next one on the CPU on which a
//! packet of ours was handed up, since the polls of a CPU do not nest.

use std::collections::BTreeMap;

use surety_trace::format::{EventFormat, Field};
use surety_units::{CpuId, Nanos, Tid};

/// A poll of a device is over.
pub(super) const EVENT: &str = "napi:napi_poll";

/// Names of threads of the kernel that do nothing but poll: of one device, and of a CPU's backlog.
const THREADS: [&str; 2] = ["napi/", "backlog_napi/"];

/// The polls that took our packets.
#[derive(Debug)]
pub(super) struct Polls {
    id: u16,
    pid: Field,
    work: Field,
    /// Packets handed up since the last poll that is over, by CPU.
    open: BTreeMap<CpuId, u64>,
    /// When the poll of each packet was over, in order.
    pub times: Vec<Nanos>,
    /// How many of the packets a thread took that does nothing but poll.
    pub by_threads: u64,
}

impl Polls {
    /// Reads the event's format; `None` where this kernel's has not what is needed.
    pub fn of(format: &str) -> Option<Polls> {
        let format = EventFormat::parse("napi", format).ok()?;
        let field = |name: &str| format.field(name).cloned();
        let (pid, work) = (field("common_pid")?, field("work")?);
        Some(Polls { id: format.id, pid, work, open: BTreeMap::new(), times: Vec::new(), by_threads: 0 })
    }

    /// A packet of ours was handed up there.
    pub fn packet(&mut self, cpu: CpuId) {
        *self.open.entry(cpu).or_default() += 1;
    }

    /// Looks at a record of any event; `names` are those of threads, one `TID NAME` a line.
    pub fn record(&mut self, cpu: CpuId, time: Nanos, record: &[u8], names: &str) {
        let id = record.get(..2).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
        let took = word(record, &self.work).filter(|took| id == Some(self.id) && *took > 0);
        let Some(packets) = took.and_then(|_| self.open.remove(&cpu)) else { return };
        self.times.extend((0..packets).map(|_| time));
        let thread = word(record, &self.pid).map(|pid| Tid(pid.cast_signed()));
        if thread.is_some_and(|thread| only_polls(thread, names)) {
            self.by_threads += packets;
        }
    }
}

/// Whether a thread's name is that of one made for polling.
fn only_polls(thread: Tid, names: &str) -> bool {
    let named = |line: &str| {
        let (tid, name) = line.trim().split_once(char::is_whitespace)?;
        (tid.parse() == Ok(thread.0)).then_some(THREADS.iter().any(|t| name.trim_start().starts_with(t)))
    };
    names.lines().find_map(named).unwrap_or(false)
}

pub(super) fn word(record: &[u8], field: &Field) -> Option<u32> {
    let bytes = record.get(field.offset..field.offset + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: napi_poll\nID: 88\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:struct napi_struct * napi;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] dev_name;\toffset:16;\tsize:4;\tsigned:0;\n\
        \tfield:int work;\toffset:20;\tsize:4;\tsigned:1;\n\
        \tfield:int budget;\toffset:24;\tsize:4;\tsigned:1;\n\n\
        print fmt: \"%d\", REC->work\n";

    const NAMES: &str = "31 napi/surety0-8\n7 sender\n12 backlog_napi/1\n";

    fn poll(id: u16, pid: i32, work: i32) -> Vec<u8> {
        let mut bytes = vec![0; 28];
        bytes[..2].copy_from_slice(&id.to_ne_bytes());
        bytes[4..8].copy_from_slice(&pid.to_ne_bytes());
        bytes[20..24].copy_from_slice(&work.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_packet_belongs_to_the_next_poll_on_its_cpu_that_took_any() {
        let mut polls = Polls::of(FORMAT).unwrap();
        let (here, there, us) = (CpuId(0), CpuId(1), Nanos::from_micros);
        // Of somebody else's packets.
        polls.record(here, us(1), &poll(88, 7, 5), NAMES);
        polls.packet(here);
        polls.record(there, us(2), &poll(88, 7, 1), NAMES);
        polls.record(here, us(3), &poll(89, 7, 1), NAMES);
        polls.record(here, us(4), &poll(88, 7, 0), NAMES);
        assert!(polls.times.is_empty());
        polls.record(here, us(5), &poll(88, 7, 1), NAMES);
        // Two in one poll, by the thread of the device; one by the thread of the backlog.
        polls.packet(here);
        polls.packet(here);
        polls.packet(there);
        polls.record(here, us(9), &poll(88, 31, 2), NAMES);
        polls.record(there, us(11), &poll(88, 12, 1), NAMES);
        assert_eq!(polls.times, [us(5), us(9), us(9), us(11)]);
        assert_eq!(polls.by_threads, 3);
        for length in 0..28 {
            polls.packet(here);
            polls.record(here, us(20), &poll(88, 7, 1)[..length.min(23)], NAMES);
        }
        assert_eq!(polls.times.len(), 4);
        assert!(Polls::of(&FORMAT.replace("int work", "int took")).is_none());
    }
}
