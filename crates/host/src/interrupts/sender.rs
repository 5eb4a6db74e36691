//! [`Sender`]: who keeps a device busy: a thread that sends packets at the instants of the workload, or one of those that read.

use surety_kernel::clock;
use surety_kernel::net::Flow;
use surety_model::distribution::TimeDistribution;
use surety_model::workload::{Arrivals, Irq};
use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use super::hardware::{Beats, Reader};
use crate::window::{Gate, Window};

/// A sender sleeps for as long as this at least; shorter distances it keeps by looking at the clock.
const SLEEPS: Nanos = Nanos::from_micros(50);
/// A packet that was drawn for an instant longer ago than this is not sent any more.
const LATE_MAX: Nanos = Nanos::MILLISECOND;

/// When a sender sends.
#[derive(Clone, Debug)]
enum Plan {
    /// On a grid; what it is too late for is left out.
    Grid(Nanos),
    /// As often as it can, but never closer.
    Apart(Nanos),
    /// At drawn distances.
    Drawn(TimeDistribution, u64),
}

/// Who keeps a device busy.
pub(crate) enum Sender {
    Packets(Packets),
    /// By a frame that the wire repeats.
    Beats(Beats),
    /// By reading, one block after the other.
    Reads(Reader),
}

/// A sender of packets.
pub(crate) struct Packets {
    flow: Flow,
    plan: Plan,
    seed: u64,
}

/// What a sender did while it was observed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Packets the kernel took, or blocks that were read.
    pub(super) sent: u64,
    /// Packets that were due and not sent: too late, or refused.
    pub(super) left_out: u64,
}

impl Sent {
    /// What two did together.
    pub fn plus(self, other: Sent) -> Sent {
        Sent { sent: self.sent + other.sent, left_out: self.left_out + other.left_out }
    }
}

impl Sender {
    /// Who sends to a device over a flow.
    pub fn packets(flow: Flow, irq: &Irq, seed: u64) -> Sender {
        let plan = match irq.arrivals {
            Arrivals::Periodic { period } => Plan::Grid(period),
            Arrivals::Sporadic { gap } | Arrivals::Closed { service: gap, .. } => Plan::Apart(gap),
            Arrivals::Poisson { rate } => {
                let mean = Nanos::from_f64_rounded(1e9 / rate.per_second());
                // The instants the simulator draws.
                Plan::Drawn(
                    TimeDistribution::Exponential { mean },
                    stream_of(&format!("{}~spacing", irq.name)),
                )
            }
        };
        Sender::Packets(Packets { flow, plan, seed })
    }

    /// Keeps the device busy until the window ends.
    pub fn run(self, gate: &Gate, window: &Window) -> Sent {
        match self {
            Sender::Reads(reader) => Sent { sent: reader.run(gate, window), ..Sent::default() },
            Sender::Packets(packets) => packets.send_all(gate, window),
            Sender::Beats(beats) => beats.run(gate, window),
        }
    }
}

impl Packets {
    /// Sends until the window ends.
    fn send_all(&self, gate: &Gate, window: &Window) -> Sent {
        let mut done = Sent::default();
        let mut number = 0;
        let mut due = window.begin + self.first();
        if !gate.sleep_until(window.begin) {
            return done;
        }
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                return done;
            }
            if due > now {
                if due - now < SLEEPS {
                    std::hint::spin_loop();
                } else if !gate.sleep_until(due.min(window.end)) {
                    return done;
                }
                continue;
            }
            let is_sent = !self.is_too_late(now - due) && self.flow.send();
            if now >= window.observe {
                done.sent += u64::from(is_sent);
                done.left_out += u64::from(!is_sent);
            }
            number += 1;
            due = match &self.plan {
                Plan::Grid(period) => due + *period,
                Plan::Apart(gap) => now + *gap,
                Plan::Drawn(..) => due + self.drawn(number),
            };
        }
    }

    fn first(&self) -> Nanos {
        self.drawn(0)
    }

    /// The distance before a request, of a source that draws them.
    fn drawn(&self, number: u64) -> Nanos {
        match &self.plan {
            Plan::Drawn(distances, stream) => {
                distances.draw_from(&mut Pcg::for_job(self.seed, *stream, number))
            }
            _ => Nanos::ZERO,
        }
    }

    /// A packet that is as late as the next one is not sent: two would come closer than the plan says.
    fn is_too_late(&self, late: Nanos) -> bool {
        match self.plan {
            Plan::Grid(period) => late >= period,
            Plan::Apart(_) => false,
            Plan::Drawn(..) => late > LATE_MAX,
        }
    }
}
