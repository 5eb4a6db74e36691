//! What of a machine no kernel was held against: its fair class, features of it, and what its CPUs share (`docs/validation.md`).

use super::features::FairVersion;
use super::{Platform, Topology};

impl FairVersion {
    /// Whether a kernel with it was held against the simulator on a machine with this many CPUs that share things so.
    fn is_held_on(&self, cpus: u32, topology: Topology) -> bool {
        // On two CPUs that share all they have, naming it changes no event.
        let is_plain = topology == Topology::default() && cpus <= 2;
        (is_plain && self.is_validated) || self.held_on.contains(&(cpus, topology))
    }
}

impl Platform {
    /// What of its fair class no kernel was held against, each in words; empty where the policies of fair threads are another
    /// scheduler's.
    pub fn unvalidated(&self) -> Vec<String> {
        let Some(version) = self.fair_version() else { return Vec::new() };
        let class = (!version.is_validated).then(|| {
            let (scheduler, kernels) = (self.fair_scheduler().word, version.kernels);
            format!("fair class {scheduler}: no kernel of the lab has it (those of {kernels} do)")
        });
        let features = (!self.features.is_empty())
            .then(|| format!("features {}: held against their rules alone", self.features.join(" ")));
        let apart = self.topology.filter(|topology| !version.is_held_on(self.cpus, *topology));
        let domains = apart.map(|topology| {
            let on = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
            format!("scheduling domains of {topology} on {on}: held against their rules alone")
        });
        [class, features, domains].into_iter().flatten().collect()
    }

    /// Whether its fair class, with the features that are set and over CPUs that share what they do, is one of a kernel that the simulator
    /// was held against.
    pub fn is_fair_class_validated(&self) -> bool {
        self.fair_version().is_some() && self.unvalidated().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held: two cores of two threads on 6.1, 6.12 and 7.2, two caches of two CPUs on 6.12 (the scenarios of the validation).
    #[test]
    fn domains_are_unvalidated_where_no_kernel_was_held_against_them() {
        let of = |smt, llc, nodes| Some(Topology { smt, llc, nodes });
        let (cores, caches) = (of(2, None, 1), of(1, Some(2), 1));
        for (name, cpus, topology, is_held) in [
            ("linux-6.1", 4, cores, true),
            ("linux-6.12", 4, cores, true),
            ("linux-7.2", 4, cores, true),
            ("linux-6.18", 4, cores, false),
            ("linux-6.6", 4, cores, false),
            ("linux-6.12", 8, cores, false),
            ("linux-6.12", 4, caches, true),
            ("linux-6.1", 4, caches, false),
            ("linux-6.12", 4, of(2, None, 2), false),
            ("linux-6.18", 2, of(1, None, 1), true),
            ("linux-6.18", 4, of(1, None, 1), false),
            ("linux-6.18", 4, None, true),
        ] {
            let platform = Platform { topology, ..Platform::named(name, cpus).expect("a profile") };
            let said = platform.unvalidated().iter().any(|words| words.starts_with("scheduling domains"));
            assert_eq!(!said, is_held, "{name} {cpus} {topology:?}");
        }
    }

    #[test]
    fn versions_without_a_kernel_and_features_are_named() {
        let platform = Platform { features: vec!["NO_PLACE_LAG".to_owned()], ..Platform::linux_6_6(1) };
        assert_eq!(
            platform.unvalidated(),
            [
                "fair class eevdf-6.6: no kernel of the lab has it (those of 6.6 to 6.11 do)",
                "features NO_PLACE_LAG: held against their rules alone"
            ]
        );
        assert!(Platform::linux_6_12(4).unvalidated().is_empty());
        let muqss = Platform { schedulers: vec!["muqss".to_owned()], ..platform };
        assert!(muqss.unvalidated().is_empty() && !muqss.is_fair_class_validated());
    }
}
