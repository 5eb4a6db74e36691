//! How a thread or a phase is scheduled: policy, priority, budget, CPUs and task group.

use surety_units::{CpuId, CpuSet, Nanos};

use super::Shared;
use crate::formats::foreign::Reading;
use crate::formats::foreign::item::Value;
use crate::formats::foreign::object::{Object, integer};
use crate::reservation::Reservation;
use crate::workload::{Group, PolicySpec, UtilClamp};

/// The policies by their words.
pub(super) struct Policies;

impl Policies {
    pub(super) const WORDS: &[&'static str] =
        &["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE"];
}

/// Keys that say how a thread is scheduled.
pub(super) const KEYS: [&str; 5] = ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline"];
/// Priority of realtime threads that have none.
const REALTIME_PRIORITY: u32 = 10;

/// A policy with what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheduling {
    /// The word of the policy.
    pub(super) word: &'static str,
    pub(super) policy: PolicySpec,
    pub(super) reservation: Option<Reservation>,
}

/// That of a thread with this policy unless it says another.
pub(super) fn scheduling(
    reading: &mut Reading,
    object: &Object<'_>,
    default: &'static str,
) -> Option<Scheduling> {
    let word = object.word(reading, "policy", Policies::WORDS).unwrap_or(default);
    let limits = match word {
        "SCHED_FIFO" | "SCHED_RR" => 1..=99,
        "SCHED_OTHER" | "SCHED_BATCH" => -20..=19,
        _ => i64::from(i32::MIN)..=i64::from(i32::MAX),
    };
    let priority = object.integer(reading, "priority", limits);
    let nice = priority.unwrap_or(0) as i32;
    let realtime = priority.map_or(REALTIME_PRIORITY, |priority| priority as u32);
    let budget = object.micros(reading, "dl-runtime");
    let period = object.micros(reading, "dl-period");
    let deadline = object.micros(reading, "dl-deadline");
    let (policy, reservation) = match word {
        "SCHED_FIFO" => (PolicySpec::Fifo { priority: realtime }, None),
        "SCHED_RR" => (PolicySpec::RoundRobin { priority: realtime }, None),
        "SCHED_BATCH" => (PolicySpec::Batch { nice }, None),
        "SCHED_IDLE" => (PolicySpec::Idle, None),
        "SCHED_DEADLINE" => {
            let Some(runtime) = budget.filter(|budget| budget.is_positive()) else {
                let help = "write `\"dl-runtime\" : 5000`, in microseconds".to_owned();
                reading.wrong(&object.span, "SCHED_DEADLINE needs `dl-runtime`".to_owned(), Some(help));
                return None;
            };
            let period = period.filter(|period| period.is_positive()).unwrap_or(runtime);
            let deadline = deadline.filter(|deadline| deadline.is_positive()).unwrap_or(period);
            let reservation = Reservation { runtime, deadline, period, reclaim: false, demote: false };
            if let Err(error) = reservation.check() {
                reading.wrong(&object.span_of("dl-runtime"), error.to_string(), None);
            }
            (PolicySpec::Deadline, Some(reservation))
        }
        _ => (PolicySpec::Fair { nice, slice: slice(reading, object, budget) }, None),
    };
    if !matches!(word, "SCHED_OTHER" | "SCHED_DEADLINE") && budget.is_some() {
        let message = format!("`dl-runtime` means nothing to {word}");
        reading.wrong(&object.span_of("dl-runtime"), message, Some("leave it out".to_owned()));
    }
    Some(Scheduling { word, policy, reservation })
}

/// The budget of a fair thread is its slice.
fn slice(reading: &mut Reading, object: &Object<'_>, budget: Option<Nanos>) -> Option<Nanos> {
    let slice = budget.filter(|budget| budget.is_positive())?;
    if !(Nanos::from_micros(100)..=Nanos::from_millis(100)).contains(&slice) {
        let message = "a slice of SCHED_OTHER is between 100 and 100000 us".to_owned();
        reading.wrong(&object.span_of("dl-runtime"), message, None);
    }
    Some(slice)
}

/// `util_min` and `util_max` of a thread or phase with this policy, -1 where nothing is set.
pub(super) fn clamps(reading: &mut Reading, object: &Object<'_>, policy: PolicySpec) -> UtilClamp {
    refuse_unsupported(reading, object);
    let mut of = |key: &'static str| {
        let clamp = object.integer(reading, key, -1..=i64::from(UtilClamp::SCALE))?;
        let clamp = u32::try_from(clamp).ok()?;
        if policy == PolicySpec::Deadline {
            let message = format!("`{key}` means nothing to SCHED_DEADLINE");
            reading.wrong(&object.span_of(key), message, Some("leave it out".to_owned()));
        }
        Some(clamp)
    };
    let clamp = UtilClamp { min: of("util_min"), max: of("util_max") };
    if clamp.min.is_some() && !clamp.is_in_order(false) {
        let message = "`util_min` is more than `util_max`".to_owned();
        reading.wrong(&object.span_of("util_min"), message, Some("give it less".to_owned()));
    }
    clamp
}

/// What of the scheduler a workload cannot say.
fn refuse_unsupported(reading: &mut Reading, object: &Object<'_>) {
    if object.get(reading, "nodes_membind").is_some() {
        let message = "`nodes_membind` has no counterpart: memory is not bound to nodes here".to_owned();
        reading.wrong(&object.span_of("nodes_membind"), message, Some("leave it out".to_owned()));
    }
}

/// `cpus`, a list of numbers.
pub(super) fn cpus(reading: &mut Reading, object: &Object<'_>) -> Option<CpuSet> {
    let item = object.get(reading, "cpus")?;
    let Value::Array(items) = &item.value else {
        reading.wrong(
            &item.span,
            "`cpus` is a list of numbers".to_owned(),
            Some("write `[ 0, 2 ]`".to_owned()),
        );
        return None;
    };
    let mut cpus = CpuSet::EMPTY;
    for item in items {
        let number = integer(reading, "cpus", item, 0..=i64::from(CpuSet::LIMIT) - 1)?;
        cpus.insert(CpuId(number as u32));
    }
    if cpus.is_empty() {
        reading.wrong(&item.span, "`cpus` is no CPU at all".to_owned(), None);
        return None;
    }
    Some(cpus)
}

/// The group of a `taskgroup`, with those around it; inside, `None`: the root.
pub(super) fn taskgroup(
    reading: &mut Reading,
    object: &Object<'_>,
    shared: &mut Shared,
) -> Option<Option<String>> {
    let path = object.text(reading, "taskgroup").filter(|path| !path.is_empty())?;
    if !path.starts_with('/') {
        let message = format!("the task group `{path}` has no `/` at its beginning");
        reading.wrong(&object.span_of("taskgroup"), message, Some(format!("write `/{path}`")));
        return None;
    }
    let mut parent = None;
    let mut so_far = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if !so_far.is_empty() {
            so_far.push('/');
        }
        so_far.push_str(part);
        let is_new = !shared.groups.has(&so_far);
        let name = shared.groups.of(&so_far);
        if is_new {
            reading.place(format!("group.{name}"), &object.span_of("taskgroup"));
            shared.list.push(Group { parent, ..Group::new(&name) });
        }
        parent = Some(name);
    }
    Some(parent)
}
