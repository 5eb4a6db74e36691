//! One start: from asking for it to its being ready, or given up.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use surety_kernel::command::{ChildSetup, Rights, Spawned, Stream, spawn};
use surety_kernel::files::evict;
use surety_kernel::{RealKernel, clock, thread};
use surety_model::event::SpanMarker;
use surety_model::workload::Ready;
use surety_model::world::WorldError;
use surety_units::{Nanos, Tid};

use super::job::{Job, Outcome};
use super::site::{failed, forget, place_for};
use super::{LOOK, Subject};
use crate::said::{it_said, last_words, said};
use crate::scratch::command_of;
use crate::threads::give_io_priority;

/// Between two tries whether a socket takes connections.
const TRY: Nanos = Nanos::MILLISECOND;

impl Job {
    /// Makes the start.
    pub fn run(mut self) -> Result<Outcome, WorldError> {
        // Its threads and programs inherit it.
        give_io_priority(self.startup.io_priority)
            .map_err(|(what, remedy)| failed(&self.startup, format!("{what}; {remedy}")))?;
        if self.forget {
            let forgotten = self.directory.as_deref().map_or(Ok(()), forget);
            let below = self.below.as_ref().map_or(Ok(()), evict);
            let in_words = |e| failed(&self.startup, format!("it cannot be made cold: {}", said(&e)));
            forgotten.and(below).map_err(in_words)?;
        }
        let read = || self.counter.as_ref().and_then(|counter| counter.read(&RealKernel::new()));
        let before = read();
        self.speaker.say(&SpanMarker::Begun(&self.startup.name));
        let outcome = match &self.subject {
            Subject::Program(line, rights) => self.program(line, rights),
            Subject::Replay(recorded) => recorded.replay(&self),
        }?;
        let (number, name) = (self.number, self.startup.name.as_str());
        self.speaker.say(&SpanMarker::Over(outcome.span(number, name)));
        Ok(Outcome { moved: before.zip(read()).map(|(before, after)| [before, after]), ..outcome })
    }

    /// When it is given up if it begins now.
    pub fn until(&self, begin: Nanos) -> Nanos {
        begin.saturating_add(self.limit).min(self.latest).max(begin)
    }

    /// Whether the run was ended before its time.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn program(&self, line: &str, rights: &Rights) -> Result<Outcome, WorldError> {
        let failed = |why: String| failed(&self.startup, why);
        let mut errors =
            tempfile::tempfile().map_err(|e| failed(format!("no file for its messages: {e}")))?;
        let mut command = command_of(line, self.directory.as_deref(), &errors).map_err(failed)?;
        if matches!(self.startup.ready, Ready::Stdout(_)) {
            command.stdout(Stream::Pipe);
        }
        let socket = match &self.startup.ready {
            Ready::Socket(path) => Some(Socket::new(path, self.directory.as_deref()).map_err(failed)?),
            _ => None,
        };
        let setup = ChildSetup {
            affinity: Some(self.cpus),
            mark: self.mark.clone(),
            inherits_group: true,
            place: self.directory.as_deref().and_then(place_for),
            rights: Some(rights.clone()),
            ..ChildSetup::default()
        };
        let begin = clock::monotonic();
        let until = self.until(begin);
        let mut child = spawn(&mut command, &setup)
            .map_err(|error| failed(format!("{error}; check the command's name and path")))?;
        let first = child.pid();
        let worked = |ready: Option<Nanos>| (ready, first);
        let ready = match (&self.startup.ready, &socket) {
            (Ready::Stdout(text), _) => self.until_printed(&mut child, text, until),
            (_, Some(socket)) => self.until_connected(&mut child, socket, until).map(worked),
            _ => self.until_exit(&mut child, until).map(worked),
        };
        let ended = child.end().map_err(|error| failed(error.to_string()))?;
        drop(socket);
        let (ready, worker) = ready.map_err(|trouble| match trouble {
            Trouble::Stopped => WorldError::Interrupted,
            Trouble::Failed(why) => {
                let words = it_said(last_words(&mut errors));
                failed(format!("{why}{words}; run it by itself to see what it needs"))
            }
        })?;
        let worker = Some(worker);
        Ok(Outcome { worker, cpu_time: ended.cpu_time, ..Outcome::of(begin, ready, until) })
    }

    /// The instant until which to wait before the next look; `None` when it is given up.
    fn next_look(&self, until: Nanos, look: Nanos) -> Result<Option<Nanos>, Trouble> {
        if self.is_stopped() {
            return Err(Trouble::Stopped);
        }
        let now = clock::monotonic();
        Ok((now < until).then(|| until.min(now + look)))
    }

    fn until_exit(&self, child: &mut Spawned, until: Nanos) -> Result<Option<Nanos>, Trouble> {
        while let Some(next) = self.next_look(until, LOOK)? {
            let Some(ended) = child.wait_until(next).map_err(Trouble::of)? else { continue };
            let at = clock::monotonic();
            return match ended.status.success() {
                true => Ok(Some(at)),
                false => Err(Trouble::Failed(format!("it ended with {}", ended.status))),
            };
        }
        Ok(None)
    }

    /// When it had printed the text, and which thread read that.
    fn until_printed(
        &self,
        child: &mut Spawned,
        text: &str,
        until: Nanos,
    ) -> Result<(Option<Nanos>, Tid), Trouble> {
        let Some(stdout) = child.take_stdout() else {
            return Err(Trouble::Failed("it has no standard output".to_owned()));
        };
        let (found, printed) = mpsc::channel();
        let wanted = text.as_bytes().to_vec();
        // Left alone afterwards: it ends with the last holder of the other end.
        std::thread::spawn(move || watch(stdout, &wanted, &found));
        while let Some(next) = self.next_look(until, LOOK)? {
            let wait = (next - clock::monotonic()).max(Nanos::ZERO).get_unsigned();
            match printed.recv_timeout(Duration::from_nanos(wait)) {
                Ok((at, reader)) => return Ok((Some(at), reader)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let why = format!("it closed its standard output and had not printed `{text}`");
                    return Err(Trouble::Failed(why));
                }
            }
        }
        Ok((None, child.pid()))
    }

    fn until_connected(
        &self,
        child: &mut Spawned,
        socket: &Socket,
        until: Nanos,
    ) -> Result<Option<Nanos>, Trouble> {
        while let Some(next) = self.next_look(until, TRY)? {
            if UnixStream::connect(&socket.path).is_ok() {
                return Ok(Some(clock::monotonic()));
            }
            if let Some(ended) = child.wait_until(Nanos::ZERO).map_err(Trouble::of)? {
                let why = format!("it ended with {} before its socket took connections", ended.status);
                return Err(Trouble::Failed(why));
            }
            let _ = clock::sleep_until(next, None);
        }
        Ok(None)
    }
}

/// Why a start says nothing.
enum Trouble {
    /// The run was ended.
    Stopped,
    /// The program did not do what it was started for.
    Failed(String),
}

impl Trouble {
    fn of(error: surety_kernel::KernelError) -> Trouble {
        Trouble::Failed(error.to_string())
    }
}

/// Reads to the end and tells when a text has come; so that the program is never held up by a full pipe.
fn watch(mut stdout: ChildStdout, wanted: &[u8], found: &mpsc::Sender<(Nanos, Tid)>) {
    let mut seen: Vec<u8> = Vec::new();
    let mut chunk = [0; 4096];
    let mut is_found = false;
    while let Ok(count @ 1..) = stdout.read(&mut chunk) {
        if is_found {
            continue;
        }
        let at = clock::monotonic();
        seen.extend_from_slice(&chunk[..count]);
        if seen.windows(wanted.len().max(1)).any(|window| window == wanted) {
            is_found = true;
            let _ = found.send((at, thread::own_tid()));
        }
        // What may be the beginning of the text is kept.
        let kept = seen.len().saturating_sub(wanted.len());
        seen.drain(..kept);
    }
}

/// The socket of a program; removed afterwards where the program made it.
struct Socket {
    path: PathBuf,
    was_there: bool,
}

impl Socket {
    fn new(path: &str, directory: Option<&Path>) -> Result<Socket, String> {
        let path = directory.map_or_else(|| PathBuf::from(path), |directory| directory.join(path));
        if UnixStream::connect(&path).is_ok() {
            return Err(format!("something else takes connections at {} already", path.display()));
        }
        let was_there = path.exists();
        Ok(Socket { path, was_there })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.was_there {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
