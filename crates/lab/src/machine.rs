//! [`GuestMachine`]: what the CPUs of a guest share and how its timers expire, where `--platform` says it.
//!
//! The emulator is told in which package, core and node each processor is, the kernel what it is not to use (`highres=off`, `nohz=off`).
//! Whether the kernel then has what was asked for is read in the guest ([`crate::shown`]).
//!
//! A package has one last-level cache. The processor is then one of Intel's: QEMU's `qemu64` of AMD has no words for hardware threads
//! (CPUID leaf 0x8000001e needs `topoext`), and its caches are not told to the kernel; of Intel's leaves 4 and 0xb tell both.

use serde::{Deserialize, Serialize};
use surety_model::platform::{PlatformChanges, Topology};

use crate::error::LabError;
use crate::vm::{CPUS_MAX, LabOptions};

/// What is added to the processor's words so that its kernel is told what CPUs share.
pub const SHARING: &str = "vendor=GenuineIntel";
/// A node with less memory is none that a kernel can lay itself out in.
const NODE_MIB: u64 = 64;

/// What is asked of a guest's machine; what is `None` is as the emulator and the kernel have it, and is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(crate) fn check(&self, options: &LabOptions) -> Result<(), LabError> {
        let Some(topology) = self.topology else { return Ok(()) };
        let wrong = |what: String, help: &str| Err(LabError::Options { what, help: help.to_owned() });
        if let Err(why) = topology.check(options.cpus) {
            return wrong(why, "say `cpus=N` beside it, or --lab-cpus");
        }
        if options.partitioned {
            let what = "root domains of one CPU share nothing".to_owned();
            return wrong(what, "leave --lab-partition or `smt`, `llc` and `nodes` out");
        }
        let of_node = options.memory_mib / u64::from(topology.nodes);
        if of_node < NODE_MIB || !options.memory_mib.is_multiple_of(u64::from(topology.nodes)) {
            let what = format!("{} MiB cannot be divided among {} nodes", options.memory_mib, topology.nodes);
            return wrong(what, "give the guest a multiple of 64 MiB for each node with --lab-memory");
        }
        Ok(())
    }

    /// What the kernel is told, each word after a blank.
    pub(crate) fn words_of_kernel(&self) -> String {
        let off = |said: Option<bool>, word: &str| if said == Some(false) { word } else { "" }.to_owned();
        off(self.hrtimers, " highres=off") + &off(self.nohz, " nohz=off")
    }

    /// `, smt=2,nodes=1, highres=off`: nothing where nothing is asked.
    pub(crate) fn in_words(&self) -> String {
        let topology = self.topology.map_or_else(String::new, |topology| format!(", {topology}"));
        let of = |word: &str, said: Option<bool>| {
            said.map_or_else(String::new, |on| format!(", {word}={}", if on { "on" } else { "off" }))
        };
        topology + &of("hrtimers", self.hrtimers) + &of("nohz", self.nohz)
    }
}

impl LabOptions {
    /// A guest with what `--platform` says.
    ///
    /// # Errors
    /// A key, or a value, that no guest can be given, and what to do.
    pub fn with(&self, changes: &PlatformChanges) -> Result<LabOptions, String> {
        let mut guest = self.clone();
        for (word, value) in changes.said() {
            let on = || match value {
                "on" => Ok(Some(true)),
                "off" => Ok(Some(false)),
                _ => Err(format!(
                    "a guest has `{word}=on` or `{word}=off`: which of its kernel's ways that is, the kernel says"
                )),
            };
            let part = || value.parse::<u32>().map_err(|why| format!("{word}={value}: {why}"));
            match word {
                "cpus" => {
                    let cpus = part()?;
                    if self.cpus != 1 && self.cpus != cpus {
                        return Err(format!("--lab-cpus {} and cpus={cpus} are two machines", self.cpus));
                    }
                    if cpus > CPUS_MAX {
                        return Err(format!("a guest has up to {CPUS_MAX} CPUs"));
                    }
                    guest.cpus = cpus;
                }
                "smt" => guest.machine.topology.get_or_insert_default().smt = part()?,
                "llc" => guest.machine.topology.get_or_insert_default().llc = Some(part()?),
                "nodes" => guest.machine.topology.get_or_insert_default().nodes = part()?,
                "hrtimers" => guest.machine.hrtimers = on()?,
                "nohz" => guest.machine.nohz = on()?,
                _ => {
                    return Err(format!(
                        "`{word}` of a stock kernel is as it was built; a guest can be given cpus, smt, llc, nodes, hrtimers and nohz"
                    ));
                }
            }
        }
        Ok(guest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<LabOptions, String> {
        LabOptions::default().with(&text.parse().unwrap())
    }

    #[test]
    fn keys_of_a_platform_are_played_or_refused() {
        let guest = with("cpus=8,smt=2,llc=4,hrtimers=off,nohz=on").unwrap();
        assert_eq!((guest.cpus, guest.machine.hrtimers, guest.machine.nohz), (8, Some(false), Some(true)));
        assert_eq!(guest.machine.topology, Some(Topology { smt: 2, llc: Some(4), nodes: 1 }));
        assert_eq!(guest.machine.words_of_kernel(), " highres=off");
        assert!(guest.check().is_ok());
        for (text, why) in [
            ("hz=1000", "`hz` of a stock kernel is as it was built"),
            ("nohz=late", "`nohz=on` or `nohz=off`"),
            ("cpus=16", "up to 8 CPUs"),
        ] {
            assert!(with(text).unwrap_err().contains(why), "{text}");
        }
        let two = LabOptions { cpus: 2, ..LabOptions::default() };
        assert!(two.with(&"cpus=4".parse().unwrap()).unwrap_err().contains("two machines"));
    }

    #[test]
    fn machines_that_cannot_be_divided_are_refused() {
        let two = with("cpus=2,nodes=2").unwrap();
        for (guest, why) in [
            (with("smt=2").unwrap(), "cannot be divided by `smt`"),
            (LabOptions { partitioned: true, ..two.clone() }, "share nothing"),
            (LabOptions { memory_mib: 96, ..two.clone() }, "cannot be divided among 2 nodes"),
            (LabOptions { memory_mib: 513, ..two }, "cannot be divided among 2 nodes"),
        ] {
            let error = guest.check().unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
