//! [`Shown`]: what a kernel says its CPUs share, its timers do and its fair class has, held against what its machine was asked to be.
//!
//! What CPUs share is in `topology/thread_siblings_list`, in `cache/index*` of the highest level and in `node*/cpulist`; which domains its
//! scheduler made of it in `sched/domains/cpu0` of debugfs, which fills while `sched/verbose` is set (`kernel/sched/debug.c`).
//! Features of its fair class are written to `sched/features` there, and read again, when the costs of a run are measured.
//! `/proc/timer_list` has `.hres_active` of each CPU and `.nohz_mode`, since 6.11 `.nohz` (`kernel/time/timer_list.c`).

use std::path::Path;

use surety_kernel::Kernel;
use surety_model::platform::{Platform, TimerRules, Topology, features};
use surety_model::record::Record;
use surety_units::{CpuId, CpuSet};

use crate::machine::GuestMachine;

const CPUS: &str = "/sys/devices/system/cpu";
const DOMAINS: &str = "/sys/kernel/debug/sched/domains/cpu0";
const VERBOSE: &str = "/sys/kernel/debug/sched/verbose";
const FEATURES: &str = "/sys/kernel/debug/sched/features";

/// What a kernel showed, where it was asked for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    topology: Option<Topology>,
    timers: Option<TimerRules>,
    /// Features that are to be otherwise than as the kernel starts.
    features: Vec<String>,
    /// What is said of it in records, by name.
    said: Vec<(String, String)>,
}

impl Shown {
    /// What the kernel of this machine shows; the features of its fair class that are asked for are as it starts.
    ///
    /// # Errors
    /// It shows other than what was asked for, or nothing: where, and what.
    pub fn of(kernel: &dyn Kernel, asked: &GuestMachine) -> Result<Shown, String> {
        let mut shown = Shown::default();
        if let Some(topology) = asked.topology {
            let cpus = kernel.online_cpus().map_err(|e| e.to_string())?;
            shared_as(kernel, topology, cpus)?;
            let count = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
            let domains = domains(kernel)?;
            let expected = expected_domains(topology, count);
            if domains.len() != expected.len()
                || !domains.iter().zip(&expected).all(|(d, e)| e.contains(&d.as_str()))
            {
                return Err(format!(
                    "its scheduler has the domains `{}`, not {expected:?}",
                    domains.join(" ")
                ));
            }
            shown.topology = Some(topology);
            shown.said.push(("shared by cpus".to_owned(), format!("{topology} (read)")));
            shown.said.push(("domains".to_owned(), domains.join(" ")));
        }
        if asked.hrtimers.is_some() || asked.nohz.is_some() {
            let text = read(kernel, "/proc/timer_list")?;
            let rules = TimerRules {
                high_resolution: flag(&text, &[".hres_active"])?,
                stops_idle_tick: flag(&text, &[".nohz_mode", ".nohz"])?,
                ..TimerRules::default()
            };
            same("high-resolution timers", asked.hrtimers, rules.high_resolution)?;
            same("the tick of idle CPUs stops", asked.nohz, rules.stops_idle_tick)?;
            shown.said.push(("command line".to_owned(), read(kernel, "/proc/cmdline")?.trim().to_owned()));
            let words = |on| if on { "on" } else { "off" };
            let timers = format!(
                "hrtimers={},nohz={} (read)",
                words(rules.high_resolution),
                words(rules.stops_idle_tick)
            );
            shown.said.push(("timer rules".to_owned(), timers));
            shown.timers = Some(rules);
        }
        if !asked.features.is_empty() {
            shown.features = features_of(kernel, &asked.features)?;
            let as_it_starts: Vec<String> =
                shown.features.iter().map(|word| features::opposite(word)).collect();
            write_features(kernel, &as_it_starts)?;
            shown
                .said
                .push(("features".to_owned(), format!("{} (written and read)", asked.features.join(" "))));
        }
        Ok(shown)
    }

    /// Sets the features of the fair class that are asked for.
    ///
    /// # Errors
    /// The kernel does not take one, or does not show it afterwards.
    pub fn set_features(&self, kernel: &dyn Kernel) -> Result<(), String> {
        write_features(kernel, &self.features)
    }

    /// Notes it in a record of a run on that machine.
    pub fn note(self, record: &mut Record) {
        if let Some(machine) = &mut record.in_force.machine {
            self.machine(machine);
        }
        record.in_force.environment.extend(self.said);
    }

    fn machine(&self, machine: &mut Platform) {
        if self.topology.is_some() {
            machine.topology = self.topology;
        }
        if self.timers.is_some() {
            machine.timers = self.timers;
        }
        if !self.features.is_empty() {
            machine.features.clone_from(&self.features);
        }
    }
}

/// Features that are to be otherwise than as this kernel starts.
///
/// # Errors
/// One that the fair class of its version does not have, or that the simulator has one way only.
fn features_of(kernel: &dyn Kernel, words: &[String]) -> Result<Vec<String>, String> {
    let mut platform = Platform::of_release(read(kernel, "/proc/sys/kernel/osrelease")?.trim(), 1);
    platform.set_features(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(platform.features)
}

/// Writes features of the fair class, and reads them.
///
/// # Errors
/// One that the kernel does not take, or does not show afterwards.
fn write_features(kernel: &dyn Kernel, words: &[String]) -> Result<(), String> {
    if words.is_empty() {
        return Ok(());
    }
    for word in words {
        kernel.write_text(Path::new(FEATURES), word).map_err(|e| format!("{word}: {e}"))?;
    }
    let shown = read(kernel, FEATURES)?;
    match words.iter().find(|word| !shown.split_ascii_whitespace().any(|found| found == *word)) {
        None => Ok(()),
        Some(word) => {
            Err(format!("{FEATURES} does not show {word} after it was written: `{}`", shown.trim()))
        }
    }
}

fn read(kernel: &dyn Kernel, path: &str) -> Result<String, String> {
    kernel.read_text(Path::new(path)).map_err(|e| e.to_string())
}

fn cpus_in(kernel: &dyn Kernel, path: &str) -> Result<CpuSet, String> {
    let text = read(kernel, path)?;
    text.trim().parse().map_err(|e| format!("{path} says `{}`: {e}", text.trim()))
}

/// Whether each CPU shares its core, its last cache and its node with those that it should.
fn shared_as(kernel: &dyn Kernel, topology: Topology, cpus: CpuSet) -> Result<(), String> {
    let count = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
    for cpu in cpus.iter() {
        let core = cpus_in(kernel, &format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"))?;
        let cache = last_cache(kernel, cpu)?;
        let node = node_of(kernel, cpu)?;
        for (what, size, found) in [
            ("core", topology.smt, core),
            ("last-level cache", topology.llc(count), cache),
            ("node", topology.node(count), node),
        ] {
            let first = cpu.0 / size * size;
            let wanted: CpuSet = (first..first + size).map(CpuId).collect();
            if found != wanted {
                return Err(format!("CPU {cpu} shares its {what} with CPUs {found}, not with {wanted}"));
            }
        }
    }
    Ok(())
}

/// The CPUs of the cache of the highest level.
fn last_cache(kernel: &dyn Kernel, cpu: CpuId) -> Result<CpuSet, String> {
    let directory = format!("{CPUS}/cpu{cpu}/cache");
    let names = kernel.list_dir(Path::new(&directory)).map_err(|e| e.to_string())?;
    let level = |name: &String| {
        let level: u32 = read(kernel, &format!("{directory}/{name}/level")).ok()?.trim().parse().ok()?;
        Some((level, name.clone()))
    };
    let (_, name) = names
        .iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(level)
        .max()
        .ok_or_else(|| format!("{directory} has no caches: its kernel is told nothing of them"))?;
    cpus_in(kernel, &format!("{directory}/{name}/shared_cpu_list"))
}

/// The CPUs of a CPU's node.
fn node_of(kernel: &dyn Kernel, cpu: CpuId) -> Result<CpuSet, String> {
    let directory = "/sys/devices/system/node";
    let names = kernel.list_dir(Path::new(directory)).map_err(|e| e.to_string())?;
    let is_node = |name: &&String| {
        name.strip_prefix("node").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    };
    let nodes =
        names.iter().filter(is_node).map(|name| cpus_in(kernel, &format!("{directory}/{name}/cpulist")));
    let found = nodes.filter_map(Result::ok).find(|cpus| cpus.contains(cpu));
    found.ok_or_else(|| format!("CPU {cpu} is in no node of {directory}"))
}

/// The names of the first CPU's scheduling domains, from the lowest one.
fn domains(kernel: &dyn Kernel) -> Result<Vec<String>, String> {
    kernel.write_text(Path::new(VERBOSE), "Y").map_err(|e| e.to_string())?;
    let names = kernel.list_dir(Path::new(DOMAINS)).map_err(|e| e.to_string());
    let of = |name: &String| Ok(read(kernel, &format!("{DOMAINS}/{name}/name"))?.trim().to_owned());
    let domains = names.and_then(|names| names.iter().map(of).collect());
    kernel.write_text(Path::new(VERBOSE), "N").map_err(|e| e.to_string())?;
    domains
}

/// The domains that the simulator has for a topology, each by its names: that of a node was `DIE` up to 6.6.
fn expected_domains(topology: Topology, cpus: u32) -> Vec<&'static [&'static str]> {
    let (llc, node) = (topology.llc(cpus), topology.node(cpus));
    let levels: [(u32, &[&str]); 4] =
        [(topology.smt, &["SMT"]), (llc, &["MC"]), (node, &["PKG", "DIE"]), (cpus, &["NUMA"])];
    let mut below = 1;
    let mut names = Vec::new();
    for (size, name) in levels {
        if size > below {
            names.push(name);
        }
        below = size;
    }
    names
}

/// Whether every line of a word has a number other than 0.
///
/// # Errors
/// There is no such line, or CPUs differ.
fn flag(text: &str, words: &[&str]) -> Result<bool, String> {
    let of_line = |line: &str| {
        let (word, value) = line.split_once(':')?;
        words.contains(&word.trim()).then(|| value.trim() != "0")
    };
    let mut found = text.lines().filter_map(of_line);
    let first = found.next().ok_or_else(|| format!("/proc/timer_list has no `{}`", words.join("` or `")))?;
    match found.all(|other| other == first) {
        true => Ok(first),
        false => Err(format!("CPUs differ in `{}` of /proc/timer_list", words[0])),
    }
}

fn same(what: &str, asked: Option<bool>, found: bool) -> Result<(), String> {
    match asked {
        Some(asked) if asked != found => {
            let words = |on| if on { "yes" } else { "no" };
            Err(format!("{what}: its kernel says {}, asked for was {}", words(found), words(asked)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::ScriptedKernel;

    /// Eight CPUs of two threads, two caches and one node.
    fn eight(caches: u32) -> ScriptedKernel {
        let kernel = ScriptedKernel::new(8);
        for cpu in 0..8_u32 {
            let at = format!("{CPUS}/cpu{cpu}");
            let of = |size: u32| format!("{}-{}\n", cpu / size * size, cpu / size * size + size - 1);
            kernel.add_file(format!("{at}/topology/thread_siblings_list"), &of(2));
            for (index, (level, size)) in [(1, 2), (2, 2), (3, caches)].into_iter().enumerate() {
                kernel.add_file(format!("{at}/cache/index{index}/level"), &format!("{level}\n"));
                kernel.add_file(format!("{at}/cache/index{index}/shared_cpu_list"), &of(size));
            }
        }
        kernel.add_file("/sys/devices/system/node/node0/cpulist", "0-7\n");
        kernel.add_file(VERBOSE, "N\n");
        for (number, name) in ["SMT", "MC", "PKG"].into_iter().enumerate() {
            kernel.add_file(format!("{DOMAINS}/domain{number}/name"), &format!("{name}\n"));
        }
        kernel
    }

    fn asked(smt: u32, llc: Option<u32>, nodes: u32) -> GuestMachine {
        GuestMachine { topology: Some(Topology { smt, llc, nodes }), ..GuestMachine::default() }
    }

    #[test]
    fn what_cpus_share_is_read_and_held_against_what_was_asked() {
        let shown = Shown::of(&eight(4), &asked(2, Some(4), 1)).unwrap();
        let mut machine = Platform::linux_6_12(8);
        shown.machine(&mut machine);
        assert_eq!(machine.topology, Some(Topology { smt: 2, llc: Some(4), nodes: 1 }));
        assert_eq!(shown.said[1], ("domains".to_owned(), "SMT MC PKG".to_owned()));
        for (kernel, machine, why) in [
            (eight(4), asked(1, Some(4), 1), "CPU 0 shares its core with CPUs 0-1, not with 0"),
            (eight(4), asked(2, None, 1), "shares its last-level cache with CPUs 0-3, not with 0-7"),
            (eight(4), asked(2, Some(4), 2), "shares its node with CPUs 0-7, not with 0-3"),
            (eight(8), asked(2, Some(8), 1), "its scheduler has the domains `SMT MC PKG`"),
        ] {
            let found = Shown::of(&kernel, &machine).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn features_are_those_of_the_version_and_have_to_be_shown() {
        let asked = |words: &[&str]| GuestMachine {
            features: words.iter().map(|word| (*word).to_owned()).collect(),
            ..GuestMachine::default()
        };
        let of = |release: &str, words: &[&str]| {
            let kernel = ScriptedKernel::new(1);
            kernel.add_file("/proc/sys/kernel/osrelease", release);
            kernel.add_file(FEATURES, "PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY\n");
            let shown = Shown::of(&kernel, &asked(words))?;
            // Costs are measured now.
            assert_eq!(kernel.read_text(Path::new(FEATURES)).unwrap(), "RUN_TO_PARITY");
            shown.set_features(&kernel)?;
            assert_eq!(kernel.read_text(Path::new(FEATURES)).unwrap(), "NO_RUN_TO_PARITY");
            Ok::<_, String>(shown)
        };
        // The scripted file has what was written last.
        let shown = of("6.12.107-amd64\n", &["NO_RUN_TO_PARITY"]).unwrap();
        let mut machine = Platform::linux_6_12(1);
        shown.machine(&mut machine);
        assert_eq!(machine.features, ["NO_RUN_TO_PARITY"]);
        assert_eq!(shown.said[0].1, "NO_RUN_TO_PARITY (written and read)");
        let two = of("6.12.107-amd64\n", &["NO_RUN_TO_PARITY", "NEXT_BUDDY"]).unwrap_err();
        assert!(two.contains("does not show RUN_TO_PARITY"), "{two}");
        let cfs = of("6.1.0-50-amd64\n", &["NO_RUN_TO_PARITY"]).unwrap_err();
        assert!(cfs.contains("2.6.24 to 6.5 has no RUN_TO_PARITY"), "{cfs}");
    }

    #[test]
    fn timers_are_read_on_old_kernels_and_new_ones() {
        let with = |list: &str, hrtimers, nohz| {
            let kernel = ScriptedKernel::new(1);
            kernel.add_file("/proc/timer_list", list);
            kernel.add_file("/proc/cmdline", "quiet highres=off\n");
            Shown::of(&kernel, &GuestMachine { hrtimers, nohz, ..GuestMachine::default() })
        };
        let old = "  .hres_active    : 0\n  .nohz_mode      : 1\n  .nohz_mode      : 1\n";
        let shown = with(old, Some(false), None).unwrap();
        let mut machine = Platform::linux_6_1(1);
        shown.machine(&mut machine);
        let rules = machine.timers.unwrap();
        assert_eq!((rules.high_resolution, rules.stops_idle_tick), (false, true));
        assert!(shown.said.iter().any(|(_, words)| words == "hrtimers=off,nohz=on (read)"));
        let new = "  .hres_active    : 1\n  .nohz           : 0\n  .highres        : 1\n";
        assert!(with(new, Some(true), Some(false)).is_ok());
        assert!(with(new, Some(false), None).unwrap_err().contains("says yes, asked for was no"));
        assert!(with("", Some(false), None).unwrap_err().contains("has no `.hres_active`"));
        assert!(with("x.nohz: 1\n.hres_active: 1\n.hres_active: 0\n", None, Some(true)).is_err());
        assert_eq!(with("", None, None), Ok(Shown::default()));
    }
}
