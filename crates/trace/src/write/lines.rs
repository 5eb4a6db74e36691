//! [`Lines`] and [`JobLines`]: events, and jobs, as lines for people (`docs/formats/trace-show.md`).
//!
//! Everything is put into one buffer by hand; the rest of the line costs more than the decoding already.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use surety_model::event::{
    BlockEvent, BlockStep, Comm, Event, EventKind, LeaveState, TimerFunction, TraceSink, Woken,
};
use surety_model::job::Job;
use surety_units::{CpuId, Nanos, Tid};

use crate::jobs::interrupts::softirq_name;
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals};
use crate::wanted::{Wanted, Window};
use crate::write::is_obeyed;

/// Threads that preempted a job and are named; further ones are only counted.
const NAMED_MAX: usize = 8;

/// Writes every event it is given as a line. After an error, or after as many lines as were asked for, it writes no
/// more.
#[derive(Debug)]
pub struct Lines<W> {
    out: Out<W>,
    names: HashMap<i32, Comm>,
}

/// Where lines go, and how many more.
#[derive(Debug)]
pub(super) struct Out<W> {
    out: W,
    pub(super) line: String,
    left: u64,
    written: io::Result<u64>,
}

impl<W: Write> Out<W> {
    pub(super) fn new(out: W, limit: Option<u64>) -> Out<W> {
        Out { out, line: String::new(), left: limit.unwrap_or(u64::MAX), written: Ok(0) }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0 || self.written.is_err()
    }

    /// Writes what is in the line.
    pub(super) fn end(&mut self) {
        self.line.push('\n');
        if let Ok(written) = &mut self.written {
            match self.out.write_all(self.line.as_bytes()) {
                Ok(()) => (*written, self.left) = (*written + 1, self.left - 1),
                Err(error) => self.written = Err(error),
            }
        }
        self.line.clear();
    }

    /// Writes what is in the line beside those that count.
    pub(super) fn note(&mut self) {
        self.line.push('\n');
        if let Ok(_) = self.written
            && let Err(error) = self.out.write_all(self.line.as_bytes())
        {
            self.written = Err(error);
        }
        self.line.clear();
    }

    /// Where lines went.
    #[cfg(test)]
    pub(super) fn into_inner(self) -> W {
        self.out
    }

    pub(super) fn finish(mut self) -> io::Result<u64> {
        let written = self.written?;
        self.out.flush()?;
        Ok(written)
    }
}

impl<W: Write> Lines<W> {
    /// At most `limit` lines into `out`, which should be buffered.
    pub fn new(out: W, limit: Option<u64>) -> Lines<W> {
        Lines { out: Out::new(out, limit), names: HashMap::new() }
    }

    /// Whether nothing more will be written.
    pub fn is_done(&self) -> bool {
        self.out.is_done()
    }

    /// Flushes, and returns how many lines were written.
    ///
    /// # Errors
    /// The first that `out` gave.
    pub fn finish(self) -> io::Result<u64> {
        self.out.finish()
    }

    /// Names that the event tells, for the events of that thread which do not.
    fn learn(&mut self, kind: &EventKind<'_>) {
        match kind {
            EventKind::Switch { next, next_comm, .. } => drop(self.names.insert(next.0, *next_comm)),
            EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
                self.names.insert(woken.tid.0, woken.comm);
            }
            _ => {}
        }
    }
}

impl<W: Write> TraceSink for Lines<W> {
    fn event(&mut self, event: &Event<'_>) {
        if self.is_done() {
            return;
        }
        let line = &mut self.out.line;
        let name = match &event.kind {
            EventKind::Switch { prev, prev_comm, .. } if *prev == event.current => Some(prev_comm),
            _ => self.names.get(&event.current.0),
        };
        begin(line, (event.time, event.cpu, event.current), name);
        line.push(' ');
        words(line, &event.kind);
        self.learn(&event.kind);
        self.out.end();
    }
}

/// `12.345678901`, right-aligned to 16 columns.
pub(super) fn seconds(line: &mut String, time: Nanos) {
    let ns = time.get();
    padded(line, ns.div_euclid(1_000_000_000), 6);
    line.push('.');
    let mut digits = [b'0'; 9];
    let mut rest = ns.rem_euclid(1_000_000_000).unsigned_abs();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    line.extend(digits.map(char::from));
}

/// An integer without the formatting machinery.
pub(super) fn integer(line: &mut String, value: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        line.push('-');
    }
    line.extend(digits[at..].iter().copied().map(char::from));
}

/// What a line begins with: the time, the CPU, and the thread with its name, each in its column.
#[inline]
pub(super) fn begin(line: &mut String, (time, cpu, tid): (Nanos, CpuId, Tid), name: Option<&Comm>) {
    seconds(line, time);
    line.push(' ');
    padded(line, cpu.0.into(), 3);
    line.push(' ');
    padded(line, tid.0.into(), 7);
    line.push(' ');
    let from = line.len();
    match name {
        _ if tid == Tid::IDLE => line.push_str("idle"),
        Some(name) => word(line, name),
        None => line.push('-'),
    }
    while line.len() < from + 16 {
        line.push(' ');
    }
}

pub(super) fn padded(line: &mut String, value: i64, width: usize) {
    let mut room = width;
    let mut rest = value.unsigned_abs();
    loop {
        room = room.saturating_sub(1);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        room = room.saturating_sub(1);
    }
    (0..room).for_each(|_| line.push(' '));
    integer(line, value);
}

/// A name; what would break the line is replaced.
pub(super) fn word(line: &mut String, comm: &Comm) {
    let end = comm.0.iter().position(|byte| *byte == 0).unwrap_or(comm.0.len());
    match std::str::from_utf8(&comm.0[..end]) {
        Ok(text) if !text.contains(is_obeyed) => line.push_str(text),
        _ => clean(line, &comm.text()),
    }
}

fn clean(line: &mut String, text: &str) {
    line.extend(text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }));
}

/// `NAME TID`; the idle thread has no name.
fn thread(line: &mut String, tid: Tid, comm: &Comm) {
    if tid == Tid::IDLE {
        line.push_str("idle");
        return;
    }
    word(line, comm);
    line.push(' ');
    integer(line, tid.0.into());
}

/// Its class and priority, as `chrt` and `nice` count.
fn priority(line: &mut String, prio: i32) {
    match prio {
        ..0 => line.push_str(" (deadline)"),
        0..100 => {
            line.push_str(" (realtime ");
            integer(line, (99 - prio).into());
            line.push(')');
        }
        120 => {}
        _ => {
            line.push_str(" (nice ");
            integer(line, (i64::from(prio)) - 120);
            line.push(')');
        }
    }
}

fn numbered(line: &mut String, text: &str, number: i64) {
    line.push_str(text);
    integer(line, number);
}

/// What happened.
fn words(line: &mut String, kind: &EventKind<'_>) {
    match kind {
        EventKind::Switch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
            line.push_str("switch: ");
            if *prev != Tid::IDLE {
                thread(line, *prev, prev_comm);
                priority(line, *prev_prio);
                line.push_str(match prev_state {
                    LeaveState::Runnable { preempted: true } => " is preempted by ",
                    LeaveState::Runnable { preempted: false } => " wants to go on after ",
                    LeaveState::Sleeping => " sleeps, then ",
                    LeaveState::Uninterruptible => " waits, then ",
                    LeaveState::Stopped => " is stopped, then ",
                    LeaveState::Dead => " is dead, then ",
                    LeaveState::Other(_) => " leaves, then ",
                });
            }
            thread(line, *next, next_comm);
            if *next != Tid::IDLE {
                priority(line, *next_prio);
            }
        }
        EventKind::Waking(woken) => wake(line, "wakes ", woken),
        EventKind::Wakeup(woken) => wake(line, "queues ", woken),
        EventKind::WakeupNew(woken) => wake(line, "queues the new ", woken),
        EventKind::Migrate { tid, comm, from, to } => {
            line.push_str("moves ");
            thread(line, *tid, comm);
            numbered(line, " from CPU ", from.0.into());
            numbered(line, " to ", to.0.into());
        }
        EventKind::Fork { child, child_comm, .. } => {
            line.push_str("makes ");
            thread(line, *child, child_comm);
        }
        EventKind::Exec { tid, old } => {
            numbered(line, "executes a program as ", tid.0.into());
            if tid != old {
                numbered(line, ", before ", old.0.into());
            }
        }
        EventKind::Exit { tid, comm } => {
            line.push_str("exits: ");
            thread(line, *tid, comm);
        }
        EventKind::IrqEntry { irq, name } => {
            numbered(line, "interrupt ", (*irq).into());
            line.push(' ');
            clean(line, name);
            line.push_str(" begins");
        }
        EventKind::IrqExit { irq } => {
            numbered(line, "interrupt ", (*irq).into());
            line.push_str(" ends");
        }
        EventKind::VectorEntry { name } => {
            line.push_str("interrupt ");
            line.push_str(name);
            line.push_str(" begins");
        }
        EventKind::VectorExit { name } => {
            line.push_str("interrupt ");
            line.push_str(name);
            line.push_str(" ends");
        }
        EventKind::SoftirqRaise { vector } => softirq(line, *vector, " is raised"),
        EventKind::SoftirqEntry { vector } => softirq(line, *vector, " begins"),
        EventKind::SoftirqExit { vector } => softirq(line, *vector, " ends"),
        EventKind::TimerStart { timer, function, expires } => {
            timed(line, *timer, *function, " is set to ");
            let from = line.len();
            seconds(line, *expires);
            let blank = line[from..].len() - line[from..].trim_start().len();
            line.replace_range(from..from + blank, "");
        }
        EventKind::TimerCancel { timer } => {
            let _ = write!(line, "timer {timer:#x} is cancelled");
        }
        EventKind::TimerExpire { timer, function } => timed(line, *timer, *function, " expires"),
        EventKind::Block(event) => block(line, event),
        EventKind::Marker { text } => {
            line.push_str("says: ");
            clean(line, text);
        }
        EventKind::Lost { count: Some(count) } => {
            let _ = write!(line, "{count} events of this CPU were lost before this");
        }
        EventKind::Lost { count: None } => line.push_str("events of this CPU were lost before this"),
        _ => line.push_str("something else"),
    }
}

/// A step of a bio or a request: what is done where, and with what result.
fn block(line: &mut String, event: &BlockEvent) {
    let BlockEvent { disk, rwbs, sector, sectors, error, .. } = event;
    line.push_str(match event.step {
        BlockStep::BioQueued => "submits ",
        BlockStep::BioAppended | BlockStep::BioPrepended => "merges into a request ",
        BlockStep::RequestMade => "makes a request of ",
        BlockStep::Inserted => "gives the I/O scheduler ",
        BlockStep::Joined => "joins to another request ",
        BlockStep::Issued => "gives the disk ",
        BlockStep::Returned => "takes back from the disk ",
        BlockStep::Completed => "the disk is done with ",
    });
    let _ = write!(line, "{} {sector} + {sectors} of {disk}", rwbs.text());
    if *error != 0 {
        numbered(line, ", error ", (*error).into());
    }
}

fn wake(line: &mut String, verb: &str, woken: &Woken) {
    line.push_str(verb);
    thread(line, woken.tid, &woken.comm);
    priority(line, woken.prio);
    numbered(line, " on CPU ", woken.target.0.into());
}

fn softirq(line: &mut String, vector: u32, what: &str) {
    line.push_str("softirq ");
    line.push_str(&softirq_name(vector));
    line.push_str(what);
}

fn timed(line: &mut String, timer: u64, function: TimerFunction, what: &str) {
    line.push_str("timer ");
    let _ = write!(line, "{timer:#x}");
    line.push_str(match function {
        TimerFunction::DeadlineReplenish => " (budget)",
        TimerFunction::Wakeup => " (sleep)",
        TimerFunction::Tick => " (tick)",
        TimerFunction::Other => "",
    });
    line.push_str(what);
}

/// Writes every job of the wanted threads as a line of text or of JSON, when it completes.
#[derive(Debug)]
pub struct JobLines<W> {
    out: Out<W>,
    wanted: Wanted,
    window: Option<Window>,
    json: bool,
    /// By slot: who preempted the thread since its last job, how often.
    preempted: Vec<Vec<(Tid, Comm, u64)>>,
    /// Jobs that turned out to be none after they were written.
    void: u64,
    /// Jobs written of each slot's thread.
    told: Vec<u64>,
}

impl<W: Write> JobLines<W> {
    /// At most `limit` lines into `out`, which should be buffered.
    pub fn new(out: W, wanted: Wanted, json: bool, limit: Option<u64>) -> JobLines<W> {
        JobLines {
            out: Out::new(out, limit),
            wanted,
            window: None,
            json,
            preempted: Vec::new(),
            void: 0,
            told: Vec::new(),
        }
    }

    /// The trace's first event came then.
    pub fn begin(&mut self, first: Nanos) {
        self.window = Some(self.wanted.window(first));
    }

    /// Whether nothing more will be written.
    pub fn is_done(&self) -> bool {
        self.out.is_done()
    }

    /// Flushes, and returns how many lines were written, and how many of them are of busy periods before a thread
    /// began to mark its jobs.
    ///
    /// # Errors
    /// The first that the output gave.
    pub fn finish(self) -> io::Result<(u64, u64)> {
        Ok((self.out.finish()?, self.void))
    }

    fn room(&mut self, slot: usize) {
        if self.told.len() <= slot {
            self.told.resize(slot + 1, 0);
            self.preempted.resize_with(slot + 1, Vec::new);
        }
    }

    fn text(line: &mut String, thread: &ThreadKey, job: &Job, by: &[(Tid, Comm, u64)]) {
        begin(line, (job.release, job.cpu, thread.tid), Some(&thread.comm));
        if let Some(index) = job.index {
            let _ = write!(line, " job {index}:");
        }
        let _ = write!(
            line,
            " starts after {}, completes after {}; ran {}",
            job.latency(),
            job.response(),
            job.execution
        );
        if job.unknown.is_positive() {
            let _ =
                write!(line, ", and in part of {} that is unknown (a switch was not recorded)", job.unknown);
        } else if job.inferred.is_positive() {
            let _ = write!(line, " (less up to {}: a switch was not recorded)", job.inferred);
        }
        if job.interrupted.is_positive() {
            let _ = write!(line, " with {} of interrupts", job.interrupted);
        }
        if job.throttled.is_positive() {
            let _ = write!(line, "; out of budget {}", job.throttled);
        }
        if job.preemptions > 0 {
            let times = if job.preemptions == 1 { "time" } else { "times" };
            let _ = write!(line, "; preempted {} {times} for {} by", job.preemptions, job.preempted);
            for (k, (tid, comm, times)) in by.iter().enumerate() {
                line.push_str(if k == 0 { " " } else { ", " });
                self::thread(line, *tid, comm);
                if *times > 1 {
                    let _ = write!(line, " ({times}x)");
                }
            }
        }
    }

    fn object(line: &mut String, thread: &ThreadKey, job: &Job, by: &[(Tid, Comm, u64)]) {
        let _ = write!(line, r#"{{"tid":{},"name":"#, thread.tid.0);
        super::jsonl::string(line, &thread.comm.text());
        let _ = match job.index {
            Some(index) => write!(line, r#","job":{index}"#),
            None => write!(line, r#","job":null"#),
        };
        let _ = write!(
            line,
            r#","cpu":{},"release_ns":{},"start_ns":{},"completion_ns":{},"execution_ns":{},"interrupted_ns":{},"throttled_ns":{},"inferred_ns":{},"unknown_ns":{},"censored":{},"preemptions":{},"preempted_ns":{},"preempted_by":["#,
            job.cpu.0,
            job.release.get(),
            job.start.get(),
            job.completion.get(),
            job.execution.get(),
            job.interrupted.get(),
            job.throttled.get(),
            job.inferred.get(),
            job.unknown.get(),
            job.unknown.is_positive(),
            job.preemptions,
            job.preempted.get()
        );
        for (k, (tid, comm, times)) in by.iter().enumerate() {
            let _ = write!(line, r#"{}{{"tid":{},"name":"#, if k == 0 { "" } else { "," }, tid.0);
            super::jsonl::string(line, &comm.text());
            let _ = write!(line, r#","times":{times}}}"#);
        }
        line.push_str("]}");
    }
}

impl<W: Write> JobSink for JobLines<W> {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        self.room(thread.slot);
        let by = std::mem::take(&mut self.preempted[thread.slot]);
        let window = self.window.unwrap_or(Window::ALL);
        if self.is_done() || !self.wanted.thread(thread.tid, thread.comm) || !self.wanted.job(window, job) {
            return;
        }
        if self.json {
            Self::object(&mut self.out.line, thread, job, &by);
        } else {
            Self::text(&mut self.out.line, thread, job, &by);
        }
        self.out.end();
        self.told[thread.slot] += 1;
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        self.job(thread, job);
    }

    fn censored(&mut self, thread: &ThreadKey, _: Nanos) {
        self.room(thread.slot);
        self.preempted[thread.slot].clear();
    }

    fn forget(&mut self, thread: &ThreadKey) {
        self.room(thread.slot);
        self.void += std::mem::take(&mut self.told[thread.slot]);
    }

    fn preempted(&mut self, thread: &ThreadKey, _: Nanos, by: Tid, comm: Comm) {
        if !self.wanted.thread(thread.tid, thread.comm) {
            return;
        }
        self.room(thread.slot);
        let list = &mut self.preempted[thread.slot];
        if let Some((_, name, times)) = list.iter_mut().find(|(tid, ..)| *tid == by) {
            (*name, *times) = (comm, *times + 1);
        } else if list.len() < NAMED_MAX {
            list.push((by, comm, 1));
        }
    }

    fn ended(&mut self, thread: &ThreadKey, _: &ThreadTotals) {
        self.room(thread.slot);
        self.preempted[thread.slot].clear();
        self.told[thread.slot] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::JobBuilder;
    use crate::jobs::tests::feed;

    const SCRIPT: &str = "0 0 sw 0 0
         10 0 waking 7
         12 0 sw 0 7
         13 0 irq
         14 0 irqx
         15 0 sw 7:R+ 8
         20 0 sw 8:S 7
         25 0 sw 7:R+:120 9:R:49
         26 0 sw 9:S:49 7
         30 0 sw 7:S 0
         31 0 mark a\u{1b}[2Jb
         32 0 lost";

    #[test]
    fn events_are_sentences_of_one_line() {
        let mut lines = Lines::new(Vec::new(), None);
        feed(SCRIPT, &mut lines);
        let text = String::from_utf8(lines.out.out).unwrap();
        let told: Vec<&str> = text.lines().map(|line| line[46..].trim()).collect();
        assert_eq!(
            told,
            [
                "switch: idle",
                "wakes t7 7 on CPU 0",
                "switch: t7 7",
                "interrupt 9 disk begins",
                "interrupt 9 ends",
                "switch: t7 7 is preempted by t8 8",
                "switch: t8 8 sleeps, then t7 7",
                "switch: t7 7 is preempted by t9 9 (realtime 50)",
                "switch: t9 9 (realtime 50) sleeps, then t7 7",
                "switch: t7 7 sleeps, then idle",
                "says: a\u{fffd}[2Jb",
                "events of this CPU were lost before this",
            ]
        );
        assert_eq!(text.lines().nth(3).unwrap()[..46].trim(), "0.000013000   0       7 t7");
        let mut two = Lines::new(Vec::new(), Some(2));
        feed(SCRIPT, &mut two);
        assert!(two.is_done());
        assert_eq!(two.finish().unwrap(), 2);
    }

    #[test]
    fn jobs_name_who_preempted_them() {
        let lines = |json| {
            let wanted = Wanted { tids: vec![Tid(7)], ..Wanted::default() };
            let mut builder = JobBuilder::into_sink(JobLines::new(Vec::new(), wanted, json, None));
            feed(SCRIPT, &mut builder);
            String::from_utf8(builder.end().0.out.out).unwrap()
        };
        assert_eq!(
            lines(false),
            "     0.000010000   0       7 t7               starts after 2.000 us, completes after 20.00 us; ran 12.00 us with 1.000 us \
             of interrupts; preempted 2 times for 6.000 us by t8 8, t9 9\n"
        );
        let value: serde_json::Value = serde_json::from_str(lines(true).trim()).unwrap();
        assert_eq!((&value["release_ns"], &value["preempted_ns"]), (&10_000.into(), &6_000.into()));
        assert_eq!(value["preempted_by"][1]["name"], "t9");
    }

    #[test]
    fn numbers_are_those_of_the_standard_formatting() {
        for value in [0, 7, -7, 10, 99_999, i64::MAX, i64::MIN] {
            let mut line = String::new();
            padded(&mut line, value, 6);
            assert_eq!(line, format!("{value:6}"));
        }
        let mut line = String::new();
        seconds(&mut line, Nanos::new(12_000_000_345));
        assert_eq!(line, "    12.000000345");
    }

    #[test]
    fn a_failing_output_is_told_once_and_ends_it() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut lines = Lines::new(Full, None);
        feed(SCRIPT, &mut lines);
        assert!(lines.is_done());
        assert_eq!(lines.finish().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
