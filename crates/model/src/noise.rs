//! [`NoiseAccount`]: what a thread that does nothing but read the clock has measured: the gaps in which it was away.
//!
//! Two readings of the clock that are further apart than a threshold had something between them: an interrupt, another
//! thread, or nothing the kernel knows of. The account keeps every gap in a histogram, and the times of the first ones so
//! that a trace can say what was in them. It is kept apart from the clock and the thread it runs in.

use surety_units::{CpuId, Nanos};

use crate::record::Observed;

/// The series of gaps in a record.
pub const GAPS: &str = "gap";
/// The figure that holds which part of the time was gaps.
pub const NOISE: &str = "noise";

/// A time in which the thread was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last reading before it.
    pub start: Nanos,
    /// The first reading after it.
    pub end: Nanos,
}

impl Gap {
    /// How long it was.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}

/// The gaps of one thread, in memory made before it began: looking allocates nothing.
#[derive(Clone, Debug)]
pub struct NoiseAccount {
    threshold: Nanos,
    last: Option<Nanos>,
    /// Time between the first and the last reading, pauses taken off.
    pub observed: Nanos,
    /// Readings of the clock.
    pub readings: u64,
    /// The shortest time between two readings: what the clock itself costs.
    pub shortest: Nanos,
    /// Time in gaps.
    pub away: Nanos,
    /// Every gap's length.
    pub lengths: Observed,
    /// The first gaps, with their times.
    pub gaps: Vec<Gap>,
    room: usize,
}

impl NoiseAccount {
    /// An empty account of gaps of at least `threshold`, with room for the times of `room` of them.
    pub fn new(threshold: Nanos, room: usize) -> NoiseAccount {
        NoiseAccount {
            threshold,
            last: None,
            observed: Nanos::ZERO,
            readings: 0,
            shortest: Nanos::MAX,
            away: Nanos::ZERO,
            lengths: Observed::default(),
            gaps: Vec::with_capacity(room),
            room,
        }
    }

    /// Takes a reading of the clock.
    #[inline]
    pub fn look(&mut self, now: Nanos) {
        self.readings += 1;
        let Some(last) = self.last.replace(now) else { return };
        let length = now - last;
        self.observed += length;
        if length < self.shortest {
            self.shortest = length;
        }
        if length >= self.threshold {
            self.away += length;
            self.lengths.record(length);
            if self.gaps.len() < self.room {
                self.gaps.push(Gap { start: last, end: now });
            }
        }
    }

    /// The time until the next reading is a pause of the thread's own, no gap.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// Which part of the time was gaps.
    pub fn share(&self) -> f64 {
        if self.observed.is_positive() { self.away.get() as f64 / self.observed.get() as f64 } else { 0.0 }
    }
}

/// What was in gaps, as a trace shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `tick`, `irq 24 eth0`, `softirq RCU`, `thread make`, `not in the trace`.
    pub name: String,
    /// What sort of thing it is.
    pub kind: CauseKind,
    /// Gaps it was in.
    pub gaps: u64,
    /// Time it took inside gaps.
    pub time: Nanos,
    /// The most it took inside one gap.
    pub longest: Nanos,
}

/// A sort of cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseKind {
    /// The scheduler's tick and other interrupts of the local timer.
    Timer,
    /// Interrupts of devices and between processors, softirqs.
    Interrupt,
    /// Other threads: the scheduler's choice.
    Thread,
    /// Nothing the kernel knows of: the hypervisor, the firmware, the processor itself.
    Unseen,
}

impl CauseKind {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            CauseKind::Timer => "timer",
            CauseKind::Interrupt => "interrupt",
            CauseKind::Thread => "thread",
            CauseKind::Unseen => "unseen",
        }
    }
}

/// Hardware or scheduler, in words. `stolen` is time the hypervisor says it took; causes are those of every CPU.
pub fn verdict(causes: &[(CpuId, Vec<Cause>)], away: Nanos, stolen: Option<Nanos>) -> String {
    let all = || causes.iter().flat_map(|(_, causes)| causes);
    let of = |kind| all().filter(|c| c.kind == kind).map(|c| c.time).sum::<Nanos>();
    let explained: Nanos = all().map(|c| c.time).sum();
    let stolen = stolen
        .map_or(String::new(), |stolen| format!(" The hypervisor's own count of stolen time is {stolen}."));
    if !away.is_positive() {
        return format!("Quiet: no gap reached the threshold.{stolen}");
    }
    if !explained.is_positive() {
        return format!("Hardware or scheduler? Not known without a trace: run as root.{stolen}");
    }
    let percent = |time: Nanos| time.get() as f64 / explained.get() as f64 * 100.0;
    let kinds = [CauseKind::Timer, CauseKind::Interrupt, CauseKind::Thread, CauseKind::Unseen];
    let most = kinds.into_iter().max_by_key(|kind| of(*kind)).unwrap_or(CauseKind::Unseen);
    let first = all().filter(|c| c.kind == most).max_by_key(|c| c.time).map_or("", |c| c.name.as_str());
    let (said, share) = (most, percent(of(most)));
    let sentence = match said {
        CauseKind::Timer => "The kernel's timer: the tick and what it runs; `nohz_full` CPUs have less of it",
        CauseKind::Interrupt => "Interrupts: move them to other CPUs by their affinity",
        CauseKind::Thread => {
            "The scheduler: other threads ran; a higher class, or a CPU of its own, keeps them away"
        }
        CauseKind::Unseen => {
            "Below the kernel: the hypervisor, the firmware or the processor; no scheduler can help"
        }
    };
    let rest: Vec<String> = kinds
        .into_iter()
        .filter(|kind| *kind != most && of(*kind).is_positive())
        .map(|kind| format!("{} {:.1} %", kind.word(), percent(of(kind))))
        .collect();
    let rest = if rest.is_empty() { String::new() } else { format!(" The rest: {}.", rest.join(", ")) };
    format!("{sentence} ({share:.1} % of the noise, most by {first}).{rest}{stolen}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_names_the_largest_kind() {
        let cause = |kind, name: &str, time| Cause {
            name: name.to_owned(),
            kind,
            gaps: 1,
            time: Nanos::new(time),
            longest: Nanos::new(time),
        };
        let causes = [
            (
                CpuId(0),
                vec![cause(CauseKind::Thread, "thread make", 600), cause(CauseKind::Timer, "tick", 500)],
            ),
            (CpuId(1), vec![cause(CauseKind::Unseen, "not in the trace", 900)]),
        ];
        let said = verdict(&causes, Nanos::new(2000), None);
        assert!(said.starts_with("Below the kernel") && said.contains("45.0 %"), "{said}");
        assert!(said.contains("The rest: timer 25.0 %, thread 30.0 %."), "{said}");
        let said = verdict(&causes[..1], Nanos::new(2000), Some(Nanos::ZERO));
        assert!(
            said.starts_with("The scheduler") && said.contains("thread make") && said.contains("stolen"),
            "{said}"
        );
        assert!(verdict(&[], Nanos::new(1), None).contains("Not known without a trace"));
        assert!(verdict(&[], Nanos::ZERO, None).starts_with("Quiet"));
    }

    #[test]
    fn gaps_are_counted_and_pauses_are_not() {
        let mut account = NoiseAccount::new(Nanos::new(1000), 2);
        let ns = Nanos::new;
        for now in [100, 150, 1150, 1200, 2199] {
            account.look(ns(now));
        }
        account.pause();
        for now in [90_000, 90_050, 95_050, 97_050] {
            account.look(ns(now));
        }
        assert_eq!((account.lengths.histogram.count(), account.away), (3, ns(8000)));
        assert_eq!(
            account.gaps,
            [Gap { start: ns(150), end: ns(1150) }, Gap { start: ns(90_050), end: ns(95_050) }]
        );
        assert_eq!((account.observed, account.readings, account.shortest), (ns(2099 + 7050), 9, ns(50)));
        assert!((account.share() - 8000.0 / 9149.0).abs() < 1e-12);
        assert_eq!(NoiseAccount::new(ns(1), 0).share(), 0.0);
    }
}
