//! Start-ups: recorded I/O made again, one thread for each recorded process, the requests one at a time in their order.
//!
//! A request is issued its think time after the one before has ended, or after that was issued where nobody waited for it; the last of
//! it is spent looking at the clock, as on the host: on one CPU nobody else submits anything meanwhile. Reads
//! and writes go past the page cache; what was read ahead is asked for from it. A start is ready when the last request has ended
//! and everything read ahead is there; it is given up after its timeout. Starts follow one another, each program's in turn with
//! the others', and before each one that is cold the page cache forgets its file.

use std::sync::Arc;

use surety_block::ProcessId;
use surety_model::event::{Span, SpanFate, SpanMarker};
use surety_model::formats::io_trace::{Action, IoTrace, Layout};
use surety_model::record::ActivityRecord;
use surety_model::startup::{Attempt, During, StartupAccount, Throughput};
use surety_model::workload::Startup;
use surety_units::Nanos;

use super::{Operation, Seat, Step, Storage};
use crate::disk::{FileId, PAGE};

/// How long a thread works until it looks at the clock again: more than a kernel's, and no thread that has lost the CPU meanwhile thinks
/// longer by more than this.
const LOOK: Nanos = Nanos::from_micros(100);

/// A start-up that is replayed.
pub(in crate::world) struct Subject {
    /// Its number where the trace names it.
    activity: usize,
    pub trace: Arc<IoTrace>,
    pub layout: Layout,
    pub file: FileId,
    /// Each recorded process, and the event of its thread.
    pub processes: Vec<ProcessId>,
    pub signals: Vec<usize>,
    pub repeat: u32,
    pub gap: Nanos,
    pub timeout: Nanos,
    /// The last of a think time, which is spent looking at the clock.
    pub spin: Nanos,
    pub cold: bool,
    pub attempts: Vec<Attempt>,
    /// What its disk moved for all while it started and while nothing did.
    pub throughput: Throughput,
}

impl Subject {
    /// A start-up whose file is there, without threads yet.
    pub(in crate::world) fn new(
        (startup, activity): (&Startup, usize),
        trace: Arc<IoTrace>,
        file: FileId,
        spin: Nanos,
    ) -> Subject {
        Subject {
            activity,
            layout: trace.layout(),
            trace,
            file,
            processes: Vec::new(),
            signals: Vec::new(),
            repeat: startup.repeat,
            gap: startup.gap,
            timeout: startup.limit(),
            spin,
            cold: startup.cold,
            attempts: Vec::new(),
            throughput: Throughput::default(),
        }
    }
}

/// A start that is under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    subject: usize,
    begin: Nanos,
    until: Nanos,
    /// The request whose turn it is; then, what was read ahead is waited for.
    turn: usize,
    /// When the one before ended, or was issued.
    since: Nanos,
}

/// All start-ups of a run.
#[derive(Default)]
pub(in crate::world) struct Starts {
    pub subjects: Vec<Subject>,
    /// The event of the thread that begins them.
    pub starter: usize,
    /// The first may begin then; none is begun at the end or later.
    pub observe: Nanos,
    pub end: Nanos,
    running: Option<Running>,
}

impl Starts {
    /// Whether all were made.
    pub(in crate::world) fn are_done(&self) -> bool {
        self.subjects.iter().all(|subject| subject.attempts.len() >= subject.repeat as usize)
    }

    /// The start that is under way is over; what the trace is to say of it.
    fn finish(&mut self, ready: Option<Nanos>, now: Nanos, storage: &Storage) -> Option<SpanMarker<usize>> {
        self.read(now, storage);
        let Running { subject, begin, until, .. } = self.running.take()?;
        let subject = &mut self.subjects[subject];
        let (fate, end, attempt) = match ready.filter(|at| *at <= until) {
            Some(at) => (SpanFate::Ready, at, Attempt::Ready(at - begin)),
            None => (SpanFate::GivenUp, until, Attempt::GivenUp(until - begin)),
        };
        let (number, name) = (subject.attempts.len() as u64, subject.activity);
        subject.attempts.push(attempt);
        Some(SpanMarker::Over(Span { fate, number, begin, end, thread: None, name }))
    }

    /// What is known of a start that the run's end cut short, and what disks moved until then.
    pub(in crate::world) fn close(&mut self, now: Nanos, storage: &Storage) {
        self.finish(None, now, storage);
    }

    /// Reads the counts of the disks where a start begins or ends, or the run does.
    fn read(&mut self, now: Nanos, storage: &Storage) {
        let running = self.running.map(|running| running.subject);
        for (index, subject) in self.subjects.iter_mut().enumerate() {
            let during = match running {
                None => During::Load,
                Some(started) if started == index => During::Start,
                Some(_) => During::Another,
            };
            subject.throughput.read(now, storage.moved(subject.file), during);
        }
    }
}

/// Begins starts.
pub(in crate::world) struct Starter {
    pub seat: Seat,
    not_before: Nanos,
    stage: Begins,
    /// Between the start that is under way and the next.
    gap: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Next,
    /// Has begun one and is to wait for its end.
    Begun,
    /// One has ended.
    Ended,
}

impl Starter {
    pub(in crate::world) fn new(seat: Seat) -> Starter {
        Starter { seat, not_before: Nanos::ZERO, stage: Begins::Next, gap: Nanos::ZERO }
    }

    pub(in crate::world) fn next(&mut self, now: Nanos, storage: &mut Storage, starts: &mut Starts) -> Step {
        match std::mem::replace(&mut self.stage, Begins::Next) {
            Begins::Begun => {
                self.stage = Begins::Ended;
                return Step::Wait(self.seat.signal);
            }
            Begins::Ended => self.not_before = now + self.gap,
            Begins::Next => {}
        }
        let left = |(_, subject): &(usize, &Subject)| subject.attempts.len() < subject.repeat as usize;
        let all = starts.subjects.iter().enumerate().filter(left);
        let Some((index, subject)) = all.min_by_key(|(_, subject)| subject.attempts.len()) else {
            return Step::Exit;
        };
        let due = self.not_before.max(starts.observe);
        if now < due {
            return Step::SleepUntil(due);
        }
        if now >= starts.end {
            return Step::Exit;
        }
        if subject.cold {
            storage.evict(subject.file);
        }
        let until = now.saturating_add(subject.timeout).min(starts.end);
        self.gap = subject.gap;
        let first = subject.trace.requests[0].process;
        let signal = subject.signals[first];
        storage.say(SpanMarker::Begun(subject.activity));
        starts.read(now, storage);
        starts.running = Some(Running { subject: index, begin: now, until, turn: 0, since: now });
        self.stage = Begins::Begun;
        Step::Signal(signal)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for its turn.
    Waits,
    /// It is its turn.
    Called,
    /// Has thought.
    Thought,
    /// Is at its request.
    At,
    /// Waits for what was read ahead.
    Gathers,
}

/// The thread of one recorded process.
pub(in crate::world) struct Replayer {
    pub seat: Seat,
    subject: usize,
    process: usize,
    stage: Stage,
    /// The request read ahead whose pages it waits for next.
    gathered: usize,
}

impl Replayer {
    /// The thread of a subject's process.
    pub(in crate::world) fn new(seat: Seat, subject: usize, process: usize) -> Replayer {
        Replayer { seat, subject, process, stage: Stage::Waits, gathered: 0 }
    }

    pub(in crate::world) fn next(&mut self, now: Nanos, storage: &mut Storage, starts: &mut Starts) -> Step {
        loop {
            match self.stage {
                Stage::Waits => {
                    self.stage = Stage::Called;
                    return Step::Wait(self.seat.signal);
                }
                _ if starts.running.is_none() => {
                    self.stage = Stage::Waits;
                }
                Stage::Called => {
                    let running = starts.running.as_ref().expect("it was just looked at");
                    let subject = &starts.subjects[self.subject];
                    let think = subject.trace.requests[running.turn].think;
                    let left = (running.since + think).min(running.until) - now;
                    if left > subject.spin {
                        return Step::SleepUntil(now + left - subject.spin);
                    }
                    if left.is_positive() {
                        return Step::Run(left.min(LOOK));
                    }
                    self.stage = Stage::Thought;
                }
                Stage::Thought => {
                    let running = starts.running.expect("it was just looked at");
                    if now >= running.until {
                        return self.is_over(None, now, storage, starts);
                    }
                    storage.say(SpanMarker::Thought { from: running.since, until: now });
                    let operation = self.operation(running.turn, &starts.subjects[self.subject]);
                    self.seat.begin(storage, operation);
                    self.stage = Stage::At;
                }
                Stage::At => {
                    if let Some(wait) = self.seat.waits(now, storage) {
                        return wait;
                    }
                    if let Some(step) = self.pass(now, starts) {
                        return step;
                    }
                }
                Stage::Gathers => {
                    if let Some(wait) = self.seat.waits(now, storage) {
                        return wait;
                    }
                    let running = starts.running.expect("it was just looked at");
                    if now >= running.until {
                        return self.is_over(None, now, storage, starts);
                    }
                    let subject = &starts.subjects[self.subject];
                    let ahead = |index: &usize| subject.trace.requests[*index].action == Action::ReadAhead;
                    match (self.gathered..subject.trace.requests.len()).find(ahead) {
                        None => return self.is_over(Some(now), now, storage, starts),
                        Some(index) => {
                            self.gathered = index + 1;
                            let (first, end) = pages(subject, index);
                            self.seat.begin(storage, Operation::Read { file: subject.file, first, end });
                        }
                    }
                }
            }
        }
    }

    fn operation(&self, index: usize, subject: &Subject) -> Operation {
        let (file, (first, end)) = (subject.file, pages(subject, index));
        match subject.trace.requests[index].action {
            Action::Read => Operation::direct(file, false, first, end),
            Action::Write => Operation::direct(file, true, first, end),
            Action::ReadAhead => Operation::Ahead { file, first, end },
        }
    }

    /// Its request has ended: whose turn is next. `None`: its own, or it gathers what was read ahead.
    fn pass(&mut self, now: Nanos, starts: &mut Starts) -> Option<Step> {
        let running = starts.running.as_mut().expect("a start is under way");
        let subject = &starts.subjects[self.subject];
        running.turn += 1;
        running.since = now;
        match subject.trace.requests.get(running.turn) {
            None => {
                (self.stage, self.gathered) = (Stage::Gathers, 0);
                None
            }
            Some(next) if next.process == self.process => {
                self.stage = Stage::Called;
                None
            }
            Some(next) => {
                self.stage = Stage::Waits;
                Some(Step::Signal(subject.signals[next.process]))
            }
        }
    }

    /// The start is over: its processes exit.
    fn is_over(
        &mut self,
        ready: Option<Nanos>,
        now: Nanos,
        storage: &mut Storage,
        starts: &mut Starts,
    ) -> Step {
        self.stage = Stage::Waits;
        for process in &starts.subjects[self.subject].processes {
            storage.exit(now, *process);
        }
        if let Some(over) = starts.finish(ready, now, storage) {
            storage.say(over);
        }
        Step::Signal(starts.starter)
    }
}

/// The pages of a request in the file of its replay.
fn pages(subject: &Subject, index: usize) -> (u64, u64) {
    let first = subject.layout.offsets[index];
    (first / PAGE, (first + subject.layout.lengths[index]).div_ceil(PAGE))
}

/// What became of starts, beside the loads and on the idle machine.
pub(in crate::world) fn startup_record(
    startup: &Startup,
    idle: &[Attempt],
    loaded: &Subject,
) -> ActivityRecord {
    let mut account = StartupAccount::new(startup);
    idle.iter().for_each(|attempt| account.add_idle(*attempt));
    loaded.attempts.iter().for_each(|attempt| account.add(*attempt));
    account.finish(loaded.throughput.figures())
}
