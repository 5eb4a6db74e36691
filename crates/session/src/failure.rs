//! [`Failure`]: why the loop did not come to its end.

use surety_kernel::KernelError;
use surety_lab::LabError;
use surety_model::source::Diagnostics;
use surety_model::world::WorldError;
use thiserror::Error;

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A world's.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The lab's, outside of a run.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The kernel's.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Mistakes in a workload with their places.
    #[error("{0}")]
    Input(Box<Diagnostics>),
    /// What was asked for cannot be.
    #[error("{what}")]
    Request {
        /// What, and of which object.
        what: String,
        /// What to do.
        help: String,
    },
    /// The machine cannot do it.
    #[error("{what}")]
    Machine {
        /// What could not be done, and why.
        what: String,
    },
}

impl Failure {
    /// Something that cannot be, with what to do.
    pub fn request(what: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure::Request { what: what.into(), help: help.into() }
    }

    /// Whether it was ended by the user.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Failure::World(WorldError::Interrupted) | Failure::Lab(LabError::Interrupted))
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Failure {
        Failure::Input(Box::new(diagnostics))
    }
}
