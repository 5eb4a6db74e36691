//! [`LabError`]: every way in which the lab comes to no result, with what to do.

use surety_model::world::WorldError;
use surety_units::Nanos;
use thiserror::Error;

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// A name that is in no catalogue.
    #[error("there is no kernel `{name}` in the lab")]
    UnknownKernel {
        /// What was asked for.
        name: String,
        /// What to do.
        help: String,
    },
    /// Nothing was fetched under this name.
    #[error("the kernel `{name}` is not here yet")]
    NotFetched { name: String },
    /// A program of the machine that the lab stands on.
    #[error("the program `{program}` is not here")]
    NoProgram {
        program: String,
        /// The package that brings it.
        package: String,
    },
    /// A stored kernel is not what was stored.
    #[error("the stored kernel `{name}` is damaged: {why}")]
    Corrupt {
        name: String,
        /// Which file, and how.
        why: String,
    },
    /// A package could not be had.
    #[error("{what}: {why}")]
    Fetch {
        /// What was tried.
        what: String,
        /// What was said about it.
        why: String,
    },
    /// A file of ours.
    #[error("{what}: {why}")]
    File {
        /// What was done to which file.
        what: String,
        /// What the system answered.
        why: String,
    },
    /// Options that cannot be.
    #[error("{what}")]
    Options {
        /// What is wrong.
        what: String,
        /// What to do.
        help: String,
    },
    /// The emulator could not be started, or ended by itself.
    #[error("the emulator failed: {why}")]
    Emulator {
        /// What it said.
        why: String,
    },
    /// The guest's kernel gave up.
    #[error("the guest panicked: {why}")]
    Panic {
        /// The kernel's words.
        why: String,
    },
    /// The guest had too little memory.
    #[error("the guest ran out of memory ({memory_mib} MiB): {why}")]
    OutOfMemory {
        /// What it had.
        memory_mib: u64,
        /// The kernel's words.
        why: String,
    },
    /// The guest did not come to its end in time.
    #[error("the guest said nothing for {silence}, {elapsed} after its start: {last}")]
    Hang {
        /// Since its last word.
        silence: Nanos,
        /// Since its start.
        elapsed: Nanos,
        /// What it said last.
        last: String,
    },
    /// The guest was still at work when the time was up.
    #[error("the guest was not done after {limit}; it had done {done} of its run")]
    TooSlow {
        limit: Nanos,
        /// How far it came, in words.
        done: String,
    },
    /// What the guest sent is not what a guest of ours sends.
    #[error("what the guest sent cannot be read: {why}")]
    Rubbish {
        /// Where and why.
        why: String,
    },
    /// The guest said that it could not do it.
    #[error("{0}")]
    Guest(WorldError),
    /// Ended by the user.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// What to do about it.
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            LabError::UnknownKernel { help, .. } | LabError::Options { help, .. } => help.clone(),
            LabError::NotFetched { name } => format!("run `surety lab fetch {name}`"),
            LabError::NoProgram { package, .. } => format!("install the package {package}"),
            LabError::Corrupt { name, .. } => {
                format!("run `surety lab fetch {name}`, which replaces what is damaged")
            }
            LabError::Fetch { .. } => {
                "the lab takes kernels from the Debian mirror in this machine's apt configuration; see that `apt-get \
                 update` works"
                    .to_owned()
            }
            LabError::File { .. } => "see that there is room, and that the place can be written".to_owned(),
            LabError::Emulator { .. } => "see that `qemu-system-x86_64 --version` works".to_owned(),
            LabError::OutOfMemory { .. } => "give it more with --lab-memory".to_owned(),
            LabError::Hang { .. } | LabError::Panic { .. } => {
                "keep what its kernel said with --lab-console FILE".to_owned()
            }
            LabError::TooSlow { .. } => {
                "ask for a shorter run, a larger --lab-shift, or a longer --lab-within".to_owned()
            }
            LabError::Rubbish { .. } => "keep what its kernel said with --lab-console FILE".to_owned(),
            LabError::Guest(_) | LabError::Interrupted => return None,
        })
    }

    /// A file that could not be read or written.
    pub(crate) fn file(what: impl Into<String>, why: &dyn std::fmt::Display) -> LabError {
        LabError::File { what: what.into(), why: why.to_string() }
    }
}

impl From<LabError> for WorldError {
    fn from(error: LabError) -> WorldError {
        match error {
            LabError::Guest(error) => error,
            LabError::Interrupted => WorldError::Interrupted,
            error => {
                WorldError::Machine { what: error.to_string(), remedy: error.remedy().unwrap_or_default() }
            }
        }
    }
}
