//! Are the runs of `B` worse than those of `A`? Metric by metric, with a floor from runs of the same thing.
//!
//! *The unit is the run.* Activations of one run share its conditions: what else the machine did, where memory lay,
//! how fast the clock went. However many there are, they say nothing about the next run. So a metric gives one value
//! per run ([`metric`]), and sides are compared by their runs.
//!
//! The flow of [`compare`]:
//!
//! 1. [`metric`] reads what is to be judged from each record; a metric without a value in every run, or with the same
//!    value in all of them, is set aside.
//! 2. Each metric is tested by Mann and Whitney's exact test, and the smallest p of all is corrected for their number
//!    (Holm, Scandinavian Journal of Statistics 6, 1979). So the risk that a comparison of two equal things calls
//!    *any* difference is at most 1 - confidence, whatever depends on what.
//! 3. [`floor`] asks how far two halves of the same side are apart. A shift within that is not called, however
//!    significant. Positive values are compared by their ratio, on a logarithmic scale; others by their difference.
//! 4. What differs between the sides besides the numbers is listed by [`conditions`]: the verdict cannot tell which of
//!    those it comes from.
//!
//! Mann and Whitney's test takes runs as exchangeable: in any order equally likely when nothing differs. Machines
//! drift. Sides whose runs were taken in turns ([`order`]) are disturbed alike, and a drift then only widens both.

#![forbid(unsafe_code)]

mod change;
pub mod conditions;
pub mod floor;
pub mod metric;
pub mod order;
pub mod pool;
mod verdict;
mod within;

pub use change::changed;
pub use verdict::{Comparison, Judged, Ratio, Verdict, Warning, compare, runs_needed};
pub use within::Within;

use surety_model::record::Record;

/// Runs of one thing.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// What it is called in tables.
    pub label: String,
    /// Its runs, in the order in which they were made.
    pub runs: Vec<&'a Record>,
    /// The workload's file or title, where it is known.
    pub workload: Option<String>,
}

/// How sides are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The probability of calling no difference at all when there is none, strictly between 0 and 1.
    pub confidence: f64,
    /// Only metrics whose name holds all words of one of these; empty: those judged by default.
    pub metrics: Vec<String>,
    /// The path into the workload that was varied on purpose, `task.player.policy`, where it is known.
    pub studied: Option<String>,
    /// The seed of resampling.
    pub seed: u64,
}

impl Default for Options {
    /// 95 %, the default metrics, nothing known about the variable.
    fn default() -> Options {
        Options { confidence: 0.95, metrics: Vec::new(), studied: None, seed: 1 }
    }
}
