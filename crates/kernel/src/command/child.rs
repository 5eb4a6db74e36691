//! [`start`]: a child that becomes another program without a copy of this process in between.
//!
//! A `fork` copies the page tables of the process and makes each of its pages read-only until it is next written to. A
//! process that measures, with its memory locked and other threads at work in it, must not do that: starts take
//! longer the more memory it has, and every thread of it is held up. Here the child shares our memory (CLONE_VM) and the
//! calling thread waits until the child has become its program (CLONE_VFORK).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use rustix::fs::CWD;
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, move_mount, open_tree,
};
use surety_units::{CpuSet, Tid};

use super::program::Texts;
use super::rights::{Dumpable, Held, Part, Rights, take_on};
use super::{die_with_parent, join_group};
use crate::error::last_errno;
use crate::sched::{self, SchedAttr};

/// Steps of the child that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Program = 1,
    DeathSignal,
    Group,
    Affinity,
    Scheduler,
    User,
    Capabilities,
}

impl Step {
    fn of(number: u8) -> Step {
        let all =
            [Step::DeathSignal, Step::Group, Step::Affinity, Step::Scheduler, Step::User, Step::Capabilities];
        all.into_iter().find(|step| *step as u8 == number).unwrap_or(Step::Program)
    }
}

/// What the child takes on, in this order, and becomes.
pub(super) struct Plan<'a> {
    pub leads_group: bool,
    pub dies_with_parent: bool,
    pub groups: &'a [CString],
    pub affinity: Option<CpuSet>,
    pub scheduler: Option<SchedAttr>,
    /// Where its standard streams lead, above the standard streams; `None` where ours do.
    pub streams: [Option<OwnedFd>; 3],
    /// With what this process has.
    pub rights: Option<(&'a Rights, Held)>,
    pub texts: &'a Texts,
    /// See [`super::ChildSetup::place`].
    pub place: Option<&'a CStr>,
}

/// The child's stack: its few calls need a fraction of this.
const STACK: usize = 128 << 10;

/// All that the child reads and writes, made before it is.
struct Shared<'a> {
    plan: &'a Plan<'a>,
    parent: u32,
    words: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    step: AtomicU8,
    errno: AtomicI32,
}

/// Makes the child and returns its number once it is its program.
///
/// # Errors
/// The step that failed and its error number; the child is gone and reaped then.
pub(super) fn start(plan: &Plan<'_>) -> Result<libc::pid_t, (Step, i32)> {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
    };
    let shared = Shared {
        plan,
        parent: std::process::id(),
        words: pointers(&plan.texts.words),
        environment: pointers(&plan.texts.environment),
        step: AtomicU8::new(0),
        errno: AtomicI32::new(0),
    };
    // Sixteen bytes of alignment, as every ABI here wants.
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let blocked = Blocked::all();
    let dumpable = plan.rights.map(|_| Dumpable::now());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack grows down from its end and is the child's alone; `shared` and the stack live until `clone`
    // returns, which is after the child has become its program or is gone. Every signal is blocked, so no handler of ours
    // runs in the child.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).cast::<c_void>();
        libc::clone(child, top, flags, (&raw const shared).cast_mut().cast::<c_void>())
    };
    let made = if pid < 0 { Err((Step::Program, last_errno())) } else { Ok(pid) };
    drop(dumpable);
    drop(blocked);
    let pid = made?;
    match shared.step.load(Ordering::Acquire) {
        0 => Ok(pid),
        step => {
            reap(pid);
            Err((Step::of(step), shared.errno.load(Ordering::Acquire)))
        }
    }
}

/// In the child, on memory it shares with its waiting parent: only system calls, no allocation, no lock, no panic.
extern "C" fn child(shared: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its `Shared`, and waits while we use it.
    let shared = unsafe { &*shared.cast::<Shared<'_>>() };
    let (step, errno) = shared.become_program();
    shared.errno.store(errno, Ordering::Release);
    shared.step.store(step as u8, Ordering::Release);
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(127) }
}

impl Shared<'_> {
    /// Returns only what went wrong.
    fn become_program(&self) -> (Step, i32) {
        match self.prepare() {
            Ok(()) => (Step::Program, self.execute()),
            Err(failed) => failed,
        }
    }

    fn prepare(&self) -> Result<(), (Step, i32)> {
        let plan = self.plan;
        let step = |step: Step, result: Result<(), i32>| result.map_err(|errno| (step, errno));
        let called = |result: c_int| if result < 0 { Err(last_errno()) } else { Ok(()) };
        if plan.leads_group {
            // SAFETY: takes integers.
            step(Step::Program, called(unsafe { libc::setpgid(0, 0) }))?;
        }
        if plan.dies_with_parent {
            step(Step::DeathSignal, die_with_parent(self.parent))?;
        }
        for group in plan.groups {
            step(Step::Group, join_group(group))?;
        }
        if let Some(cpus) = &plan.affinity {
            step(Step::Affinity, sched::write_affinity_plainly(Tid(0), cpus))?;
        }
        if let Some(attr) = &plan.scheduler {
            step(Step::Scheduler, sched::write_attr_plainly(Tid(0), attr))?;
        }
        for (number, stream) in (0..).zip(&plan.streams) {
            if let Some(file) = stream {
                // SAFETY: takes integers; the child's table of descriptors is its own.
                step(Step::Program, called(unsafe { libc::dup2(file.as_raw_fd(), number) }))?;
            }
        }
        if let Some(directory) = &plan.texts.directory {
            // SAFETY: a C string that lives over the call.
            step(Step::Program, called(unsafe { libc::chdir(directory.as_ptr()) }))?;
            if let Some(place) = plan.place {
                gives_path(place);
            }
        }
        forget_handlers();
        if let Some((rights, held)) = plan.rights {
            take_on(rights, held).map_err(|(part, errno)| match part {
                Part::User => (Step::User, errno),
                Part::Capabilities => (Step::Capabilities, errno),
            })?;
            // A change of user has the kernel forget it.
            if plan.dies_with_parent {
                step(Step::DeathSignal, die_with_parent(self.parent))?;
            }
        }
        Ok(())
    }

    /// Tries each path; the error number to tell. A directory that may not be searched is worth telling more than one
    /// where the program is not.
    fn execute(&self) -> i32 {
        let mut worst = libc::ENOENT;
        for path in &self.plan.texts.candidates {
            let path: &CStr = path;
            // SAFETY: C strings, and arrays of C strings that end with a null pointer; all live over the call.
            unsafe { libc::execve(path.as_ptr(), self.words.as_ptr(), self.environment.as_ptr()) };
            match last_errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => worst = libc::EACCES,
                other => return other,
            }
        }
        worst
    }
}

/// In the child: its directory gets a path, in a mount namespace of its own, so that programs can ask for it (`getcwd`). A kernel that
/// clones no detached mount (before 6.15) leaves it without one.
fn gives_path(place: &CStr) {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let Ok(tree) = open_tree(CWD, c".", flags) else { return };
    // SAFETY: takes flags; the child shares its namespaces and its working directory with no thread of ours.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return;
    }
    let downstream = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    let moved = mount_change(c"/", downstream)
        .and_then(|()| move_mount(&tree, c"", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH));
    if moved.is_ok() {
        // SAFETY: a C string that lives over the call. Where it failed the directory would be what it was.
        unsafe { libc::chdir(place.as_ptr()) };
    }
}

/// In the child: no handler of ours, whose memory is still ours, may run when signals are let through; and programs expect
/// to end by SIGPIPE, which this one ignores.
fn forget_handlers() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: `sigaction` is plain data, for which zero bytes are a value; the place is valid over the calls. The
        // child's table of handlers is its own.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) != 0 {
                continue;
            }
            if action.sa_sigaction != libc::SIG_IGN || signal == libc::SIGPIPE {
                action = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
    // SAFETY: an empty set is made in place and read by the call.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// All signals of this thread are held back until it is dropped.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn all() -> Blocked {
        // SAFETY: `sigset_t` is plain data; both places are valid over the calls, which change this thread's mask alone.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Blocked { before }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask was given by the same call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Ends a child that nothing else knows of.
pub(super) fn kill_and_reap(pid: libc::pid_t) {
    // SAFETY: takes integers; the child has not been reaped, so the number is its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    reap(pid);
}

fn reap(pid: libc::pid_t) {
    loop {
        // SAFETY: no place for a status is given.
        let reaped = unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        if reaped >= 0 || last_errno() != libc::EINTR {
            return;
        }
    }
}
