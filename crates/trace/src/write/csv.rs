//! [`Csv`]: events as a table of comma-separated values (RFC 4180, lines end in a line feed); the columns are in
//! `docs/formats/trace-events.md`, and what an event does not have is empty.

use std::fmt::Write as _;
use std::io::{self, Write};

use surety_model::event::{Event, TraceSink};

use super::fields::{FIELDS, Value, each, hexadecimal, name};

/// Writes every event it is given as a row. After an error it writes no more; [`Csv::finish`] tells.
#[derive(Debug)]
pub struct Csv<W> {
    out: W,
    line: String,
    written: io::Result<u64>,
}

impl<W: Write> Csv<W> {
    /// A writer into `out`, which should be buffered; the row of names is written at once.
    pub fn new(mut out: W) -> Csv<W> {
        let head = format!("time_ns,cpu,tid,event,{}\n", FIELDS.join(","));
        let written = out.write_all(head.as_bytes()).map(|()| 0);
        Csv { out, line: String::new(), written }
    }

    /// Flushes, and returns how many rows were written, the names not counted.
    ///
    /// # Errors
    /// The first that `out` gave.
    pub fn finish(mut self) -> io::Result<u64> {
        let written = self.written?;
        self.out.flush()?;
        Ok(written)
    }
}

impl<W: Write> TraceSink for Csv<W> {
    fn event(&mut self, event: &Event<'_>) {
        let Ok(written) = &mut self.written else { return };
        let line = &mut self.line;
        line.clear();
        let (time, cpu, tid) = (event.time.get(), event.cpu.0, event.current.0);
        let head = write!(line, "{time},{cpu},{tid},{}", name(&event.kind));
        head.expect("a string takes any text");
        let mut columns = FIELDS.iter();
        each(&event.kind, |key, value| {
            // Fields come in the order of the columns.
            for column in columns.by_ref() {
                line.push(',');
                if *column == key {
                    break;
                }
            }
            match value {
                Value::Integer(value) => drop(write!(line, "{value}")),
                Value::Count(value) => drop(write!(line, "{value}")),
                Value::Text(text) => cell(line, text),
                Value::Name(comm) => cell(line, &comm.text()),
                Value::Letters(letters) => line.push_str(letters.text()),
                Value::Disk(disk) => drop(write!(line, "{disk}")),
                Value::Letter(letter) => cell(line, letter.encode_utf8(&mut [0; 4])),
                Value::Bytes(bytes) => hexadecimal(line, bytes),
                Value::Address(address) => drop(write!(line, "{address:#x}")),
            }
        });
        line.extend(columns.map(|_| ','));
        line.push('\n');
        match self.out.write_all(line.as_bytes()) {
            Ok(()) => *written += 1,
            Err(error) => self.written = Err(error),
        }
    }
}

/// A cell of text; quoted where it holds what separates cells.
fn cell(line: &mut String, text: &str) {
    if text.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}
