//! Why a promise gets no reservation.

use surety_units::Nanos;

/// A time that somebody may ask for, with all its digits: `26.18 ms`.
pub(crate) fn in_full(time: Nanos) -> String {
    let (unit, nanos) = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)]
        .into_iter()
        .find(|(_, nanos)| time.get().abs() >= *nanos)
        .unwrap_or(("ns", 1));
    let (whole, rest) = (time.get() / nanos, (time.get() % nanos).unsigned_abs());
    let digits = nanos.ilog10() as usize;
    let text = if digits == 0 { whole.to_string() } else { format!("{whole}.{rest:0digits$}") };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A promise refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The constraint that binds, with the numbers.
    pub because: String,
    /// What to ask for instead, where that is known without a search.
    pub nearest: Vec<String>,
    /// How many more jobs have to be measured first, where too few are the reason.
    pub more_jobs: Option<u64>,
    /// There is too little of something: with another limit, fraction, period or load it may fit
    /// ([`crate::alternatives`]).
    pub infeasible: bool,
}

impl Refused {
    /// For a reason that no other numbers mend.
    pub fn plainly(because: impl Into<String>) -> Refused {
        Refused { because: because.into(), nearest: Vec::new(), more_jobs: None, infeasible: false }
    }

    /// For a reason that other numbers may mend.
    pub fn infeasible(because: impl Into<String>) -> Refused {
        Refused { infeasible: true, ..Refused::plainly(because) }
    }
}
