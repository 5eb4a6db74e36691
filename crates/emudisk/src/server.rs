//! [`Server`]: the threads of an emulated disk.
//!
//! Two readers take requests and move their data, so that one can be stamped while another is moved, in the order in which the kernel gave them where the disk
//! takes one at a time (else a read passes a write before it, which is longer in coming); one thread answers at the instants of the model, and
//! begins as much earlier as an answer takes ([`Leads`]), where the model knows by then that it will be complete; one tells the watchdog that all is well. What they share is under one lock, which nobody holds while data move or an answer is sent.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use surety_device::{Model, Op, Request, SECTOR};
use surety_kernel::fuse::answers::{self, Kind, Size};
use surety_kernel::fuse::control::Control;
use surety_kernel::fuse::wire::{self, Ask, Incoming};
use surety_kernel::fuse::{Connection, Received};
use surety_kernel::{Kernel, KernelError, Operation, RealKernel, SchedPolicy, clock, thread};
use surety_units::Nanos;

use crate::account::Account;
use crate::core::{Core, Done, Event};
use crate::fault::{Fault, good_bytes};
use crate::inside::{Answer, NEVER, Slot, State};
use crate::leads::Leads;
use crate::store::Store;
use crate::tree;
use crate::watchdog::Watchdog;

/// Bytes of one request at most: what FUSE carries in one of its own (256 pages).
pub(crate) const BYTES_MAX: u32 = 1 << 20;
/// Requests at a time, more than a loop device has tags: the model says how many the disk takes.
const REQUESTS_MAX: u16 = 1024;
const READERS: u32 = 2;
/// For so long at the end of a wait the reply thread spins, where a sleep may end late.
pub const SPIN: Nanos = Nanos::from_micros(100);
/// The priority of threads that take requests: above a replayed start-up, which looks at the clock at priority 1 where a program worked, and would hold up the
/// disk on its CPU.
const PRIORITY: u32 = 2;
/// The priority of the thread that answers: data that are moved wait for it.
const PRIORITY_REPLY: u32 = 3;
/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(500);
/// A request that is not answered so long after its time is no sign of life.
const STUCK: Nanos = Nanos::SECOND;
/// So long those who use the disk may take to let go of it.
const LET_GO: Nanos = Nanos::from_secs(2);
const STACK: usize = 256 << 10;

/// Held from before a request is taken until it is stamped.
type Turn<'a> = Option<MutexGuard<'a, ()>>;

/// An emulated disk's serving end. Dropping ends it: whoever still waits for an answer gets an error.
pub(crate) struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Ends the signs of life when dropped.
    beats: Option<Sender<()>>,
    pub(crate) control: Option<Control>,
}

/// What the threads share.
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    store: Store,
    bytes: u64,
    /// Whether the disk can be told what it need not keep.
    discards: bool,
    faults: Vec<Fault>,
    spin: Nanos,
    /// The instant of CLOCK_MONOTONIC that is 0 for the model.
    epoch: Nanos,
    state: Mutex<State>,
    /// The reply thread waits here.
    earlier: Condvar,
    /// When the next request is complete, for the reply thread while it spins.
    next: AtomicI64,
    /// Who takes a request has this until it is stamped, where the disk takes one at a time: requests come to the model in the order in which the kernel
    /// gave them.
    turn: Option<Mutex<()>>,
    /// Whether the model is asked; else everything is answered at once.
    is_timed: AtomicBool,
    /// The model is told of a request as if it had come this much earlier, in ns.
    way: AtomicI64,
    is_over: AtomicBool,
}

impl Server {
    /// A server whose threads have not begun, with everything answered at once; the size of the disk in bytes, whether it takes discards, and what of it
    /// fails; whether it takes one request at a time, and how long the reply thread spins at most.
    pub fn new(
        connection: Connection,
        store: Store,
        (bytes, discards, faults): (u64, bool, Vec<Fault>),
        (core, takes_one, spin): (Core, bool, Nanos),
    ) -> Server {
        let state = State::new(core, BYTES_MAX);
        let shared = Shared {
            connection,
            store,
            bytes,
            discards,
            faults,
            spin,
            epoch: clock::monotonic(),
            state: Mutex::new(state),
            earlier: Condvar::new(),
            next: AtomicI64::new(NEVER),
            turn: takes_one.then(Mutex::default),
            is_timed: AtomicBool::new(false),
            way: AtomicI64::new(0),
            is_over: AtomicBool::new(false),
        };
        Server { shared: Arc::new(shared), threads: Vec::new(), beats: None, control: None }
    }

    /// What the threads share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Starts the threads that serve; the connection has been mounted.
    ///
    /// # Errors
    /// EAGAIN at the limit of threads.
    pub fn serve(&mut self) -> Result<(), KernelError> {
        for number in 0..READERS {
            self.start(&format!("disk-read-{number}"), |shared| shared.read_requests())?;
        }
        self.start("disk-reply", |shared| shared.reply())
    }

    /// Tells a watchdog from now on that all is well, as long as it is.
    ///
    /// # Errors
    /// As [`Server::serve`].
    pub fn tell(&mut self, watchdog: Watchdog) -> Result<(), KernelError> {
        let (beats, over) = channel();
        self.beats = Some(beats);
        self.start("disk-beat", move |shared| {
            let mut watchdog = watchdog;
            loop {
                let told = !shared.is_well() || watchdog.tell();
                if !told {
                    shared.trouble(WATCHDOG_ENDED.to_owned());
                }
                if !told || over.recv_timeout(BEAT) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })
    }

    fn start(&mut self, name: &str, body: impl FnOnce(&Shared) + Send + 'static) -> Result<(), KernelError> {
        let shared = Arc::clone(&self.shared);
        let builder = Builder::new().name(name.to_owned()).stack_size(STACK);
        let started = builder.spawn(move || body(&shared));
        let failed = |error: io::Error| KernelError::from_io(Operation::Spawn, name.to_owned(), &error);
        self.threads.push(started.map_err(failed)?);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let until = clock::monotonic() + LET_GO;
        while !self.shared.is_over.load(Ordering::Acquire) && !self.threads.is_empty() {
            if clock::monotonic() >= until {
                self.control.iter().for_each(Control::abort);
                break;
            }
            let _ = clock::sleep_for(Nanos::MILLISECOND);
        }
        self.beats = None;
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// From now on the model says when, and requests are counted.
    pub fn begin(&self) {
        let mut state = self.lock();
        self.is_timed.store(true, Ordering::Relaxed);
        state.account = Account::default();
        // What an answer brings about is another thing while nothing is measured.
        state.leads = Leads::new(BYTES_MAX);
    }

    /// Everything is answered at once again, and from the next [`Shared::begin`] on the model is told of requests as if they had come earlier by their way.
    pub fn pause(&self, way: Nanos) {
        self.is_timed.store(false, Ordering::Relaxed);
        self.way.store(way.get(), Ordering::Relaxed);
    }

    /// The model begins anew: what the disk's own cache had is forgotten. `false`, and nothing is done, while requests are inside.
    pub fn renew(&self, model: Box<dyn Model + Send>) -> bool {
        self.lock().core.renew(model)
    }

    /// What was counted.
    pub fn account(&self) -> Account {
        self.lock().account.clone()
    }

    /// Why it no longer serves, or not as it should.
    pub fn trouble_met(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Whether the connection has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Where the data are.
    pub fn store(&self) -> &Store {
        &self.store
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self, why: String) {
        self.lock().trouble.get_or_insert(why);
    }

    /// Now, as the model counts.
    fn now(&self) -> Nanos {
        clock::monotonic() - self.epoch
    }

    /// Whether every request that is due is being answered.
    fn is_well(&self) -> bool {
        let state = self.lock();
        let late = self.now() - STUCK;
        let is_stuck = |slot: &Slot| slot.done.is_some_and(|done| done.due < late);
        state.core.next().is_none_or(|at| at >= late) && !state.slots.iter().flatten().any(is_stuck)
    }

    /// A reader's life.
    fn read_requests(&self) {
        self.become_device(PRIORITY);
        let mut buffer = vec![0; wire::buffer_bytes(BYTES_MAX)];
        loop {
            let turn = self.turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
            match self.connection.receive(&mut buffer) {
                Ok(Received::Request(incoming)) => {
                    if let Err(error) = self.serve(&incoming, turn) {
                        self.trouble(error.to_string());
                    }
                }
                Ok(Received::Over) => break,
                Err(error) => {
                    self.trouble(error.to_string());
                    break;
                }
            }
        }
        self.is_over.store(true, Ordering::Release);
        self.earlier.notify_all();
    }

    /// The calling thread is a device from now on: it runs before programs, and memory it needs is not had by writing to disks.
    fn become_device(&self, priority: u32) {
        let kernel = RealKernel::new();
        let fifo = SchedPolicy::Fifo { priority };
        if let Err(error) = kernel.set_scheduler_directly(kernel.own_tid(), &fifo.into()) {
            self.trouble(format!("its threads have no real-time priority: {error}"));
        }
        let _ = thread::serve_disks();
    }

    fn serve(&self, incoming: &Incoming<'_>, turn: Turn<'_>) -> Result<(), KernelError> {
        let (unique, node) = (incoming.unique, incoming.node);
        let answer = |bytes: Option<Vec<u8>>| match bytes {
            Some(bytes) => self.connection.answer(unique, &bytes),
            None => self.connection.refuse(unique, NO_ENTRY),
        };
        match incoming.ask {
            Ask::Init { major, minor } if !wire::is_spoken(major, minor) => {
                self.trouble(format!("the kernel speaks the protocol {major}.{minor}"));
                self.connection.refuse(unique, UNKNOWN_PROTOCOL)
            }
            Ask::Init { .. } => answer(Some(answers::init(Kind::Disk, BYTES_MAX, REQUESTS_MAX))),
            Ask::Lookup { name } => answer(tree::lookup(node, name, self.bytes)),
            Ask::Attributes { .. } => {
                let node = tree::node(node, self.bytes);
                answer(node.map(|of| answers::attributes(&of, tree::VALID_S)))
            }
            Ask::Open { .. } => answer(tree::node(node, self.bytes).map(|_| answers::opened(0))),
            Ask::Statistics => answer(Some(answers::statistics(&Size::full(self.bytes)))),
            Ask::Release { .. } | Ask::Destroy => self.connection.answer(unique, &[]),
            Ask::Forget { .. } | Ask::ForgetMany(_) | Ask::Interrupt { .. } => Ok(()),
            Ask::PunchHole { .. } if !self.discards => self.connection.refuse(unique, NOT_SUPPORTED),
            Ask::ReadLink
            | Ask::OpenDirectory
            | Ask::ReadDirectory { .. }
            | Ask::ReleaseDirectory { .. }
            | Ask::Other(_) => self.connection.refuse(unique, NOT_OFFERED),
            Ask::Read { offset, bytes, .. } => {
                self.access((unique, turn), Op::Read, (offset, bytes.into()), &[])
            }
            Ask::Write { offset, data } => {
                self.access((unique, turn), Op::Write, (offset, data.len() as u64), data)
            }
            Ask::PunchHole { offset, bytes } => {
                self.access((unique, turn), Op::Discard, (offset, bytes), &[])
            }
            Ask::Sync => self.access((unique, turn), Op::Flush, (0, 0), &[]),
        }
    }

    /// Stamps a request, has it timed, and moves its data meanwhile.
    fn access(
        &self,
        (unique, turn): (u64, Turn<'_>),
        op: Op,
        (offset, bytes): (u64, u64),
        data: &[u8],
    ) -> Result<(), KernelError> {
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let is_whole = offset.is_multiple_of(SECTOR) && bytes.is_multiple_of(SECTOR);
        let is_request = op == Op::Flush || bytes > 0;
        let sectors = u32::try_from(bytes / SECTOR).ok().filter(|_| is_inside && is_whole && is_request);
        let Some(sectors) = sectors else { return self.connection.refuse(unique, INVALID) };
        let request = Request::new(op, offset / SECTOR, sectors);
        let good = self.good_bytes(op, (offset, bytes));
        let (tag, buffer) = self.arrive(unique, request);
        drop(turn);
        let moved = match op {
            Op::Read | Op::Write if good < bytes && (good == 0 || op == Op::Write) => {
                Ok(Answer::Refused(BROKEN))
            }
            Op::Read => {
                let (mut buffer, length) = (buffer, good as usize);
                buffer.resize(buffer.len().max(length), 0);
                let read = self.store.read(offset, &mut buffer[..length]);
                read.map(|()| Answer::Data(buffer, length))
            }
            Op::Write => self.store.write(offset, data).map(|()| Answer::Written(data.len() as u32)),
            Op::Discard => self.store.discard(offset, bytes).map(|()| Answer::Nothing),
            Op::Flush => Ok(Answer::Nothing),
        };
        let answer = moved.unwrap_or_else(|error| Answer::Refused(error.raw_os_error().unwrap_or(BROKEN)));
        self.finish(tag, answer)
    }

    /// How many bytes of a request come before the first that fails: all of them, while none is to.
    fn good_bytes(&self, op: Op, (offset, bytes): (u64, u64)) -> u64 {
        let good = || good_bytes(&self.faults, op, &(offset..offset + bytes));
        if self.is_timed.load(Ordering::Relaxed) { good().unwrap_or(bytes) } else { bytes }
    }

    /// Gives a request to the disk, with a buffer for what is read.
    fn arrive(&self, unique: u64, request: Request) -> (u32, Vec<u8>) {
        let mut state = self.lock();
        let now = self.now();
        let arrived = state.core.arrival(now - Nanos::new(self.way.load(Ordering::Relaxed)));
        let tag = state.enter(unique, request, arrived);
        if self.is_timed.load(Ordering::Relaxed) {
            state.give(tag, request, arrived);
        } else {
            state.settle(Done { tag, due: now, service: Nanos::ZERO });
        }
        self.call(&state);
        let buffer = if request.op == Op::Read { state.buffers.pop() } else { None };
        (tag, buffer.unwrap_or_default())
    }

    /// The reply thread wakes up for what comes before it would by itself.
    fn call(&self, state: &State) {
        let is_due = !state.ready.is_empty();
        let next = if is_due { i64::MIN } else { state.next() };
        self.next.store(next, Ordering::Relaxed);
        if is_due || next < state.sleeps_until {
            self.earlier.notify_one();
        }
    }

    /// What a request is answered with is there: it is answered now if its time has come, else by the reply thread.
    fn finish(&self, tag: u32, answer: Answer) -> Result<(), KernelError> {
        let mut state = self.lock();
        let slot = state.slots[tag as usize].as_mut().expect("it is answered once, with what comes here");
        slot.answer = Some(answer);
        if slot.done.is_none() {
            // It may have to begin soon.
            self.call(&state);
            return Ok(());
        }
        let slot = state.leave(tag);
        drop(state);
        self.answer(slot)
    }

    /// The reply thread's life.
    fn reply(&self) {
        self.become_device(PRIORITY_REPLY);
        let mut state = self.lock();
        loop {
            let now = self.now();
            state.take(now, Event::Time);
            if let Some(tag) = state.ready.pop_front() {
                let slot = state.leave(tag);
                drop(state);
                if let Err(error) = self.answer(slot) {
                    self.trouble(error.to_string());
                }
                state = self.lock();
                continue;
            }
            if let Some((tag, _)) = state.foreseen().filter(|(_, begin)| *begin <= now) {
                let (unique, request, answer) = state.begin_early(tag);
                drop(state);
                let (sent, at) = self.send(unique, &request, answer);
                if let Err(error) = sent {
                    self.trouble(error.to_string());
                }
                state = self.lock();
                state.end_early(tag, at);
                continue;
            }
            if self.is_over() {
                return;
            }
            let next = state.next();
            let left = Nanos::new(next.saturating_sub(now.get()));
            self.next.store(next, Ordering::Relaxed);
            let spin = self.spin.max(state.leads.wake());
            if left > spin {
                let sleep = (left - spin).min(Nanos::SECOND);
                state.sleeps_until = next;
                let slept = self.earlier.wait_timeout(state, Duration::from_nanos(sleep.get_unsigned()));
                let (again, result) = slept.unwrap_or_else(PoisonError::into_inner);
                state = again;
                state.sleeps_until = i64::MIN;
                // One that was over before the thread slept says nothing.
                if result.timed_out() && sleep > SPIN {
                    state.leads.learn_wake(self.now() - now - sleep);
                }
                continue;
            }
            drop(state);
            while self.now().get() < self.next.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            state = self.lock();
        }
    }

    /// Answers, and counts how late that is.
    fn answer(&self, mut slot: Slot) -> Result<(), KernelError> {
        let answer = slot.answer.take().unwrap_or(Answer::Nothing);
        let (sent, now) = self.send(slot.unique, &slot.request, answer);
        if self.is_timed.load(Ordering::Relaxed) {
            self.lock().count(&slot, now);
        }
        sent
    }

    /// Sends an answer; says when the kernel had it, and learns what that takes. Of a write what the kernel does with it before it returns is left out.
    fn send(&self, unique: u64, request: &Request, answer: Answer) -> (Result<(), KernelError>, Nanos) {
        let before = self.now();
        let mut buffer = None;
        let sent = match answer {
            Answer::Data(bytes, length) => {
                let sent = self.connection.answer(unique, &bytes[..length]);
                buffer = Some(bytes);
                sent
            }
            Answer::Written(bytes) => self.connection.answer(unique, &answers::written(bytes)),
            Answer::Nothing => self.connection.answer(unique, &[]),
            Answer::Refused(errno) => self.connection.refuse(unique, errno),
        };
        let now = self.now();
        let mut state = self.lock();
        state.buffers.extend(buffer);
        state.leads.learn(request.op, request.bytes(), now - before);
        let had = match request.op {
            Op::Read => now,
            _ => before + state.leads.of(request.op, request.bytes()),
        };
        (sent, had)
    }
}

/// What is wrong where nobody watches any more.
pub(crate) const WATCHDOG_ENDED: &str = "its watchdog ended";

/// Error numbers of answers: ENOENT, EPROTO, ENOSYS, EOPNOTSUPP, EINVAL, EIO.
const NO_ENTRY: i32 = 2;
const UNKNOWN_PROTOCOL: i32 = 71;
const NOT_OFFERED: i32 = 38;
const NOT_SUPPORTED: i32 = 95;
const INVALID: i32 = 22;
const BROKEN: i32 = 5;
