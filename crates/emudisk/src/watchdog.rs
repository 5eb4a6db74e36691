//! [`Watchdog`]: a process that ends the connection of an emulated disk whose server stands still.
//!
//! A server that is stopped (SIGSTOP, a debugger, a fault of its own) answers nothing, and whoever waits for its disk waits for ever and cannot be killed:
//! `sync` too. So this program is started anew as a process that reads the server's signs of life from a pipe and looks at the kernel's count of requests
//! that wait ([`Control`]). It touches no disk. 5 s without a sign while requests wait end the connection, and so does the end of the pipe, which is the
//! server's. A server that was killed while it waits for a request of its own holds the pipe, and is not gone before that is answered: without a sign it is
//! looked at, too.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use surety_kernel::command::{ChildSetup, Command, Spawned, Stream, spawn};
use surety_kernel::fuse::control::Control;
use surety_kernel::{Kernel as _, RealKernel, clock, files, signals, thread};
use surety_units::{Nanos, Tid};

use crate::error::EmulationError;

/// The argument that makes this program a watchdog.
const WORD: &str = "emulated-disk-watchdog";
/// So long a server may give no sign of life while requests wait.
const SILENCE_MAX: Nanos = Nanos::from_secs(5);
/// Between two looks at requests that wait, once it has been silent for so long.
const LOOK: Nanos = Nanos::from_millis(500);
/// A sign of life, and the server's last word.
const ALIVE: u8 = b'.';
const OVER: u8 = b'!';
/// What a watchdog says when it watches.
const READY: &str = "ready";

/// A watchdog, as the server knows it. Dropping ends it.
#[derive(Debug)]
pub struct Watchdog {
    process: Spawned,
    pipe: File,
}

impl Watchdog {
    /// Starts a program whose `main` begins with [`watchdog_main`], for a connection.
    ///
    /// # Errors
    /// In words, where it does not start or does not say that it watches.
    pub fn start(program: &Path, connection: u32) -> Result<Watchdog, EmulationError> {
        let failed = |why: &dyn std::fmt::Display| EmulationError::Unwatched(why.to_string());
        let (reader, writer) = std::io::pipe().map_err(|e| failed(&e))?;
        let mut command = Command::new(program);
        command.arg(WORD).arg(connection.to_string());
        command.stdin(Stream::File(reader.into())).stdout(Stream::Pipe).stderr(Stream::Null);
        let setup = ChildSetup { outlives_us: true, ..ChildSetup::default() };
        let mut process = spawn(&mut command, &setup).map_err(|e| failed(&e))?;
        let said = process.take_stdout().map(|stdout| {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            line
        });
        if said.as_deref().map(str::trim) != Some(READY) {
            return Err(failed(&"it did not say that it watches"));
        }
        Ok(Watchdog { process, pipe: File::from(OwnedFd::from(writer)) })
    }

    /// Gives it a sign of life; false where it has ended.
    pub fn tell(&mut self) -> bool {
        self.pipe.write_all(&[ALIVE]).is_ok()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.pipe.write_all(&[OVER]);
        // It ends by itself; what does not is ended when it is dropped.
        let _ = self.process.wait_until(clock::monotonic() + Nanos::SECOND);
    }
}

/// To be called first thing by a program that emulates disks: where it was started as a watchdog, watches and returns the exit code; else
/// `None`.
pub fn watchdog_main() -> Option<u8> {
    let mut words = std::env::args().skip(1);
    if words.next().is_none_or(|word| word != WORD) {
        return None;
    }
    let Some(connection) = words.next().and_then(|word| word.parse().ok()) else { return Some(2) };
    let _ = thread::set_name("surety-watchdog");
    signals::ignore_endings();
    let server = Tid(std::os::unix::process::parent_id().cast_signed());
    let Ok(control) = Control::of(connection) else { return Some(3) };
    let said = writeln!(std::io::stdout(), "{READY}");
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let (Ok(()), Ok(input)) = (said, input) else { return Some(3) };
    watch(input, &control, server);
    Some(0)
}

/// Until the server's last word, its end, or the end of its connection.
fn watch(mut input: File, control: &Control, server: Tid) {
    let (kernel, mut heard) = (RealKernel::new(), clock::monotonic());
    loop {
        if !files::has_input(&input, LOOK).unwrap_or(true) {
            let is_silent = clock::monotonic() - heard >= SILENCE_MAX;
            if is_silent && control.waiting() > 0 || kernel.is_exiting(server) {
                return control.abort();
            }
            continue;
        }
        let mut bytes = [0; 64];
        let length = input.read(&mut bytes).unwrap_or(0);
        if length == 0 {
            return control.abort();
        }
        if bytes[..length].contains(&OVER) {
            return;
        }
        heard = clock::monotonic();
    }
}
