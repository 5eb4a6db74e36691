//! [`Shared`]: what the threads of a mount have in common, and [`OpenFile`]: one open file among them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use surety_kernel::KernelError;
use surety_kernel::fuse::Connection;
use surety_stream::{Caller, Contract, Station};

use crate::account::{Account, Served};
use crate::queue::{GivenUp, Queue, Request};
use crate::tree::Tree;

/// Error number of answers: EINTR.
pub(crate) const INTERRUPTED: i32 = 4;

/// A mount's threads share this.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    pub(crate) station: Station,
    pub(crate) contract: Contract,
    /// Bytes of one read at most.
    pub(crate) bytes_max: u32,
    pub(crate) tree: Tree,
    open: Mutex<Opened>,
    /// Threads that serve open files.
    workers: Mutex<usize>,
    worker_ended: Condvar,
    account: Mutex<Account>,
    trouble: Mutex<Option<String>>,
    is_over: AtomicBool,
    /// Whether signals came that have not been looked at.
    signals: Mutex<bool>,
    signal_came: Condvar,
}

#[derive(Debug, Default)]
struct Opened {
    files: BTreeMap<u64, Arc<OpenFile>>,
    last: u64,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// The number that the kernel asks by.
    node: u64,
    pub(crate) file: File,
    /// Below the directory that is mounted, when it was opened.
    pub(crate) path: PathBuf,
    /// Who opened it.
    pub(crate) program: String,
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    caller: Option<Caller>,
    is_served: bool,
}

impl Shared {
    pub(crate) fn new(connection: Connection, station: Station, contract: Contract, tree: Tree) -> Shared {
        let bytes_max = bytes_max(&contract);
        Shared {
            connection,
            station,
            contract,
            bytes_max,
            tree,
            open: Mutex::default(),
            workers: Mutex::default(),
            worker_ended: Condvar::new(),
            account: Mutex::default(),
            trouble: Mutex::default(),
            is_over: AtomicBool::new(false),
            signals: Mutex::default(),
            signal_came: Condvar::new(),
        }
    }

    /// A file was opened: its number.
    pub(crate) fn opened(&self, file: OpenFile) -> u64 {
        let mut open = lock(&self.open);
        open.last += 1;
        let handle = open.last;
        open.files.insert(handle, Arc::new(file));
        handle
    }

    pub(crate) fn file(&self, handle: u64) -> Option<Arc<OpenFile>> {
        lock(&self.open).files.get(&handle).cloned()
    }

    /// An open file that the kernel asks by this number, where there is one.
    pub(crate) fn file_of(&self, node: u64) -> Option<Arc<OpenFile>> {
        lock(&self.open).files.values().find(|file| file.node == node).cloned()
    }

    /// A file was closed.
    pub(crate) fn closed(&self, handle: u64) -> Option<Arc<OpenFile>> {
        lock(&self.open).files.remove(&handle)
    }

    /// All open files.
    pub(crate) fn files(&self) -> Vec<Arc<OpenFile>> {
        lock(&self.open).files.values().cloned().collect()
    }

    /// One more thread serves an open file, unless there are so many.
    pub(crate) fn begin_worker(&self, most: usize) -> bool {
        let mut workers = lock(&self.workers);
        let is_room = *workers < most;
        *workers += usize::from(is_room);
        is_room
    }

    /// Such a thread ends, and what it served.
    pub(crate) fn end_worker(&self, served: Option<Served>) {
        if let Some(served) = served {
            lock(&self.account).add(served);
        }
        *lock(&self.workers) -= 1;
        self.worker_ended.notify_all();
    }

    pub(crate) fn workers(&self) -> usize {
        *lock(&self.workers)
    }

    /// Waits until no thread serves an open file, for a while at most.
    pub(crate) fn wait_for_workers(&self, within: Duration) {
        let until = Instant::now() + within;
        let mut workers = lock(&self.workers);
        while *workers > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.worker_ended.wait_timeout(workers, left);
            workers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What was counted, which is handed out once.
    pub(crate) fn take_account(&self) -> Account {
        std::mem::take(&mut lock(&self.account))
    }

    /// An answer could not be given, or a request not be taken: the first of all is kept.
    pub(crate) fn note(&self, result: Result<(), KernelError>) {
        if let Err(error) = result {
            lock(&self.trouble).get_or_insert(error.to_string());
        }
    }

    pub(crate) fn trouble(&self, why: String) {
        lock(&self.trouble).get_or_insert(why);
    }

    pub(crate) fn trouble_met(&self) -> Option<String> {
        lock(&self.trouble).clone()
    }

    /// The file system is unmounted and unused, or its connection was ended: whoever serves an open file ends.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let files = std::mem::take(&mut lock(&self.open).files);
        files.values().for_each(|file| drop(file.close()));
        self.signal();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// A signal came for a thread that waits, or all is over.
    pub(crate) fn signal(&self) {
        *lock(&self.signals) = true;
        self.signal_came.notify_all();
    }

    /// Waits for that; for a while at most where `within` is given.
    pub(crate) fn wait_for_signal(&self, within: Option<Duration>) {
        let mut came = lock(&self.signals);
        match within {
            None => {
                while !*came {
                    came = self.signal_came.wait(came).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Some(within) if !*came => {
                let waited = self.signal_came.wait_timeout(came, within);
                came = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            Some(_) => {}
        }
        *came = false;
    }
}

/// Bytes of one read at most: as much as the program takes at once, in whole pages.
pub(crate) fn bytes_max(contract: &Contract) -> u32 {
    const PAGE: u64 = 4096;
    /// What the kernel lets one request carry.
    const MOST: u64 = 1 << 20;
    let bytes = contract.access.clamp(1, MOST).next_multiple_of(PAGE);
    u32::try_from(bytes).expect("1 MiB is less than 4 GiB")
}

impl OpenFile {
    pub(crate) fn new(node: u64, file: File, path: PathBuf, program: String) -> OpenFile {
        OpenFile { node, file, path, program, state: Mutex::default(), came: Condvar::new() }
    }

    /// A read comes; whether it is the first, for which there is no thread yet. It comes back where the file is closed.
    pub(crate) fn push(&self, request: Request) -> Result<bool, Request> {
        let mut state = lock(&self.state);
        if state.queue.is_closed() {
            return Err(request);
        }
        state.queue.push(request);
        self.came.notify_one();
        Ok(!std::mem::replace(&mut state.is_served, true))
    }

    /// No thread could be had for it: the reads that wait come back.
    pub(crate) fn unserved(&self) -> Vec<Request> {
        let mut state = lock(&self.state);
        state.is_served = false;
        std::iter::from_fn(|| state.queue.next((1, 0))).collect()
    }

    /// Waits for the next read, of those between two places first; `None` when it is closed.
    pub(crate) fn next(&self, span: (u64, u64)) -> Option<Request> {
        let mut state = lock(&self.state);
        loop {
            if state.queue.is_closed() {
                return None;
            }
            if let Some(request) = state.queue.next(span) {
                return Some(request);
            }
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn answered(&self) {
        lock(&self.state).queue.answered();
    }

    /// What calls its thread back from now on.
    pub(crate) fn call_by(&self, caller: Caller) {
        lock(&self.state).caller = Some(caller);
    }

    /// Whether the read being served is wanted no more.
    pub(crate) fn is_given_up(&self) -> bool {
        lock(&self.state).queue.is_given_up()
    }

    /// A signal came for the thread of a read; whether that is one of this file.
    pub(crate) fn doubt(&self, unique: u64) -> bool {
        lock(&self.state).queue.doubt(unique)
    }

    pub(crate) fn doubted(&self) -> Vec<Request> {
        lock(&self.state).queue.doubted()
    }

    /// A read is wanted no more; `true`: the caller answers it.
    pub(crate) fn give_up(&self, unique: u64) -> bool {
        let mut state = lock(&self.state);
        match state.queue.give_up(unique) {
            Some(GivenUp::Waiting(_)) => true,
            Some(GivenUp::Serving) => {
                state.call();
                false
            }
            None => false,
        }
    }

    /// Its thread is no more: all its reads come back, and there will be no others.
    pub(crate) fn abandon(&self) -> Vec<Request> {
        lock(&self.state).queue.abandon()
    }

    /// It is closed: its thread ends. The reads that waited come back.
    pub(crate) fn close(&self) -> Vec<Request> {
        let mut state = lock(&self.state);
        let waiting = state.queue.close();
        state.call();
        // What it calls by would keep the stream's station.
        state.caller = None;
        self.came.notify_all();
        waiting
    }
}

impl State {
    fn call(&self) {
        if let Some(caller) = &self.caller {
            caller.call();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
