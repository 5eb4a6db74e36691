//! [`Caveat`]: what speaks against a verdict on an activity's counts.
//!
//! A count is evidence only if it counted what was promised, under what was asked for. Whoever finds that it did not
//! (parameters that were not in force, CPU time outside the counted jobs, steal time that explains a miss) adds a
//! caveat to the activity; [`judge`](crate::verdict::judge) applies it in one place.

use serde::{Deserialize, Serialize};
use surety_units::Nanos;

use super::{ActivityRecord, Disturbance, Evidence, Record};
use crate::promise::{Bound, Comparison, Metric, Promise};
use crate::workload::Workload;
use crate::workload::rarest::Rare;

/// What a caveat does to the verdicts of its activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Neither kept nor broken can be said: undecided.
    Withholds,
    /// A disturbance of the run explains a miss: broken becomes undecided, kept stays.
    Excuses,
    /// The run was too short to see what may break it: kept becomes undecided, broken stays, and a proof may decide.
    TooShort,
    /// The run was too short for a share: it begins and ends inside server periods, and a broken share becomes undecided.
    TooShortForShare,
}

impl Effect {
    /// Whether a longer run would be without it; a proof may decide what it leaves open.
    pub fn is_of_length(self) -> bool {
        matches!(self, Effect::TooShort | Effect::TooShortForShare)
    }
}

/// What speaks against a verdict on an activity's counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    /// What it does to a verdict.
    pub effect: Effect,
    /// What was seen and what to do, in one sentence.
    pub because: String,
}

impl Caveat {
    /// No verdict can be given because of this.
    pub fn withholds(because: impl Into<String>) -> Caveat {
        Caveat { effect: Effect::Withholds, because: because.into() }
    }

    /// The run was too short to say kept because of this.
    pub fn too_short(because: impl Into<String>) -> Caveat {
        Caveat { effect: Effect::TooShort, because: because.into() }
    }

    /// A miss is explained by this.
    pub fn excuses(because: impl Into<String>) -> Caveat {
        Caveat { effect: Effect::Excuses, because: because.into() }
    }
}

impl ActivityRecord {
    /// Why no verdict on its counts may be given, where that is so.
    pub fn withheld(&self) -> Option<&Caveat> {
        self.caveats.iter().find(|caveat| caveat.effect == Effect::Withholds)
    }
}

/// How often an activity has to act in a run that shall show what it does to others.
const OCCURRENCES: i64 = 10;

/// A disturbance takes at least this long from an activation that it makes late.
const DISTURBED_MIN: Nanos = Nanos::MILLISECOND;

impl Record {
    /// Adds what the run itself and its workload say against verdicts: time that others took from its CPUs and that
    /// explains the misses, and activities that act too rarely for the run's length. Those of the length are found anew.
    ///
    /// A record of several runs says how long one of them was: all begin alike.
    pub fn add_caveats(&mut self, workload: &Workload, one: Option<Nanos>) {
        let (disturbance, cpus) = (self.in_force.disturbance, self.in_force.cpus.len());
        for activity in &mut self.activities {
            activity.caveats.retain(|caveat| !caveat.effect.is_of_length());
            let Some(duration) = self.duration else { continue };
            activity.caveats.extend(begins_inside(activity, workload, cpus));
            let excuse = disturbance.and_then(|d| excuse(activity, d, duration, cpus));
            activity.caveats.extend(excuse.filter(|excuse| !activity.caveats.contains(excuse)));
            activity.caveats.extend(rarer(activity, workload, (duration, one.unwrap_or(duration))));
        }
    }
}

/// Whether what others took from the CPUs explains the misses of an activity.
fn excuse(activity: &ActivityRecord, taken: Disturbance, duration: Nanos, cpus: usize) -> Option<Caveat> {
    let counted = activity.promised.iter().filter_map(|promised| match &promised.evidence {
        Evidence::Counted(outside) => Some(outside.failures()),
        _ => None,
    });
    let outside = counted.max().unwrap_or(0).max(activity.missed);
    let time = Nanos::from_f64_rounded((taken.others + taken.stolen) * duration.get() as f64 * cpus as f64);
    let is_long = outside > 0 && time.div_floor(DISTURBED_MIN).unsigned_abs() >= outside;
    (taken.worst() > Disturbance::LIMIT || is_long).then(|| {
        Caveat::excuses(format!(
            "others and the hypervisor took {time} from the CPUs of the run, which may explain it: repeat it on a quiet \
             machine"
        ))
    })
}

/// A share below what is promised, in a window as short as leaves it to where in the server periods it begins and ends.
///
/// Of n periods as long as the window n - 1 may lie inside it, and on the tick one budget more can be paid back in it.
fn begins_inside(activity: &ActivityRecord, workload: &Workload, cpus: usize) -> Option<Caveat> {
    let task = workload.tasks.iter().find(|task| task.name == activity.name)?;
    let (reservation, threads) = (task.reservation?, i64::from(task.instances.on(cpus as u32)));
    let share = activity.share.as_ref().filter(|share| share.span.is_positive())?;
    let budgets = (share.span.div_floor(reservation.period) - 2).max(0);
    let owed = (reservation.runtime * budgets * threads).get() as f64 / share.span.get() as f64;
    let in_the_long_run = reservation.bandwidth().as_f64() * threads as f64;
    let explains = |promise: &Promise| match (promise.metric, promise.bound) {
        (Metric::Share, Bound::Share(least)) => {
            let asks_for_more = matches!(promise.comparison, Comparison::AtLeast | Comparison::Above);
            asks_for_more && in_the_long_run >= least.as_f64() && share.fraction() >= owed
        }
        _ => false,
    };
    task.promises.iter().any(explains).then(|| Caveat {
        effect: Effect::TooShortForShare,
        because: format!(
            "{} begins and ends inside server periods of {}: in it {:.2} % may be all of the {:.2} % that are reserved",
            share.span,
            reservation.period,
            owed * 100.0,
            in_the_long_run * 100.0
        ),
    })
}

/// What can delay this activity and happens fewer than [`OCCURRENCES`] times in all runs, or less than once in each of them in the
/// mean.
fn rarer(activity: &ActivityRecord, workload: &Workload, (all, one): (Nanos, Nanos)) -> Option<Caveat> {
    let Rare { name, is_work, interval } = workload.rarest_that_delays(&activity.name)?;
    let needed = interval.checked_mul(OCCURRENCES).unwrap_or(Nanos::MAX);
    let times = all.div_floor(interval.max(Nanos::new(1)));
    let what = match (is_work, name == activity.name) {
        (false, _) => format!("`{name}` acts"),
        (true, false) => format!("`{name}` has a long job"),
        (true, true) => "it has a long job".to_owned(),
    };
    if needed > all {
        return Some(Caveat::too_short(format!(
            "{what} every {interval} in the mean, about {times} times in the run: {needed} would show what it does \
             (--for {needed})"
        )));
    }
    (interval > one).then(|| {
        Caveat::too_short(format!(
            "{what} every {interval} in the mean, and each run of {one} begins alike: longer ones would show what it does \
             (--for {interval})"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::record::{Basis, InForce, Promised, Share};
    use crate::reservation::Reservation;
    use crate::verdict::{Outcome, judge};
    use crate::workload::ActivityKind;
    use crate::workload::Task;
    use surety_stats::Failures;
    use surety_units::CpuSet;

    fn record_of(activity: ActivityRecord, seconds: i64, disturbance: Option<Disturbance>) -> Record {
        Record {
            world: "host".to_owned(),
            reserved: false,
            seed: None,
            duration: Some(Nanos::from_secs(seconds)),
            in_force: InForce { cpus: CpuSet::first(1), disturbance, ..InForce::default() },
            degraded: Vec::new(),
            activities: vec![activity],
            trace: None,
            hash: None,
        }
    }

    /// 30.3 ms in every 100 ms are promised as 30 %: 3 s may hold 28 whole budgets and what is paid back.
    #[test]
    fn a_share_just_below_the_promise_in_a_short_window_is_undecided() {
        let ms = Nanos::from_millis;
        let judged = |runtime: i64, used: i64, seconds: i64| {
            let mut task = Task::periodic("spin", ms(100), TimeDistribution::Constant(ms(1)));
            task.promises = vec![Promise::parse("share >= 30%").unwrap()];
            task.reservation = Some(Reservation::implicit(Nanos::from_micros(runtime), ms(100)));
            let mut activity = ActivityRecord::new("spin", ActivityKind::Task, Basis::Sample);
            let share = Share { threads: vec![(ms(used), None)], span: Nanos::from_secs(seconds) };
            let evidence = Evidence::Value { value: share.fraction(), of_demand: None };
            activity.promised = Promised::all(&task.promises, |_| evidence.clone());
            activity.share = Some(share);
            let workload = Workload { tasks: vec![task], ..Workload::default() };
            let mut record = record_of(activity, seconds, None);
            record.add_caveats(&workload, None);
            let verdict = judge(&record.activities[0]).remove(0);
            (verdict.outcome, verdict.is_withheld)
        };
        for (runtime, used, seconds, outcome) in [
            (30_300, 890, 3, Outcome::Undecided),
            // Less than any window of 3 s is owed; or as much in ten times the time.
            (30_300, 840, 3, Outcome::Broken),
            (30_300, 8_900, 30, Outcome::Broken),
            // What is reserved is too little in the long run.
            (29_500, 890, 3, Outcome::Broken),
        ] {
            // A proof of the long run may decide it.
            assert_eq!(judged(runtime, used, seconds), (outcome, false), "{runtime} {used} {seconds}");
        }
    }

    #[test]
    fn what_explains_a_miss_and_what_acts_too_rarely() {
        let ms = Nanos::from_millis;
        let task = |name: &str, period| Task::periodic(name, ms(period), TimeDistribution::Constant(ms(1)));
        let workload =
            Workload { tasks: vec![task("player", 20), task("backup", 3_000)], ..Workload::default() };
        // A part of a CPU taken, activations outside, seconds, the effects.
        for (stolen, outside, seconds, effects) in [
            (0.0, 1, 10, vec![Effect::TooShort]),
            // 100 ms explain one miss, not 300; more than 2 % explain any.
            (0.01, 1, 10, vec![Effect::Excuses, Effect::TooShort]),
            (0.01, 300, 10, vec![Effect::TooShort]),
            (0.03, 400, 10, vec![Effect::Excuses, Effect::TooShort]),
            (0.0, 0, 30, vec![]),
            (0.01, 0, 30, vec![]),
        ] {
            let mut player = ActivityRecord::new("player", ActivityKind::Task, Basis::Sample);
            let evidence = Evidence::Counted(Failures::unordered(outside, 500));
            let promise = Promise::parse("response <= 40ms").unwrap();
            player.promised = vec![Promised { promise, evidence }];
            let taken = Disturbance { others: 0.0, stolen };
            let mut record = record_of(player, seconds, Some(taken));
            record.add_caveats(&workload, None);
            record.add_caveats(&workload, None);
            let caveats = &record.activities[0].caveats;
            let found: Vec<Effect> = caveats.iter().map(|c| c.effect).collect();
            assert_eq!(found, effects, "{stolen} {outside} {seconds}: {caveats:?}");
            // A longer run of the same, or several in one, shows it.
            record.duration = Some(Nanos::from_secs(30));
            record.add_caveats(&workload, None);
            assert!(!record.activities[0].caveats.iter().any(|c| c.effect == Effect::TooShort));
        }
    }
}
