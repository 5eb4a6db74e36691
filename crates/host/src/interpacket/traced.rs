//! The packets of a run in a recording of `net:netif_receive_skb`, and the polls that took them.

use surety_kernel::net::DEVICE;
use surety_trace::Endian;
use surety_trace::format::parse_header_page;
use surety_trace::format::{EventFormat, Field};
use surety_trace::merge::{Item, Merge};
use surety_units::{Nanos, Tid};

use super::polled::{self, Polls, word};
use crate::recorder::{PageFile, RawTrace};

/// A device hands a packet up: `__netif_receive_skb_core` in `net/core/dev.c`.
pub(super) const EVENT: &str = "net:netif_receive_skb";

/// Headers that are still in front of the payload where the event is: IPv4 and UDP.
const HEADERS: usize = 20 + 8;

/// Which packets count.
pub(super) struct Wanted {
    /// Bytes in each.
    pub payload: usize,
    /// Who sends them.
    pub sender: Tid,
    /// From when on.
    pub observe: Nanos,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When each packet was handed up, in order.
    pub times: Vec<Nanos>,
    /// How many of them while the sender was current.
    pub by_sender: u64,
    /// The polls that took them, where the kernel has their event.
    pub polls: Option<Polls>,
    /// Events of all kinds and devices.
    pub events: u64,
}

/// The fields of the event that are looked at.
struct Fields {
    id: u16,
    pid: Field,
    length: Field,
    device: Field,
}

/// Takes the packets out of a recording; the error is one sentence.
pub(super) fn packets_of(raw: &RawTrace, wanted: &Wanted) -> Result<Seen, String> {
    let text = raw.formats.get(EVENT).ok_or_else(|| format!("this kernel has no event {EVENT}"))?;
    let fields = Fields::of(text)?;
    let layout = parse_header_page(&raw.header_page).map_err(|e| e.to_string())?;
    let layout = layout.with_page_size(raw.page_size).ok_or("its pages have no known size")?;
    let sources = raw.pages.iter().map(|(cpu, file): &(_, PageFile)| (*cpu, file));
    let mut seen =
        Seen { polls: raw.formats.get(polled::EVENT).and_then(|t| Polls::of(t)), ..Seen::default() };
    Merge::new(layout, Endian::NATIVE, sources)
        .for_each(|cpu, time, item| {
            let Item::Record(record) = item else { return };
            seen.events += 1;
            let time = Nanos::new(i64::try_from(time).unwrap_or(i64::MAX));
            if time >= wanted.observe && fields.is_packet(record, wanted.payload) == Some(true) {
                seen.times.push(time);
                seen.by_sender += u64::from(fields.current(record) == Some(wanted.sender));
                if let Some(polls) = &mut seen.polls {
                    polls.packet(cpu);
                }
            } else if let Some(polls) = &mut seen.polls {
                polls.record(cpu, time, record, &raw.names);
            }
        })
        .map_err(|e| e.to_string())?;
    Ok(seen)
}

impl Fields {
    fn of(text: &str) -> Result<Fields, String> {
        let format = EventFormat::parse("net", text).map_err(|e| e.to_string())?;
        let field = |name: &str| {
            let known = format.field(name).cloned();
            known.ok_or_else(|| format!("{EVENT} has no field `{name}` on this kernel"))
        };
        Ok(Fields { id: format.id, pid: field("common_pid")?, length: field("len")?, device: field("name")? })
    }

    /// Whether a record is of one of our packets; `None` for a record that is too short.
    fn is_packet(&self, record: &[u8], payload: usize) -> Option<bool> {
        let id = u16::from_ne_bytes(record.get(..2)?.try_into().ok()?);
        let is_ours = id == self.id
            && word(record, &self.length)? as usize == payload + HEADERS
            && text(record, &self.device)? == DEVICE.as_bytes();
        Some(is_ours)
    }

    /// The thread that was current.
    fn current(&self, record: &[u8]) -> Option<Tid> {
        word(record, &self.pid).map(|pid| Tid(pid.cast_signed()))
    }
}

/// The text of a `__data_loc` field without its end mark.
fn text<'a>(record: &'a [u8], field: &Field) -> Option<&'a [u8]> {
    let place = word(record, field)?;
    let (offset, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
    let bytes = record.get(offset..offset + length)?;
    Some(bytes.split(|b| *b == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: netif_receive_skb\nID: 77\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int len;\toffset:16;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"dev=%s\", __get_str(name)\n";

    fn record(id: u16, pid: i32, length: u32, device: &str) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[..2].copy_from_slice(&id.to_ne_bytes());
        bytes[4..8].copy_from_slice(&pid.to_ne_bytes());
        bytes[16..20].copy_from_slice(&length.to_ne_bytes());
        let place = (device.len() as u32 + 1) << 16 | 24;
        bytes[20..24].copy_from_slice(&place.to_ne_bytes());
        bytes.extend(device.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn only_our_packets_count_and_short_records_are_no_harm() {
        let fields = Fields::of(FORMAT).unwrap();
        let ours = record(77, 4321, 128, DEVICE);
        assert_eq!(fields.is_packet(&ours, 100), Some(true));
        assert_eq!(fields.current(&ours), Some(Tid(4321)));
        for (other, what) in [
            (record(78, 1, 128, DEVICE), "another event"),
            (record(77, 1, 129, DEVICE), "another length"),
            (record(77, 1, 128, "eth0"), "another device"),
        ] {
            assert_eq!(fields.is_packet(&other, 100), Some(false), "{what}");
        }
        for length in 0..ours.len() {
            assert_ne!(fields.is_packet(&ours[..length], 100), Some(true), "{length}");
        }
        assert!(Fields::of(&FORMAT.replace("unsigned int len", "unsigned int size")).is_err());
    }
}
