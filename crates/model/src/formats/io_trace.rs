//! Recorded start-up I/O: the text files in which the requests of a program's start are kept, one to a line.
//!
//! ```text
//! xterm-31657  .015820     8   113248520  Rand     -65536      0        RA   4.682409   C
//! process      think   sectors  position  kind   distance     run    action     time  event
//! ```
//!
//! The first four fields and the eighth are read: who, the seconds from the request before to this one, how many sectors of
//! 512 bytes, from which one, and what is done (letters as `blktrace` writes them: `R` read, `W` write, `A` behind them
//! ahead of need, `M` metadata, `S` synchronous). The rest follows from these. Lines that are empty or begin with `#` are
//! passed over.

use std::collections::BTreeMap;

use surety_units::Nanos;
use thiserror::Error;

/// More requests are no start of a program.
pub const REQUESTS_MAX: usize = 1_000_000;
/// More processes are no start of a program.
pub const PROCESSES_MAX: usize = 256;
/// A longer request does not leave a block layer in one piece.
const SECTORS_MAX: u64 = 65_536;
/// A longer pause is no part of a start.
const THINK_MAX: Nanos = Nanos::from_secs(3_600);
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Offsets and lengths are multiples of this, so that every device takes them past the page cache.
pub const UNIT: u64 = 4_096;
/// What is left of a hole between two places that were accessed.
const HOLE_MAX: u64 = 64 << 10;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read, and waited for.
    Read,
    /// Read before it is needed: nobody waits for it.
    ReadAhead,
    /// Written, and waited for.
    Write,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index into [`IoTrace::processes`].
    pub process: usize,
    /// From the end of the request before, or from its issue where nobody waited for it, to the issue of this one.
    pub think: Nanos,
    /// Where, in bytes of the device.
    pub position: u64,
    /// How much, in bytes.
    pub length: u64,
    /// What is done.
    pub action: Action,
}

/// The requests of one start, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoTrace {
    /// Names of the processes, in the order in which they appear.
    pub processes: Vec<String>,
    /// The requests, in the order in which they were made.
    pub requests: Vec<Request>,
}

/// A place for each request in one small file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the file.
    pub size: u64,
    /// Where each request goes, in bytes: a multiple of [`UNIT`].
    pub offsets: Vec<u64>,
    /// How long each is, in bytes: a multiple of [`UNIT`].
    pub lengths: Vec<u64>,
}

/// A text that holds no recorded start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{why}", if *line == 0 { String::new() } else { format!("line {line}, column {column}: ") })]
pub struct IoTraceError {
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The column of the field that is wrong, in characters from 1.
    pub column: usize,
    /// What is wrong with it.
    pub why: String,
}

impl IoTraceError {
    /// The same behind the name of the file: `FILE:LINE:COLUMN: why`.
    pub fn in_file(&self, file: &str) -> String {
        let IoTraceError { line, column, why } = self;
        if *line == 0 { format!("{file}: {why}") } else { format!("{file}:{line}:{column}: {why}") }
    }
}

impl IoTrace {
    /// Reads a recorded start.
    ///
    /// # Errors
    /// The first line that is wrong, and why.
    pub fn parse(text: &str) -> Result<IoTrace, IoTraceError> {
        let mut trace = IoTrace::default();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, whole) in text.lines().enumerate() {
            let line = whole.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |(field, why): (usize, String)| {
                let column =
                    whole.chars().count() - whole.trim_start().chars().count() + column_of(line, field);
                IoTraceError { line: index + 1, column, why }
            };
            let (process, request) = parse_line(line).map_err(wrong)?;
            let next = trace.processes.len();
            let process = *known.entry(process).or_insert_with(|| {
                trace.processes.push(process.to_owned());
                next
            });
            if trace.processes.len() > PROCESSES_MAX || trace.requests.len() == REQUESTS_MAX {
                let why = format!(
                    "more than {PROCESSES_MAX} processes or {REQUESTS_MAX} requests are no start of a program"
                );
                return Err(wrong((0, why)));
            }
            trace.requests.push(Request { process, ..request });
        }
        if trace.requests.is_empty() {
            return Err(IoTraceError { line: 0, column: 0, why: "there is no request in it".to_owned() });
        }
        Ok(trace)
    }

    /// All think times together: what a start would take on a device that answers at once.
    pub fn think(&self) -> Nanos {
        self.requests.iter().fold(Nanos::ZERO, |sum, request| sum.saturating_add(request.think))
    }

    /// Bytes of all requests.
    pub fn bytes(&self) -> u64 {
        self.requests.iter().map(|request| request.length).sum()
    }

    /// A place for each request in one file. What touched or overlapped on the device does so in the file, and the order
    /// of places stays; a hole between them is cut to 64 KiB.
    pub fn layout(&self) -> Layout {
        let span = |request: &Request| {
            let first = request.position / UNIT;
            (first, (request.position + request.length).div_ceil(UNIT))
        };
        let mut spans: Vec<(u64, u64)> = self.requests.iter().map(span).collect();
        spans.sort_unstable();
        // Where each stretch without a hole begins on the device, and in the file.
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        let (mut end, mut used) = (0, 0);
        for (from, to) in spans {
            if stretches.is_empty() || from > end {
                let hole = if stretches.is_empty() { 0 } else { (from - end).min(HOLE_MAX / UNIT) };
                stretches.push((from, used + hole));
                used += hole;
                end = from;
            }
            if to > end {
                used += to - end;
                end = to;
            }
        }
        let place = |request: &Request| {
            let (from, to) = span(request);
            let after = stretches.partition_point(|(start, _)| *start <= from);
            let (start, offset) = stretches.get(after.saturating_sub(1)).copied().unwrap_or_default();
            ((offset + (from - start)) * UNIT, (to - from) * UNIT)
        };
        let (offsets, lengths) = self.requests.iter().map(place).unzip();
        Layout { size: used * UNIT, offsets, lengths }
    }
}

/// The column of a field of a line that begins with one, in characters from 1; behind the line where it has fewer.
fn column_of(line: &str, field: usize) -> usize {
    let is_begin = |before: Option<char>, it: char| {
        !it.is_ascii_whitespace() && before.is_none_or(|before| before.is_ascii_whitespace())
    };
    let mut before = None;
    let mut begins = line.chars().enumerate().filter(|(_, it)| is_begin(before.replace(*it), *it));
    begins.nth(field).map_or_else(|| line.chars().count() + 1, |(at, _)| at + 1)
}

/// A line, or which of its fields is wrong, and why.
fn parse_line(line: &str) -> Result<(&str, Request), (usize, String)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(11).collect();
    let [process, think, sectors, position, _, _, _, action, ..] = fields.as_slice() else {
        let why = "a request has ten fields: process, seconds, sectors, position, kind, distance, run, action, time, event";
        return Err((fields.len(), why.to_owned()));
    };
    let sectors: u64 = sectors.parse().map_err(|_| (2, format!("`{sectors}` is no number of sectors")))?;
    if sectors == 0 || sectors > SECTORS_MAX {
        return Err((2, format!("a request has 1 to {SECTORS_MAX} sectors, not {sectors}")));
    }
    let position: u64 = position.parse().map_err(|_| (3, format!("`{position}` is no sector's number")))?;
    // Far below what 64 bits hold, so that no sum of it and a length wraps.
    let position = position.checked_mul(SECTOR).filter(|p| *p < 1 << 62);
    let position = position.ok_or_else(|| (3, "it lies beyond the end of any device".to_owned()))?;
    let think = seconds(think).filter(|t| *t <= THINK_MAX);
    let think = think.ok_or_else(|| (1, format!("`{}` are no seconds from 0 to 3600", fields[1])))?;
    let action = match action.as_bytes() {
        [b'W', ..] => Action::Write,
        [b'R', rest @ ..] if rest.contains(&b'A') => Action::ReadAhead,
        [b'R', ..] => Action::Read,
        _ => return Err((7, format!("`{action}` is neither a read (R) nor a write (W)"))),
    };
    Ok((process, Request { process: 0, think, position, length: sectors * SECTOR, action }))
}

/// Seconds with a decimal point, exactly: `.000479`, `0`, `4.678005`.
fn seconds(text: &str) -> Option<Nanos> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty())
        || !is_number(whole)
        || !is_number(fraction)
        || fraction.len() > 9
    {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(nanos).map(Nanos::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: &str = "a-1  0       8  1000  Rand  -5  0  RM  4.0  START\n\
                         # a remark\n\
                         a-1  .0005   8  1008  Seq    0  8  RA  4.1  C\n\
                         b-2  1.25   32  9000000  Rand  9  0  R  5.2  C\n\
                         a-1  .000001 8  1000  Rand  -9  0  WS  5.3  C\n";

    #[test]
    fn a_start_is_read_line_by_line() {
        let trace = IoTrace::parse(SMALL).unwrap();
        assert_eq!(trace.processes, ["a-1", "b-2"]);
        let actions: Vec<Action> = trace.requests.iter().map(|r| r.action).collect();
        assert_eq!(actions, [Action::Read, Action::ReadAhead, Action::Read, Action::Write]);
        assert_eq!(trace.requests[2].process, 1);
        assert_eq!(trace.think(), Nanos::new(1_250_501_000));
        assert_eq!(trace.bytes(), (8 + 8 + 32 + 8) * 512);
        let layout = trace.layout();
        // Sectors 1000 and 1008 lie beside each other, the third behind a hole, the last where the first is.
        assert_eq!(layout.offsets, [0, 4096, 8192 + (64 << 10), 0]);
        assert_eq!(layout.lengths, [4096, 4096, 16384, 4096]);
        assert_eq!(layout.size, 8192 + (64 << 10) + 16384);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, (line, column), word) in [
            ("", (0, 0), "no request"),
            ("# nothing", (0, 0), "no request"),
            ("a 0 8 0 S 0 0", (1, 14), "ten fields"),
            ("\n  a 0 x 0 S 0 0 R 0 C", (2, 7), "sectors"),
            ("a  0 0 0 S 0 0 R 0 C", (1, 6), "sectors"),
            ("ä 0 8 -4 S 0 0 R 0 C", (1, 7), "number"),
            ("a 0 8 18446744073709551615 S 0 0 R 0 C", (1, 7), "end of any device"),
            ("a -1 8 0 S 0 0 R 0 C", (1, 3), "seconds"),
            ("a . 8 0 S 0 0 R 0 C", (1, 3), "seconds"),
            ("a 1e9 8 0 S 0 0 R 0 C", (1, 3), "seconds"),
            ("a 3601 8 0 S 0 0 R 0 C", (1, 3), "seconds"),
            ("a 0 8 0 S 0 0 D 0 C", (1, 15), "neither"),
        ] {
            let error = IoTrace::parse(text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text}: {error}");
            assert!(error.why.contains(word), "{text}: {error}");
        }
    }

    /// A line that may be right.
    fn line() -> impl Strategy<Value = String> {
        let action = prop::sample::select(vec!["R", "RM", "RA", "W", "WS", "RAM"]);
        (0..5_u32, 0..2_000_000_u32, 1..600_u64, 0..40_000_u64, action).prop_map(
            |(process, micros, sectors, position, action)| {
                let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
                format!("p-{process} {whole}.{part:06} {sectors} {position} Rand 0 0 {action} 0 C\n")
            },
        )
    }

    proptest! {
        #[test]
        fn no_text_is_too_hostile(text in "[ -~\n\t\\x00-\\xff]{0,400}") {
            let _ = IoTrace::parse(&text).map(|trace| trace.layout());
        }

        #[test]
        fn no_number_is_too_large(fields in prop::collection::vec("[0-9.+-]{1,22}", 3), action in "[RWAMSF]{0,4}") {
            let text = format!("p {} {} {} Rand 0 0 {action} 0 C", fields[0], fields[1], fields[2]);
            if let Ok(trace) = IoTrace::parse(&text) {
                let layout = trace.layout();
                prop_assert!(layout.size >= trace.bytes());
            }
        }

        /// Places lie inside the file; requests meet in it exactly where they meet on the device, in the same order.
        #[test]
        fn a_layout_keeps_what_touches_and_the_order(lines in prop::collection::vec(line(), 1..60)) {
            let trace = IoTrace::parse(&lines.concat()).unwrap();
            let layout = trace.layout();
            let unit = |r: &Request| (r.position / UNIT, (r.position + r.length).div_ceil(UNIT));
            for (i, a) in trace.requests.iter().enumerate() {
                let (at, length) = (layout.offsets[i], layout.lengths[i]);
                prop_assert!(at + length <= layout.size && at % UNIT == 0 && length >= a.length);
                for (j, b) in trace.requests.iter().enumerate() {
                    let (ours, theirs) = (unit(a), unit(b));
                    prop_assert_eq!(ours.0.cmp(&theirs.0), at.cmp(&layout.offsets[j]));
                    prop_assert_eq!(ours.1 == theirs.0, at + length == layout.offsets[j]);
                    prop_assert_eq!(ours.1.cmp(&theirs.0), (at + length).cmp(&layout.offsets[j]));
                }
            }
        }
    }
}
