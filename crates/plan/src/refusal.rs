//! Why a promise gets no reservation, and the nearest requests that would: computed with what is left, not
//! guessed.

use surety_analysis::response::Response;
use surety_units::{Nanos, Probability};

/// A promise refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The constraint that binds, with the numbers.
    pub because: String,
    /// Nearest feasible requests, best first.
    pub nearest: Vec<String>,
}

impl Refused {
    /// Without anything near.
    pub fn plainly(because: impl Into<String>) -> Refused {
        Refused { because: because.into(), nearest: Vec::new() }
    }
}

/// What would be feasible instead of `limit @ at`, given how the task responds with the largest feasible
/// runtime.
///
/// A later limit at the same fraction; a smaller fraction at the same limit, in whole tenths of a percent;
/// less work.
pub fn nearest(
    response: Option<&Response>,
    limit: Nanos,
    required: f64,
    at: Option<Probability>,
    needed: Option<(Nanos, Nanos)>,
) -> Vec<String> {
    let mut requests = Vec::new();
    if let Some(response) = response {
        if let Some(later) = response.limit(required).filter(|later| *later > limit) {
            let percent = at.map_or(String::new(), |p| format!(" @ {p}"));
            requests.push(format!("response <= {}{percent}", later.to_exact_string()));
        }
        let fraction = response.probability(response.task().budgets_within(limit));
        let tenths = (fraction * 1000.0).floor();
        let promised = at.map_or(1.0, |p| p.as_f64());
        if (500.0..1000.0).contains(&tenths) && tenths / 1000.0 < promised {
            requests.push(format!("response <= {} @ {}%", limit.to_exact_string(), tenths / 10.0));
        }
    }
    if let Some((feasible, needed)) =
        needed.filter(|(feasible, needed)| feasible < needed && feasible.is_positive())
    {
        let part = feasible.get() as f64 / needed.get() as f64;
        requests.push(format!(
            "the same promise with work reduced to {:.1} % of what it is",
            (part * 1000.0).floor() / 10.0
        ));
    }
    requests
}
