//! [`Timeline`]: a job to draw on a page, with the CPUs around it.

use surety_trace::blame::Around;
use surety_units::Nanos;

/// A job to draw.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The row, or whatever it is of; may be empty.
    pub label: String,
    /// The job and the CPUs around it.
    pub around: Around,
    /// Time from its release to its deadline, where it has one.
    pub deadline: Option<Nanos>,
}
