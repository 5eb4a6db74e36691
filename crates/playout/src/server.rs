//! The threads that take what the kernel asks: one receiver, which waits for nothing but the kernel, and clerks, who may wait for a disk.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use surety_kernel::fuse::Received;
use surety_kernel::fuse::answers::{self, Kind};
use surety_kernel::fuse::wire::{self, Ask, Incoming};
use surety_kernel::{Kernel as _, KernelError, Operation, RealKernel};
use surety_units::Tid;

use crate::guard::guard;
use crate::queue::Request;
use crate::shared::{INTERRUPTED, OpenFile, Shared};
use crate::worker::{become_realtime, work};

/// Requests at a time that nobody waits for: page faults of mappings, closed files.
const REQUESTS_MAX: u16 = 64;
const CLERKS: u32 = 3;
/// Open files that are read at a time: each has a thread, and memory that is locked.
pub(crate) const READ_MAX: usize = 64;
const STACK: usize = 256 << 10;

/// Error numbers of answers: EIO, EBADF, EAGAIN, EMFILE, EROFS, ENOSYS, EPROTO.
const BROKEN: i32 = 5;
const NO_HANDLE: i32 = 9;
const AGAIN: i32 = 11;
const TOO_MANY: i32 = 24;
const READ_ONLY: i32 = 30;
const NOT_OFFERED: i32 = 38;
const UNKNOWN_PROTOCOL: i32 = 71;
/// The flags of `open` that say what for (`O_ACCMODE`); 0: to read.
const ACCESS_MODE: u32 = 3;

/// What may have to wait for a disk.
#[derive(Debug)]
struct Errand {
    unique: u64,
    node: u64,
    thread: i32,
    what: What,
}

#[derive(Debug)]
enum What {
    Lookup(Vec<u8>),
    Attributes(Option<u64>),
    ReadLink,
    Open,
    Statistics,
    ReadDirectory { handle: u64, offset: u64, bytes: u32 },
}

/// Starts the threads that serve a mount; they end with it.
///
/// # Errors
/// EAGAIN at the limit of threads.
pub(crate) fn serve(shared: &Arc<Shared>) -> Result<Vec<JoinHandle<()>>, KernelError> {
    let (errands, to_do) = channel();
    let to_do = Arc::new(Mutex::new(to_do));
    let mut threads = Vec::new();
    for number in 0..CLERKS {
        let to_do = Arc::clone(&to_do);
        threads.push(start(shared, &format!("play-clerk-{number}"), move |shared| clerk(shared, &to_do))?);
    }
    threads.push(start(shared, "play-guard", |shared| guard(shared))?);
    threads.push(start(shared, "play-receive", move |shared| receive(shared, &errands))?);
    Ok(threads)
}

fn start(
    shared: &Arc<Shared>,
    name: &str,
    body: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<JoinHandle<()>, KernelError> {
    let shared = Arc::clone(shared);
    let started = Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || body(&shared));
    started.map_err(|error: io::Error| KernelError::from_io(Operation::Spawn, name.to_owned(), &error))
}

/// The receiver's life.
fn receive(shared: &Arc<Shared>, errands: &Sender<Errand>) {
    become_realtime();
    let mut buffer = vec![0; wire::buffer_bytes(shared.bytes_max)];
    loop {
        match shared.connection.receive(&mut buffer) {
            Ok(Received::Request(incoming)) => take(shared, errands, &incoming),
            Ok(Received::Over) => return shared.end(),
            Err(error) => {
                shared.note(Err(error));
                return shared.end();
            }
        }
    }
}

/// Sorts a request.
fn take(shared: &Arc<Shared>, errands: &Sender<Errand>, incoming: &Incoming<'_>) {
    let Incoming { unique, node, thread, ask } = *incoming;
    let answer = |bytes: &[u8]| shared.note(shared.connection.answer(unique, bytes));
    let refuse = |errno| shared.note(shared.connection.refuse(unique, errno));
    let send = |what| {
        if errands.send(Errand { unique, node, thread, what }).is_err() {
            refuse(BROKEN);
        }
    };
    match ask {
        Ask::Init { major, minor } if !wire::is_spoken(major, minor) => {
            shared.trouble(format!("the kernel speaks the protocol {major}.{minor}"));
            refuse(UNKNOWN_PROTOCOL);
        }
        Ask::Init { .. } => answer(&answers::init(Kind::Tree, shared.bytes_max, REQUESTS_MAX)),
        Ask::Read { handle, offset, bytes } => {
            read(shared, handle, Request { unique, offset, bytes, thread });
        }
        Ask::Interrupt { unique } => {
            if shared.files().iter().any(|file| file.doubt(unique)) {
                shared.signal();
            }
        }
        Ask::Release { handle } => {
            for request in shared.closed(handle).map(|file| file.close()).unwrap_or_default() {
                shared.note(shared.connection.refuse(request.unique, INTERRUPTED));
            }
            answer(&[]);
        }
        Ask::Lookup { name } => send(What::Lookup(name.to_vec())),
        Ask::Attributes { handle } => send(What::Attributes(handle)),
        Ask::ReadLink => send(What::ReadLink),
        Ask::Open { flags } if flags & ACCESS_MODE != 0 => refuse(READ_ONLY),
        Ask::Open { .. } => send(What::Open),
        Ask::Statistics => send(What::Statistics),
        Ask::OpenDirectory => answer(&shared.tree.open_directory()),
        Ask::ReadDirectory { handle, offset, bytes } => send(What::ReadDirectory { handle, offset, bytes }),
        Ask::ReleaseDirectory { handle } => {
            shared.tree.release_directory(handle);
            answer(&[]);
        }
        Ask::Forget { lookups } => shared.tree.forget(node, lookups),
        Ask::ForgetMany(forgotten) => shared.tree.forget_many(forgotten),
        Ask::Destroy => answer(&[]),
        Ask::Write { .. } | Ask::PunchHole { .. } => refuse(READ_ONLY),
        Ask::Sync | Ask::Other(_) => refuse(NOT_OFFERED),
    }
}

/// A read goes to the thread of its file, which is started for the first.
fn read(shared: &Arc<Shared>, handle: u64, request: Request) {
    let refuse = |request: Request, errno| shared.note(shared.connection.refuse(request.unique, errno));
    let Some(file) = shared.file(handle) else { return refuse(request, NO_HANDLE) };
    match file.push(request) {
        Ok(false) => {}
        Err(request) => refuse(request, NO_HANDLE),
        Ok(true) => {
            let errno = match shared.begin_worker(READ_MAX) {
                true if start_worker(shared, &file).is_ok() => return,
                true => {
                    shared.end_worker(None);
                    AGAIN
                }
                false => TOO_MANY,
            };
            file.unserved().into_iter().for_each(|request| refuse(request, errno));
        }
    }
}

fn start_worker(shared: &Arc<Shared>, file: &Arc<OpenFile>) -> Result<(), KernelError> {
    let file = Arc::clone(file);
    // Counted, not waited for by its handle: there may be any number of them in turn.
    let body = move |shared: &Arc<Shared>| {
        if catch_unwind(AssertUnwindSafe(|| work(&file, shared))).is_err() {
            // It has said so. Who reads that file is not left waiting.
            for request in file.abandon() {
                shared.note(shared.connection.refuse(request.unique, BROKEN));
            }
            shared.end_worker(None);
        }
    };
    start(shared, "play-out", body).map(drop)
}

/// A clerk's life.
fn clerk(shared: &Shared, errands: &Mutex<Receiver<Errand>>) {
    loop {
        let errand = errands.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(errand) = errand else { return };
        shared.note(match run(shared, &errand) {
            Ok(bytes) => shared.connection.answer(errand.unique, &bytes),
            Err(error) => shared.connection.refuse(errand.unique, error.raw_os_error().unwrap_or(BROKEN)),
        });
    }
}

/// What an errand is answered with.
fn run(shared: &Shared, errand: &Errand) -> io::Result<Vec<u8>> {
    let (node, tree) = (errand.node, &shared.tree);
    match &errand.what {
        What::Lookup(name) => tree.lookup(node, name),
        What::Attributes(handle) => {
            // Of an open file, where there is one, even if it is not asked by that: it may have no name any more.
            let open = handle.and_then(|handle| shared.file(handle)).or_else(|| shared.file_of(node));
            tree.attributes(node, open.as_deref().map(|open| &open.file))
        }
        What::ReadLink => tree.link(node),
        What::Open => {
            let (file, path) = tree.open(node)?;
            let name = RealKernel::new().name(Tid(errand.thread)).unwrap_or_else(|_| "?".to_owned());
            let program = format!("{name} ({})", errand.thread);
            Ok(answers::opened(shared.opened(OpenFile::new(node, file, path, program))))
        }
        What::Statistics => tree.statistics(node),
        What::ReadDirectory { handle, offset, bytes } => {
            tree.read_directory(node, *handle, (*offset, *bytes))
        }
    }
}
