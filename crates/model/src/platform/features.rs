//! [`FairVersion`]: a fair class of a kernel, and its features by their names in `/sys/kernel/debug/sched/features`
//! (`kernel/sched/features.h`). Each stands in its row of [`SCHEDULERS`].
//!
//! A platform keeps what is to be otherwise than the defaults in the form in which that file takes it: `NO_RUN_TO_PARITY`,
//! `NEXT_BUDDY`.

use super::Platform;
pub use crate::schedulers::{FairVersion, Feature, Lacks};
use crate::schedulers::{SCHEDULERS, SchedulerRow};
use crate::source::nearest;
use crate::workload::PolicySpec;

/// What stands before a feature that is off.
const OFF: &str = "NO_";

impl FairVersion {
    /// That of a scheduler.
    pub fn of(scheduler: &str) -> Option<&'static FairVersion> {
        SchedulerRow::of(scheduler)?.fair.as_ref()
    }

    /// What is said of a feature it has not: what it has instead, or that no fair class has it, with the nearest name of any.
    fn without(&self, name: &str) -> String {
        let versions = || SCHEDULERS.iter().filter_map(|row| row.fair.as_ref());
        let known = || versions().flat_map(|version| version.features).map(|feature| feature.name);
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

/// A feature as it is written, the other way.
pub fn opposite(word: &str) -> String {
    word.strip_prefix(OFF).map_or_else(|| format!("{OFF}{word}"), str::to_owned)
}

/// A feature as it is written, and whether it is on.
fn read(word: &str) -> (&str, bool) {
    word.strip_prefix(OFF).map_or((word, true), |name| (name, false))
}

impl Platform {
    /// The scheduler of its fair threads: the one that it names, else the first of the table.
    pub fn fair_scheduler(&self) -> &'static SchedulerRow {
        let fair = PolicySpec::default().word();
        let named = self.schedulers.iter().filter_map(|word| SchedulerRow::of(word));
        let mut takes_fair = named.chain(SCHEDULERS).filter(|row| row.takes.contains(&fair));
        takes_fair.next().expect("the table has schedulers of fair threads")
    }

    /// The fair class of the platform; `None` where the policies of fair threads are those of a scheduler that is no kernel's fair class, such as MuQSS.
    pub fn fair_version(&self) -> Option<&'static FairVersion> {
        self.fair_scheduler().fair.as_ref()
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
            let word = self.fair_scheduler().word;
            return Err(format!(
                "the fair threads of this platform are those of `{word}`, which has no such features"
            ));
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
        assert!(set(&muqss, &["PLACE_LAG"]).unwrap_err().contains("`muqss`"));
        assert!(!changed_or_plain(&["NEXT_BUDDY"]).is_fair_class_validated());
        assert!(changed_or_plain(&["RUN_TO_PARITY"]).is_fair_class_validated());
        assert!(Platform::linux_6_6(1).in_words().contains("fair class unvalidated"));
    }

    #[test]
    fn every_profile_has_a_version_of_its_own() {
        let mut words: Vec<&str> = PROFILES.iter().map(|(_, of)| of(1).fair_scheduler().word).collect();
        words.sort_unstable();
        words.dedup();
        assert!(words.iter().all(|word| FairVersion::of(word).is_some()), "{words:?}");
        assert_eq!(words.len(), PROFILES.len());
    }
}
