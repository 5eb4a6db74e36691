//! [`GuestMachine`]: what the CPUs of a guest share, how its timers expire and which features its fair class has, where `--platform` says it.
//!
//! The emulator is told in which package, core and node each processor is, the kernel what it is not to use (`highres=off`, `nohz=off`).
//! Whether the kernel then has what was asked for is read in the guest ([`crate::shown`]), where features are written before a run, too.
//!
//! A package has one last-level cache. The processor is then one of Intel's: QEMU's `qemu64` of AMD has no words for hardware threads
//! (CPUID leaf 0x8000001e needs `topoext`), and its caches are not told to the kernel; of Intel's leaves 4 and 0xb tell both.

use serde::{Deserialize, Serialize};
use surety_model::platform::{Topology, features};

use crate::error::LabError;

/// What is added to the processor's words so that its kernel is told what CPUs share.
pub const SHARING: &str = "vendor=GenuineIntel";
/// A node with less memory is none that a kernel can lay itself out in.
const NODE_MIB: u64 = 64;

/// What is asked of a guest's machine; what is `None` is as the emulator and the kernel have it, and is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestMachine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Whether timers expire at their time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hrtimers: Option<bool>,
    /// Whether the tick of an idle CPU stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nohz: Option<bool>,
    /// Features of the fair class as their file takes them: `NO_RUN_TO_PARITY`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

impl GuestMachine {
    /// Whether nothing is asked.
    pub fn is_as_ever(&self) -> bool {
        *self == GuestMachine::default()
    }

    /// Whether a guest with these CPUs and this memory can be divided so.
    ///
    /// # Errors
    /// [`LabError::Options`].
    pub(crate) fn check(&self, cpus: u32, memory_mib: u64, partitioned: bool) -> Result<(), LabError> {
        let Some(topology) = self.topology else { return Ok(()) };
        let wrong = |what: String, help: &str| Err(LabError::Options { what, help: help.to_owned() });
        if let Err(why) = topology.check(cpus) {
            return wrong(why, "say `cpus=N` beside it, or --lab-cpus");
        }
        if partitioned {
            let what = "root domains of one CPU share nothing".to_owned();
            return wrong(what, "leave --lab-partition or `smt`, `llc` and `nodes` out");
        }
        let of_node = memory_mib / u64::from(topology.nodes);
        if of_node < NODE_MIB || !memory_mib.is_multiple_of(u64::from(topology.nodes)) {
            let what = format!("{} MiB cannot be divided among {} nodes", memory_mib, topology.nodes);
            return wrong(what, "give the guest a multiple of 64 MiB for each node with --lab-memory");
        }
        Ok(())
    }

    /// Takes what a key of `--platform` says.
    ///
    /// # Errors
    /// A key, or a value, that no guest can be given, and what it can.
    pub(crate) fn take(&mut self, word: &str, value: &str) -> Result<(), String> {
        let on = || match value {
            "on" => Ok(Some(true)),
            "off" => Ok(Some(false)),
            _ => Err(format!(
                "a guest has `{word}=on` or `{word}=off`: which of its kernel's ways that is, the kernel says"
            )),
        };
        let part = || value.parse::<u32>().map_err(|why| format!("{word}={value}: {why}"));
        match word {
            "smt" => self.topology.get_or_insert_default().smt = part()?,
            "llc" => self.topology.get_or_insert_default().llc = Some(part()?),
            "nodes" => self.topology.get_or_insert_default().nodes = part()?,
            "hrtimers" => self.hrtimers = on()?,
            "nohz" => self.nohz = on()?,
            "features" => self.features = features::words(value)?,
            _ => {
                return Err(format!(
                    "`{word}` of a stock kernel is as it was built; a guest can be given cpus, smt, llc, nodes, hrtimers, nohz and features"
                ));
            }
        }
        Ok(())
    }

    /// What the kernel is told, each word after a blank.
    pub(crate) fn words_of_kernel(&self) -> String {
        let off = |said: Option<bool>, word: &str| if said == Some(false) { word } else { "" }.to_owned();
        off(self.hrtimers, " highres=off") + &off(self.nohz, " nohz=off")
    }

    /// `, smt=2,nodes=1, highres=off, features=NO_RUN_TO_PARITY`: nothing where nothing is asked.
    pub(crate) fn in_words(&self) -> String {
        let topology = self.topology.map_or_else(String::new, |topology| format!(", {topology}"));
        let of = |word: &str, said: Option<bool>| {
            said.map_or_else(String::new, |on| format!(", {word}={}", if on { "on" } else { "off" }))
        };
        let features = match self.features.as_slice() {
            [] => String::new(),
            words => format!(", features={}", words.join("+")),
        };
        topology + &of("hrtimers", self.hrtimers) + &of("nohz", self.nohz) + &features
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_platform_are_played_or_refused() {
        let mut machine = GuestMachine::default();
        for (word, value) in [("smt", "2"), ("llc", "4"), ("hrtimers", "off"), ("nohz", "on")] {
            machine.take(word, value).unwrap();
        }
        assert_eq!((machine.hrtimers, machine.nohz), (Some(false), Some(true)));
        assert_eq!(machine.topology, Some(Topology { smt: 2, llc: Some(4), nodes: 1 }));
        assert_eq!(machine.words_of_kernel(), " highres=off");
        assert!(machine.check(8, 512, false).is_ok());
        machine.take("features", "NO_RUN_TO_PARITY+NEXT_BUDDY").unwrap();
        assert!(machine.in_words().ends_with(", features=NO_RUN_TO_PARITY+NEXT_BUDDY"));
        assert!(machine.take("hz", "1000").unwrap_err().contains("as it was built"));
        assert!(machine.take("nohz", "late").unwrap_err().contains("`nohz=on` or `nohz=off`"));
    }

    #[test]
    fn machines_that_cannot_be_divided_are_refused() {
        let two = GuestMachine {
            topology: Some(Topology { nodes: 2, ..Topology::default() }),
            ..GuestMachine::default()
        };
        for (cpus, memory_mib, partitioned, why) in [
            (3, 512, false, "cannot be divided by `nodes`"),
            (2, 512, true, "share nothing"),
            (2, 96, false, "cannot be divided among 2 nodes"),
            (2, 513, false, "cannot be divided among 2 nodes"),
        ] {
            let error = two.check(cpus, memory_mib, partitioned).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
