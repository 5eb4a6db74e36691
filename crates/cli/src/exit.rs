//! Exit codes, and failures with the code they end in.

use std::fmt;
use std::process::ExitCode;

use surety_enforce::EnforceError;
use surety_kernel::KernelError;
use surety_kernel::journal::JournalError;
use surety_model::plan::Refusal;
use surety_model::source::Diagnostics;
use surety_model::verdict::Outcome;
use surety_model::workload::Workload;
use surety_model::world::WorldError;

/// How a command ended. Documented in `--help` and the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done; every promise kept.
    Kept = 0,
    /// A promise is broken, or no reservation can keep it.
    Broken = 1,
    /// Bad input or usage.
    BadInput = 2,
    /// This machine or this user cannot do it.
    Machine = 3,
    /// Undecided, or kept only in simulation.
    Undecided = 4,
    /// An error of this program.
    Internal = 5,
    /// Ended by Ctrl-C.
    Interrupted = 130,
}

/// What `--help` says about them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done; every promise kept
  1    a promise is broken, or no reservation can keep it
  2    bad input or usage
  3    this machine or this user cannot do it
  4    undecided, more to be measured first, or kept only in simulation
  5    an error of this program
  130  interrupted";

/// What `--help` of comparisons says about them.
pub const COMPARE_EXIT_CODES: &str = "\
Exit codes:
  0    B is no worse: better, merely different, or no difference seen
  1    B is worse in a metric; with --expect: an expectation failed
  2    bad input or usage
  3    this machine or this user cannot do it
  4    too few runs to tell, or nothing to compare
  5    an error of this program
  130  interrupted";

/// What `--help` of the validation says about them.
pub const VALIDATE_EXIT_CODES: &str = "\
Exit codes:
  0    every figure agrees, or has a cause that is known
  1    a figure disagrees without one
  2    bad input or usage
  3    this machine or this user cannot do it
  4    nothing to compare
  5    an error of this program
  130  interrupted";

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

impl Code {
    /// The code of what a plan refuses: what a longer measurement may decide is undecided.
    pub fn of_refusals(refusals: &[Refusal]) -> Code {
        match refusals {
            [] => Code::Kept,
            refusals if refusals.iter().all(Refusal::is_undecided) => Code::Undecided,
            _ => Code::Broken,
        }
    }

    /// The worse of two: broken, undecided, kept.
    pub fn worse(self, other: Code) -> Code {
        match (self, other) {
            (Code::Kept, other) | (Code::Undecided, other @ Code::Broken) => other,
            (code, _) => code,
        }
    }

    /// The code of the worst outcome there is.
    pub fn of_outcome(outcome: Option<Outcome>) -> Code {
        match outcome {
            Some(Outcome::Broken) => Code::Broken,
            Some(Outcome::Undecided | Outcome::NotObservable) => Code::Undecided,
            Some(Outcome::Kept) | None => Code::Kept,
        }
    }
}

/// Why a command did not come to its end.
#[derive(Debug)]
pub struct Failure {
    /// What it ends in.
    pub code: Code,
    /// What happened, on which object, why, and what to do.
    pub message: Message,
}

/// The words of a failure.
#[derive(Debug)]
pub enum Message {
    /// Mistakes in an input with their places.
    Input(Box<Diagnostics>),
    /// One sentence, and what to do.
    Words { what: String, help: Option<String> },
}

impl Failure {
    /// A failure in words.
    pub fn new(code: Code, what: impl Into<String>) -> Failure {
        Failure { code, message: Message::Words { what: what.into(), help: None } }
    }

    /// What it ended early by, for a note beside what is finished.
    pub fn ended_by(&self) -> String {
        if self.code == Code::Interrupted { "interrupted".to_owned() } else { self.to_string() }
    }

    /// The same with what to do.
    pub fn help(self, help: impl Into<String>) -> Failure {
        match self.message {
            Message::Words { what, .. } => {
                Failure { message: Message::Words { what, help: Some(help.into()) }, ..self }
            }
            Message::Input(_) => self,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Message::Input(diagnostics) => write!(f, "{diagnostics}"),
            Message::Words { what, help: None } => f.write_str(what),
            Message::Words { what, help: Some(help) } => write!(f, "{what} ({help})"),
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Failure {
        Failure { code: Code::BadInput, message: Message::Input(Box::new(diagnostics)) }
    }
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Failure {
        Failure::new(Code::Machine, error.to_string())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        Failure::new(Code::Machine, error.to_string())
    }
}

impl From<EnforceError> for Failure {
    fn from(error: EnforceError) -> Failure {
        Failure::new(Code::Machine, error.to_string())
    }
}

impl From<surety_session::Failure> for Failure {
    fn from(failure: surety_session::Failure) -> Failure {
        use surety_session::Failure as Of;
        match failure {
            Of::World(error) => error.into(),
            Of::Lab(error) => error.into(),
            Of::Kernel(error) => error.into(),
            Of::Input(diagnostics) => Failure { code: Code::BadInput, message: Message::Input(diagnostics) },
            Of::Request { what, help } => Failure::new(Code::BadInput, what).help(help),
            Of::Machine { what } => Failure::new(Code::Machine, what),
            other => Failure::new(Code::Internal, other.to_string()),
        }
    }
}

/// A failure with the place of the object it is about in the workload's file.
pub fn located(failure: surety_session::Failure, workload: &Workload) -> Failure {
    let place = match &failure {
        surety_session::Failure::World(error) => {
            error.object().and_then(|object| workload.source.locate(object))
        }
        _ => None,
    };
    let failure = Failure::from(failure);
    match (place, failure.message) {
        (Some(place), Message::Words { what, help }) => {
            Failure { message: Message::Words { what: format!("{place}: {what}"), help }, ..failure }
        }
        (_, message) => Failure { message, ..failure },
    }
}

impl From<WorldError> for Failure {
    fn from(error: WorldError) -> Failure {
        let code = match &error {
            WorldError::Unsupported { .. } | WorldError::Activity { .. } => Code::BadInput,
            WorldError::Machine { .. } | WorldError::MachineFor { .. } => Code::Machine,
            WorldError::Interrupted => Code::Interrupted,
            _ => Code::Internal,
        };
        match error {
            WorldError::Machine { what, remedy } | WorldError::MachineFor { what, remedy, .. } => {
                Failure::new(code, what).help(remedy)
            }
            error => Failure::new(code, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_more_jobs_may_lift_is_undecided() {
        let refusal = |more_jobs| Refusal {
            activity: "player".to_owned(),
            promise: surety_model::promise::Promise::parse("response <= 40ms @ 99%").unwrap(),
            because: "why".to_owned(),
            nearest: Vec::new(),
            more_jobs,
        };
        assert_eq!(Code::of_refusals(&[]), Code::Kept);
        assert_eq!(Code::of_refusals(&[refusal(Some(99))]), Code::Undecided);
        assert_eq!(Code::of_refusals(&[refusal(Some(99)), refusal(None)]), Code::Broken);
        assert_eq!(Code::Kept.worse(Code::Undecided), Code::Undecided);
        assert_eq!(Code::Undecided.worse(Code::Broken), Code::Broken);
        assert_eq!(Code::Broken.worse(Code::Undecided), Code::Broken);
    }
}
