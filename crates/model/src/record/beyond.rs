//! Where the threads of a run may be beside the CPUs it was given.

use surety_units::CpuSet;

use super::{InForce, ThreadInForce};

impl InForce {
    /// Where reserved threads may be beside the CPUs of the run, in words: the kernel admits no reservation of a thread that is
    /// confined to a part of its root domain. Shares of such a run add up over all of these CPUs. `None`: nowhere else.
    pub fn beyond_cpus(&self) -> Option<String> {
        let is_beyond = |t: &&ThreadInForce| {
            t.policy.starts_with("deadline") && !self.cpus.is_empty() && !t.affinity.is_subset(&self.cpus)
        };
        let threads: Vec<&ThreadInForce> = self.threads.iter().filter(is_beyond).collect();
        let all: CpuSet = threads.iter().flat_map(|t| t.affinity.iter()).chain(self.cpus.iter()).collect();
        let mut names: Vec<&str> = threads.iter().map(|t| t.activity.as_str()).collect();
        names.dedup();
        (!names.is_empty()).then(|| {
            format!(
                "the run is on {}, its reserved threads ({}) on {}: the kernel admits none that is confined to a part of its root \
                 domain, so shares add up over {}",
                self.cpus.in_words(),
                names.join(", "),
                all.in_words(),
                if all.len() == 1 { "one CPU".to_owned() } else { format!("{} CPUs", all.len()) }
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_threads_on_more_cpus_than_the_run_are_named() {
        let thread = |activity: &str, policy: &str, cpus: &str| ThreadInForce {
            activity: activity.to_owned(),
            tid: None,
            policy: policy.to_owned(),
            affinity: cpus.parse().unwrap(),
            as_requested: true,
        };
        let reserved = thread("reserved", "deadline 2ms/10ms/10ms reclaim", "0-1");
        let spinner = thread("spinner", "fair nice 0", "1");
        let mut in_force =
            InForce { cpus: "1".parse().unwrap(), threads: vec![reserved, spinner], ..InForce::default() };
        let said = in_force.beyond_cpus().unwrap();
        assert!(
            said.starts_with("the run is on CPU 1, its reserved threads (reserved) on CPUs 0-1:"),
            "{said}"
        );
        assert!(said.ends_with("so shares add up over 2 CPUs"), "{said}");
        in_force.cpus = CpuSet::first(2);
        assert_eq!(in_force.beyond_cpus(), None);
    }
}
