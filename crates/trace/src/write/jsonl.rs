//! [`JsonLines`]: events as lines of JSON (RFC 8259), one object each; the keys are in `docs/formats/trace-events.md`.

use std::fmt::Write as _;
use std::io::{self, Write};

use surety_model::event::{Event, TraceSink};

use super::fields::{Value, each, hexadecimal, name};
use crate::write::is_obeyed;

/// Writes every event it is given as a line. After an error it writes no more; [`JsonLines::finish`] tells.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: W,
    line: String,
    written: io::Result<u64>,
}

impl<W: Write> JsonLines<W> {
    /// A writer into `out`, which should be buffered.
    pub fn new(out: W) -> JsonLines<W> {
        JsonLines { out, line: String::new(), written: Ok(0) }
    }

    /// Whether it writes no more.
    pub fn has_failed(&self) -> bool {
        self.written.is_err()
    }

    /// Flushes, and returns how many lines were written.
    ///
    /// # Errors
    /// The first that `out` gave.
    pub fn finish(mut self) -> io::Result<u64> {
        let written = self.written?;
        self.out.flush()?;
        Ok(written)
    }
}

impl<W: Write> TraceSink for JsonLines<W> {
    fn event(&mut self, event: &Event<'_>) {
        let Ok(written) = &mut self.written else { return };
        let line = &mut self.line;
        line.clear();
        let (time, cpu, tid) = (event.time.get(), event.cpu.0, event.current.0);
        let kind = name(&event.kind);
        let head = write!(line, r#"{{"time_ns":{time},"cpu":{cpu},"tid":{tid},"event":"{kind}""#);
        head.expect("a string takes any text");
        each(&event.kind, |key, value| {
            let _ = write!(line, r#","{key}":"#);
            match value {
                Value::Integer(value) => drop(write!(line, "{value}")),
                Value::Count(value) => drop(write!(line, "{value}")),
                Value::Text(text) => string(line, text),
                Value::Name(comm) => string(line, &comm.text()),
                Value::Letters(letters) => string(line, letters.text()),
                Value::Disk(disk) => drop(write!(line, "\"{disk}\"")),
                Value::Letter(letter) => string(line, letter.encode_utf8(&mut [0; 4])),
                Value::Bytes(bytes) => {
                    line.push('"');
                    hexadecimal(line, bytes);
                    line.push('"');
                }
                Value::Address(address) => drop(write!(line, "\"{address:#x}\"")),
            }
        });
        line.push_str("}\n");
        match self.out.write_all(line.as_bytes()) {
            Ok(()) => *written += 1,
            Err(error) => self.written = Err(error),
        }
    }
}

/// A string of JSON: quotes, backslashes, control characters (RFC 8259, section 7) and all that a terminal obeys are escaped.
pub(super) fn string(line: &mut String, text: &str) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            c if is_obeyed(c) => drop(write!(line, "\\u{:04x}", u32::from(c))),
            c => line.push(c),
        }
    }
    line.push('"');
}
