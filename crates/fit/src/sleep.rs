//! The smallest inter-arrival time of a thread that sleeps for a time and not until an instant: [`of`].
//!
//! `sleep(0.01)` after each job leaves at least 10 ms between the end of one and the next, and `sleep(0.01 - passed)` as much between the
//! beginnings: either way no release comes sooner after the one before, and what is late moves all that follow. Which of both it is says what
//! varies less, downwards: who sleeps is woken late and never early.

use surety_model::job::ThreadHistory;
use surety_units::Nanos;

/// How a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// No release comes sooner after the one before.
    pub gap: Nanos,
    /// Whether the time slept for is counted from the end of a job; else from its beginning.
    pub after_job: bool,
}

impl Sleep {
    /// In one sentence.
    pub fn in_words(&self) -> String {
        let gap = self.gap;
        let how = match self.after_job {
            true => format!("It sleeps for {gap} or more after each job"),
            false => format!("Its jobs begin {gap} or more after each other, however long they take"),
        };
        format!("{how}, not until an instant: what is late moves all that follow, and it has no period.")
    }
}

/// How a thread with these jobs sleeps; `None`: neither its pauses nor its inter-arrival times have a smallest one that is nearly the usual one.
pub fn of(history: &ThreadHistory) -> Option<Sleep> {
    /// Inter-arrival times are the rule where they vary by less than this part of what pauses do: work that is always the same
    /// leaves it open, and then the shorter of both is true of either.
    const CLEARLY: i64 = 2;
    let pairs = || history.jobs.windows(2);
    let pauses = Times::of(pairs().map(|pair| pair[1].release - pair[0].completion).collect())?;
    let between = Times::of(pairs().map(|pair| pair[1].release - pair[0].release).collect())?;
    let (after, from) = (pauses.floor(), between.floor());
    let is_clear = between.below() * CLEARLY < pauses.below();
    let after_job = after.is_some() && (from.is_none() || !is_clear);
    let gap = if after_job { after } else { from }?;
    Some(Sleep { gap, after_job })
}

/// Times of one kind: quantiles.
struct Times {
    shortest: Nanos,
    low: Nanos,
    median: Nanos,
}

impl Times {
    /// `None`: there are none.
    fn of(mut all: Vec<Nanos>) -> Option<Times> {
        all.sort_unstable();
        let at = |part: usize| all.get(all.len() * part / 100).copied();
        Some(Times { shortest: at(0)?, low: at(5)?, median: at(50)? })
    }

    /// How far they vary downwards.
    fn below(&self) -> Nanos {
        self.median - self.low
    }

    /// The time slept for, where the shortest is nearly the usual one; rounded down to two digits.
    fn floor(&self) -> Option<Nanos> {
        /// The shortest of all is at least this part of the median.
        const ALIKE: f64 = 0.9;
        /// Shorter pauses are those of a program that waits for something else.
        const SHORTEST: Nanos = Nanos::from_micros(100);
        let is_alike = self.shortest.get() as f64 >= ALIKE * self.median.get() as f64;
        let unit = 10_i64.pow(self.shortest.get().checked_ilog10()?.saturating_sub(1));
        (is_alike && self.shortest >= SHORTEST).then(|| Nanos::new(self.shortest.get() / unit * unit))
    }
}
