//! [`SliceLines`]: a line for each switch-out, with what was before it (`docs/formats/trace-timehist.md`).

use std::fmt::Write as _;
use std::io::{self, Write};

use surety_model::event::LeaveState;
use surety_units::{Nanos, Tid};

use super::jsonl;
use super::lines::{Out, begin, padded};
use crate::slices::{Slice, SliceSink};
use crate::wanted::{Wanted, Window};

/// Names the columns of a text, the same number of them.
pub const HEADER: &str =
    "            time CPU     tid name                 wait ms    delay ms      run ms left";
/// Columns of a time in milliseconds.
const TIME_COLUMNS: usize = 11;

/// Writes every wanted slice that ends in the wanted time as a line of text or of JSON.
#[derive(Debug)]
pub struct SliceLines<W> {
    out: Out<W>,
    wanted: Wanted,
    window: Window,
    json: bool,
}

impl<W: Write> SliceLines<W> {
    /// At most `limit` lines into `out`, which should be buffered.
    pub fn new(out: W, wanted: Wanted, json: bool, limit: Option<u64>) -> SliceLines<W> {
        SliceLines { out: Out::new(out, limit), wanted, window: Window::ALL, json }
    }

    /// Whether nothing more will be written.
    pub fn is_done(&self) -> bool {
        self.out.is_done()
    }

    /// Flushes, and returns how many lines were written.
    ///
    /// # Errors
    /// The first that the output gave.
    pub fn finish(self) -> io::Result<u64> {
        self.out.finish()
    }
}

impl<W: Write> SliceSink for SliceLines<W> {
    fn begin(&mut self, first: Nanos) {
        self.window = self.wanted.window(first);
    }

    fn slice(&mut self, slice: &Slice) {
        let Some(left) = slice.left else { return };
        let is_wanted = self.wanted.thread(slice.tid, slice.comm) && self.wanted.cpu(slice.cpu);
        if self.out.is_done() || !is_wanted || !self.window.contains(slice.until) {
            return;
        }
        let line = &mut self.out.line;
        if self.json {
            object(line, slice, left)
        } else {
            text(line, slice, left)
        }
        self.out.end();
    }
}

fn text(line: &mut String, slice: &Slice, left: LeaveState) {
    begin(line, (slice.until, slice.cpu, slice.tid), Some(&slice.comm));
    for time in [slice.before.wait, slice.before.delay, slice.run()] {
        line.push(' ');
        milliseconds(line, time);
    }
    if slice.tid != Tid::IDLE {
        line.push(' ');
        line.push_str(letters(left).encode(&mut [0; 1]));
    }
}

/// Milliseconds, cut to microseconds as perf does; `-` where it is not known.
fn milliseconds(line: &mut String, time: Option<Nanos>) {
    let Some(time) = time else {
        (1..TIME_COLUMNS).for_each(|_| line.push(' '));
        line.push('-');
        return;
    };
    let us = time.get() / 1000;
    padded(line, us / 1000, TIME_COLUMNS - 4);
    line.push('.');
    let rest = (us % 1000).unsigned_abs();
    line.extend([rest / 100, rest / 10 % 10, rest % 10].map(|digit| char::from(b'0' + digit as u8)));
}

/// The kernel's letters for a state.
#[derive(Clone, Copy)]
enum Letters {
    Known(&'static str),
    Other(u8),
}

impl Letters {
    fn encode(self, buffer: &mut [u8; 1]) -> &str {
        match self {
            Letters::Known(text) => text,
            Letters::Other(letter) => {
                buffer[0] = if letter.is_ascii_graphic() { letter } else { b'?' };
                std::str::from_utf8(buffer).expect("it is ASCII")
            }
        }
    }
}

fn letters(left: LeaveState) -> Letters {
    Letters::Known(match left {
        LeaveState::Runnable { preempted: true } => "R+",
        LeaveState::Runnable { preempted: false } => "R",
        LeaveState::Sleeping => "S",
        LeaveState::Uninterruptible => "D",
        LeaveState::Stopped => "T",
        LeaveState::Dead => "X",
        LeaveState::Other(letter) => return Letters::Other(letter),
    })
}

fn object(line: &mut String, slice: &Slice, left: LeaveState) {
    let Slice { tid, cpu, until, next, before, .. } = slice;
    let _ = write!(line, r#"{{"time_ns":{},"cpu":{},"tid":{tid},"name":"#, until.get(), cpu.0);
    jsonl::string(line, &slice.comm.text());
    let _ = write!(line, r#","prio":{}"#, slice.prio);
    for (key, time) in [("wait_ns", before.wait), ("delay_ns", before.delay), ("run_ns", slice.run())] {
        let _ = match time {
            Some(time) => write!(line, r#","{key}":{}"#, time.get()),
            None => write!(line, r#","{key}":null"#),
        };
    }
    let mut buffer = [0; 1];
    for (key, state) in [("waited", before.left), ("left", Some(left))] {
        let _ = match state {
            Some(state) => write!(line, r#","{key}":"{}""#, letters(state).encode(&mut buffer)),
            None => write!(line, r#","{key}":null"#),
        };
    }
    let _ = write!(line, r#","next":{{"tid":{next},"name":"#);
    jsonl::string(line, &slice.next_comm.text());
    line.push_str("}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::feed;
    use crate::slices::SliceBuilder;

    const SCRIPT: &str = "0 0 sw 0 7
        1500 0 sw 7:S 0
        2000 0 waking 7
        2250 0 sw 0 7
        3000 0 sw 7:R+ 8
        9000 0 sw 8:X 7";

    fn lines(wanted: Wanted, json: bool) -> Vec<String> {
        let mut builder = SliceBuilder::new(SliceLines::new(Vec::new(), wanted, json, None));
        feed(SCRIPT, &mut builder);
        let lines = builder.finish();
        String::from_utf8(lines.out.into_inner()).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_header_stands_above_its_columns() {
        let of_sleeper = Wanted { tids: vec![Tid(7)], ..Wanted::default() };
        assert_eq!(
            [vec![HEADER.to_owned()], lines(of_sleeper, false)].concat(),
            [
                "            time CPU     tid name                 wait ms    delay ms      run ms left",
                "     0.001500000   0       7 t7                         -           -       1.500 S",
                "     0.003000000   0       7 t7                     0.750       0.250       0.750 R+",
            ]
        );
    }

    #[test]
    fn json_says_all_of_it_and_null_where_nothing_is_known() {
        let lines: Vec<serde_json::Value> =
            lines(Wanted::default(), true).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!((&lines[0]["run_ns"], &lines[0]["left"]), (&serde_json::Value::Null, &"R".into()));
        assert_eq!(
            lines[3],
            serde_json::json!({
                "time_ns": 3_000_000, "cpu": 0, "tid": 7, "name": "t7", "prio": 120, "wait_ns": 750_000,
                "delay_ns": 250_000, "run_ns": 750_000, "waited": "S", "left": "R+", "next": { "tid": 8, "name": "t8" },
            })
        );
    }

    #[test]
    fn a_part_of_the_time_and_some_cpus_choose_lines() {
        let from = Wanted { from: Some(Nanos::from_micros(3000)), ..Wanted::default() };
        assert_eq!(lines(from, false).len(), 2);
        let elsewhere = Wanted { cpus: Some("1".parse().unwrap()), ..Wanted::default() };
        assert!(lines(elsewhere, false).is_empty());
    }
}
