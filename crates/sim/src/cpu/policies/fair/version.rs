//! [`Version`]: what a kernel makes of EEVDF, and which features (`kernel/sched/features.h`) of it are on. Each kernel's is a file of its own.
//!
//! A version with the features that it has when it starts is a type, so that nothing is asked at run time; [`Changed`] is any version
//! with other features.

use surety_model::platform::Platform;
use surety_model::platform::features::Feature;

use super::balance::Search;

/// What a kernel makes of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// What most versions make of it.
    pub(super) const USUAL: Form = Form {
        protects_whole_slice: false,
        lag_by_longest_slice: false,
        gives_eligible_first: false,
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

    /// With the features of a platform, whose fair class has this form.
    pub(super) fn with_features(self, platform: &Platform) -> Form {
        let version = platform.fair_version().expect("its scheduler is a version of the fair class");
        let has = |name: &str| platform.has_feature(version, name);
        // Without this feature, those are picked that the other nominates.
        let picks = |feature: &Feature| feature.name == "PICK_BUDDY";
        let pick_buddy = if version.features.iter().any(picks) { "PICK_BUDDY" } else { "NEXT_BUDDY" };
        Form {
            search: self.search.with_features(platform, version),
            place_lag: has("PLACE_LAG"),
            place_deadline_initial: has("PLACE_DEADLINE_INITIAL"),
            place_rel_deadline: has("PLACE_REL_DEADLINE"),
            run_to_parity: has("RUN_TO_PARITY"),
            preempt_short: has("PREEMPT_SHORT"),
            next_buddy: has("NEXT_BUDDY"),
            pick_buddy: has(pick_buddy),
            cache_hot_buddy: has("CACHE_HOT_BUDDY"),
            delay_dequeue: has("DELAY_DEQUEUE"),
            delay_zero: has("DELAY_ZERO"),
            wakeup_preemption: has("WAKEUP_PREEMPTION"),
            hrtick: has("HRTICK"),
            ..self
        }
    }
}

/// Where a rule learns its form.
pub(super) trait Version {
    fn form(&self) -> Form;
}

/// A version as its kernel starts.
pub(super) trait Plain: Default {
    const FORM: Form;
}

impl<V: Plain> Version for V {
    #[inline(always)]
    fn form(&self) -> Form {
        V::FORM
    }
}

/// Any version, as a platform has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changed(Form);

impl Changed {
    /// That of a platform whose fair class has this form where no feature is changed.
    pub(super) fn of(form: Form, platform: &Platform) -> Changed {
        Changed(form.with_features(platform))
    }
}

impl Version for Changed {
    #[inline]
    fn form(&self) -> Form {
        self.0
    }
}
