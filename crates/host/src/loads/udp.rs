//! `udp-sender` and `udp-flood`: packets of `block` bytes (1000) over a virtual cable between two network namespaces made
//! for them, at a `rate` (10 Mbit/s) or as fast as they go, and a thread at the other end that takes them.
//!
//! The rate is of the bytes in the packets, without headers. A sender that comes late sends what is due at once, but never
//! more than 1000 packets in a row: what it could not send in time it leaves out, and its rate shows it.

use std::net::UdpSocket;
use std::time::Duration;

use surety_kernel::net::{Cable, End};
use surety_kernel::{clock, thread};
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::{Bytes, Nanos, Rate};

use super::{
    Counts, Ground, LoadDriver, LoadRun, LoadWorker, Workers, no_machine, number, per_second, refused,
};
use crate::meter::{Metered, ShareMeter};
use crate::window::{Gate, Window};

/// More does not fit a packet.
const BLOCK_MAX: Bytes = Bytes(65_000);
/// Packets sent late in a row.
const BURST_MAX: u64 = 1000;
/// How long either end waits without looking whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

struct Sender {
    near: UdpSocket,
    far: UdpSocket,
    packet: Vec<u8>,
    rate: Option<Rate>,
    _cable: Cable,
}

/// The row of `udp-sender`.
pub(super) const SENDER: LoadDriver = LoadDriver {
    kind: LoadKind::UdpSender,
    most: 64,
    prepare: |load, count, ground| prepare(load, count, ground, load.rate()),
    figures,
};

/// The row of `udp-flood`.
pub(super) const FLOOD: LoadDriver = LoadDriver {
    kind: LoadKind::UdpFlood,
    most: 64,
    prepare: |load, count, ground| prepare(load, count, ground, None),
    figures,
};

fn prepare(load: &Load, count: u32, ground: &Ground<'_>, rate: Option<Rate>) -> Result<Workers, WorldError> {
    let block = load.block();
    if block > BLOCK_MAX {
        return Err(refused(load, format!("`block` is at most {BLOCK_MAX}: it has to fit a packet")));
    }
    let mut workers: Workers = Vec::new();
    for _ in 0..count {
        if ground.cancel.is_cancelled() {
            return Err(WorldError::Interrupted);
        }
        let make = || {
            let cable = Cable::new()?;
            Ok((cable.udp(End::Near)?, cable.udp(End::Far)?, cable))
        };
        let (near, far, cable) = make().map_err(|error| no_machine(load, &error))?;
        let limits = far
            .local_addr()
            .and_then(|address| near.connect(address))
            .and_then(|()| near.set_write_timeout(Some(LOOK)))
            .and_then(|()| far.set_read_timeout(Some(LOOK)));
        limits.map_err(|error| WorldError::MachineFor {
            object: format!("load.{}", load.name),
            what: format!("the sockets of load.{} cannot be set up: {error}", load.name),
            remedy: "run it again".to_owned(),
        })?;
        let packet = vec![0x5a; usize::try_from(block.0).unwrap_or(1)];
        workers.push(Box::new(Sender { near, far, packet, rate, _cable: cable }));
    }
    Ok(workers)
}

/// Bytes are those received; packets sent and not received are lost.
fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![
        per_second("rate", done.bytes, "B/s", observed),
        per_second("packets", done.rounds, "/s", observed),
        number("lost", done.lost),
    ]
}

impl LoadWorker for Sender {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        std::thread::scope(|scope| {
            // It inherits class and CPUs from this one.
            let receiver = std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, || take(&self.far, self.packet.len(), gate, window));
            let receiver = match receiver {
                Ok(receiver) => receiver,
                Err(error) => {
                    return LoadRun::gave_up(
                        format!("no thread for its receiver: {error}"),
                        "raise ulimit -u",
                    );
                }
            };
            let (sent, own) = self.send(gate, window);
            let Ok((received, other)) = receiver.join() else {
                return LoadRun::gave_up("its receiver panicked", "run it again");
            };
            let done = Counts { lost: sent.saturating_sub(received.rounds), ..received };
            LoadRun { metered: together(own, other), is_busy: false, done, ..LoadRun::default() }
        })
    }
}

impl Sender {
    /// Packets sent while observed.
    fn send(&self, gate: &Gate, window: &Window) -> (u64, Metered) {
        if !gate.sleep_until(window.begin) {
            return (0, Metered::default());
        }
        let mut meter = ShareMeter::new(*window);
        let (mut sent, mut planned, mut late) = (0_u64, 0_u64, 0_u64);
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                break;
            }
            meter.look(now);
            if let Some(rate) = self.rate {
                let due = |number: u64| {
                    window.begin + Nanos::SECOND.mul_ratio(number * self.packet.len() as u64, rate.0)
                };
                if due(planned) > now {
                    late = 0;
                    if !gate.sleep_until(due(planned).min(window.end)) {
                        break;
                    }
                    continue;
                }
                late += 1;
                if late > BURST_MAX {
                    // Given up: as many as were due meanwhile.
                    let bytes = (now - window.begin).mul_ratio(rate.0, 1_000_000_000).get_unsigned();
                    planned = planned.max(bytes / self.packet.len() as u64);
                    late = 0;
                }
                planned += 1;
            }
            // What the kernel does not take is not sent.
            let is_sent = self.near.send(&self.packet).is_ok();
            sent += u64::from(is_sent && now >= window.observe);
        }
        (sent, meter.finish())
    }
}

/// Takes packets until the run is over; those that came while it was observed count.
fn take(socket: &UdpSocket, length: usize, gate: &Gate, window: &Window) -> (Counts, Metered) {
    let _ = thread::set_name("udp-receiver");
    let mut buffer = vec![0; length];
    let mut meter = ShareMeter::new(*window);
    let mut done = Counts::default();
    loop {
        let received = socket.recv(&mut buffer);
        let now = clock::monotonic();
        if gate.is_over(window, now) {
            break;
        }
        meter.look(now);
        if let Ok(bytes) = received
            && now >= window.observe
        {
            done = done.plus(Counts { bytes: bytes as u64, rounds: 1, ..Counts::default() });
        }
    }
    (done, meter.finish())
}

/// What both threads got.
fn together(one: Metered, other: Metered) -> Metered {
    Metered {
        run: one.run + other.run,
        waited: one.waited.zip(other.waited).map(|(a, b)| a + b),
        longest_gap: one.longest_gap.max(other.longest_gap),
    }
}
