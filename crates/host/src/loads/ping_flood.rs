//! `ping-flood`: echo requests (ICMP) sent as fast as replies come back, `block` bytes (56) in each, over a virtual cable
//! between two network namespaces made for it: packets are transmitted and received at once.
//!
//! Each has a cable of its own. Requests in flight are limited, so what it takes is bounded by what comes back; one that
//! is not answered in 100 ms counts as lost.

use surety_kernel::clock;
use surety_kernel::net::{Cable, EchoSocket, End};
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::{Bytes, Nanos};

use super::{
    Counts, Ground, LoadDriver, LoadRun, LoadWorker, Workers, no_machine, number, per_second, refused,
};
use crate::meter::ShareMeter;
use crate::window::{Gate, Window};

/// More does not fit an IP packet.
const PAYLOAD_MAX: Bytes = Bytes(65_000);
/// Requests sent before a reply is waited for.
const IN_FLIGHT: u32 = 32;
/// After this a reply will not come any more.
const LOST_AFTER: Nanos = Nanos::from_millis(100);

/// The row of the kind.
pub(super) const DRIVER: LoadDriver = LoadDriver { kind: LoadKind::PingFlood, most: 64, prepare, figures };

struct Pinger {
    echo: EchoSocket,
    // The cable lasts as long as its load.
    _cable: Cable,
}

fn prepare(load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let payload = load.block();
    if payload > PAYLOAD_MAX {
        return Err(refused(load, format!("`block` is at most {PAYLOAD_MAX}: it has to fit an IP packet")));
    }
    let mut workers: Workers = Vec::new();
    for _ in 0..count {
        if ground.cancel.is_cancelled() {
            return Err(WorldError::Interrupted);
        }
        let cable = Cable::new().map_err(|error| no_machine(load, &error))?;
        let echo = cable.echo(End::Near, payload.0 as usize).map_err(|error| no_machine(load, &error))?;
        workers.push(Box::new(Pinger { echo, _cable: cable }));
    }
    Ok(workers)
}

fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![
        per_second("rate", done.bytes, "B/s", observed),
        per_second("echoes", done.rounds, "/s", observed),
        number("lost", done.lost),
    ]
}

impl LoadWorker for Pinger {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        if !gate.sleep_until(window.begin) {
            return LoadRun::default();
        }
        let mut meter = ShareMeter::new(*window);
        let mut done = Counts::default();
        let (mut in_flight, mut sequence) = (0_u32, 0_u16);
        // A request and its reply.
        let both_ways = 2 * self.echo.packet() as u64;
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                break;
            }
            meter.look(now);
            // One at a time: a large one is cut up, answered and put together again inside this call, and the borders of the
            // window lie between two of them.
            if in_flight < IN_FLIGHT && self.echo.request(sequence).is_ok() {
                in_flight += 1;
                sequence = sequence.wrapping_add(1);
                continue;
            }
            let mut step = Counts::default();
            match self.echo.reply(LOST_AFTER) {
                Ok(Some(_)) => {
                    in_flight = in_flight.saturating_sub(1);
                    step = Counts { bytes: both_ways, rounds: 1, ..Counts::default() };
                }
                Ok(None) => {
                    step.lost = u64::from(in_flight);
                    in_flight = 0;
                }
                Err(error) => {
                    return LoadRun::gave_up(format!("its socket failed: {error}"), "run it again");
                }
            }
            if now >= window.observe {
                done = done.plus(step);
            }
        }
        LoadRun { metered: meter.finish(), is_busy: false, done, ..LoadRun::default() }
    }
}
