//! Mounting for users who may not: through `fusermount3`, which is set-user-id root and made for that.
//!
//! It opens `/dev/fuse` as the user, mounts, and sends the descriptor back through a socket (`util/fusermount.c` of libfuse: the variable
//! `_FUSE_COMMFD` says which of its descriptors that is). It is given as its standard input.

use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use rustix::net::{recvmsg, socketpair};
use surety_units::Nanos;

use crate::clock;
use crate::command::{ChildSetup, Command, Stream, spawn};
use crate::error::{KernelError, Operation};

const PROGRAM: &str = "fusermount3";
/// So long it may take.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// Mounts a file system of FUSE at a place with these options: the descriptor that it is served by.
///
/// # Errors
/// In words: what the helper says, or that there is none.
pub(super) fn mount(place: &Path, options: &str) -> Result<OwnedFd, String> {
    let made = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, its) = made.map_err(|error| error.to_string())?;
    let mut command = Command::new(PROGRAM);
    command.arg("-o").arg(options).arg("--").arg(place);
    command.env("_FUSE_COMMFD", "0");
    command.stdin(Stream::File(its)).stdout(Stream::Null);
    let said = run(&mut command)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut control, mut byte) = (RecvAncillaryBuffer::new(&mut space), [0]);
    // It has ended: what it sent is there, or its end.
    let received = recvmsg(&ours, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC);
    received.map_err(|error| error.to_string())?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptor.ok_or(said)
}

/// Unmounts one; `is_lazy`: from its place alone.
///
/// # Errors
/// EBUSY where it does not: while something in it is open.
pub(super) fn unmount(place: &Path, is_lazy: bool) -> Result<(), KernelError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if is_lazy {
        command.arg("-z");
    }
    command.arg("--").arg(place);
    command.stdin(Stream::Null).stdout(Stream::Null);
    match run(&mut command) {
        Ok(said) if said.is_empty() => Ok(()),
        _ => Err(KernelError::new(Operation::Unmount, place.display().to_string(), libc::EBUSY)),
    }
}

/// Runs the helper to its end: what it complained of, nothing where all went well.
fn run(command: &mut Command) -> Result<String, String> {
    command.stderr(Stream::Pipe);
    let missing = |error: KernelError| format!("{error}; install fuse3, or run as root");
    let mut helper = spawn(command, &ChildSetup::default()).map_err(missing)?;
    let mut said = String::new();
    if let Some(mut stderr) = helper.take_stderr() {
        let _ = stderr.read_to_string(&mut said);
    }
    let ended = helper.wait_until(clock::monotonic() + PATIENCE).map_err(|error| error.to_string())?;
    let said = said.trim().to_owned();
    match ended {
        Some(ended) if ended.status.success() => Ok(said),
        _ if said.is_empty() => Ok(format!("{PROGRAM} failed")),
        _ => Ok(said),
    }
}
