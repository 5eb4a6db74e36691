//! Threads of programs and threads that are running: how they are recognised.

use serde::{Deserialize, Serialize};

use crate::workload::{Task, TaskBody, Workload};

/// A thread of a program, recognised again in every run of it: by its name, and by its place among the living
/// threads of that name, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ThreadRole {
    /// Its name, as the kernel cuts it.
    pub comm: String,
    /// How many threads of that name live that were made before it.
    pub rank: u32,
}

impl std::fmt::Display for ThreadRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rank {
            0 => write!(f, "`{}`", self.comm),
            rank => write!(f, "`{}` (number {} of that name)", self.comm, u64::from(rank) + 1),
        }
    }
}

/// What is running before or beside a task and is meant by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadMatch {
    /// The only thread of this name.
    Named(String),
    /// A thread by its id, given when the workload runs (`--pid`).
    Thread(i32),
    /// A process by its id, with all its threads and everything it starts. It bears no reservation itself.
    Process(i32),
    /// A thread of the program or process of another task.
    Of {
        /// The other task, by name.
        task: String,
        role: ThreadRole,
    },
}

impl Task {
    /// The task whose program it is a thread of, with its role there.
    pub fn thread_of(&self) -> Option<(&str, &ThreadRole)> {
        match &self.body {
            TaskBody::Match(ThreadMatch::Of { task, role }) => Some((task, role)),
            _ => None,
        }
    }

    /// Whether it is a program or a process: all of its threads.
    pub fn is_program(&self) -> bool {
        matches!(self.body, TaskBody::Command(_) | TaskBody::Match(ThreadMatch::Process(_)))
    }
}

impl Workload {
    /// The tasks that are threads of this task's program.
    pub fn threads_of<'w>(&'w self, task: &'w str) -> impl Iterator<Item = &'w Task> {
        self.tasks.iter().filter(move |other| other.thread_of().is_some_and(|(of, _)| of == task))
    }
}
