//! [`Pace`]: how the threads of a replay keep to recorded think times, and how well they did.
//!
//! Between two requests a thread has nothing to wait for but the clock, so whatever lengthens a gap is a CPU that was not there:
//! a timer or a wake-up that came late, another thread that ran, an interrupt, the hypervisor. Therefore the threads run at the
//! least real-time priority where that is permitted, with the I/O priority of ordinary threads (a real-time thread's requests
//! would be served first), and spend the last of each think time looking at the clock, as the program spent it working.

use std::sync::atomic::{AtomicBool, Ordering};
use surety_kernel::io_priority::{IoPriority, own_io_priority, set_own_io_priority};
use surety_kernel::transition::set_once;
use surety_kernel::{Kernel, KernelError, SchedAttr, SchedPolicy, clock, thread};
use surety_model::record::Figure;
use surety_model::startup::{REPLAY_PRIORITY, SPIN_FAIR, SPIN_REALTIME};
use surety_model::workload;
use surety_units::{Nanos, Tid};

/// Between two looks at the end.
const LOOK: Nanos = Nanos::from_millis(20);
/// Think times below this are shorter than what a timer and a switch of threads cost.
const LONG: Nanos = Nanos::MILLISECOND;

/// How threads of a replay run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    spin: Nanos,
    /// The level of best effort their requests have if no I/O priority was given to this program.
    level: u8,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { spin: SPIN_FAIR, level: workload::IoPriority::level_of_nice(0) }
    }
}

impl Pace {
    /// Gives the thread whose threads are to replay its class, and says in words which it is.
    pub fn give(kernel: &dyn Kernel, tid: Tid) -> (Pace, String) {
        let before = kernel.scheduler(tid).map(|attr| attr.policy);
        let nice = match before {
            Ok(SchedPolicy::Other { nice, .. } | SchedPolicy::Batch { nice }) => nice,
            _ => 0,
        };
        let level = workload::IoPriority::level_of_nice(nice);
        let hurried = Pace { spin: SPIN_REALTIME, level };
        if let Ok(policy @ (SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. })) = before {
            return (hurried, format!("{} as this program, requests best-effort {level}", policy.name()));
        }
        match set_once(kernel, tid, &SchedAttr::from(SchedPolicy::Fifo { priority: REPLAY_PRIORITY })) {
            Ok(()) => (hurried, format!("fifo:{REPLAY_PRIORITY}, requests best-effort {level}")),
            Err(error) => (
                Pace { spin: SPIN_FAIR, level },
                format!("as this program, think times take longer: {error}"),
            ),
        }
    }

    /// Gives the calling thread, and the threads it makes, the I/O priority of an ordinary thread, unless it was given one.
    pub fn enter(&self) -> Result<(), KernelError> {
        match own_io_priority()? {
            IoPriority::OfClass => set_own_io_priority(IoPriority::BestEffort(self.level)),
            _ => Ok(()),
        }
    }

    /// Waits for an instant, the last stretch without sleeping; false when the replay was ended or given up before.
    pub fn wait_until(&self, due: Nanos, stop: &AtomicBool, until: Nanos) -> bool {
        loop {
            let now = clock::monotonic();
            if stop.load(Ordering::Relaxed) || now >= until {
                return false;
            }
            if now >= due {
                return true;
            }
            if due - now > self.spin {
                let _ = clock::sleep_until((due - self.spin).min(now + LOOK).min(until), None);
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// A think time that is under way.
pub(super) struct Stretch {
    think: Nanos,
    waited: Option<Nanos>,
}

impl Stretch {
    /// Begins one in the calling thread.
    pub fn begin(think: Nanos) -> Stretch {
        Stretch { think, waited: if think >= LONG { thread::own_wait_time() } else { None } }
    }

    /// How long the thread wanted a CPU in it and had none, if it took too long; looking takes some microseconds.
    pub fn waited(&self, took: Nanos) -> Nanos {
        let gap = Gap { recorded: self.think, replayed: took, waited: Nanos::ZERO };
        match self.waited {
            Some(before) if !gap.is_close() => {
                thread::own_wait_time().map_or(Nanos::ZERO, |after| after - before)
            }
            _ => Nanos::ZERO,
        }
    }
}

/// A think time as it was recorded and as it was replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub recorded: Nanos,
    pub replayed: Nanos,
    /// How long its thread wanted a CPU and had none.
    pub waited: Nanos,
}

impl Gap {
    /// Whether it is long enough to be judged.
    pub fn counts(&self) -> bool {
        self.recorded >= LONG
    }

    fn error(&self) -> f64 {
        (self.replayed - self.recorded).get().unsigned_abs() as f64 / self.recorded.get() as f64
    }

    /// Within 1 % of the recording.
    fn is_close(&self) -> bool {
        (self.replayed - self.recorded).get().unsigned_abs().saturating_mul(100)
            <= self.recorded.get_unsigned()
    }

    /// Too long, and close without what it waited for a CPU that others had.
    fn is_displaced(&self) -> bool {
        let waited = self.waited.min(self.replayed - self.recorded);
        !self.is_close() && Gap { replayed: self.replayed - waited, ..*self }.is_close()
    }
}

/// How well the think times were kept. Empty where there were none that are long enough.
pub(super) fn gap_figures(gaps: &[Gap]) -> Vec<Figure> {
    let mut errors: Vec<f64> = gaps.iter().map(Gap::error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let (Some(worst), Some(median)) = (errors.last(), errors.get(errors.len() / 2)) else {
        return Vec::new();
    };
    let close = gaps.iter().filter(|gap| gap.is_close()).count();
    let displaced = gaps.iter().filter(|gap| gap.is_displaced()).count();
    vec![
        Figure::new("gaps", gaps.len() as f64, ""),
        Figure::new("within 1 %", close as f64 / gaps.len() as f64 * 100.0, "%"),
        Figure::new("CPU had by others", displaced as f64, ""),
        Figure::new("held up otherwise", (gaps.len() - close - displaced) as f64, ""),
        Figure::new("median error", *median * 100.0, "%"),
        Figure::new("worst error", *worst * 100.0, "%"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::{Operation, RealKernel, ScriptedKernel};

    fn gap(recorded: i64, replayed: i64, waited: i64) -> Gap {
        let us = Nanos::from_micros;
        Gap { recorded: us(recorded), replayed: us(replayed), waited: us(waited) }
    }

    #[test]
    fn gaps_outside_one_per_cent_are_told_apart_by_who_had_the_cpu() {
        let gaps = [
            gap(1000, 1000, 0),
            // On the border, and just outside.
            gap(1000, 1010, 0),
            gap(1000, 1011, 0),
            // Others had the CPU for all of it, or for enough of it, or for too little of it.
            gap(5000, 9000, 4000),
            gap(5000, 9000, 3950),
            gap(5000, 9000, 3949),
            // It waited for longer than it came late, since some of it was in time it would have slept.
            gap(5000, 6000, 2000),
        ];
        let figures = gap_figures(&gaps);
        let of = |name: &str| figures.iter().find(|f| f.name == name).unwrap().value;
        assert_eq!(of("gaps"), 7.0);
        assert!((of("within 1 %") - 200.0 / 7.0).abs() < 1e-9);
        assert_eq!((of("CPU had by others"), of("held up otherwise")), (3.0, 2.0));
        assert!((of("worst error") - 80.0).abs() < 1e-9);
        assert!(gap_figures(&[]).is_empty());
        assert!(!gap(999, 999, 0).counts() && gap(1000, 1000, 0).counts());
    }

    #[test]
    fn a_replay_is_of_the_least_real_time_priority_and_its_requests_are_ordinary() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<Pace>();
        let other = std::thread::spawn(move || {
            sender.send(thread::own_tid()).unwrap();
            wait.recv().unwrap().enter().unwrap();
            own_io_priority().unwrap()
        });
        let kernel = RealKernel::new();
        let tid = receiver.recv().unwrap();
        let before = kernel.scheduler(tid).unwrap().policy;
        let (pace, said) = Pace::give(&kernel, tid);
        let after = kernel.scheduler(tid).unwrap().policy;
        go.send(pace).unwrap();
        let io = other.join().unwrap();
        match pace.spin {
            SPIN_REALTIME => {
                assert!(matches!(after, SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. }), "{said}");
                assert_ne!(io, IoPriority::OfClass, "{said}");
            }
            _ => {
                eprintln!("SKIPPED the real-time priority: {said}");
                assert_eq!(after, before);
            }
        }
    }

    #[test]
    fn where_real_time_is_refused_the_replay_is_as_this_program_and_says_why() {
        let kernel = ScriptedKernel::new(1);
        let tid = Tid(4000);
        kernel.add_thread(tid, tid, "replay");
        kernel.fail_on(Operation::SetRealtime, "", 1);
        let (pace, said) = Pace::give(&kernel, tid);
        assert_eq!(pace.spin, SPIN_FAIR);
        assert!(said.contains("think times take longer"), "{said}");
    }
}
