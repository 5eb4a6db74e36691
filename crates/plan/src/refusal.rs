//! Why a promise gets no reservation.

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
