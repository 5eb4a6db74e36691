//! What phases change of their thread: its CPUs, how it is scheduled, its clamps and its group, in that order, before a phase begins
//! (`thread_body` and `set_thread_param` in `rt-app.c`).
//!
//! A phase without `cpus` has those of its thread, or of the run; a phase that says nothing of scheduling leaves it as the phase
//! before left it, and what it does not say of it is the default of its policy.

use surety_units::{CpuSet, Nanos};

use super::Shared;
use super::scheduling::{self, Scheduling, clamps, cpus, scheduling, taskgroup};
use crate::formats::foreign::Reading;
use crate::formats::foreign::object::Object;
use crate::workload::{Phase, PolicySpec, Schedule, UtilClamp};

/// What a thread has before its first phase.
pub(super) struct Before<'a> {
    pub(super) own: &'a Scheduling,
    pub(super) cpus: Option<CpuSet>,
    pub(super) group: Option<&'a str>,
    pub(super) util: UtilClamp,
}

/// What each phase of a thread begins with.
pub(super) struct Changes {
    /// By phase, in the order of the file.
    pub(super) steps: Vec<Vec<Phase>>,
    /// The CPUs of each phase.
    pub(super) places: Vec<Option<CpuSet>>,
    /// The CPUs of all phases, where these are the same.
    pub(super) cpus: Option<CpuSet>,
}

/// What a phase says of scheduling, clamps and its group; of the last inside, `None`: the root.
type Said = (Option<Scheduling>, UtilClamp, Option<Option<String>>);

impl Changes {
    pub(super) fn of(
        reading: &mut Reading,
        phases: &[Object<'_>],
        before: &Before<'_>,
        shared: &mut Shared,
    ) -> Changes {
        let places: Vec<Option<CpuSet>> =
            phases.iter().map(|phase| cpus(reading, phase).or(before.cpus)).collect();
        let (mut last, mut slice, mut util) = (*before.own, None, before.util);
        let mut read = |phase: &Object<'_>| {
            keep_slice(&mut last, &mut slice);
            let schedule = next(reading, phase, &last);
            last = schedule.unwrap_or(last);
            keep_slice(&mut last, &mut slice);
            let clamp = clamps(reading, phase, last.policy);
            util = clamp.after(util);
            if clamp.is_given() && !util.is_in_order(false) {
                let message = "`util_min` is more than `util_max`, of this phase or from before".to_owned();
                let key = if clamp.min.is_some() { "util_min" } else { "util_max" };
                reading.wrong(&phase.span_of(key), message, Some("give the phase both".to_owned()));
            }
            let group = taskgroup(reading, phase, shared);
            (schedule.map(|_| last), clamp, group)
        };
        let said: Vec<Said> = phases.iter().map(&mut read).collect();
        let first = places.first().copied().flatten();
        let moves = places.iter().any(|place| *place != first);
        let becomes =
            said.iter().filter_map(|(schedule, ..)| *schedule).any(|schedule| schedule != *before.own);
        let regroups =
            said.iter().filter_map(|(.., group)| group.as_ref()).any(|to| to.as_deref() != before.group);
        let of_phase = |(place, (schedule, clamp, group)): (&Option<CpuSet>, Said)| {
            let schedule = schedule.filter(|_| becomes);
            let schedule = schedule.map(|of| Schedule { policy: of.policy, reservation: of.reservation });
            let clamp = clamp.is_given().then_some(Phase::Clamp(clamp));
            let group = group.filter(|_| regroups).map(Phase::Group);
            let steps = [moves.then_some(Phase::Cpus(*place)), schedule.map(Phase::Become), clamp, group];
            steps.into_iter().flatten().collect()
        };
        let steps = places.iter().zip(said).map(of_phase).collect();
        Changes { steps, cpus: if moves { before.cpus } else { first }, places }
    }
}

/// A fair thread that is given no slice has the one that it was given before.
fn keep_slice(of: &mut Scheduling, kept: &mut Option<Nanos>) {
    if let PolicySpec::Fair { slice, .. } = &mut of.policy {
        *slice = slice.or(*kept);
        *kept = *slice;
    }
}

/// How a thread is scheduled from a phase on; `None`: as before.
fn next(reading: &mut Reading, phase: &Object<'_>, before: &Scheduling) -> Option<Scheduling> {
    let key = scheduling::KEYS.iter().find(|key| phase.has(key))?;
    let says_class = phase.has("policy") || phase.has("priority");
    if !says_class && before.policy != PolicySpec::Deadline {
        // rt-app goes on without it.
        let message = format!("`{key}` alone changes nothing of a thread that is {}", before.word);
        let help = "give the phase its `policy`, too, or leave it out".to_owned();
        reading.wrong(&phase.span_of(key), message, Some(help));
    }
    scheduling(reading, phase, before.word)
}
