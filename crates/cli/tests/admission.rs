//! What `analysis::admission` foretells against what the running kernel answers, one `sched_setattr` after the other:
//! malformed parameters, threads confined to part of the machine, more than there is, reservations changed, left and taken
//! again by several threads at once. A test target of its own: nobody else of ours reserves meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use surety_analysis::RootDomain;
use surety_analysis::admission::Request;
use surety_host::platform_of;
use surety_kernel::deadline::{admissible_bandwidth, total_held};
use surety_kernel::facts::MachineFacts;
use surety_kernel::kernel::SleepingThread;
use surety_kernel::sched::{RawSchedAttr, write_raw};
use surety_kernel::{Kernel, RealKernel, SchedPolicy};
use surety_model::reservation::Reservation;
use surety_stats::Pcg;
use surety_units::{CpuSet, Nanos};

/// An ordinary user, as `setpriv` takes it.
const NOBODY: &str = "65534";
const SCHED_DEADLINE: u32 = 6;
/// Requests whose answers are compared.
const REQUESTS: u32 = 400;
/// More are made until each answer has come so often, up to a limit.
const OF_EACH: u32 = 10;
const REQUESTS_MAX: u32 = 4_000;
/// Threads that ask.
const THREADS: usize = 4;

/// A thread that only sleeps, with what it has.
struct Asker {
    thread: SleepingThread,
    affinity: CpuSet,
    current: Option<Reservation>,
}

/// The account as we keep it, with the threads that are in it.
struct Ledger {
    kernel: RealKernel,
    domain: RootDomain,
    askers: Vec<Asker>,
}

impl Ledger {
    /// What others have booked is what is not admitted now.
    fn open(kernel: RealKernel) -> Result<Ledger, String> {
        let facts = MachineFacts::read(&kernel);
        let online = kernel.online_cpus().map_err(|e| e.to_string())?;
        let mut domain = RootDomain::of(&platform_of(&facts));
        domain.span = online;
        let free = admissible_bandwidth(&kernel).map_err(|e| e.to_string())?;
        domain.admitted = domain
            .available()
            .checked_sub(free.0)
            .ok_or_else(|| format!("{} are free, more than the {} there are", free.0, domain.available()))?;
        let mut askers = Vec::new();
        for _ in 0..THREADS {
            let thread = kernel.sleeping_thread().map_err(|e| e.to_string())?;
            surety_kernel::transition::set_once(&kernel, thread.tid, &SchedPolicy::DEFAULT.into())
                .map_err(|e| e.to_string())?;
            kernel.set_affinity(thread.tid, &online).map_err(|e| e.to_string())?;
            askers.push(Asker { thread, affinity: online, current: None });
        }
        Ok(Ledger { kernel, domain, askers })
    }

    /// Whether nobody else has booked or given back meanwhile.
    fn is_undisturbed(&self) -> bool {
        admissible_bandwidth(&self.kernel).is_ok_and(|free| free.0 == self.domain.free())
    }

    /// Begins again after a disturbance.
    ///
    /// Where somebody reads the limits while a thread that left has bandwidth booked until its zero-lag time, the kernel
    /// counts anew without it and subtracts it all the same when that time comes: it then admits more than there is, until it
    /// counts anew once more. Reading the limits has it do so.
    fn resume(&mut self) {
        let _ = self.kernel.read_text(Path::new("/proc/sys/kernel/sched_rt_runtime_us"));
        if let Ok(free) = admissible_bandwidth(&self.kernel) {
            let own: u64 =
                self.askers.iter().filter_map(|a| a.current).map(|r| r.bandwidth().to_kernel()).sum();
            self.domain.admitted = self.domain.available().saturating_sub(free.0).max(own);
        }
    }

    /// A thread leaves the class, in the way that leaks nothing.
    fn leave(&mut self, who: usize) {
        let asker = &mut self.askers[who];
        if let Some(held) = asker.current.take() {
            surety_kernel::transition::set_once(&self.kernel, asker.thread.tid, &SchedPolicy::DEFAULT.into())
                .unwrap();
            self.domain.admitted -= held.bandwidth().to_kernel();
        }
    }

    /// Asks, and books what the kernel granted. Returns what was foretold, in words, and what the kernel said.
    fn ask(&mut self, who: usize, request: &Request) -> (i32, String, i32) {
        let answer = self.domain.answer(request);
        let foretold = self.domain.errno(request);
        let raw = RawSchedAttr {
            sched_policy: SCHED_DEADLINE,
            sched_flags: request.flags,
            sched_priority: request.priority,
            sched_runtime: request.runtime,
            sched_deadline: request.deadline,
            sched_period: request.period,
            ..RawSchedAttr::default()
        };
        let asker = &mut self.askers[who];
        let said = write_raw(asker.thread.tid, &raw).err().unwrap_or(0);
        if said == 0 {
            let old = asker.current.map_or(0, |r| r.bandwidth().to_kernel());
            let time = |ns: u64| Nanos::new(i64::try_from(ns).expect("the kernel took it"));
            let period = if request.period == 0 { request.deadline } else { request.period };
            let granted = Reservation {
                deadline: time(request.deadline),
                reclaim: request.flags & 2 != 0,
                ..Reservation::implicit(time(request.runtime), time(period))
            };
            self.domain.admitted = self.domain.admitted - old + granted.bandwidth().to_kernel();
            asker.current = Some(granted);
        }
        (foretold, answer.map_or_else(|e| e.to_string(), |_| "admitted".to_owned()), said)
    }
}

/// What threads of the machine hold and what is still admitted, in kernel units: all of it, less what leaked.
fn whole(kernel: &RealKernel) -> u64 {
    admissible_bandwidth(kernel).unwrap().0 + total_held(kernel).unwrap().0
}

/// A request by chance: mostly sensible, often too much, sometimes wrong.
fn draw(chance: &mut Pcg, free: u64) -> Request {
    const EDGES: [u64; 12] = [
        0,
        1,
        1_023,
        1_024,
        99_999,
        100_000,
        100_001,
        4_194_304_000,
        4_194_304_001,
        1 << 62,
        1 << 63,
        u64::MAX,
    ];
    let longest = if chance.below(2) == 0 { 100_000_000 } else { 4_194_204_001 };
    let period = 100_000 + chance.below(longest);
    let deadline = if chance.below(3) == 0 { 1 + chance.below(period) } else { period };
    // Around what is left, so that both answers are near: the kernel rounds runtime * 2^20 / period down.
    let brink = ((u128::from(free) * u128::from(period)) >> 20) as u64;
    let runtime = match chance.below(5) {
        0 | 1 => (brink + chance.below(2_000)).saturating_sub(1_000),
        2 => chance.below(period / 10 + 1),
        _ => 1_024 + chance.below(deadline),
    };
    let mut request = Request {
        runtime,
        deadline,
        period: if deadline == period && chance.below(3) == 0 { 0 } else { period },
        flags: [0, 0, 0, 1, 2, 4, 7][chance.below(7) as usize],
        priority: 0,
        privileged: true,
        affinity: CpuSet::EMPTY,
        current: None,
    };
    if chance.below(4) == 0 {
        let edge = EDGES[chance.below(EDGES.len() as u64) as usize];
        match chance.below(5) {
            0 => request.runtime = edge,
            1 => request.deadline = edge,
            2 => request.period = edge,
            3 => request.flags = [0x80, 0x100, 1 << 63, 0x1000_0000][chance.below(4) as usize],
            _ => request.priority = 1 + chance.below(100) as u32,
        }
    }
    request
}

fn is_root() -> bool {
    RealKernel::new().effective_user() == 0
}

#[test]
fn the_kernel_answers_every_request_as_foretold() {
    if !is_root() {
        return eprintln!("SKIPPED: only root may ask for SCHED_DEADLINE");
    }
    let mut ledger = match Ledger::open(RealKernel::new()) {
        Ok(ledger) => ledger,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let before = whole(&ledger.kernel);
    let seed = u64::from(std::process::id());
    let mut chance = Pcg::for_job(seed, 0, 0);
    let (mut compared, mut changes, mut disturbed) = (0, 0, 0);
    let mut by_errno = BTreeMap::<i32, u32>::new();
    let online = ledger.domain.span;
    let is_thin = |counts: &BTreeMap<i32, u32>| {
        let of = |errno| counts.get(&errno).copied().unwrap_or(0);
        [0, 16, 22].iter().any(|errno| of(*errno) < OF_EACH) || (online.len() > 1 && of(1) < OF_EACH)
    };
    while compared < REQUESTS || (compared < REQUESTS_MAX && is_thin(&by_errno)) {
        let who = chance.below(THREADS as u64) as usize;
        if chance.below(4) == 0 {
            ledger.leave(who);
        }
        // A thread in the class keeps its CPUs: the kernel would refuse to confine it.
        if ledger.askers[who].current.is_none() {
            let part = online.iter().nth(chance.below(online.len() as u64) as usize).map(CpuSet::single);
            let affinity = part.filter(|_| chance.below(4) == 0).unwrap_or(online);
            let asker = &mut ledger.askers[who];
            ledger.kernel.set_affinity(asker.thread.tid, &affinity).unwrap();
            asker.affinity = affinity;
        }
        let Asker { affinity, current, .. } = ledger.askers[who];
        let own = current.map_or(0, |r| r.bandwidth().to_kernel());
        let mut request =
            Request { affinity, current, ..draw(&mut chance, ledger.domain.free().saturating_add(own)) };
        if let (Some(same), 0) = (current, chance.below(5)) {
            // What it has already, or the same bandwidth in another shape.
            let times = 1 + chance.below(2);
            request.runtime = same.runtime.get_unsigned() * times;
            request.deadline = same.deadline.get_unsigned() * times;
            request.period = same.period.get_unsigned() * times;
        }
        let (foretold, words, said) = ledger.ask(who, &request);
        if foretold != said && !ledger.is_undisturbed() {
            disturbed += 1;
            assert!(disturbed < 200, "the machine is never quiet enough to ask");
            ledger.resume();
            continue;
        }
        assert_eq!(
            foretold, said,
            "number {compared} (seed {seed}): {request:?}\non {:?}\nforetold: {words}",
            ledger.domain
        );
        compared += 1;
        changes += u32::from(current.is_some());
        *by_errno.entry(said).or_default() += 1;
    }
    (0..THREADS).for_each(|who| ledger.leave(who));
    if disturbed > 0 {
        ledger.resume();
    }
    // Others may take or give back a reservation between the two readings.
    let mut after = whole(&ledger.kernel);
    for _ in 0..50 {
        if after == before {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        after = whole(&ledger.kernel);
    }
    assert_eq!(after, before, "bandwidth held or free, after and before (seed {seed})");
    let counts = by_errno.iter().fold(String::new(), |mut text, (errno, count)| {
        let _ = write!(text, "{errno}: {count}  ");
        text
    });
    eprintln!(
        "{compared} requests answered as foretold, {changes} of them of threads in the class; by errno: {counts}; {disturbed} \
         given up because others booked meanwhile; {before} units held or free before and after"
    );
    assert!(!is_thin(&by_errno), "an answer hardly came: {by_errno:?} (seed {seed})");
}

/// Parameters come before privilege: an ordinary user hears EINVAL of what is wrong and EPERM of the rest, a full machine and
/// a confined thread included.
#[test]
fn an_ordinary_user_is_told_what_is_wrong_before_what_is_forbidden() {
    if !is_root() {
        return eprintln!("SKIPPED: only root may become another user for a moment");
    }
    let kernel = RealKernel::new();
    let online = kernel.online_cpus().unwrap();
    let domain = RootDomain::of(&platform_of(&MachineFacts::read(&kernel)));
    for (runtime, deadline, period) in [
        (1_000_000, 10_000_000, 10_000_000),
        (9_900_000, 10_000_000, 10_000_000),
        (1_000, 10_000_000, 10_000_000),
        (5_000_000, 4_000_000, 10_000_000),
        (50_000, 99_999, 99_999),
        (1_000_000, 4_194_304_001, 4_194_304_001),
    ] {
        let wanted = Reservation {
            deadline: Nanos::new(deadline),
            ..Reservation::implicit(Nanos::new(runtime), Nanos::new(period))
        };
        let request = Request { privileged: false, ..Request::of(&wanted, online) };
        let output = Command::new("setpriv")
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "chrt", "-d"])
            .args(["-T", &runtime.to_string(), "-D", &deadline.to_string(), "-P", &period.to_string()])
            .args(["0", "true"])
            .env("LC_ALL", "C")
            .output();
        let said = match output {
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(why) => return eprintln!("SKIPPED: setpriv: {why}"),
        };
        let word = if domain.errno(&request) == 22 { "Invalid argument" } else { "Operation not permitted" };
        assert!(said.contains(word), "{wanted:?}: the kernel said {said:?}, {word} was foretold");
    }
}
