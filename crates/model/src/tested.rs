//! [`TestedSet`]: what every schedulability test says about the threads of a workload, one after the other.

use serde::{Deserialize, Serialize};
use surety_units::Nanos;

/// Threads that compete, and what each test says about them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestedSet {
    /// Which threads, and how they are scheduled.
    pub about: String,
    /// What the tests are told about each.
    pub threads: Vec<TestedThread>,
    /// What they say, those that apply first.
    pub tests: Vec<Tested>,
    /// What else has to hold, and whether it does.
    pub beside: Vec<String>,
}

/// A thread as a test sees it: a sporadic task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestedThread {
    /// Its activity, or what stands for it.
    pub name: String,
    /// The most CPU time in each period.
    pub work: Nanos,
    /// When that has to be done, after the release.
    pub deadline: Nanos,
    /// Releases are at least this far apart.
    pub period: Nanos,
    /// A release comes up to this much after the planned one.
    pub jitter: Nanos,
}

/// One test's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// A word for tables.
    pub test: String,
    /// What it rests on.
    pub theorem: String,
    /// Where that is stated and proven.
    pub source: String,
    /// Whether a set that does not pass can miss a deadline.
    pub exact: bool,
    pub answer: TestAnswer,
    /// The numbers, or why it does not apply.
    pub steps: Vec<String>,
    /// The most that all works could be multiplied by with the test still holding, in thousandths, rounded down.
    pub scale_permille: Option<u64>,
    /// Whether a proof names this one: the least pessimistic of those that hold.
    pub named: bool,
}

/// The answer of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestAnswer {
    /// Proven: no deadline is missed.
    Holds,
    /// Proven: some legal sequence of releases misses a deadline.
    Fails,
    /// The test does not show it; another may.
    NotShown,
    /// The test is not made for these threads.
    NotApplicable,
}

impl TestAnswer {
    /// The answer as a word.
    pub fn word(self) -> &'static str {
        match self {
            TestAnswer::Holds => "holds",
            TestAnswer::Fails => "fails",
            TestAnswer::NotShown => "not shown",
            TestAnswer::NotApplicable => "not applicable",
        }
    }
}
