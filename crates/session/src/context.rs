//! [`Context`]: what the loop has of the machine, and who is told what happens.

use std::fmt;

use surety_kernel::RealKernel;
use surety_kernel::journal::Journal;
use surety_model::event::TraceSink;
use surety_model::world::{Cancel, Observer};

/// This machine and whoever runs the loop on it: a terminal, a daemon, a test.
pub trait Context {
    /// The running kernel.
    fn kernel(&self) -> &RealKernel;

    /// Ends what is going on.
    fn cancel(&self) -> &Cancel;

    /// The journal of this process; `None` where there can be none: then nothing of others is changed.
    fn journal(&self) -> Option<&Journal>;

    /// A stage begins.
    fn stage(&self, stage: Stage);

    /// Progress that the user may want to know, one line.
    fn step(&self, text: &str);

    /// Something the user should know of the result, one line.
    fn note(&self, text: &str);

    /// Watches a run with this name; its events go to the sink.
    fn watch<'a>(&self, label: &str, sink: Option<&'a mut dyn TraceSink>) -> Box<dyn Watch + 'a>;
}

/// Whoever watches several runs one after the other.
pub trait Watch: Observer {
    /// From here on it is this run.
    fn turn_to(&mut self, label: &str);
}

/// The stages of [`crate::guarantee`], in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Without reservations.
    Measuring,
    /// The same, with every thread that does a program's work as a task of its own.
    MeasuringThreads,
    /// Under generous reservations, to learn the work.
    Profiling,
    /// Budgets are searched for.
    Planning,
    /// By analysis and simulation.
    Predicting,
    /// Under the planned reservations.
    Enforcing,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Measuring => "measuring as it is",
            Stage::MeasuringThreads => "measuring as it is, thread by thread",
            Stage::Profiling => "profiling under generous reservations",
            Stage::Planning => "planning",
            Stage::Predicting => "predicting by analysis and simulation",
            Stage::Enforcing => "enforcing and measuring again",
        })
    }
}
