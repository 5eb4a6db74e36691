//! Loads that make processes: each runs in a small program of its own, this program started anew.
//!
//! A fork makes every page of the forking process read-only until it is next written to, so a process that measures must
//! not fork again and again. The helper inherits class and CPUs from its thread of the load, dies with it, and takes its
//! children along. It counts into a file in memory, which the thread reads where observation begins and ends.

pub(super) mod command;
pub(super) mod forks;
pub(super) mod messages;

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use surety_kernel::command::{ChildSetup, Command, Spawned, Stream, spawn};
use surety_kernel::files::memory_file;
use surety_kernel::{RealKernel, clock, thread};
use surety_model::workload::Rights;
use surety_units::Nanos;

use super::{Counts, LoadRun};
use crate::meter::Metered;
use crate::programs::time_of;
use crate::said::last_words;
use crate::window::{Gate, Window};

/// The argument that makes this program a helper.
pub const HELPER_WORD: &str = "load-helper";

/// Whether [`helper_main`] was asked, so that a program started anew would be a helper.
static IS_ABLE: AtomicBool = AtomicBool::new(false);

/// Bytes of one counting process in the file: four counts. The first slot holds the order to stop.
const SLOT: u64 = 32;
/// How long a helper may take to end its children.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// Between two looks at whether the run is over.
const LOOK: Nanos = Nanos::from_millis(20);

/// A kind that runs in a helper.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Processes made and ended.
    Forks,
    /// Processes that talk, with so many bytes in each message.
    Messages(usize),
    /// A program.
    Command {
        /// Its command line.
        line: String,
        /// Whether it is run once.
        once: bool,
        /// As whom.
        rights: Rights,
    },
}

/// To be called first thing by a program whose loads make processes: where it was started as a helper, works and returns
/// the exit code; else `None`, and from then on helpers can be started.
///
/// The caller must not have made threads yet.
pub fn helper_main() -> Option<u8> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() != Some(HELPER_WORD) {
        IS_ABLE.store(true, Ordering::Relaxed);
        return None;
    }
    let words: Vec<String> = words.collect();
    let result = Order::parse(&words).ok_or_else(|| "a helper of loads is not started by hand".to_owned());
    let code = result.and_then(|order| order.carry_out());
    Some(match code {
        Ok(()) => 0,
        Err(why) => {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "{why}");
            3
        }
    })
}

/// What a helper is to do.
struct Order {
    begin: Nanos,
    end: Nanos,
    mark: Option<String>,
    task: Task,
}

impl Order {
    fn words(&self) -> Vec<String> {
        let mut words = vec![
            HELPER_WORD.to_owned(),
            self.begin.get().to_string(),
            self.end.get().to_string(),
            self.mark.clone().unwrap_or_default(),
        ];
        match &self.task {
            Task::Forks => words.push("forks".to_owned()),
            Task::Messages(bytes) => words.extend(["messages".to_owned(), bytes.to_string()]),
            Task::Command { line, once, rights } => {
                words.extend(["command".to_owned(), line.clone(), once.to_string()]);
                words.push(rights.user.clone().unwrap_or_default());
                words.push(rights.keep.map(|keep| keep.to_string()).unwrap_or_default());
            }
        }
        words
    }

    fn parse(words: &[String]) -> Option<Order> {
        let [begin, end, mark, task @ ..] = words else { return None };
        let time = |text: &str| text.parse().ok().map(Nanos::new);
        let task = match task {
            [kind] if kind == "forks" => Task::Forks,
            [kind, bytes] if kind == "messages" => Task::Messages(bytes.parse().ok()?),
            [kind, line, once, user, keep] if kind == "command" => {
                let keep = Some(keep).filter(|keep| !keep.is_empty()).map(|keep| keep.parse());
                let user = Some(user.clone()).filter(|user| !user.is_empty());
                let rights = Rights { user, keep: keep.transpose().ok()? };
                Task::Command { line: line.clone(), once: once.parse().ok()?, rights }
            }
            _ => return None,
        };
        let mark = Some(mark.clone()).filter(|m| !m.is_empty());
        Some(Order { begin: time(begin)?, end: time(end)?, mark, task })
    }

    fn carry_out(&self) -> Result<(), String> {
        let board = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
        let board = Board { file: File::from(board) };
        let name = match self.task {
            Task::Forks => "forks",
            Task::Messages(_) => "messages",
            Task::Command { .. } => "command",
        };
        let _ = thread::set_name(&format!("load-{name}"));
        let _ = clock::sleep_until(self.begin, None);
        let shift = Shift { board, end: self.end };
        match &self.task {
            Task::Forks => forks::work(&shift),
            Task::Messages(bytes) => messages::work(&shift, *bytes),
            Task::Command { line, once, rights } => {
                command::work(&shift, line, *once, rights, self.mark.as_deref())
            }
        }
    }
}

/// How long a helper works, and where it counts.
pub(super) struct Shift {
    board: Board,
    end: Nanos,
}

impl Shift {
    /// Whether the helper should end now.
    pub fn is_over(&self) -> bool {
        clock::monotonic() >= self.end || self.board.is_stopped()
    }

    /// The end, or the next time to look whether it came early.
    pub fn next_look(&self) -> Nanos {
        (clock::monotonic() + LOOK).min(self.end)
    }

    /// Sleeps to the end.
    pub fn sleep(&self) {
        while !self.is_over() && clock::sleep_until(self.next_look(), None).is_ok() {}
    }

    /// Says what counting process `number` has done so far.
    pub fn count(&self, number: u64, counts: Counts) {
        self.board.write(number, counts);
    }
}

/// The file in memory that helper and thread share.
struct Board {
    file: File,
}

impl Board {
    fn is_stopped(&self) -> bool {
        let mut word = [0; 8];
        matches!(self.file.read_at(&mut word, 0), Ok(8)) && word != [0; 8]
    }

    fn stop(&self) {
        let _ = self.file.write_all_at(&1_u64.to_ne_bytes(), 0);
    }

    fn write(&self, number: u64, counts: Counts) {
        let mut slot = [0; SLOT as usize];
        let taken = u64::try_from(counts.taken.get()).unwrap_or(0);
        let values = [counts.bytes, counts.rounds, counts.lost, taken];
        for (part, value) in slot.chunks_exact_mut(8).zip(values) {
            part.copy_from_slice(&value.to_ne_bytes());
        }
        // Memory for a few slots was there when the file was made.
        let _ = self.file.write_all_at(&slot, SLOT * (number + 1));
    }

    /// The sum over all processes.
    fn read(&self) -> Counts {
        let length = self.file.metadata().map_or(0, |m| m.len());
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.file.read_at(&mut bytes, 0).unwrap_or(0);
        let mut sum = Counts::default();
        for slot in bytes[..read].chunks_exact(SLOT as usize).skip(1) {
            let word = |at: usize| slot[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
            let taken = Nanos::new(i64::try_from(word(24)).unwrap_or(i64::MAX));
            sum = sum.plus(Counts { bytes: word(0), rounds: word(8), lost: word(16), taken });
        }
        sum
    }
}

/// Why no helper can be started.
pub(super) fn refusal() -> Option<&'static str> {
    let is_able = IS_ABLE.load(Ordering::Relaxed);
    (!is_able).then_some("it runs in a program of its own, which this one does not start; run it by `surety`")
}

/// A thread of such a load: starts its helper and looks after it.
pub(super) struct Employer {
    /// What the helper is to do.
    pub task: Task,
    /// Carried by the helper and all it starts.
    pub mark: Option<String>,
}

impl super::LoadWorker for Employer {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        let failed = |what: String| LoadRun::gave_up(what, "see `ulimit -u`, and that /proc is mounted");
        let made = memory_file().and_then(|board| Ok((Board { file: board }, tempfile::tempfile()?)));
        let (board, mut errors) = match made {
            Ok(made) => made,
            Err(error) => {
                let remedy = "set TMPDIR to a directory that can be written and has room";
                return LoadRun::gave_up(format!("no file for its counts: {error}"), remedy);
            }
        };
        let mut helper = match self.start(&board, &errors, window) {
            Ok(helper) => helper,
            Err(error) => return failed(format!("its helper did not start: {error}")),
        };
        let kernel = RealKernel::new();
        let mut first = None;
        loop {
            let now = clock::monotonic();
            if first.is_none() && now >= window.observe {
                first = Some((time_of(&kernel, helper.pid()), board.read()));
            }
            if gate.is_over(window, now) {
                break;
            }
            let next = (now + LOOK).min(window.end);
            let next = if first.is_none() { next.min(window.observe) } else { next };
            if matches!(helper.wait_until(next), Ok(Some(_)) | Err(_)) && clock::monotonic() < window.end {
                let words = last_words(&mut errors).unwrap_or_else(|| "it said nothing".to_owned());
                return failed(format!("its helper ended before the run did: {words}"));
            }
        }
        let last = (time_of(&kernel, helper.pid()), board.read());
        board.stop();
        // A helper that does not obey is killed when it is dropped.
        let _ = helper.wait_until(clock::monotonic() + PATIENCE);
        drop(helper);
        let Some((time, counts)) = first else { return LoadRun::default() };
        let metered = time.zip(last.0).map_or_else(Metered::default, |(start, end)| Metered {
            run: (end.0 - start.0).max(Nanos::ZERO),
            waited: Some((end.1 - start.1).max(Nanos::ZERO)),
            longest_gap: Nanos::ZERO,
        });
        let trouble = matches!(self.task, Task::Command { .. }) && last.1.rounds == 0 && last.1.lost > 0;
        let trouble = trouble.then(|| command::never_succeeded(last.1.lost, last_words(&mut errors)));
        // What is done once counts whenever it is.
        let is_once = matches!(self.task, Task::Command { once: true, .. });
        let done = if is_once { last.1 } else { last.1.since(counts) };
        LoadRun { metered, is_busy: false, is_elsewhere: true, done, trouble }
    }
}

impl Employer {
    fn start(&self, board: &Board, errors: &File, window: &Window) -> Result<Spawned, String> {
        let order =
            Order { begin: window.begin, end: window.end, mark: self.mark.clone(), task: self.task.clone() };
        let input = board.file.try_clone().map_err(|e| e.to_string())?;
        let errors = errors.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new("/proc/self/exe");
        command.args(order.words()).stdin(input).stdout(Stream::Null).stderr(errors);
        let setup = ChildSetup { mark: self.mark.clone(), ..ChildSetup::default() };
        spawn(&mut command, &setup).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_understood_as_it_was_given() {
        for task in [
            Task::Forks,
            Task::Messages(100),
            Task::Command { line: "sh -c 'echo a  b'".to_owned(), once: true, rights: Rights::default() },
            Task::Command {
                line: String::new(),
                once: false,
                rights: Rights { user: Some("a b".to_owned()), keep: "sys_nice".parse().ok() },
            },
        ] {
            let order = Order { begin: Nanos::new(5), end: Nanos::MAX, mark: None, task: task.clone() };
            let words = order.words();
            let read = Order::parse(&words[1..]).unwrap();
            assert_eq!((read.begin, read.end, read.mark), (order.begin, order.end, None));
            assert_eq!(format!("{:?}", read.task), format!("{task:?}"));
        }
        for bad in [&["1"][..], &["1", "2", "", "other"], &["x", "2", "", "forks"], &[]] {
            assert!(Order::parse(&bad.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()).is_none());
        }
    }

    #[test]
    fn counts_of_many_processes_add_up_and_the_order_to_stop_is_seen() {
        let board = Board { file: memory_file().unwrap() };
        assert_eq!(board.read(), Counts::default());
        board.write(0, Counts { bytes: 1, rounds: 2, lost: 3, taken: Nanos::SECOND });
        board.write(2, Counts { bytes: 10, rounds: 20, lost: 30, taken: Nanos::SECOND });
        assert!(!board.is_stopped());
        board.stop();
        assert!(board.is_stopped());
        assert_eq!(board.read(), Counts { bytes: 11, rounds: 22, lost: 33, taken: Nanos::SECOND * 2 });
    }
}
