//! Replaying recorded start-up I/O: one thread for each recorded process, the requests one at a time in their order.
//!
//! A request is issued its think time after the one before has ended, or after that was issued where nobody waited for it.
//! Reads and writes go past the page cache, so that each reaches the device as it did; what was read ahead is asked for from
//! the page cache (`POSIX_FADV_WILLNEED`), which issues it in the name of the thread and does not wait. The replay is ready
//! when the last request has ended and everything read ahead is there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use surety_kernel::clock;
use surety_kernel::files::{evict, read_ahead, reopen_direct};
use surety_model::event::SpanMarker;
use surety_model::formats::io_trace::{Action, IoTrace, Layout};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::job::{Job, Outcome};
use super::pace::{Gap, Stretch};
use crate::said::said;

/// The file a recording is replayed on.
pub(super) const RECORDED: &str = "recorded";

/// Direct accesses need buffers aligned to the device's block; this fits all of today's.
const ALIGNMENT: usize = 4096;

/// A recording with a place for each of its requests.
pub(super) struct Recorded {
    pub trace: IoTrace,
    pub layout: Layout,
}

/// One request as it was made.
#[derive(Clone, Copy, Debug)]
struct Made {
    index: usize,
    /// The thread that made it, for the test of who makes what.
    #[cfg(test)]
    thread: surety_units::Tid,
    /// From when on its think time counted.
    since: Nanos,
    issued: Nanos,
    ended: Nanos,
    /// How long the thread wanted a CPU in its think time and had none; of think times that took too long only.
    waited: Nanos,
}

/// Whose turn it is.
struct Turns {
    state: Mutex<Turn>,
    changed: Vec<Condvar>,
}

struct Turn {
    /// The request that may be made next.
    next: usize,
    /// When the one before ended, or was issued.
    since: Nanos,
    /// Nobody has a turn any more.
    over: bool,
    error: Option<io::Error>,
    made: Vec<Made>,
}

impl Turns {
    fn wait(&self, index: usize, process: usize) -> Option<Nanos> {
        let mut turn = self.state.lock().ok()?;
        while turn.next != index && !turn.over {
            turn = self.changed[process].wait(turn).ok()?;
        }
        (!turn.over).then_some(turn.since)
    }

    fn pass(&self, made: Made, next: Option<usize>) {
        if let Ok(mut turn) = self.state.lock() {
            turn.next = made.index + 1;
            turn.since = made.ended;
            turn.made.push(made);
        }
        if let Some(changed) = next.and_then(|process| self.changed.get(process)) {
            changed.notify_one();
        }
    }

    fn end(&self, error: Option<io::Error>) {
        if let Ok(mut turn) = self.state.lock() {
            turn.over = true;
            turn.error = turn.error.take().or(error);
        }
        self.changed.iter().for_each(Condvar::notify_one);
    }
}

/// The file of a replay, past the page cache and through it.
struct Files {
    direct: File,
    cached: File,
}

impl Files {
    fn open(path: &Path) -> io::Result<Files> {
        let cached = OpenOptions::new().read(true).write(true).open(path)?;
        // What is in the page cache would not be read ahead again.
        evict(&cached)?;
        Ok(Files { direct: reopen_direct(&cached, true)?, cached })
    }
}

impl Recorded {
    /// Replays it on the file made for it.
    pub fn replay(&self, job: &Job) -> Result<Outcome, WorldError> {
        let failed = |error: io::Error| WorldError::MachineFor {
            object: format!("startup.{}", job.startup.name),
            what: format!("startup.{}: the replay failed: {}", job.startup.name, said(&error)),
            remedy: "the device failed, was detached, or what it stands on is full; see `dmesg`".to_owned(),
        };
        let path = job.directory.clone().unwrap_or_default().join(RECORDED);
        let files = Files::open(&path).map_err(failed)?;
        job.pace.enter().map_err(|error| failed(io::Error::other(error.to_string())))?;
        let begin = clock::monotonic();
        let until = job.until(begin);
        let turn = self.perform(&files, job, until);
        if job.is_stopped() {
            return Err(WorldError::Interrupted);
        }
        if let Some(error) = turn.error {
            return Err(failed(error));
        }
        let ready = match turn.over {
            true => None,
            false => self.await_read_ahead(&files, job, until).map_err(failed)?,
        };
        let gap = |made: &Made| Gap {
            recorded: self.trace.requests[made.index].think,
            replayed: made.issued - made.since,
            waited: made.waited,
        };
        let gaps = turn.made.iter().map(gap).filter(Gap::counts).collect();
        Ok(Outcome { gaps, ..Outcome::of(begin, ready, until) })
    }

    /// Makes every request, and says when and by whom each was made.
    fn perform(&self, files: &Files, job: &Job, until: Nanos) -> Turn {
        let count = self.trace.processes.len();
        let made = Vec::with_capacity(self.trace.requests.len());
        let turn = Turn { next: 0, since: clock::monotonic(), over: false, error: None, made };
        let turns = Turns { state: Mutex::new(turn), changed: (0..count).map(|_| Condvar::new()).collect() };
        std::thread::scope(|scope| {
            for process in 0..count {
                let turns = &turns;
                scope.spawn(move || {
                    if let Err(error) = self.play(process, turns, files, job, until) {
                        turns.end(error);
                    }
                });
            }
        });
        turns.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Makes the requests of one process, each when it is its turn. An error ends the replay; none when it was given up.
    fn play(
        &self,
        process: usize,
        turns: &Turns,
        files: &Files,
        job: &Job,
        until: Nanos,
    ) -> Result<(), Option<io::Error>> {
        let requests = &self.trace.requests;
        let own = || (0..requests.len()).filter(|i| requests[*i].process == process);
        let largest = own().map(|i| self.layout.lengths[i]).max().unwrap_or(0) as usize;
        let mut buffer = vec![1; largest + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT);
        let mut speaker = job.speaker.clone();
        for index in own() {
            let Some(since) = turns.wait(index, process) else { return Ok(()) };
            let think = requests[index].think;
            let stretch = Stretch::begin(think);
            if !job.pace.wait_until(since + think, &job.stop, until) {
                return Err(None);
            }
            let issued = clock::monotonic();
            let waited = stretch.waited(issued - since);
            let (at, length) = (self.layout.offsets[index], self.layout.lengths[index]);
            let bytes = &mut buffer[start..start + length as usize];
            match requests[index].action {
                Action::Read => files.direct.read_exact_at(bytes, at).map_err(Some)?,
                Action::Write => files.direct.write_all_at(bytes, at).map_err(Some)?,
                Action::ReadAhead => read_ahead(&files.cached, at, length).map_err(Some)?,
            }
            let ended = clock::monotonic();
            speaker.say(&SpanMarker::Thought { from: since, until: issued });
            let made = Made {
                index,
                #[cfg(test)]
                thread: surety_kernel::thread::own_tid(),
                since,
                issued,
                ended,
                waited,
            };
            turns.pass(made, requests.get(index + 1).map(|next| next.process));
        }
        Ok(())
    }

    /// Reads what was read ahead, and says when it was there; `None` when it was given up before.
    fn await_read_ahead(&self, files: &Files, job: &Job, until: Nanos) -> io::Result<Option<Nanos>> {
        let mut buffer = Vec::new();
        for (index, request) in self.trace.requests.iter().enumerate() {
            if request.action != Action::ReadAhead {
                continue;
            }
            if job.is_stopped() || clock::monotonic() >= until {
                return Ok(None);
            }
            buffer.resize(self.layout.lengths[index] as usize, 0);
            files.cached.read_exact_at(&mut buffer, self.layout.offsets[index])?;
        }
        Ok(Some(clock::monotonic()))
    }
}

#[cfg(test)]
mod tests;
