//! [`InterpacketProbe`]: a sender of small packets at a fixed distance, a receiver, and the kernel between them: how far
//! apart the same packets are at each of the three.
//!
//! The packets go through a pair of virtual Ethernet devices between two network namespaces made for it. Such a device
//! has no hardware interrupt: the packet is taken in a softirq of the CPU that sent it, mostly while its sender is still
//! inside the system call. Two cards of the machine with a wire between them have one ([`InterpacketProbe::on_cards`]), and
//! where interrupts have threads, their packets are taken there. The trace is of `net:netif_receive_skb`, the event of every packet a device hands up, and of
//! `napi:napi_poll`, the end of the poll that took it.

use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use surety_enforce::Enforcer;
use surety_kernel::journal::Journal;
use surety_kernel::net::{Cable, CardPair, End};
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, KernelError, clock};
use surety_model::interpacket::{HANDLED, POLLED, RECEIVED, SENT, TRACED, between};
use surety_model::record::{ActivityRecord, Basis, Distribution, Figure, Observed, Record, TraceQuality};
use surety_model::workload::{ActivityKind, PolicySpec};
use surety_model::world::{Observer, RunOptions, WorldError};
use surety_units::{Nanos, Tid};

use crate::interrupts::time_of_threads;
use crate::probe_setup::{ProbePolicy, Surroundings};
use crate::recorder::{JournalledRecording, RecordingError, RecordingOptions};
use crate::threads::spawn_thread;
use crate::window::RUN_UP;
use crate::window::{Gate, Window};

use traced::{Wanted, packets_of};

mod polled;
mod traced;

/// More packets than this are not kept.
const PACKETS_MAX: i64 = 10_000_000;
/// How long the receiver waits without looking whether the run is over.
const LOOK: Duration = Duration::from_millis(20);
/// How long after the last packet the receiver still takes what is under way.
const DRAIN: Nanos = Nanos::from_millis(200);
/// Between two looks of the main thread.
const WATCH: Nanos = Nanos::from_millis(100);
/// The smallest packet; see [`payload`].
const PAYLOAD: usize = 64;

/// The probe.
pub struct InterpacketProbe<'a> {
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
    cards: Option<(String, String)>,
}

/// What the packets go over.
enum Wire {
    Veth(Cable),
    Cards(CardPair),
}

impl Wire {
    fn make(cards: Option<&(String, String)>) -> Result<Wire, KernelError> {
        Ok(match cards {
            None => Wire::Veth(Cable::new()?),
            Some((near, far)) => Wire::Cards(CardPair::new(near, far)?),
        })
    }

    fn cable(&self) -> &Cable {
        match self {
            Wire::Veth(cable) => cable,
            Wire::Cards(pair) => pair.cable(),
        }
    }

    /// CPU time of the threads of the receiving card's interrupt.
    fn handled(&self, kernel: &dyn Kernel) -> Nanos {
        match self {
            Wire::Veth(_) => Nanos::ZERO,
            Wire::Cards(pair) => time_of_threads(kernel, &pair.directory()),
        }
    }
}

/// The two threads of a run.
struct Pair {
    sender: (Tid, JoinHandle<Sent>),
    receiver: (Tid, JoinHandle<Vec<Nanos>>),
}

/// What the sender did.
struct Sent {
    stamps: Vec<Nanos>,
    /// Packets the kernel did not take.
    refused: u64,
}

/// Bytes in a packet: another for each process, so that a trace tells the packets of two runs apart.
fn payload(pid: Tid) -> usize {
    PAYLOAD + usize::try_from(pid.0).unwrap_or(0) % 1024
}

impl<'a> InterpacketProbe<'a> {
    /// A probe of this kernel. With a journal a killed run leaves no trace instance behind.
    pub fn new(kernel: &'a dyn Kernel, journal: Option<&'a Journal>) -> InterpacketProbe<'a> {
        InterpacketProbe { kernel, journal, cards: None }
    }

    /// The same over two network cards of this machine: the near one sends, the far one receives.
    pub fn on_cards(self, near: String, far: String) -> InterpacketProbe<'a> {
        InterpacketProbe { cards: Some((near, far)), ..self }
    }

    /// Sends a packet every `interval` and returns one activity, `packets`, with the series [`SENT`], [`RECEIVED`] and, where
    /// the kernel's events may be recorded, [`TRACED`] and [`POLLED`].
    ///
    /// Threads are of the fair class. Instants are planned on a grid, so that a late packet does not delay the next.
    ///
    /// # Errors
    /// [`WorldError::Machine`]: no privilege for namespaces, no virtual Ethernet devices, an interval that makes too many
    /// packets.
    pub fn run(
        &self,
        interval: Nanos,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        let total = options.warm_up + options.duration;
        let count = if interval.is_positive() { total.div_ceil(interval) } else { i64::MAX };
        if count > PACKETS_MAX {
            return Err(WorldError::Machine {
                what: format!("a packet each {interval} makes too many of them in {total}"),
                remedy: format!("{PACKETS_MAX} are kept; make --for shorter"),
            });
        }
        let mut surroundings = Surroundings::enter(self.kernel, options.cpus, false)?;
        let wire = Wire::make(self.cards.as_ref())
            .map_err(|error| machine("no network can be made for the packets", &error))?;
        let payload = payload(self.kernel.own_pid());
        let mut degraded = Vec::new();
        let recording = self.start_recording(&mut degraded);
        let gate = Arc::new(Gate::default());
        let pair = Pair::make(wire.cable(), &gate, (interval, payload), count.unsigned_abs())?;
        let mut enforcer = Enforcer::new(self.kernel, self.journal);
        let fair = ProbePolicy::Class(PolicySpec::default());
        let mut place =
            |name, tid| surroundings.place(&mut enforcer, (name, tid), surroundings.cpus(), &fair);
        let placed =
            place("sender", pair.sender.0).and_then(|s| Ok(vec![s, place("receiver", pair.receiver.0)?]));
        let threads = match placed {
            Ok(threads) => threads,
            Err(error) => {
                pair.send_home(&gate);
                return Err(error);
            }
        };
        let window = Window::new(clock::monotonic() + RUN_UP, options.warm_up, options.duration);
        gate.open(window);
        let Some(handled) = self.watch(&wire, &mut surroundings, &window, options, observer) else {
            pair.send_home(&gate);
            return Err(WorldError::Interrupted);
        };
        let sender = pair.sender.0;
        let (sent, received) = pair.collect()?;
        let undone = enforcer.undo();
        degraded.extend(undone.iter().map(|e| format!("a change could not be taken back: {e}")));
        let wanted = Wanted { payload, sender, observe: window.observe };
        let (quality, seen) = read(recording, &wanted, &mut degraded);
        let over =
            self.cards.as_ref().map_or_else(|| "veth".to_owned(), |(near, far)| format!("{near} to {far}"));
        surroundings.note("packets", &format!("UDP, {payload} bytes each, over {over}, planned on a grid"));
        let (mut record, inspector) = surroundings.finish(threads, &gate);
        degraded.append(&mut record.degraded);
        let mut packets = activity(&sent, &received, seen.as_ref(), window.observe, &mut degraded);
        if handled.is_positive() && packets.completed > 0 {
            let value = handled.get() as f64 / packets.completed as f64;
            packets.figures.push(Figure { name: HANDLED.to_owned(), value, unit: "ns".into() });
        }
        record.seed = Some(options.seed);
        record.duration = Some(options.duration);
        record.degraded = degraded;
        record.activities = vec![packets];
        record.trace = quality;
        inspector.mark(&mut record);
        Ok(record)
    }

    /// Sleeps through the run; returns the time the cards' interrupts and their threads took, or `None` when cancelled.
    fn watch(
        &self,
        wire: &Wire,
        surroundings: &mut Surroundings<'_>,
        window: &Window,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Option<Nanos> {
        let cancel = &options.cancel;
        let _ = clock::sleep_until(window.observe, Some(cancel.flag()));
        let before = wire.handled(self.kernel);
        surroundings.begin();
        while clock::monotonic() < window.end && !cancel.is_cancelled() {
            observer.progress(clock::monotonic() - window.begin, window.end - window.begin);
            let next = (clock::monotonic() + WATCH).min(window.end);
            let _ = clock::sleep_until(next, Some(cancel.flag()));
            surroundings.look();
        }
        (!cancel.is_cancelled()).then(|| wire.handled(self.kernel) - before)
    }

    fn start_recording(&self, degraded: &mut Vec<String>) -> Option<JournalledRecording<'a>> {
        let started = || {
            let cpus = self.kernel.online_cpus().map_err(RecordingError::from)?;
            let tracefs = Tracefs::open().map_err(RecordingError::from)?;
            let options = RecordingOptions::of(&[traced::EVENT, polled::EVENT]);
            JournalledRecording::start(&tracefs, self.journal, self.kernel, &options, cpus)
        };
        started().map_err(|why| degraded.push(format!("the packets were not traced: {why}"))).ok()
    }
}

fn machine(what: &str, why: &dyn std::fmt::Display) -> WorldError {
    WorldError::Machine { what: what.to_owned(), remedy: why.to_string() }
}

/// Ends a recording and takes the packets out of it.
fn read(
    recording: Option<JournalledRecording<'_>>,
    wanted: &Wanted,
    degraded: &mut Vec<String>,
) -> (Option<TraceQuality>, Option<traced::Seen>) {
    let Some(recording) = recording else { return (None, None) };
    let raw = recording.finish().map_err(|e| e.to_string());
    match raw.and_then(|raw| Ok((raw.lost(), packets_of(&raw, wanted)?))) {
        Ok((lost, seen)) => {
            if lost > 0 {
                degraded.push(format!("the tracer lost {lost} events"));
            }
            (Some(TraceQuality { events: seen.events, lost, censored_jobs: 0 }), Some(seen))
        }
        Err(why) => {
            degraded.push(format!("the recorded events could not be read: {why}"));
            (None, None)
        }
    }
}

/// What all of it comes to.
fn activity(
    sent: &Sent,
    received: &[Nanos],
    seen: Option<&traced::Seen>,
    observe: Nanos,
    degraded: &mut Vec<String>,
) -> ActivityRecord {
    let mut record = ActivityRecord::new("packets", ActivityKind::Probe, Basis::Sample);
    let after = |stamps: &[Nanos]| stamps.iter().filter(|s| **s >= observe).count() as u64;
    let (out, come) = (after(&sent.stamps), after(received));
    (record.activations, record.completed) = (out, come.min(out));
    let mut add = |name: &str, observed: Observed| {
        if observed.moments.count() > 0 {
            record.series.insert(name.to_owned(), Distribution::from(observed));
        }
    };
    add(SENT, between(&sent.stamps, observe));
    add(RECEIVED, between(received, observe));
    let mut figures = vec![Figure::new("lost", out.saturating_sub(come) as f64, "")];
    if let Some(seen) = seen {
        add(TRACED, between(&seen.times, observe));
        let traced = seen.times.len() as u64;
        if traced > 0 {
            figures.push(Figure::new("in the sender's context", seen.by_sender as f64 / traced as f64, "%"));
        }
        if let Some(polls) = &seen.polls {
            add(POLLED, between(&polls.times, observe));
            let polled = polls.times.len() as u64;
            if polled > 0 {
                figures.push(Figure::new(
                    "by threads that poll",
                    polls.by_threads as f64 / polled as f64,
                    "%",
                ));
            }
            if polled.abs_diff(traced) > 1 {
                degraded
                    .push(format!("the polls of {polled} packets are in the trace, and {traced} packets"));
            }
        }
        if traced.abs_diff(come) > 1 {
            degraded.push(format!("{traced} packets are in the trace and {come} were received"));
        }
    }
    if sent.refused > 0 {
        degraded.push(format!("the kernel did not take {} packets", sent.refused));
    }
    record.figures = figures;
    record
}

impl Pair {
    fn make(
        cable: &Cable,
        gate: &Arc<Gate>,
        (interval, payload): (Nanos, usize),
        count: u64,
    ) -> Result<Pair, WorldError> {
        let make = || Ok((cable.udp(End::Near)?, cable.udp(End::Far)?));
        let sockets: Result<_, surety_kernel::KernelError> = make();
        let (near, far) =
            sockets.map_err(|error| machine("no sockets can be made for the packets", &error))?;
        let ready = far
            .local_addr()
            .and_then(|address| near.connect(address))
            .and_then(|()| near.set_write_timeout(Some(LOOK)))
            .and_then(|()| far.set_read_timeout(Some(LOOK)));
        ready.map_err(|error| machine("the sockets of the packets cannot be set up", &error))?;
        let room = usize::try_from(count).unwrap_or(0) + 1;
        let (of_receiver, of_sender) = (Arc::clone(gate), Arc::clone(gate));
        let receiver = spawn_thread("receiver", gate, move || {
            let window = of_receiver.wait();
            window.map_or_else(Vec::new, |window| take(&far, &of_receiver, &window, room))
        })?;
        let sender = spawn_thread("sender", gate, move || match of_sender.wait() {
            Some(window) => send(&near, &of_sender, &window, interval, (payload, room)),
            None => Sent { stamps: Vec::new(), refused: 0 },
        });
        match sender {
            Ok(sender) => Ok(Pair { sender, receiver }),
            Err(error) => {
                gate.stop();
                let _ = receiver.1.join();
                Err(error)
            }
        }
    }

    fn send_home(self, gate: &Gate) {
        gate.stop();
        let _ = (self.sender.1.join(), self.receiver.1.join());
    }

    fn collect(self) -> Result<(Sent, Vec<Nanos>), WorldError> {
        let (sent, received) = (self.sender.1.join(), self.receiver.1.join());
        let both = sent.ok().zip(received.ok());
        both.ok_or_else(|| machine("a thread of the packets panicked", &"run again; report it if it repeats"))
    }
}

/// Sends until the window ends.
fn send(
    socket: &UdpSocket,
    gate: &Gate,
    window: &Window,
    interval: Nanos,
    (payload, room): (usize, usize),
) -> Sent {
    let mut sent = Sent { stamps: Vec::with_capacity(room), refused: 0 };
    let packet = vec![0x5a; payload];
    let mut due = window.begin;
    while due < window.end && gate.sleep_until(due) {
        let stamp = clock::monotonic();
        match socket.send(&packet) {
            Ok(_) => sent.stamps.push(stamp),
            Err(_) => sent.refused += 1,
        }
        due += interval;
    }
    sent
}

/// Takes packets until the window is over and none is under way any more.
fn take(socket: &UdpSocket, gate: &Gate, window: &Window, room: usize) -> Vec<Nanos> {
    let mut stamps = Vec::with_capacity(room);
    let mut buffer = [0; 8];
    loop {
        let received = socket.recv(&mut buffer);
        let now = clock::monotonic();
        if received.is_ok() && stamps.len() < room {
            stamps.push(now);
        }
        if gate.is_stopped() || now >= window.end + DRAIN {
            return stamps;
        }
    }
}
