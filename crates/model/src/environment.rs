//! [`Check`]: one thing looked at on a machine, with a verdict and what to do about it.
//!
//! `doctor` shows them, and every record of a real machine carries them: who reads a number later can see whether the
//! machine was fit to measure it.

use serde::{Deserialize, Serialize};

/// How a check of the machine turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckVerdict {
    /// As it should be.
    Good,
    /// Usable, with less than is possible.
    Limited,
    /// Not usable.
    Bad,
}

/// One thing looked at on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// How it turned out.
    pub verdict: CheckVerdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Check {
    /// A check that found what it should.
    pub fn good(name: &str, found: impl Into<String>) -> Check {
        Check { name: name.to_owned(), verdict: CheckVerdict::Good, found: found.into(), remedy: None }
    }

    /// A check that found less than is possible, and what to do.
    pub fn limited(name: &str, found: impl Into<String>, remedy: &str) -> Check {
        Check {
            name: name.to_owned(),
            verdict: CheckVerdict::Limited,
            found: found.into(),
            remedy: Some(remedy.to_owned()),
        }
    }

    /// A check of something this machine does not tell.
    pub fn unknown(name: &str) -> Check {
        Check {
            name: name.to_owned(),
            verdict: CheckVerdict::Limited,
            found: "not known: the kernel does not say".to_owned(),
            remedy: None,
        }
    }
}
