//! What this machine can reserve for a program: a share of a CPU where its jobs are not known ([`promised`]), a response where they are
//! ([`keeps_response`]).
//!
//! A share is what it used and a tenth more, or, of one that never waits and so always wants more, what it got; at most half of the CPUs, and never more
//! than a plan for this machine reserves. The last is asked of the planner itself, with the program divided into its threads as
//! `surety guarantee` divides it: what the kernel admits, what others have reserved, the fair server, overruns and the plan's
//! own margin are all in its answer.

use std::collections::BTreeMap;

use surety_model::distribution::TimeDistribution;
use surety_model::platform::{OtherReservation, Platform};
use surety_model::promise::Promise;
use surety_model::record::{ActivityRecord, Basis, Record, ThreadSeen};
use surety_model::workload::{ActivityKind, Release, Task, TaskBody, ThreadMatch, ThreadRole, Workload};
use surety_plan::{PlanOptions, plan};
use surety_session::division::{divide, without_wholes};
use surety_units::Nanos;

/// A share that is promised is so much more than what was used.
const MARGIN: f64 = 1.1;
/// What floating point may add to a whole per cent.
const ERROR: f64 = 1e-6;
/// It is at most this part of the CPUs: half is left for what else runs.
const MOST: f64 = 0.5;

/// A program that was watched.
pub struct Program<'a> {
    /// The task it becomes, without a promise.
    pub task: &'a Task,
    pub threads: &'a [ThreadSeen],
    /// When the jobs of its threads come, as far as that is known.
    pub releases: &'a BTreeMap<ThreadRole, Release>,
    /// Of one CPU, all of its threads together.
    pub used: f64,
    /// Whether the thread that does its work never waits.
    pub is_endless: bool,
}

/// What is promised.
#[derive(Debug, PartialEq, Eq)]
pub struct Share {
    /// Of one CPU.
    pub percent: u32,
    /// Why it is not what was used and a margin; empty where it is.
    pub notes: Vec<String>,
}

/// The share for a program on this machine, with what others have reserved there.
pub fn promised(program: &Program<'_>, platform: &Platform) -> Share {
    let percent = program.used * 100.0;
    let wished = match program.is_endless {
        true => (percent + ERROR).floor(),
        false => (percent * MARGIN - ERROR).ceil(),
    };
    let half = MOST * f64::from(platform.cpus.max(1)) * 100.0;
    let wished = wished.clamp(1.0, half.max(1.0)) as u32;
    let (mut percent, mut notes) = (wished, Vec::new());
    let alone = Platform { others: Vec::new(), ..platform.clone() };
    let of = match reserved(program, 1, platform) {
        Ok(()) => platform,
        Err(why) => {
            notes.push(format!("`guarantee` may refuse any share of it: {why}."));
            &alone
        }
    };
    if let Some(most) = most_reserved(program, wished, of).filter(|most| *most < wished) {
        percent = most;
        notes.push(format!(
            "It used {:.2} % of a CPU, and at most {most} % can be reserved for it: {}.",
            program.used * 100.0,
            limits(of)
        ));
    }
    if program.is_endless || f64::from(percent) >= half {
        notes.push("It takes what it gets; the share is a start: write what it needs.".to_owned());
    }
    Share { percent, notes }
}

/// The largest share up to this one that is reserved; `None`: none is.
fn most_reserved(program: &Program<'_>, wished: u32, platform: &Platform) -> Option<u32> {
    let (mut low, mut high) = (0, wished + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if reserved(program, middle, platform).is_ok() { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}

/// Whether a plan keeps this share, of each thread its part; `Err`: why not.
fn reserved(program: &Program<'_>, percent: u32, platform: &Platform) -> Result<(), String> {
    let promise = Promise::parse(&in_words(percent)).expect("a promise made of a number reads");
    let task = Task { promises: vec![promise], ..program.task.clone() };
    let threads = program.threads.to_vec();
    let seen =
        ActivityRecord { threads, ..ActivityRecord::new(&task.name, ActivityKind::Task, Basis::Sample) };
    let record = Record { activities: vec![seen], ..Record::default() };
    let mut workload = Workload { tasks: vec![task], ..Workload::default() };
    let of_program = divide(&mut workload, &record).refusals;
    let mut workload = without_wholes(&workload);
    for task in &mut workload.tasks {
        let role = match &task.body {
            TaskBody::Match(ThreadMatch::Of { role, .. }) => Some(role),
            TaskBody::Command(program) => program.worker.as_ref(),
            _ => None,
        };
        task.release = role.and_then(|role| program.releases.get(role)).copied().unwrap_or_default();
    }
    let options = PlanOptions::new(platform.clone());
    let of_plan = plan(&workload, &BTreeMap::new(), &options).refusals;
    of_program.into_iter().chain(of_plan).next().map_or(Ok(()), |refusal| Err(refusal.because))
}

/// Whether a plan keeps jobs of this work within the interval at which they come; `Err`: why not.
pub fn keeps_response(interval: Nanos, work: Nanos, platform: &Platform) -> Result<(), String> {
    let promise = format!("response <= {}", interval.to_exact_string());
    let mut task = Task::periodic("job", interval, TimeDistribution::Constant(work));
    task.promises = vec![Promise::parse(&promise).map_err(|error| error.to_string())?];
    let workload = Workload { tasks: vec![task], ..Workload::default() };
    let made = plan(&workload, &BTreeMap::new(), &PlanOptions::new(platform.clone()));
    made.refusals.into_iter().next().map_or(Ok(()), |refusal| Err(refusal.because))
}

/// The promise of a share as a workload has it.
pub fn in_words(percent: u32) -> String {
    format!("share >= {percent}%")
}

/// What keeps a reservation below a whole CPU on this machine.
fn limits(platform: &Platform) -> String {
    let most = if platform.deadline_unlimited { "all".to_owned() } else { platform.deadline_cap.to_string() };
    let mut limits = vec![format!("the kernel lets reservations have {most} of each CPU")];
    if let Some(server) = platform.booked_for_server() {
        limits.push(format!("its fair server has {server} of that"));
    }
    if let Some(server) = platform.booked_for_ext() {
        limits.push(format!("its server of sched_ext has {server} of that"));
    }
    let booked = |other: &OtherReservation| other.reservation.bandwidth().as_f64() * f64::from(other.threads);
    let others: f64 = platform.others.iter().map(booked).sum();
    if others > 0.0 {
        limits.push(format!("others have reserved {:.2} % of a CPU", others * 100.0));
    }
    let mut margins = vec!["reserves a little more than it promises"];
    if platform.fair_server.is_some() {
        margins.push("leaves the fair server its time in any window");
    }
    format!("{}, and a plan {}", limits.join(", "), margins.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::reservation::Reservation;
    use surety_model::workload;
    use surety_units::Tid;

    fn task() -> Task {
        let hint = Task::periodic("enc", Nanos::SECOND, TimeDistribution::Constant(Nanos::ZERO));
        let body = TaskBody::Command(workload::Program::new("enc"));
        Task { body, release: Release::Unspecified, ..hint }
    }

    fn threads(runs: &[(&str, u32, i64)]) -> Vec<ThreadSeen> {
        let seen = |(number, (comm, rank, ms)): (usize, &(&str, u32, i64))| ThreadSeen {
            tid: Tid(number as i32 + 1),
            role: ThreadRole { comm: (*comm).to_owned(), rank: *rank },
            run: Nanos::from_millis(*ms),
        };
        runs.iter().enumerate().map(seen).collect()
    }

    fn share(threads: &[ThreadSeen], used: f64, is_endless: bool, platform: &Platform) -> Share {
        let releases = BTreeMap::new();
        promised(&Program { task: &task(), threads, releases: &releases, used, is_endless }, platform)
    }

    /// 100 % was promised once to what never waits, and refused on every machine.
    #[test]
    fn no_more_is_promised_than_the_machine_reserves() {
        let hog = threads(&[("hog", 0, 4_900)]);
        let quiet = Platform::linux_6_18(2);
        let most = share(&hog, 0.98, true, &quiet);
        assert!((80..90).contains(&most.percent), "{most:?}");
        assert!(most.notes[0].contains("95.00 % of each CPU"), "{most:?}");
        // One per cent more would be refused.
        let releases = BTreeMap::new();
        let program =
            Program { task: &task(), threads: &hog, releases: &releases, used: 0.98, is_endless: true };
        assert_eq!(reserved(&program, most.percent, &quiet), Ok(()));
        assert!(reserved(&program, most.percent + 1, &quiet).is_err());
        // What others have reserved is not there, and what a machine without limits has is.
        let beside = |ms| {
            let other = Reservation::implicit(Nanos::from_millis(ms), Nanos::from_millis(100));
            let others = vec![OtherReservation::unknown("other".to_owned(), other)];
            share(&hog, 0.98, true, &Platform { others, ..Platform::linux_6_18(1) })
        };
        let less = beside(60);
        assert!((1..30).contains(&less.percent), "{less:?}");
        assert!(less.notes[0].contains("others have reserved 60.00 % of a CPU"), "{less:?}");
        // Where nothing is left it is what will be when they are gone.
        let none = beside(90);
        assert_eq!(none.percent, 50, "{none:?}");
        assert!(none.notes[0].contains("may refuse any share"), "{none:?}");
        // Without a fair server nothing is kept for one.
        let bare = share(&hog, 0.98, true, &Platform { fair_server: None, ..quiet.clone() });
        assert!(bare.percent > most.percent && !bare.notes[0].contains("server"), "{bare:?}");
    }

    #[test]
    fn what_fits_is_what_was_used() {
        let quiet = Platform::linux_6_18(2);
        let one = threads(&[("a", 0, 500)]);
        assert_eq!(share(&one, 0.10, false, &quiet), Share { percent: 11, notes: Vec::new() });
        // Of what always wants more it is what it got beside others.
        let beside_others = share(&one, 0.4986, true, &quiet);
        assert_eq!((beside_others.percent, beside_others.notes.len()), (49, 1));
        // Half of the CPUs is left, and each thread is reserved by itself.
        let four = threads(&[("w", 0, 500), ("w", 1, 500), ("w", 2, 500), ("w", 3, 500)]);
        assert_eq!(share(&four, 1.98, false, &quiet).percent, 100);
        assert_eq!(share(&one, 0.7, false, &Platform::linux_6_18(1)).percent, 50);
        // One thread has most of the work: its own limit is that of the whole.
        let uneven = threads(&[("a", 0, 4_700), ("b", 0, 470)]);
        let most = share(&uneven, 1.034, false, &quiet).percent;
        assert!((85..=95).contains(&most), "{most}");
    }

    /// Threads that cannot be reserved at all are no reason for a smaller share.
    #[test]
    fn what_is_refused_at_any_share_keeps_what_it_used() {
        let body = TaskBody::Match(ThreadMatch::Process(7));
        let turns = threads(&[("cc1", 0, 2_000), ("cc1", 0, 2_000), ("sh", 0, 500)]);
        let releases = BTreeMap::new();
        let task = Task { body, ..task() };
        let program =
            Program { task: &task, threads: &turns, releases: &releases, used: 0.9, is_endless: false };
        let share = promised(&program, &Platform::linux_6_18(2));
        assert_eq!((share.percent, share.notes.len()), (99, 1));
        assert!(share.notes[0].contains("ran one after another"), "{share:?}");
    }
}
