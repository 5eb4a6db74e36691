//! [`Version`]: what each kernel makes of EEVDF, and which features (`kernel/sched/features.h`) of it are on.
//!
//! A version with the features that it has when it starts is a type, so that nothing is asked at run time; [`Changed`] is any version
//! with other features.

use surety_model::platform::Platform;

use super::balance::Search;

/// What a kernel makes of the rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Whether a picked entity is protected for all of its slice, unless one with a shorter slice and an earlier deadline joins;
    /// else until the end of the shortest slice in the queue.
    pub(super) protects_whole_slice: bool,
    /// Whether lag is bounded by the longest slice in the queue and a tick, and what a sleeper in the queue owes by what it owed when
    /// it fell asleep; else by twice its own slice or a tick, whichever is longer.
    pub(super) lag_by_longest_slice: bool,
    /// Whether balancing leaves those alone at first that are not eligible (`task_is_ineligible_on_dst_cpu`).
    pub(super) gives_eligible_first: bool,
    /// Whether a thread may ask for a slice of its own.
    pub(super) own_slices: bool,
    /// Whether another weight moves a queued entity, so that its lag keeps its length in real time; else it stays where it is.
    pub(super) keeps_lag_in_time: bool,
    /// Whether one `SCHED_IDLE` thread gives way to others even without `WAKEUP_PREEMPTION`.
    pub(super) idle_gives_way: bool,
    /// How CPUs look for others' threads, and threads for CPUs (`NI_RANDOM`, `NI_RATE`, `SIS_UTIL`).
    pub(super) search: Search,
    /// The other features, by their names.
    pub(super) place_lag: bool,
    pub(super) place_deadline_initial: bool,
    pub(super) place_rel_deadline: bool,
    pub(super) run_to_parity: bool,
    pub(super) preempt_short: bool,
    pub(super) next_buddy: bool,
    pub(super) pick_buddy: bool,
    pub(super) cache_hot_buddy: bool,
    pub(super) delay_dequeue: bool,
    pub(super) delay_zero: bool,
    pub(super) wakeup_preemption: bool,
    /// Whether a timer ends slices.
    pub(super) hrtick: bool,
}

impl Form {
    const V6_18: Form = Form {
        protects_whole_slice: false,
        lag_by_longest_slice: false,
        gives_eligible_first: true,
        own_slices: true,
        keeps_lag_in_time: true,
        idle_gives_way: false,
        search: Search::USUAL,
        place_lag: true,
        place_deadline_initial: true,
        place_rel_deadline: true,
        run_to_parity: true,
        preempt_short: true,
        next_buddy: false,
        pick_buddy: true,
        cache_hot_buddy: true,
        delay_dequeue: true,
        delay_zero: true,
        wakeup_preemption: true,
        hrtick: false,
    };

    const V6_12: Form = Form {
        protects_whole_slice: true,
        gives_eligible_first: false,
        search: Search { sees_left: true, ..Search::USUAL },
        ..Form::V6_18
    };

    /// As EEVDF came in: a nominated entity is picked only where `NEXT_BUDDY` nominates.
    const V6_6: Form = Form {
        own_slices: false,
        keeps_lag_in_time: false,
        idle_gives_way: true,
        place_rel_deadline: false,
        preempt_short: false,
        pick_buddy: false,
        delay_dequeue: false,
        delay_zero: false,
        search: Search::USUAL,
        ..Form::V6_12
    };

    const V7_2: Form = Form {
        lag_by_longest_slice: true,
        search: Search { by_rate: true, ..Search::USUAL },
        hrtick: true,
        ..Form::V6_18
    };

    /// That of a platform's fair class, with its features.
    fn of(platform: &Platform) -> Form {
        let version = platform.fair_version().expect("its scheduler is a version of the fair class");
        let form = match version.scheduler {
            "eevdf-6.6" => Form::V6_6,
            "eevdf-6.12" => Form::V6_12,
            "eevdf-7.2" => Form::V7_2,
            _ => Form::V6_18,
        };
        let has = |name: &str| platform.has_feature(version, name);
        Form {
            search: Search::of(platform, version),
            place_lag: has("PLACE_LAG"),
            place_deadline_initial: has("PLACE_DEADLINE_INITIAL"),
            place_rel_deadline: has("PLACE_REL_DEADLINE"),
            run_to_parity: has("RUN_TO_PARITY"),
            preempt_short: has("PREEMPT_SHORT"),
            next_buddy: has("NEXT_BUDDY"),
            pick_buddy: has(if version.scheduler == "eevdf-6.6" { "NEXT_BUDDY" } else { "PICK_BUDDY" }),
            cache_hot_buddy: has("CACHE_HOT_BUDDY"),
            delay_dequeue: has("DELAY_DEQUEUE"),
            delay_zero: has("DELAY_ZERO"),
            wakeup_preemption: has("WAKEUP_PREEMPTION"),
            hrtick: has("HRTICK"),
            ..form
        }
    }
}

/// Where a rule learns its form.
pub(super) trait Version {
    /// Of a platform with this fair class.
    fn new(platform: &Platform) -> Self;

    fn form(&self) -> Form;
}

macro_rules! versions {
    ($($(#[$about:meta])* $name:ident)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $name;

        impl Version for $name {
            fn new(_platform: &Platform) -> $name {
                $name
            }

            #[inline(always)]
            fn form(&self) -> Form {
                Form::$name
            }
        }
    )*};
}

versions! {
    /// 6.12.
    V6_12
    /// 6.18.
    V6_18
    /// 7.2.
    V7_2
}

/// Any version, as a platform has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed(Form);

impl Version for Changed {
    fn new(platform: &Platform) -> Changed {
        Changed(Form::of(platform))
    }

    #[inline]
    fn form(&self) -> Form {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::platform::features::FAIR_VERSIONS;

    /// The names of the table and the fields here say the same of each version as it starts.
    #[test]
    fn a_version_without_changes_is_its_type() {
        for (scheduler, form) in [
            ("fair", Form::V6_18),
            ("eevdf-6.12", Form::V6_12),
            ("eevdf-6.6", Form::V6_6),
            ("eevdf-7.2", Form::V7_2),
        ] {
            assert!(FAIR_VERSIONS.iter().any(|version| version.scheduler == scheduler));
            let schedulers = vec!["deadline".to_owned(), scheduler.to_owned()];
            let platform = Platform { schedulers, ..Platform::linux_6_18(2) };
            assert_eq!(format!("{:?}", Form::of(&platform)), format!("{form:?}"), "{scheduler}");
        }
    }
}
