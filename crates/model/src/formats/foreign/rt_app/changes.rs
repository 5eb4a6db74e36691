//! What phases change of their thread: its CPUs and how it is scheduled, in that order, before a phase begins (`thread_body` and
//! `set_thread_param` in `rt-app.c`).
//!
//! A phase without `cpus` has those of its thread, or of the run; a phase that says nothing of scheduling leaves it as the phase
//! before left it, and what it does not say of it is the default of its policy.

use surety_units::{CpuSet, Nanos};

use super::Shared;
use super::scheduling::{self, Scheduling, cpus, scheduling, taskgroup};
use crate::formats::foreign::Reading;
use crate::formats::foreign::object::Object;
use crate::workload::{Phase, PolicySpec, Schedule};

/// What a thread has before its first phase.
pub(super) struct Before<'a> {
    pub(super) own: &'a Scheduling,
    pub(super) cpus: Option<CpuSet>,
    pub(super) group: Option<&'a str>,
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

impl Changes {
    pub(super) fn of(
        reading: &mut Reading,
        phases: &[Object<'_>],
        before: &Before<'_>,
        shared: &mut Shared,
    ) -> Changes {
        let places: Vec<Option<CpuSet>> =
            phases.iter().map(|phase| cpus(reading, phase).or(before.cpus)).collect();
        let (mut last, mut slice) = (*before.own, None);
        let schedules: Vec<Option<Scheduling>> = phases
            .iter()
            .map(|phase| {
                before.keeps_group(reading, phase, shared);
                keep_slice(&mut last, &mut slice);
                last = next(reading, phase, &last)?;
                keep_slice(&mut last, &mut slice);
                Some(last)
            })
            .collect();
        let first = places.first().copied().flatten();
        let moves = places.iter().any(|place| *place != first);
        let becomes = schedules.iter().flatten().any(|schedule| schedule != before.own);
        let of_phase = |(place, schedule): (&Option<CpuSet>, &Option<Scheduling>)| {
            let schedule = schedule.filter(|_| becomes);
            let schedule = schedule.map(|of| Schedule { policy: of.policy, reservation: of.reservation });
            moves.then_some(Phase::Cpus(*place)).into_iter().chain(schedule.map(Phase::Become)).collect()
        };
        let steps = places.iter().zip(&schedules).map(of_phase).collect();
        Changes { steps, cpus: if moves { before.cpus } else { first }, places }
    }
}

impl Before<'_> {
    /// Another group in a phase is refused.
    fn keeps_group(&self, reading: &mut Reading, phase: &Object<'_>, shared: &mut Shared) {
        if let Some(group) = taskgroup(reading, phase, shared)
            && self.group != Some(group.as_str())
        {
            let message = "a phase cannot change `taskgroup` of its thread here".to_owned();
            let help = "give it to the thread, or make a thread of the phase".to_owned();
            reading.wrong(&phase.span_of("taskgroup"), message, Some(help));
        }
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
    let Some(key) = scheduling::KEYS.iter().find(|key| phase.has(key)) else {
        scheduling(reading, phase, None);
        return None;
    };
    let says_class = phase.has("policy") || phase.has("priority");
    if !says_class && before.policy != PolicySpec::Deadline {
        // rt-app goes on without it.
        let message = format!("`{key}` alone changes nothing of a thread that is {}", before.word);
        let help = "give the phase its `policy`, too, or leave it out".to_owned();
        reading.wrong(&phase.span_of(key), message, Some(help));
    }
    scheduling(reading, phase, Some(before.word))
}
