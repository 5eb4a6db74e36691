//! [`Tells`]: what is looked at.

/// Which activity's: all start-ups or all accesses of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpansWanted {
    /// Start-ups; otherwise accesses of a stream.
    pub are_startups: bool,
    /// The activity's name.
    pub name: String,
}

/// What is told: the jobs of threads, their waits for disks, or start-ups and accesses of streams.
#[derive(Clone, Debug)]
pub(super) enum Tells {
    Jobs,
    Waits,
    Spans(SpansWanted),
}
