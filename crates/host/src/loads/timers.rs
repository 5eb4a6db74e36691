//! `timers`: each has 100 timers that fire once every `period` (1 ms), spread evenly over it: interrupts and wake-ups.

use surety_kernel::clock;
use surety_kernel::timers::TimerSet;
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::{
    Counts, Ground, LoadDriver, LoadRun, LoadWorker, Workers, no_machine, number, per_second, refused,
};
use crate::meter::ShareMeter;
use crate::window::{Gate, Window};

/// Timers of one worker.
const TIMERS: usize = 100;
/// A shorter period than this leaves no time for anything but the timers.
const PERIOD_MIN: Nanos = Nanos::from_micros(200);
/// Between two looks at the end of the run.
const LOOK: Nanos = Nanos::from_millis(50);

/// The row of the kind.
pub(super) const DRIVER: LoadDriver = LoadDriver { kind: LoadKind::Timers, most: 1_000, prepare, figures };

struct Ticker {
    timers: TimerSet,
    period: Nanos,
}

fn prepare(load: &Load, count: u32, _ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let period = load.period();
    if period < PERIOD_MIN {
        return Err(refused(load, format!("`period` is at least {}", PERIOD_MIN.to_exact_string())));
    }
    let make = |_| {
        let timers = TimerSet::new(TIMERS).map_err(|error| no_machine(load, &error))?;
        Ok(Box::new(Ticker { timers, period }) as Box<dyn LoadWorker>)
    };
    (0..count).map(make).collect()
}

fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![per_second("timers fired", done.rounds, "/s", observed), number("fired unseen", done.lost)]
}

impl LoadWorker for Ticker {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        let failed =
            |error: surety_kernel::KernelError| LoadRun::gave_up("its timers failed", error.to_string());
        if let Err(error) = self.timers.start(window.begin, self.period) {
            return failed(error);
        }
        let mut meter = ShareMeter::new(*window);
        let mut done = Counts::default();
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                break;
            }
            meter.look(now);
            let longest = LOOK.min(window.end - now);
            let fired = match self.timers.wait(longest) {
                Ok(fired) => fired,
                Err(error) => return failed(error),
            };
            if now >= window.observe {
                let lost = fired.expirations - fired.wakeups;
                done = done.plus(Counts { rounds: fired.expirations, lost, ..Counts::default() });
            }
        }
        LoadRun { metered: meter.finish(), is_busy: false, done, ..LoadRun::default() }
    }
}
