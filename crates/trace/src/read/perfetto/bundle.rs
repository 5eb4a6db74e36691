//! [`Bundle`]: the events of one `FtraceEventBundle`, in order of time.
//!
//! A bundle holds events of one CPU: messages of their own, and, where the recorder was told to be compact, switches and
//! waking requests in columns (`CompactSched`): times as differences, names as positions in a table. Each of the three is
//! in order; here they are merged. Nothing is copied out of the bundle but the places of names.

use surety_model::event::Comm;

use super::event::comm;
use super::wire::{Fields, Value, signed32, varint};
use crate::perfetto::{bundle, compact, event};

/// An event's message in its bundle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    /// The thread that was current.
    pub(super) pid: i32,
    /// Which event: the number of its message.
    pub(super) number: u32,
    start: usize,
    end: usize,
}

/// A row of columns; the first is the time.
pub(super) type Row = [u64; 5];

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// An event with a message.
    Plain(Plain),
    /// A compact switch: time, state, thread, priority, name.
    Switch(Row),
    /// A compact waking request: time, thread, CPU, priority, name.
    Waking(Row),
}

/// Packed integers side by side.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    /// Where each column goes on and where it ends.
    spans: [(usize, usize); 5],
    time: u64,
}

impl Columns {
    /// The next row; `Err` when a column is shorter than the times or no integer stands there.
    #[inline]
    fn next(&mut self, bytes: &[u8]) -> Result<Option<Row>, ()> {
        if self.spans[0].0 >= self.spans[0].1 {
            return Ok(None);
        }
        let mut row = [0; 5];
        for (value, (at, end)) in row.iter_mut().zip(&mut self.spans) {
            *value = bytes.get(..*end).and_then(|bytes| varint(bytes, at)).ok_or(())?;
        }
        self.time = self.time.saturating_add(row[0]);
        row[0] = self.time;
        Ok(Some(row))
    }
}

/// One bundle and how far it was read.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    bytes: Vec<u8>,
    /// Where the search for the next event's message goes on.
    at: usize,
    plain: Option<(u64, Plain)>,
    switches: Columns,
    switch: Option<Row>,
    wakings: Columns,
    waking: Option<Row>,
    /// Start and length of each name.
    names: Vec<(u32, u32)>,
    fault: Option<(usize, &'static str)>,
    /// Events that cannot be read.
    pub(super) malformed: u64,
}

impl Bundle {
    /// Memory it holds, in bytes.
    pub(super) fn held(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Takes another bundle's message.
    pub(super) fn open(&mut self, message: &[u8]) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if bytes.capacity() / 4 > message.len() {
            bytes = Vec::new();
        }
        bytes.extend_from_slice(message);
        let mut names = std::mem::take(&mut self.names);
        names.clear();
        names.shrink_to(message.len());
        *self = Bundle { bytes, names, ..Bundle::default() };
        self.find_columns();
        self.next_plain();
        self.next_switch();
        self.next_waking();
    }

    /// The earliest event not given yet, with its time.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, Item)> {
        let waking = self.waking.map_or(u64::MAX, |row| row[0]);
        let switch = self.switch.map_or(u64::MAX, |row| row[0]);
        if let Some((time, head)) = self.plain
            && time <= waking
            && time <= switch
        {
            self.next_plain();
            return Some((time, Item::Plain(head)));
        }
        if let Some(row) = self.waking
            && waking <= switch
        {
            self.next_waking();
            return Some((row[0], Item::Waking(row)));
        }
        let row = self.switch?;
        self.next_switch();
        Some((row[0], Item::Switch(row)))
    }

    /// The message of an event of this bundle.
    #[inline]
    pub(super) fn message(&self, plain: &Plain) -> &[u8] {
        self.bytes.get(plain.start..plain.end).unwrap_or_default()
    }

    /// The name at a position of the table; none where there is none.
    pub(super) fn name(&self, position: u64) -> Comm {
        let place = usize::try_from(position).ok().and_then(|position| self.names.get(position));
        let bytes =
            place.and_then(|(start, length)| self.bytes.get(*start as usize..(start + length) as usize));
        comm(bytes.unwrap_or_default())
    }

    /// Where the bundle cannot be read further, and why.
    pub(super) fn fault(&self) -> Option<(usize, &'static str)> {
        self.fault
    }

    #[inline]
    fn next_plain(&mut self) {
        self.plain = None;
        let mut fields = Fields::from(&self.bytes, self.at);
        while let Some((number, value)) = fields.next() {
            let Value::Bytes(message) = value else { continue };
            if number != bundle::EVENT {
                continue;
            }
            match plain(message, fields.at() - message.len()) {
                Some(head) => {
                    self.plain = Some(head);
                    break;
                }
                None => self.malformed += 1,
            }
        }
        self.at = fields.at();
        if fields.is_broken() && self.fault.is_none() {
            self.fault = Some((self.at, "an event of the bundle is cut or damaged"));
        }
    }

    fn next_switch(&mut self) {
        let row = self.switches.next(&self.bytes);
        self.switch = row.unwrap_or_else(|()| self.short_column());
    }

    fn next_waking(&mut self) {
        let row = self.wakings.next(&self.bytes);
        self.waking = row.unwrap_or_else(|()| self.short_column());
    }

    fn short_column(&mut self) -> Option<Row> {
        self.fault.get_or_insert((0, "a column of compact events is shorter than that of their times"));
        None
    }

    /// Finds the columns of the compact form.
    fn find_columns(&mut self) {
        let mut outer = Fields::new(&self.bytes);
        while let Some((number, value)) = outer.next() {
            let Value::Bytes(message) = value else { continue };
            if number != bundle::COMPACT {
                continue;
            }
            let base = outer.at() - message.len();
            let mut fields = Fields::new(message);
            while let Some((number, value)) = fields.next() {
                let (columns, column) = match number {
                    compact::SWITCH_TIME => (&mut self.switches, 0),
                    compact::SWITCH_STATE => (&mut self.switches, 1),
                    compact::SWITCH_PID => (&mut self.switches, 2),
                    compact::SWITCH_PRIO => (&mut self.switches, 3),
                    compact::SWITCH_NAME => (&mut self.switches, 4),
                    compact::WAKING_TIME => (&mut self.wakings, 0),
                    compact::WAKING_PID => (&mut self.wakings, 1),
                    compact::WAKING_CPU => (&mut self.wakings, 2),
                    compact::WAKING_PRIO => (&mut self.wakings, 3),
                    compact::WAKING_NAME => (&mut self.wakings, 4),
                    compact::STRINGS => {
                        let length = value.bytes().len();
                        let start = base + fields.at() - length;
                        // A bundle is no longer than a packet may be, so both fit.
                        self.names.push((start as u32, length as u32));
                        continue;
                    }
                    _ => continue,
                };
                let end = base + fields.at();
                let span = &mut columns.spans[column];
                match value {
                    Value::Bytes(packed) if span.1 == 0 => *span = (end - packed.len(), end),
                    _ => {
                        self.fault.get_or_insert((end, "a column of compact events is in several pieces"));
                    }
                }
            }
            if fields.is_broken() {
                self.fault.get_or_insert((base + fields.at(), "the compact events are cut or damaged"));
            }
        }
    }
}

/// The head of an event's message, which begins at `base`.
#[inline]
fn plain(message: &[u8], base: usize) -> Option<(u64, Plain)> {
    let mut time = None;
    let mut head = Plain { pid: 0, number: 0, start: 0, end: 0 };
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next() {
        match (number, value) {
            (event::TIMESTAMP, value) => time = Some(value.integer()),
            (event::PID, value) => head.pid = signed32(value.integer()),
            (event::COMMON_FLAGS, Value::Integer(_)) => {}
            (number, Value::Bytes(bytes)) => {
                head.number = number;
                head.end = base + fields.at();
                head.start = head.end - bytes.len();
            }
            _ => {}
        }
    }
    time.filter(|_| !fields.is_broken()).map(|time| (time, head))
}
