//! Identifiers of the kernel's that must not mix with other integers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A logical CPU number, as the kernel counts them from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl CpuId {
    /// The number as an index into per-CPU arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A thread id (what the kernel calls `pid`); 0 is a CPU's idle thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tid(pub i32);

impl Tid {
    /// The idle thread that every CPU has.
    pub const IDLE: Tid = Tid(0);
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
