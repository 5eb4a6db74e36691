//! [`Spawned`]: a program that runs as part of an experiment and cannot outlive it.
//!
//! The child is in a process group of its own, is killed when the thread that started it ends
//! (PR_SET_PDEATHSIG, with the race against a parent that is already gone closed), and takes its affinity,
//! policy and control groups *before* its program starts, so that no instant of it runs under the parent's.
//!
//! A SCHED_DEADLINE task cannot start others (`fork` fails with EAGAIN) unless reset-on-fork is set, and many
//! programs start helpers. So SCHED_DEADLINE is not taken here: set it on [`Spawned::pid`] once the program runs.

mod child;
pub mod group;
mod orphans;
mod program;
mod rights;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdout, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use surety_units::{CpuSet, Nanos, Tid};

use crate::clock;
use crate::error::{KernelError, Operation, last_errno};
use crate::kernel::{Kernel, ProcessIdentity};
use crate::pidfd::{open_pidfd, send_signal};
use crate::real::RealKernel;
use crate::sched::SchedAttr;

pub use orphans::{adopt_orphans, end_adopted};
pub use program::{Command, Stream};
pub(crate) use rights::of_status;
pub use rights::{Held, Rights, User, held};

use child::Step;
use program::above_streams;

/// What the child takes on before its program starts.
#[derive(Clone, Debug, Default)]
pub struct ChildSetup {
    /// The CPUs it may use.
    pub affinity: Option<CpuSet>,
    /// Its scheduling; not SCHED_DEADLINE.
    pub scheduler: Option<SchedAttr>,
    /// `cgroup.procs` files of the control groups it joins.
    pub groups: Vec<PathBuf>,
    /// A mark that it and all it starts carry in their environment, for recovery
    /// ([`crate::journal::Journal::mark_children`]).
    pub mark: Option<String>,
    /// It stays in our process group, as a program must that talks to the terminal. Ending it ends the program alone.
    pub stays_in_group: bool,
    /// It does not join the group of its mark: it inherits it from the thread that starts it ([`group::enter`]).
    pub inherits_group: bool,
    /// It is not killed when the thread that starts it ends.
    pub outlives_us: bool,
    /// Where its directory gets a path, on a mount without a place in the file system, in a mount namespace of its own, where the kernel
    /// can do that (6.15). Without, a program that asks where it is (`getcwd`) is told that it is nowhere.
    pub place: Option<CString>,
    /// What it may do; `None`: what we may.
    pub rights: Option<Rights>,
}

/// The environment variable that carries [`ChildSetup::mark`].
pub const MARK_VARIABLE: &str = "SURETY_MARK";

/// A running program with everything it started. Dropping kills the whole group and reaps.
#[derive(Debug)]
pub struct Spawned {
    identity: ProcessIdentity,
    pidfd: OwnedFd,
    leads_group: bool,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    ended: Option<Ended>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// CPU time of the program and of its children that it waited for.
    pub cpu_time: Nanos,
}

/// Starts a program, without a copy of this process in between (`command/child.rs`). Piped streams are in the result.
///
/// Call this from a thread that lives as long as the program should: the child is killed when *that thread*
/// ends. A set-user-id program sheds this protection.
///
/// # Errors
/// The step that failed: starting, affinity, scheduling or joining a group. EINVAL when asked for SCHED_DEADLINE.
pub fn spawn(command: &mut Command, setup: &ChildSetup) -> Result<Spawned, KernelError> {
    let name = command.name();
    if setup.scheduler.is_some_and(|attr| attr.policy.is_deadline()) {
        return Err(KernelError::new(Operation::SetDeadline, format!("{name} before it runs"), libc::EINVAL));
    }
    if let Some(mark) = &setup.mark {
        command.env(MARK_VARIABLE, mark);
    }
    if let Some(user) = setup.rights.as_ref().and_then(|rights| rights.user.as_ref()) {
        for (variable, value) in user.variables() {
            command.env(variable, value);
        }
    }
    let started = |error: &io::Error| KernelError::from_io(Operation::Spawn, name.clone(), error);
    let of_mark = setup.mark.as_deref().filter(|_| !setup.inherits_group).and_then(group::procs_of);
    let groups = of_mark
        .iter()
        .chain(&setup.groups)
        .map(|path| CString::new(path.as_os_str().as_bytes()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| KernelError::new(Operation::Spawn, name.clone(), libc::EINVAL))?;
    let texts = command.texts().map_err(|e| started(&e))?;
    let [stdin, stdout, stderr] = std::mem::take(&mut command.streams);
    let stdin = file_of(stdin, false).map_err(|e| started(&e))?;
    let stdout = file_of(stdout, true).map_err(|e| started(&e))?;
    let stderr = file_of(stderr, true).map_err(|e| started(&e))?;
    let plan = child::Plan {
        leads_group: !setup.stays_in_group,
        dies_with_parent: !setup.outlives_us,
        groups: &groups,
        affinity: setup.affinity,
        scheduler: setup.scheduler,
        rights: setup.rights.as_ref().map(|rights| (rights, held())),
        streams: [stdin.0, stdout.0, stderr.0],
        texts: &texts,
        place: setup.place.as_deref(),
    };
    let pid = child::start(&plan).map_err(|(step, errno)| failed_step(&name, setup, step, errno))?;
    // The program has its own copies; whoever reads our ends must see them closed when it ends.
    drop(plan);
    let pid = Tid(pid);
    orphans::started(pid);
    let opened = RealKernel::new().identity(pid).and_then(|identity| Ok((identity, open_pidfd(pid)?)));
    let (identity, pidfd) = opened.inspect_err(|_| {
        child::kill_and_reap(pid.0);
        orphans::reaped(pid);
    })?;
    let (stdout, stderr) = (stdout.1.map(ChildStdout::from), stderr.1.map(ChildStderr::from));
    Ok(Spawned { identity, pidfd, leads_group: !setup.stays_in_group, stdout, stderr, ended: None })
}

/// The descriptor the program gets, if not ours, and our end of a pipe to read from.
fn file_of(stream: Stream, is_output: bool) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
    let (file, ours): (OwnedFd, _) = match stream {
        Stream::Inherit => return Ok((None, None)),
        Stream::Null => (File::options().read(true).write(true).open("/dev/null")?.into(), None),
        Stream::File(file) => (file, None),
        Stream::Pipe if is_output => {
            let (reader, writer) = io::pipe()?;
            (writer.into(), Some(reader.into()))
        }
        // Nobody here writes to programs.
        Stream::Pipe => return Err(io::ErrorKind::Unsupported.into()),
    };
    Ok((Some(above_streams(file)?), ours))
}

/// The error of the step that failed in the child.
fn failed_step(program: &str, setup: &ChildSetup, step: Step, errno: i32) -> KernelError {
    let operation = match step {
        Step::Group => Operation::Write,
        Step::Affinity => Operation::SetAffinity,
        Step::Scheduler => setup.scheduler.map_or(Operation::SetFair, |attr| attr.policy.set_operation()),
        Step::User => Operation::SetUser,
        Step::Capabilities => Operation::SetCapabilities,
        Step::Program | Step::DeathSignal => Operation::Spawn,
    };
    KernelError::new(operation, program, errno)
}

/// In the child: SIGKILL comes when the parent's thread ends. When it ended before that was arranged, the
/// child has been given another parent, and ends itself.
pub(crate) fn die_with_parent(parent: u32) -> Result<(), i32> {
    // SAFETY: takes integers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(last_errno());
    }
    // SAFETY: takes no argument and cannot fail.
    let now = unsafe { libc::getppid() };
    if u32::try_from(now) == Ok(parent) { Ok(()) } else { Err(libc::ESRCH) }
}

/// In the child: joins a control group; `0` there means the writer.
fn join_group(path: &CString) -> Result<(), i32> {
    // SAFETY: the path is a C string that lives over the call.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(last_errno());
    }
    // SAFETY: `open` just gave this descriptor to us alone.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: one byte is read from a constant.
    if unsafe { libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
        return Err(last_errno());
    }
    Ok(())
}

impl Spawned {
    /// The program's process, which leads its group.
    pub fn pid(&self) -> Tid {
        self.identity.pid
    }

    /// The program's process, unmistakable: for the journal.
    pub fn identity(&self) -> ProcessIdentity {
        self.identity
    }

    /// Its standard output, once, when it was piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Its standard error, once, when it was piped.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Signals the program's own process; `false` when it has ended.
    pub fn signal(&self, signal: i32) -> Result<bool, KernelError> {
        send_signal(&self.pidfd, self.identity.pid, signal)
    }

    /// Waits until the program ends, or an instant of CLOCK_MONOTONIC comes, whichever is first. What the
    /// program left running in its group is killed when it ends.
    pub fn wait_until(&mut self, instant: Nanos) -> Result<Option<Ended>, KernelError> {
        while self.ended.is_none() {
            let left = instant.saturating_sub(clock::monotonic()).max(Nanos::ZERO);
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&clock::timespec(left))) {
                Ok(0) if clock::monotonic() >= instant => return Ok(None),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.end().map(Some),
                Err(error) => return Err(self.wait_error(error.raw_os_error())),
            }
        }
        Ok(self.ended)
    }

    /// Kills the program with its whole group, reaps it, and says how it ended (perhaps before that).
    pub fn end(&mut self) -> Result<Ended, KernelError> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        // The leader has not been reaped, so neither its number nor its group's can be another's.
        // SAFETY: takes integers.
        unsafe {
            libc::kill(
                if self.leads_group { -self.identity.pid.0 } else { self.identity.pid.0 },
                libc::SIGKILL,
            )
        };
        let mut status = 0;
        // SAFETY: `rusage` is plain integers, for which zero bytes are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        loop {
            // SAFETY: both places are valid over the call.
            let reaped = unsafe { libc::wait4(self.identity.pid.0, &raw mut status, 0, &raw mut usage) };
            match reaped {
                pid if pid == self.identity.pid.0 => break,
                _ if last_errno() == libc::EINTR => {}
                _ => return Err(self.wait_error(last_errno())),
            }
        }
        orphans::reaped(self.identity.pid);
        let time = |t: libc::timeval| Nanos::from_micros(t.tv_sec * 1_000_000 + t.tv_usec);
        let ended = Ended {
            status: ExitStatus::from_raw(status),
            cpu_time: time(usage.ru_utime) + time(usage.ru_stime),
        };
        self.ended = Some(ended);
        Ok(ended)
    }

    fn wait_error(&self, errno: i32) -> KernelError {
        KernelError::new(Operation::Wait, format!("process {}", self.identity.pid), errno)
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // Only ECHILD is possible, and then there is nothing left to reap.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::SchedPolicy;
    use std::io::Read;
    use surety_units::CpuId;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stream::Null).stdout(Stream::Pipe).stderr(Stream::Null);
        command
    }

    fn in_seconds(seconds: i64) -> Nanos {
        clock::monotonic() + Nanos::from_secs(seconds)
    }

    fn output(spawned: &mut Spawned) -> String {
        let mut text = String::new();
        spawned.take_stdout().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_program_starts_with_what_was_set() {
        let cpu = *crate::sched::read_affinity(Tid(0)).unwrap().lowest().as_ref().unwrap();
        let setup = ChildSetup {
            affinity: Some(CpuSet::single(cpu)),
            scheduler: Some(SchedPolicy::Batch { nice: 5 }.into()),
            ..ChildSetup::default()
        };
        let mut spawned = spawn(&mut shell("taskset -cp $$; chrt -p $$; nice; exit 3"), &setup).unwrap();
        let text = output(&mut spawned);
        let ended = spawned.wait_until(in_seconds(20)).unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(text.contains(&format!("affinity list: {cpu}\n")), "{text}");
        assert!(text.contains("SCHED_BATCH") && text.ends_with("5\n"), "{text}");
    }

    #[test]
    fn the_step_that_fails_is_named() {
        let _alone = crate::testing::machine_wide();
        let none = spawn(&mut Command::new("/no/such/program"), &ChildSetup::default()).unwrap_err();
        assert_eq!((none.operation, none.errno), (Operation::Spawn, libc::ENOENT));
        let nowhere = ChildSetup { affinity: Some(CpuSet::single(CpuId(1000))), ..ChildSetup::default() };
        let error = spawn(&mut shell("true"), &nowhere).unwrap_err();
        assert_eq!((error.operation, error.errno), (Operation::SetAffinity, libc::EINVAL));
        let group = ChildSetup { groups: vec!["/no/such/cgroup.procs".into()], ..ChildSetup::default() };
        assert_eq!(spawn(&mut shell("true"), &group).unwrap_err().operation, Operation::Write);
        let wrong = SchedPolicy::Fifo { priority: 100 };
        let scheduler = ChildSetup { scheduler: Some(wrong.into()), ..ChildSetup::default() };
        assert_eq!(spawn(&mut shell("true"), &scheduler).unwrap_err().operation, Operation::SetRealtime);
        let ms = Nanos::MILLISECOND;
        let deadline = SchedPolicy::deadline(ms, ms * 10, ms * 10);
        let scheduler = ChildSetup { scheduler: Some(deadline.into()), ..ChildSetup::default() };
        assert_eq!(spawn(&mut shell("true"), &scheduler).unwrap_err().operation, Operation::SetDeadline);
    }

    #[test]
    fn it_is_found_as_the_environment_says_and_works_where_it_should() {
        let directory = tempfile::tempdir().unwrap();
        let place = std::fs::canonicalize(directory.path()).unwrap();
        let mut command = shell("pwd; echo $COLOUR");
        command.current_dir(&place).env("COLOUR", "red").env("COLOUR", "blue");
        let mut spawned = spawn(&mut command, &ChildSetup::default()).unwrap();
        assert_eq!(output(&mut spawned), format!("{}\nblue\n", place.display()));
        assert!(spawned.end().unwrap().status.success());
        for (path, errno) in [("/nowhere:/etc/passwd", libc::ENOENT), ("", libc::ENOENT)] {
            let error = spawn(Command::new("sh").env("PATH", path), &ChildSetup::default()).unwrap_err();
            assert_eq!((error.operation, error.errno), (Operation::Spawn, errno), "{path}");
        }
        let file = place.join("not-executable");
        std::fs::write(&file, "").unwrap();
        let error = spawn(&mut Command::new(&file), &ChildSetup::default()).unwrap_err();
        assert_eq!(error.errno, libc::EACCES);
        let error = spawn(shell("true").current_dir(place.join("none")), &ChildSetup::default()).unwrap_err();
        assert_eq!(error.errno, libc::ENOENT);
    }

    #[test]
    fn a_program_ends_by_the_signals_that_programs_end_by() {
        // SIGPIPE is ignored in this process, and a new one would inherit that.
        let mut spawned = spawn(&mut shell("kill -PIPE $$; echo survived"), &ChildSetup::default()).unwrap();
        assert_eq!(output(&mut spawned), "");
        let ended = spawned.wait_until(in_seconds(20)).unwrap().unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGPIPE));
    }

    #[test]
    fn no_page_of_ours_is_touched_by_a_start() {
        fn faults() -> i64 {
            // SAFETY: `rusage` is plain integers, for which zero bytes are a value; the place is valid over the call.
            unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
                usage.ru_minflt
            }
        }
        const PAGES: usize = 8192;
        let mut memory = vec![0_u8; PAGES * 4096];
        let mut write = |value: u8| memory.iter_mut().step_by(4096).for_each(|byte| *byte = value);
        write(1);
        let mut spawned = spawn(&mut shell("sleep 1000"), &ChildSetup::default()).unwrap();
        let before = faults();
        write(2);
        // After a fork every page would fault (huge ones once in 512).
        assert!(faults() - before < 8, "{} faults", faults() - before);
        spawned.end().unwrap();
    }

    #[test]
    fn dropping_ends_the_program_and_what_it_started() {
        let kernel = RealKernel::new();
        let mut spawned = spawn(&mut shell("sleep 1000 & echo $!; wait"), &ChildSetup::default()).unwrap();
        let mut number = Vec::new();
        let mut byte = [0];
        let mut stdout = spawned.take_stdout().unwrap();
        while stdout.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            number.push(byte[0]);
        }
        let grandchild = Tid(String::from_utf8(number).unwrap().parse().unwrap());
        let grandchild = kernel.identity(grandchild).unwrap();
        let child = spawned.identity();
        assert_eq!(spawned.wait_until(clock::monotonic()), Ok(None));
        assert!(kernel.is_alive(child) && kernel.is_alive(grandchild));
        drop(spawned);
        assert!(!kernel.is_alive(child));
        // The kill is sent; that it is done takes the other process a moment.
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !kernel.is_alive(grandchild)
        });
        assert!(gone);
    }

    #[test]
    fn the_program_dies_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| {
            let spawned = spawn(&mut shell("exec sleep 1000"), &ChildSetup::default()).unwrap();
            // Not dropped: only the end of this thread can end the program.
            std::mem::ManuallyDrop::new(spawned)
        });
        let mut spawned = std::mem::ManuallyDrop::into_inner(started.join().unwrap());
        let ended = spawned.wait_until(in_seconds(20)).unwrap().expect("killed with its thread");
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL));
    }
}
