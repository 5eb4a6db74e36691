//! [`FAIR_VERSIONS`]: the fair classes by version and the features each has, by their names in `/sys/kernel/debug/sched/features`
//! (`kernel/sched/features.h`).
//!
//! A platform keeps what is to be otherwise than the defaults in the form in which that file takes it: `NO_RUN_TO_PARITY`,
//! `NEXT_BUDDY`.

use super::{Platform, Topology};
use crate::source::nearest;

/// What stands before a feature that is off.
const OFF: &str = "NO_";

/// A feature of a fair class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    /// Whether it is on where nothing is said: as that kernel starts, except for `CACHE_HOT_BUDDY` of CFS.
    pub is_on: bool,
    /// Why the simulator has it one way only, where it does.
    pub fixed: Option<&'static str>,
}

/// Something of a workload or a machine that the kernels of a fair class do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    Groups,
    LatencyNice,
    FairServer,
    RealtimeLimit,
    Reservations,
}

/// A fair class.
#[derive(Clone, Copy, Debug)]
pub struct FairVersion {
    /// Its scheduler, as platforms name it.
    pub scheduler: &'static str,
    /// The kernels that have it.
    pub kernels: &'static str,
    /// Whether it is CFS, which kernels before 6.6 have: later ones have EEVDF.
    pub is_cfs: bool,
    /// Whether a kernel with it was held against the simulator.
    pub is_validated: bool,
    /// The machines with a topology, each with its CPUs, on which one was.
    pub held_on: &'static [(u32, Topology)],
    /// The number of CPUs up to which its slices grow with them.
    pub scales_to: u32,
    /// What it has nothing for.
    pub lacks: &'static [Lacks],
    pub features: &'static [Feature],
}

/// Two cores of two threads.
const CORES: (u32, Topology) = (4, Topology { smt: 2, llc: None, nodes: 1 });
/// Two caches of two CPUs.
const CACHES: (u32, Topology) = (4, Topology { smt: 1, llc: Some(2), nodes: 1 });

const fn on(name: &'static str) -> Feature {
    Feature { name, is_on: true, fixed: None }
}

const fn off(name: &'static str) -> Feature {
    Feature { name, is_on: false, fixed: None }
}

/// One that the simulator has as the kernel starts with it, and no other way.
const fn fixed(name: &'static str, is_on: bool, why: &'static str) -> Feature {
    Feature { name, is_on, fixed: Some(why) }
}

const BUDDIES: &str = "the simulator moves buddies of CFS between CPUs as other threads";
const EARLY_TIMER: &str = "slices that end on a timer are simulated by the rule of 7.1 and later";
const BUDGETS: &str = "say `enforcement=exact` or `enforcement=tick`";
const FORKS: &str = "it is for processes that are forked, and the simulator's are threads of programs";
const LOADS: &str = "the simulator has the averages of later kernels for the load of a CPU";
const WAKERS: &str = "the simulator does not know on which CPU a waker runs";
const REWORKED: &str = "the simulator does not have the rule by which 6.19 and later nominate who was woken";

/// Every fair class whose features can be named; the first is that of a platform that names none.
pub const FAIR_VERSIONS: &[FairVersion] = &[
    FairVersion {
        scheduler: "fair",
        kernels: "6.17 to 7.0",
        is_cfs: false,
        is_validated: true,
        held_on: &[],
        scales_to: 8,
        lacks: &[],
        features: &[
            on("PLACE_LAG"),
            on("PLACE_DEADLINE_INITIAL"),
            on("PLACE_REL_DEADLINE"),
            on("RUN_TO_PARITY"),
            on("PREEMPT_SHORT"),
            off("NEXT_BUDDY"),
            on("PICK_BUDDY"),
            on("CACHE_HOT_BUDDY"),
            on("DELAY_DEQUEUE"),
            on("DELAY_ZERO"),
            on("WAKEUP_PREEMPTION"),
            fixed("HRTICK", false, EARLY_TIMER),
            fixed("HRTICK_DL", false, BUDGETS),
            on("SIS_UTIL"),
            fixed("WA_IDLE", true, WAKERS),
            fixed("WA_WEIGHT", true, WAKERS),
            fixed("WA_BIAS", true, WAKERS),
            on("NI_RANDOM"),
        ],
    },
    FairVersion {
        scheduler: "eevdf-7.2",
        kernels: "7.1 and later",
        is_cfs: false,
        is_validated: true,
        held_on: &[CORES],
        scales_to: 8,
        lacks: &[],
        features: &[
            on("PLACE_LAG"),
            on("PLACE_DEADLINE_INITIAL"),
            on("PLACE_REL_DEADLINE"),
            on("RUN_TO_PARITY"),
            on("PREEMPT_SHORT"),
            fixed("NEXT_BUDDY", false, REWORKED),
            on("PICK_BUDDY"),
            fixed("CACHE_HOT_BUDDY", true, REWORKED),
            on("DELAY_DEQUEUE"),
            on("DELAY_ZERO"),
            on("WAKEUP_PREEMPTION"),
            on("HRTICK"),
            fixed("HRTICK_DL", true, BUDGETS),
            on("SIS_UTIL"),
            fixed("WA_IDLE", true, WAKERS),
            fixed("WA_WEIGHT", true, WAKERS),
            fixed("WA_BIAS", true, WAKERS),
            on("NI_RANDOM"),
            on("NI_RATE"),
        ],
    },
    FairVersion {
        scheduler: "eevdf-6.12",
        kernels: "6.12 to 6.16",
        is_cfs: false,
        is_validated: true,
        held_on: &[CORES, CACHES],
        scales_to: 8,
        lacks: &[],
        features: &[
            on("PLACE_LAG"),
            on("PLACE_DEADLINE_INITIAL"),
            on("PLACE_REL_DEADLINE"),
            on("RUN_TO_PARITY"),
            on("PREEMPT_SHORT"),
            off("NEXT_BUDDY"),
            on("PICK_BUDDY"),
            on("CACHE_HOT_BUDDY"),
            on("DELAY_DEQUEUE"),
            on("DELAY_ZERO"),
            on("WAKEUP_PREEMPTION"),
            fixed("HRTICK", false, EARLY_TIMER),
            fixed("HRTICK_DL", false, BUDGETS),
            on("SIS_UTIL"),
            fixed("WA_IDLE", true, WAKERS),
            fixed("WA_WEIGHT", true, WAKERS),
            fixed("WA_BIAS", true, WAKERS),
            on("NI_RANDOM"),
        ],
    },
    FairVersion {
        scheduler: "eevdf-6.6",
        kernels: "6.6 to 6.11",
        is_cfs: false,
        is_validated: false,
        held_on: &[],
        scales_to: 8,
        lacks: &[],
        features: &[
            on("PLACE_LAG"),
            on("PLACE_DEADLINE_INITIAL"),
            on("RUN_TO_PARITY"),
            off("NEXT_BUDDY"),
            on("CACHE_HOT_BUDDY"),
            on("WAKEUP_PREEMPTION"),
            fixed("HRTICK", false, EARLY_TIMER),
            fixed("HRTICK_DL", false, BUDGETS),
            on("SIS_UTIL"),
            fixed("WA_IDLE", true, WAKERS),
            fixed("WA_WEIGHT", true, WAKERS),
            fixed("WA_BIAS", true, WAKERS),
            on("NI_RANDOM"),
        ],
    },
    FairVersion {
        scheduler: "cfs-6.1",
        kernels: "2.6.24 to 6.5",
        is_cfs: true,
        is_validated: true,
        held_on: &[CORES],
        scales_to: 8,
        lacks: &[],
        features: &[
            on("GENTLE_FAIR_SLEEPERS"),
            on("START_DEBIT"),
            off("NEXT_BUDDY"),
            on("LAST_BUDDY"),
            fixed("CACHE_HOT_BUDDY", false, BUDDIES),
            on("WAKEUP_PREEMPTION"),
            fixed("HRTICK", false, EARLY_TIMER),
            fixed("HRTICK_DL", false, BUDGETS),
            on("SIS_UTIL"),
            fixed("WA_IDLE", true, WAKERS),
            fixed("WA_WEIGHT", true, WAKERS),
            fixed("WA_BIAS", true, WAKERS),
            on("NI_RANDOM"),
            on("ALT_PERIOD"),
            on("BASE_SLICE"),
        ],
    },
    FairVersion {
        scheduler: "cfs-2.6.23",
        kernels: "2.6.23",
        is_cfs: true,
        is_validated: false,
        held_on: &[],
        scales_to: u32::MAX,
        lacks: &[
            Lacks::Groups,
            Lacks::LatencyNice,
            Lacks::FairServer,
            Lacks::RealtimeLimit,
            Lacks::Reservations,
        ],
        features: &[
            on("FAIR_SLEEPERS"),
            fixed("SLEEPER_AVG", false, LOADS),
            fixed("SLEEPER_LOAD_AVG", true, LOADS),
            fixed("PRECISE_CPU_LOAD", false, LOADS),
            fixed("START_DEBIT", true, FORKS),
            fixed("SKIP_INITIAL", false, FORKS),
        ],
    },
];

impl FairVersion {
    /// That of a scheduler.
    pub fn of(scheduler: &str) -> Option<&'static FairVersion> {
        FAIR_VERSIONS.iter().find(|version| version.scheduler == scheduler)
    }

    /// What is said of a feature it has not: what it has instead, or that no fair class has it, with the nearest name of any.
    fn without(&self, name: &str) -> String {
        let known = || FAIR_VERSIONS.iter().flat_map(|version| version.features).map(|feature| feature.name);
        if known().any(|other| other == name) {
            return format!("the fair class of {} has no {name}, but {}", self.kernels, self.in_words());
        }
        let near = nearest(name, known()).map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let (kernels, these) = (self.kernels, self.in_words());
        format!("no feature `{name}` in the fair class of any version: {near}that of {kernels} has {these}")
    }

    fn feature(&self, name: &str) -> Option<&'static Feature> {
        self.features.iter().find(|feature| feature.name == name)
    }

    /// The features that can be set, as their file has them: `PLACE_LAG NO_NEXT_BUDDY`.
    pub fn in_words(&self) -> String {
        let can_be_set = self.features.iter().filter(|feature| feature.fixed.is_none());
        let word = |feature: &Feature| match feature.is_on {
            true => feature.name.to_owned(),
            false => format!("{OFF}{}", feature.name),
        };
        can_be_set.map(word).collect::<Vec<_>>().join(" ")
    }
}

/// Features as `NAME+NO_NAME`, or as the table `{ NAME = true, NAME = false }`, each in the form of their file.
///
/// # Errors
/// A part of a table that is neither.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let Some(inner) = text.trim().strip_prefix('{') else {
        return Ok(text.split('+').map(|word| word.trim().to_owned()).collect());
    };
    let inner = inner.strip_suffix('}').ok_or("`{` without `}`")?;
    let word = |part: &str| {
        let (name, value) = part.split_once('=').map_or((part, ""), |(name, value)| (name, value.trim()));
        match (name.trim(), value) {
            (name, "true") => Ok(name.to_owned()),
            (name, "false") => Ok(format!("{OFF}{name}")),
            _ => Err(format!("`{}` is neither `NAME = true` nor `NAME = false`", part.trim())),
        }
    };
    inner.split(',').map(word).collect()
}

/// A feature as it is written, and whether it is on.
fn read(word: &str) -> (&str, bool) {
    word.strip_prefix(OFF).map_or((word, true), |name| (name, false))
}

impl Platform {
    /// The fair class of the platform; `None` where the policies of fair threads are another scheduler's, such as MuQSS.
    pub fn fair_version(&self) -> Option<&'static FairVersion> {
        if self.schedulers.iter().any(|word| word == "muqss") {
            return None;
        }
        let named = self.schedulers.iter().find_map(|word| FairVersion::of(word));
        named.or(FAIR_VERSIONS.first())
    }

    /// Whether its fair class, a version, has a feature on.
    pub fn has_feature(&self, version: &FairVersion, name: &str) -> bool {
        let set = self.features.iter().map(|word| read(word)).find(|(set, _)| *set == name);
        let is_on = version.feature(name).is_some_and(|feature| feature.is_on);
        set.map_or(is_on, |(_, is_on)| is_on)
    }

    /// Sets features of the fair class, each by its name, with `NO_` before one that is to be off.
    ///
    /// # Errors
    /// The first that this class does not have, or that the simulator has one way only, and what can be said instead.
    pub fn set_features(&mut self, words: &[&str]) -> Result<(), String> {
        let Some(version) = self.fair_version() else {
            return Err(
                "the fair threads of this platform are MuQSS's, which has no such features".to_owned()
            );
        };
        let mut kept: Vec<String> = Vec::new();
        for word in words {
            let (name, is_on) = read(word);
            let Some(feature) = version.feature(name) else {
                return Err(version.without(name));
            };
            if let Some(why) = feature.fixed.filter(|_| is_on != feature.is_on) {
                let stands = if feature.is_on { "on" } else { "off" };
                return Err(format!("{name} is {stands} in the simulator: {why}"));
            }
            if kept.iter().any(|other| read(other).0 == name) {
                return Err(format!("{name} is given twice"));
            }
            if is_on != feature.is_on {
                kept.push((*word).to_owned());
            }
        }
        self.features = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::PROFILES;

    fn set(platform: &Platform, words: &[&str]) -> Result<Vec<String>, String> {
        let mut platform = platform.clone();
        platform.set_features(words).map(|()| platform.features)
    }

    fn changed_or_plain(words: &[&str]) -> Platform {
        let features = set(&Platform::linux_6_18(1), words).unwrap();
        Platform { features, ..Platform::linux_6_18(1) }
    }

    #[test]
    fn a_feature_is_known_to_the_versions_that_have_it() {
        let cases: [(&str, &str, &str); 9] = [
            ("linux-6.18", "NO_RUN_TO_PARITY", ""),
            ("linux-6.18", "LAST_BUDDY", "has no LAST_BUDDY, but PLACE_LAG"),
            (
                "linux-6.18",
                "RUN_TO_PARTY",
                "`RUN_TO_PARTY` in the fair class of any version: did you mean `RUN_TO_PARITY`?",
            ),
            ("linux-6.1", "NO_GENTLE_FAIR_SLEEPERS", ""),
            ("linux-6.1", "NO_PLACE_LAG", "2.6.24 to 6.5 has no PLACE_LAG"),
            ("linux-6.6", "NO_DELAY_DEQUEUE", "6.6 to 6.11 has no DELAY_DEQUEUE"),
            ("linux-6.12", "HRTICK", "HRTICK is off in the simulator: slices that end on a timer"),
            ("linux-7.2", "NO_HRTICK", ""),
            ("linux-7.2", "NEXT_BUDDY", "6.19 and later"),
        ];
        for (name, word, refused) in cases {
            let platform = Platform::named(name, 2).unwrap();
            match set(&platform, &[word]) {
                Ok(kept) => assert!(refused.is_empty() && kept == [word], "{name} {word}: {kept:?}"),
                Err(error) => assert!(!refused.is_empty() && error.contains(refused), "{name}: {error}"),
            }
        }
    }

    #[test]
    fn a_table_says_the_same_as_words() {
        for (text, expected) in [
            ("NO_RUN_TO_PARITY+NEXT_BUDDY", ["NO_RUN_TO_PARITY", "NEXT_BUDDY"]),
            ("{ RUN_TO_PARITY = false, NEXT_BUDDY = true }", ["NO_RUN_TO_PARITY", "NEXT_BUDDY"]),
            ("{RUN_TO_PARITY=false,NO_NEXT_BUDDY=true}", ["NO_RUN_TO_PARITY", "NO_NEXT_BUDDY"]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        assert!(words("{ RUN_TO_PARITY = no }").unwrap_err().contains("`RUN_TO_PARITY = no` is neither"));
        assert!(words("{ RUN_TO_PARITY = false").unwrap_err().contains("without `}`"));
    }

    /// What is said to be as it is anyway is no change, so that the record is that of the plain kernel.
    #[test]
    fn only_what_differs_is_kept() {
        let platform = Platform::linux_6_18(1);
        let version = platform.fair_version().unwrap();
        assert_eq!(set(&platform, &["RUN_TO_PARITY", "NEXT_BUDDY"]).unwrap(), ["NEXT_BUDDY"]);
        assert!(set(&platform, &["NO_PLACE_LAG", "PLACE_LAG"]).unwrap_err().contains("given twice"));
        assert!(platform.has_feature(version, "PLACE_LAG") && !platform.has_feature(version, "NEXT_BUDDY"));
        let changed = Platform { features: vec!["NO_PLACE_LAG".to_owned()], ..platform };
        assert!(!changed.has_feature(version, "PLACE_LAG"));
        let muqss = Platform { schedulers: vec!["muqss".to_owned()], ..changed };
        assert!(set(&muqss, &["PLACE_LAG"]).unwrap_err().contains("MuQSS"));
        assert!(!changed_or_plain(&["NEXT_BUDDY"]).is_fair_class_validated());
        assert!(changed_or_plain(&["RUN_TO_PARITY"]).is_fair_class_validated());
        assert!(Platform::linux_6_6(1).in_words().contains("fair class unvalidated"));
    }

    #[test]
    fn every_profile_has_a_version_of_its_own() {
        let of = |profile: &(&str, super::super::Profile)| profile.1(1).fair_version().unwrap().scheduler;
        let mut schedulers: Vec<&str> = PROFILES.iter().map(of).collect();
        schedulers.sort_unstable();
        schedulers.dedup();
        assert_eq!((schedulers.len(), FAIR_VERSIONS.len()), (PROFILES.len(), PROFILES.len()));
    }
}
