//! [`Topology`]: which CPUs share a core, a cache and the memory of a node.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What CPUs share whose numbers follow each other: each `smt` of them a core, each `llc` a last-level cache, and as many as are in one of
/// `nodes` alike parts a NUMA node. All nodes are as far from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// CPUs of a core: hardware threads.
    pub smt: u32,
    /// CPUs of a last-level cache; `None`: all of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc: Option<u32>,
    pub nodes: u32,
}

impl Default for Topology {
    /// Each CPU a core, and all of them behind one cache.
    fn default() -> Topology {
        Topology { smt: 1, llc: None, nodes: 1 }
    }
}

impl Topology {
    /// CPUs of a node, of a machine with this many.
    pub fn node(&self, cpus: u32) -> u32 {
        cpus / self.nodes.max(1)
    }

    /// CPUs of a last-level cache.
    pub fn llc(&self, cpus: u32) -> u32 {
        self.llc.unwrap_or_else(|| self.node(cpus))
    }

    /// Whether a machine with this many CPUs can be divided so.
    ///
    /// # Errors
    /// What does not go into what, and what to change.
    pub fn check(&self, cpus: u32) -> Result<(), String> {
        let (node, llc) = (self.node(cpus), self.llc(cpus));
        for (part, part_is, whole, whole_is) in [
            (self.nodes, "`nodes`", cpus, "`cpus`"),
            (llc, "`llc`", node, "the CPUs of a node"),
            (self.smt, "`smt`", llc, "the CPUs of a last-level cache"),
        ] {
            if part == 0 || whole % part != 0 {
                return Err(format!(
                    "{whole_is}, {whole}, cannot be divided by {part_is}, {part}: change one of them"
                ));
            }
        }
        Ok(())
    }
}

/// As `--platform` takes it: what is not said is left out.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let llc = self.llc.map_or_else(String::new, |llc| format!(",llc={llc}"));
        write!(f, "smt={}{llc},nodes={}", self.smt, self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_into_wholes() {
        let of = |smt, llc, nodes| Topology { smt, llc, nodes };
        for (topology, cpus, why) in [
            (of(1, None, 1), 3, None),
            (of(2, Some(4), 2), 16, None),
            (of(2, None, 2), 4, None),
            (of(2, None, 1), 3, Some("the CPUs of a last-level cache, 3, cannot be divided by `smt`, 2")),
            (of(1, Some(4), 2), 4, Some("the CPUs of a node, 2, cannot be divided by `llc`, 4")),
            (of(1, None, 3), 4, Some("`cpus`, 4, cannot be divided by `nodes`, 3")),
            (of(0, None, 1), 4, Some("`smt`, 0")),
            (of(1, Some(0), 0), 4, Some("`nodes`, 0")),
        ] {
            let found = topology.check(cpus);
            match why {
                None => assert_eq!(found, Ok(()), "{topology}"),
                Some(why) => assert!(found.clone().is_err_and(|e| e.contains(why)), "{topology}: {found:?}"),
            }
        }
        assert_eq!((of(2, None, 2).llc(8), of(2, Some(2), 2).llc(8)), (4, 2));
    }
}
