//! How much SCHED_DEADLINE bandwidth the machine still admits, how much it should, and how to mend the difference.
//!
//! Admission (`__dl_overflow` in `kernel/sched/deadline.c`) compares a sum over the root domain with its
//! capacity, in fixed point with 20 fraction bits. The sum is not readable anywhere, so it is found from outside:
//! by the largest reservation that is still accepted. When that is less than capacity minus what threads hold,
//! bandwidth leaked ([`crate::transition`] says how) and stays lost until the kernel counts anew.

use std::path::Path;

use serde::Serialize;
use surety_units::bandwidth::KERNEL_BANDWIDTH_SHIFT;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::error::{KernelError, Operation};
use crate::kernel::{Kernel, SleepingThread};
use crate::root_domains::RootDomains;
use crate::sched::{SchedAttr, SchedPolicy};
use crate::servers::{Charge, Charged, DeadlineServers};
use crate::transition::set_once;

/// Bandwidth in the kernel's fixed point: 2^20 is one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct KernelBandwidth(pub u64);

impl KernelBandwidth {
    /// As a share of one CPU, for printing.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / (1_u64 << KERNEL_BANDWIDTH_SHIFT) as f64
    }
}

/// A unit of bandwidth is this much runtime in a period of 2^30 ns, so that any number of units is an exact
/// reservation the kernel accepts.
const UNIT_RUNTIME: i64 = 1024;
const PROBE_PERIOD: Nanos = Nanos::new(UNIT_RUNTIME << KERNEL_BANDWIDTH_SHIFT);
/// No single thread asks for more: 0.9 of a CPU.
const HOLDER_MAX: u64 = (9 << KERNEL_BANDWIDTH_SHIFT) / 10;
/// The share of each CPU for real-time and deadline threads unless set otherwise: 0.95.
const DEFAULT_LIMIT: (i64, i64) = (950_000, 1_000_000);

fn reservation(units: u64) -> SchedAttr {
    let runtime = Nanos::new(UNIT_RUNTIME * i64::try_from(units).expect("at most 0.9 of 2^20 units"));
    SchedPolicy::deadline(runtime, PROBE_PERIOD, PROBE_PERIOD).into()
}

/// How much bandwidth the machine still admits, exactly: the sum over its root domains.
///
/// Threads that sleep take all of it for a few milliseconds and give it back without a leak; meanwhile a
/// reservation somebody else asks for is refused.
///
/// # Errors
/// EPERM without CAP_SYS_NICE, or when the caller's cpuset does not span a root domain.
pub fn admissible_bandwidth(kernel: &dyn Kernel) -> Result<KernelBandwidth, KernelError> {
    let mut holders = Holders { kernel, sleeping: Vec::new() };
    let domains = domains(kernel)?;
    let mut total = 0;
    for cpus in &domains {
        // A root domain admits less than one whole CPU for each of its CPUs; the bound only ends the loop.
        for _ in 0..2 * cpus.len() + 1 {
            let taken = holders.take_most(cpus, domains.len() > 1)?;
            total += taken;
            if taken < HOLDER_MAX {
                break;
            }
        }
    }
    holders.release()?;
    Ok(KernelBandwidth(total))
}

/// The root domains that admit threads; all online CPUs where none is known to.
fn domains(kernel: &dyn Kernel) -> Result<Vec<CpuSet>, KernelError> {
    let domains = RootDomains::read(kernel).admitting();
    if domains.is_empty() { Ok(vec![kernel.online_cpus()?]) } else { Ok(domains) }
}

/// The threads that hold bandwidth, which leave the class however the search ends.
struct Holders<'k> {
    kernel: &'k dyn Kernel,
    sleeping: Vec<SleepingThread>,
}

impl Holders<'_> {
    /// One more holder takes the largest reservation that is accepted; returns its units. Of several root domains the kernel
    /// asks that of the CPU on which the holder went to sleep, so `apart` has it begin on these.
    fn take_most(&mut self, cpus: &CpuSet, apart: bool) -> Result<u64, KernelError> {
        let holder = if apart { self.made_on(cpus)? } else { self.kernel.sleeping_thread()? };
        let tid = holder.tid;
        self.sleeping.push(holder);
        // It inherits the caller's policy and affinity.
        set_once(self.kernel, tid, &SchedPolicy::DEFAULT.into())?;
        self.kernel.set_affinity(tid, cpus)?;
        let admits = |units: u64| match set_once(self.kernel, tid, &reservation(units)) {
            Ok(()) => Ok(true),
            Err(error) if error.errno == libc::EBUSY => Ok(false),
            Err(error) => Err(error),
        };
        if admits(HOLDER_MAX)? {
            return Ok(HOLDER_MAX);
        }
        // Invariant: `low` is admitted and held, `high` is not. Nothing is always admitted.
        let (mut low, mut high) = (0, HOLDER_MAX);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if admits(middle)? { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// A holder made while the caller is kept to some CPUs.
    fn made_on(&self, cpus: &CpuSet) -> Result<SleepingThread, KernelError> {
        let before = self.kernel.affinity(Tid(0))?;
        self.kernel.set_affinity(Tid(0), cpus)?;
        let holder = self.kernel.sleeping_thread();
        self.kernel.set_affinity(Tid(0), &before)?;
        holder
    }

    fn release(&mut self) -> Result<(), KernelError> {
        let mut result = Ok(());
        for holder in self.sleeping.drain(..) {
            result = result.and(set_once(self.kernel, holder.tid, &SchedPolicy::DEFAULT.into()));
        }
        result
    }
}

impl Drop for Holders<'_> {
    fn drop(&mut self) {
        // After an error; the error that matters has been returned already.
        let _ = self.release();
    }
}

/// What all root domains admit when no thread holds a reservation.
///
/// Sum over the CPUs of each of the limit (`sched_rt_runtime_us / sched_rt_period_us`, 0.95) less what is booked for the CPU's servers, in
/// kernel units ([`crate::servers::DeadlineServers::booked_on`]), rounded as the kernel rounds. CPUs of unequal capacity count by it
/// (`cap_scale`). `None` when admission is switched off (runtime -1).
pub fn expected_capacity(
    kernel: &dyn Kernel,
    booked_on: &dyn Fn(CpuId) -> u64,
) -> Result<Option<KernelBandwidth>, KernelError> {
    let number = |file: &str| -> Option<i64> {
        kernel.read_text(Path::new(&format!("/proc/sys/kernel/{file}"))).ok()?.trim().parse().ok()
    };
    let runtime = number("sched_rt_runtime_us").unwrap_or(DEFAULT_LIMIT.0);
    let period = number("sched_rt_period_us").unwrap_or(DEFAULT_LIMIT.1);
    if runtime < 0 {
        return Ok(None);
    }
    let ratio = |runtime: i64, period: i64| -> u64 {
        let (runtime, period) = (Nanos::from_micros(runtime), Nanos::from_micros(period));
        surety_units::Bandwidth::of(runtime, period).map_or(0, surety_units::Bandwidth::to_kernel)
    };
    let of_domain = |cpus: &CpuSet| -> u128 {
        let capacity: u64 = cpus.iter().map(|cpu| cpu_capacity(kernel, cpu.0)).sum();
        let limit = (u128::from(ratio(runtime, period)) * u128::from(capacity)) >> 10;
        let charged: u128 = cpus.iter().map(|cpu| u128::from(booked_on(cpu))).sum();
        limit.saturating_sub(charged)
    };
    let all: u128 = domains(kernel)?.iter().map(of_domain).sum();
    Ok(Some(KernelBandwidth(u64::try_from(all).unwrap_or(u64::MAX))))
}

/// A CPU's capacity of 1024.
fn cpu_capacity(kernel: &dyn Kernel, cpu: u32) -> u64 {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
    kernel.read_text(Path::new(&path)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024)
}

/// Whether a thread of this policy holds a reservation. The kernel's frequency threads are in the class with one that is not booked, and a
/// thread that is ending is still in it when its parameters are cleared (`__dl_clear_params` in `kernel/sched/deadline.c`): its period reads as 0.
pub fn is_reservation(kernel: &dyn Kernel, tid: Tid, policy: &SchedPolicy) -> bool {
    matches!(policy, SchedPolicy::Deadline { period, .. } if period.is_positive())
        && !kernel.name(tid).is_ok_and(|name| name.starts_with("sugov:"))
}

/// The reservations that threads of the machine have now. Threads that end meanwhile are left out.
pub fn reservations(kernel: &dyn Kernel) -> Result<Vec<(Tid, SchedPolicy)>, KernelError> {
    let mut held = Vec::new();
    for process in kernel.processes()? {
        for tid in kernel.threads(process).unwrap_or_default() {
            let Ok(attr) = kernel.scheduler(tid) else { continue };
            if is_reservation(kernel, tid, &attr.policy) {
                held.push((tid, attr.policy));
            }
        }
    }
    Ok(held)
}

/// Bandwidth that threads of the machine hold now, thread by thread.
pub fn held_bandwidth(kernel: &dyn Kernel) -> Result<Vec<(Tid, KernelBandwidth)>, KernelError> {
    let booked = |(tid, policy): (Tid, SchedPolicy)| (tid, KernelBandwidth(policy.booked_bandwidth()));
    Ok(reservations(kernel)?.into_iter().map(booked).collect())
}

/// The sum of [`held_bandwidth`].
pub fn total_held(kernel: &dyn Kernel) -> Result<KernelBandwidth, KernelError> {
    Ok(KernelBandwidth(held_bandwidth(kernel)?.iter().map(|(_, bandwidth)| bandwidth.0).sum()))
}

/// What is booked and what is not, at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booked {
    /// What threads hold.
    pub held: KernelBandwidth,
    /// What is still admitted.
    pub admissible: KernelBandwidth,
}

impl Booked {
    /// Reads both, without reading a limit: that would mend a leak, see [`repair_leak`].
    ///
    /// # Errors
    /// As [`admissible_bandwidth`].
    pub fn read(kernel: &dyn Kernel) -> Result<Booked, KernelError> {
        let admissible = admissible_bandwidth(kernel)?;
        Ok(Booked { held: total_held(kernel)?, admissible })
    }

    /// Reads until two readings account for the same, and takes the one that accounts for most.
    ///
    /// What a thread had that left the class is booked until its zero-lag time, and others may book and give back
    /// between the two questions of a reading: neither is a leak.
    ///
    /// # Errors
    /// As [`admissible_bandwidth`].
    pub fn settled(kernel: &dyn Kernel) -> Result<Booked, KernelError> {
        const READINGS: u32 = 10;
        const PAUSE: Nanos = Nanos::from_millis(50);
        let mut last = Booked::read(kernel)?;
        let mut most = last;
        for _ in 1..READINGS {
            kernel.pause(PAUSE);
            let next = Booked::read(kernel)?;
            let is_settled = next.total() == last.total();
            last = next;
            if last.total() > most.total() {
                most = last;
            }
            if is_settled {
                break;
            }
        }
        Ok(most)
    }

    fn total(&self) -> u64 {
        self.held.0 + self.admissible.0
    }
}

/// The state of a machine's bandwidth account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BandwidthAccount {
    /// What an idle machine admits.
    pub capacity: KernelBandwidth,
    /// What threads hold.
    pub held: KernelBandwidth,
    /// What is still admitted.
    pub admissible: KernelBandwidth,
}

impl BandwidthAccount {
    /// Bandwidth booked and held by no thread.
    pub fn leaked(&self) -> KernelBandwidth {
        KernelBandwidth(self.capacity.0.saturating_sub(self.held.0 + self.admissible.0))
    }

    /// What is admitted beyond the capacity.
    ///
    /// Where the accounts are made anew while a thread that left the class is booked until its zero-lag time, the kernel subtracts
    /// that thread once more when the time comes, and admits so much too much until the accounts are made anew again.
    pub fn excess(&self) -> KernelBandwidth {
        KernelBandwidth((self.held.0 + self.admissible.0).saturating_sub(self.capacity.0))
    }
}

/// Which servers a kernel charges, from what it admits: the set with which the capacity of [`expected_capacity`] is what threads hold and
/// what is still admitted, to a thousandth of a CPU.
///
/// `possible`: what the kernel's release and what could be read of it leave open. A set beyond these is taken only where less is booked than
/// they would book, since nothing else makes a kernel admit that much more; where more is booked, a leak looks the same. Sets that book the
/// same count as one, the first possible one.
///
/// # Errors
/// As [`expected_capacity`].
pub fn charged(
    kernel: &dyn Kernel,
    servers: &DeadlineServers,
    possible: &[Charge],
    booked: Booked,
) -> Result<Charged, KernelError> {
    const NEAR: u64 = (1 << KERNEL_BANDWIDTH_SHIFT) / 1000;
    let capacity = |which: Charge| expected_capacity(kernel, &|cpu| servers.booked_on(which, cpu));
    // Each set of servers once, by the capacity that it leaves: the possible ones first.
    let mut open: Vec<(Charge, u64)> = Vec::new();
    let others = servers.sets().into_iter().filter(|which| !possible.contains(which));
    for which in possible.iter().copied().chain(others) {
        let Some(KernelBandwidth(left)) = capacity(which)? else { return Ok(Charged::Untried) };
        if open.iter().all(|(_, known)| *known != left) {
            open.push((which, left));
        }
    }
    let (usual, unusual): (Vec<_>, Vec<_>) =
        open.into_iter().partition(|(which, _)| possible.contains(which));
    let fits = |(_, left): &&(Charge, u64)| left.abs_diff(booked.total()) <= NEAR;
    let most_left = usual.iter().map(|(_, left)| *left).max().unwrap_or(0);
    let seen: Vec<Charge> = usual.iter().filter(fits).map(|(which, _)| *which).collect();
    let less: Vec<Charge> =
        unusual.iter().filter(fits).filter(|(_, left)| *left > most_left).map(|(which, _)| *which).collect();
    let more: Vec<Charge> = unusual.iter().filter(fits).map(|(which, _)| *which).collect();
    Ok(match (seen.as_slice(), less.as_slice(), more.as_slice()) {
        ([only], ..) | ([], [only], _) => Charged::Tried(*only),
        ([], [], []) => Charged::Untried,
        ([], [], several) | ([], several, _) | (several, ..) => Charged::NotObservable(several.to_vec()),
    })
}

/// Takes stock; `None` when admission is switched off. `booked_on` as for [`expected_capacity`].
///
/// What is admitted is measured first: on some kernels *reading* the limits already mends a leak, see
/// [`repair_leak`]. A second stock-taking may therefore find nothing where the first found a leak.
pub fn account(
    kernel: &dyn Kernel,
    booked_on: &dyn Fn(CpuId) -> u64,
) -> Result<Option<BandwidthAccount>, KernelError> {
    account_of(kernel, booked_on, Booked::read(kernel)?)
}

/// The same with what is booked read before.
pub fn account_of(
    kernel: &dyn Kernel,
    booked_on: &dyn Fn(CpuId) -> u64,
    booked: Booked,
) -> Result<Option<BandwidthAccount>, KernelError> {
    let Booked { held, admissible } = booked;
    let capacity = expected_capacity(kernel, booked_on)?;
    Ok(capacity.map(|capacity| BandwidthAccount { capacity, held, admissible }))
}

/// Where version 1 of the cpuset controller is usually mounted.
const CPUSET_V1: &str = "/sys/fs/cgroup/cpuset";
/// Where version 2 of control groups is.
const CGROUP_V2: &str = "/sys/fs/cgroup";

/// Makes the kernel count booked bandwidth anew, which drops what leaked; returns the bandwidth regained.
///
/// Tried first: reading `sched_rt_runtime_us`. The handler of that file (`sched_rt_handler` in
/// `kernel/sched/rt.c`, since 6.15) rebuilds the scheduling domains after every access, a read included, and
/// touches nothing else. Where that regains nothing, a throw-away cpuset is used,
/// which has the domains rebuilt too and is removed whatever happens.
///
/// # Errors
/// ENOENT where there is no cpuset controller; EACCES or EPERM without root.
pub fn repair_leak(kernel: &dyn Kernel) -> Result<KernelBandwidth, KernelError> {
    let before = admissible_bandwidth(kernel)?;
    let regained = || Ok(KernelBandwidth(admissible_bandwidth(kernel)?.0.saturating_sub(before.0)));
    if kernel.read_text(Path::new("/proc/sys/kernel/sched_rt_runtime_us")).is_ok() {
        let by_reading = regained()?;
        if by_reading.0 > 0 {
            return Ok(by_reading);
        }
    }
    rebuild_by_cpuset(kernel)?;
    regained()
}

/// Has the scheduling domains rebuilt through a throw-away cpuset, which is removed whatever happens.
///
/// Version 1: a child of all CPUs has `cpuset.sched_load_balance` switched off and on. Version 2: a child of one
/// CPU becomes a partition of its own and a member again; tasks leave that CPU for this moment, so at least two
/// must be online.
fn rebuild_by_cpuset(kernel: &dyn Kernel) -> Result<(), KernelError> {
    let name = format!("surety-repair-{}", kernel.own_pid());
    let online = kernel.online_cpus()?;
    if kernel.exists(&Path::new(CPUSET_V1).join("cpuset.sched_load_balance")) {
        let steps = [
            ("cpuset.cpus", online.to_string()),
            ("cpuset.sched_load_balance", "0".to_owned()),
            ("cpuset.sched_load_balance", "1".to_owned()),
        ];
        return in_child(kernel, &Path::new(CPUSET_V1).join(name), &steps);
    }
    let controllers = kernel.read_text(&Path::new(CGROUP_V2).join("cgroup.subtree_control"))?;
    match online.iter().last() {
        Some(cpu) if online.len() > 1 && controllers.split_whitespace().any(|c| c == "cpuset") => {
            let steps = [
                ("cpuset.cpus", cpu.to_string()),
                ("cpuset.cpus.partition", "root".to_owned()),
                ("cpuset.cpus.partition", "member".to_owned()),
            ];
            in_child(kernel, &Path::new(CGROUP_V2).join(name), &steps)
        }
        _ => Err(KernelError::new(Operation::Write, "a cpuset partition", libc::ENOENT)),
    }
}

/// Makes a directory, writes its files in turn, removes it whatever happened.
fn in_child(kernel: &dyn Kernel, child: &Path, steps: &[(&str, String)]) -> Result<(), KernelError> {
    kernel.make_dir(child)?;
    let written = steps.iter().try_for_each(|(file, text)| kernel.write_text(&child.join(file), text));
    let removed = kernel.remove_dir(child);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{ServerBudget, ServerKind, ServersFound};
    use crate::transition::{Owed, set_scheduler};
    use crate::{RealKernel, ScriptedKernel};
    use proptest::prelude::*;

    /// What the scripted machine books: a fair server of 5 % on each CPU.
    const ONE_EACH: fn(CpuId) -> u64 = |_| 52_428;

    fn scripted_with_cpuset(cpus: u32) -> ScriptedKernel {
        let kernel = ScriptedKernel::new(cpus);
        kernel.add_file("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance", "1");
        kernel.add_template(CPUSET_V1, &[("cpuset.cpus", ""), ("cpuset.sched_load_balance", "1")]);
        kernel
    }

    proptest! {
        #[test]
        fn the_search_finds_the_exact_remainder_and_leaves_no_trace(cpus in 1_u32..6, leaked in 0_u64..900_000) {
            let kernel = scripted_with_cpuset(cpus);
            kernel.leak(leaked);
            let before = kernel.state();
            let account = account(&kernel, &ONE_EACH).unwrap().unwrap();
            prop_assert_eq!(account.admissible.0, account.capacity.0 - leaked.min(account.capacity.0));
            prop_assert_eq!(account.leaked().0, leaked);
            prop_assert_eq!(kernel.state(), before);
            prop_assert_eq!(repair_leak(&kernel).unwrap().0, leaked);
            prop_assert_eq!(super::account(&kernel, &ONE_EACH).unwrap().unwrap().leaked().0, 0);
        }
    }

    #[test]
    fn an_ending_thread_whose_parameters_are_cleared_holds_nothing() {
        let kernel = ScriptedKernel::new(1);
        let of = |period| SchedPolicy::Deadline {
            runtime: Nanos::ZERO,
            deadline: Nanos::ZERO,
            period,
            reclaim: false,
            overrun_signal: false,
        };
        assert!(!is_reservation(&kernel, Tid(7), &of(Nanos::ZERO)));
        assert!(is_reservation(&kernel, Tid(7), &of(Nanos::from_millis(10))));
    }

    #[test]
    fn what_is_admitted_tells_which_servers_are_charged() {
        const NONE: Charge = Charge { fair: false, ext: false };
        const FAIR: Charge = Charge { fair: true, ext: false };
        const EXT: Charge = Charge { fair: false, ext: true };
        const BOTH: Charge = Charge { fair: true, ext: true };
        let kernel = scripted_with_cpuset(2);
        let whole = expected_capacity(&kernel, &|_| 0).unwrap().unwrap().0;
        let ms = Nanos::from_millis;
        // CPU 0 has a fair server of 20 %, CPU 1 the usual one.
        let unlike = |ext: &[(u32, i64)]| {
            let of = |(cpu, runtime): &(u32, i64)| {
                (CpuId(*cpu), ServerBudget { runtime: ms(*runtime), period: Nanos::SECOND })
            };
            let mut servers = DeadlineServers { found: ServersFound::Counted, ..DeadlineServers::assumed() };
            servers.there.insert(ServerKind::Fair, [(0, 200), (1, 50)].iter().map(of).collect());
            if !ext.is_empty() {
                servers.there.insert(ServerKind::Ext, ext.iter().map(of).collect());
            }
            servers
        };
        let of_fair = 209_715 + 52_428;
        let asked = |servers: &DeadlineServers, possible: &[Charge], taken: u64| {
            let booked = Booked { held: KernelBandwidth(0), admissible: KernelBandwidth(whole - taken) };
            charged(&kernel, servers, possible, booked).unwrap()
        };
        let (fair, both) = (unlike(&[]), unlike(&[(0, 50), (1, 50)]));
        for (servers, possible, taken, found) in [
            (&fair, &[FAIR][..], of_fair, Charged::Tried(FAIR)),
            // Twice 5 % is not what this one books.
            (&fair, &[FAIR], 2 * 52_428, Charged::Untried),
            (&fair, &[NONE, FAIR], 0, Charged::Tried(NONE)),
            (&fair, &[FAIR], 0, Charged::Tried(NONE)),
            (&fair, &[FAIR], of_fair + 52_428, Charged::Untried),
            // What the ext servers would book, on a kernel that does not book them now: or it leaked.
            (&both, &[FAIR], of_fair + 2 * 52_428, Charged::NotObservable(vec![BOTH])),
            (&both, &[BOTH], of_fair + 2 * 52_428, Charged::Tried(BOTH)),
            (&both, &[BOTH, EXT], 2 * 52_428, Charged::Tried(EXT)),
            (&both, &[BOTH], of_fair, Charged::Tried(FAIR)),
        ] {
            assert_eq!(asked(servers, possible, taken), found, "{possible:?} {taken}");
        }
        // Servers of one size: which of them is booked does not show, and makes no difference.
        let alike = unlike(&[(0, 200), (1, 50)]);
        assert_eq!(asked(&alike, &[FAIR], of_fair), Charged::Tried(FAIR));
        assert_eq!(asked(&alike, &[EXT, FAIR], of_fair), Charged::Tried(EXT));
        // Two that differ by less than can be told apart.
        let near = unlike(&[(0, 201), (1, 50)]);
        assert_eq!(asked(&near, &[EXT, FAIR], of_fair), Charged::NotObservable(vec![EXT, FAIR]));
    }

    #[test]
    fn an_account_says_what_is_booked_for_nobody_and_what_is_admitted_too_much() {
        let kernel = ScriptedKernel::new(2);
        let booked = Booked::read(&kernel).unwrap();
        let of = |admissible| {
            let admissible = KernelBandwidth(admissible);
            let account = account_of(&kernel, &ONE_EACH, Booked { admissible, ..booked }).unwrap().unwrap();
            (account.leaked().0, account.excess().0)
        };
        let free = booked.admissible.0;
        assert_eq!([of(free), of(free - 7), of(free + 9)], [(0, 0), (7, 0), (0, 9)]);
    }

    #[test]
    fn a_fault_at_any_call_leaves_the_machine_as_it_was() {
        let run = |kernel: &ScriptedKernel| {
            account(kernel, &ONE_EACH).map(|_| ()).and_then(|()| repair_leak(kernel))
        };
        let kernel = scripted_with_cpuset(2);
        run(&kernel).unwrap();
        let before = kernel.state();
        for at in 0..kernel.calls().len() {
            let kernel = scripted_with_cpuset(2);
            kernel.fail_at(at, libc::EIO);
            let result = run(&kernel);
            let after = kernel.state();
            let failed = &kernel.calls()[at];
            // Where the removal itself is refused, the directory cannot be gone; and the first step out of the
            // class may be the one refused, then the helper ends in the class and gives its bandwidth back.
            if failed.operation != Operation::RemoveDir {
                assert_eq!(after, before, "fault at call {at}, {failed:?}, result {result:?}");
            }
            assert!(kernel.threads(kernel.own_pid()).unwrap().len() == 1, "holders ended");
        }
    }

    #[test]
    fn version_2_uses_a_partition() {
        let kernel = ScriptedKernel::new(2);
        kernel.add_file("/sys/fs/cgroup/cgroup.subtree_control", "cpu cpuset io\n");
        kernel.add_template(CGROUP_V2, &[("cpuset.cpus", ""), ("cpuset.cpus.partition", "member")]);
        kernel.leak(1000);
        let mut before = kernel.state();
        assert_eq!(repair_leak(&kernel), Ok(KernelBandwidth(1000)));
        before.leaked = 0;
        assert_eq!(kernel.state(), before);
    }

    /// Other programs may hold reservations for a moment; what is asserted of the whole machine gets several
    /// chances, and none to pass wrongly.
    fn eventually(mut holds: impl FnMut() -> bool) -> bool {
        (0..20).any(|_| {
            let held = holds();
            if !held {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            held
        })
    }

    /// Leaks a little on the real machine: a sleeping thread gets the class and loses it carelessly.
    fn leak_for_real(kernel: &RealKernel, units: u64) {
        let sleeper = kernel.sleeping_thread().unwrap();
        kernel.set_affinity(sleeper.tid, &kernel.online_cpus().unwrap()).unwrap();
        // Only a thread that already sleeps leaks.
        std::thread::sleep(std::time::Duration::from_millis(20));
        set_once(kernel, sleeper.tid, &reservation(units)).unwrap();
        kernel.set_scheduler_directly(sleeper.tid, &SchedPolicy::DEFAULT.into()).unwrap();
    }

    #[test]
    fn a_real_leak_is_found_and_repaired() {
        let kernel = RealKernel::new();
        let _alone = crate::testing::machine_wide();
        let servers = crate::facts::MachineFacts::read(&kernel).scheduler.servers;
        let booked = |cpu| servers.booked_on(Charge { fair: servers.has(ServerKind::Fair), ext: false }, cpu);
        let idle = match account(&kernel, &booked) {
            Ok(Some(account)) => account,
            Ok(None) => return eprintln!("SKIPPED: admission is switched off here"),
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        if idle.leaked().0 != 0 {
            return eprintln!("SKIPPED: bandwidth is in use or leaked before the test: {idle:?}");
        }
        // 0.1 %: small enough to disturb nobody should the repair fail.
        let small = 1 << 10;
        // Reads no limit, so looking does not repair.
        let leaked = || i128::from(idle.capacity.0) - i128::from(booked_or_free(&kernel));

        // Another program may read the limits at any time and so repair the leak before it is seen.
        let seen = eventually(|| {
            leak_for_real(&kernel, small);
            account(&kernel, &booked).unwrap().unwrap().leaked().0 == small
        });
        assert!(seen, "this kernel leaks; should it no longer, the protection can go");
        assert!(eventually(|| repair_leak(&kernel).is_ok() && leaked() == 0));

        // The way by a cpuset alone, for kernels whose limits can be read without consequence.
        leak_for_real(&kernel, small);
        match rebuild_by_cpuset(&kernel) {
            Err(error) => {
                eprintln!("SKIPPED the way by a cpuset: {error}");
                repair_leak(&kernel).unwrap();
            }
            Ok(()) => assert!(eventually(|| leaked() == 0), "{idle:?}"),
        }
    }

    /// What threads hold and what is still admitted: the capacity, less what leaked.
    fn booked_or_free(kernel: &RealKernel) -> u64 {
        let free = admissible_bandwidth(kernel).unwrap().0;
        free + held_bandwidth(kernel).unwrap().iter().map(|(_, held)| held.0).sum::<u64>()
    }

    /// Sets its flag when it goes out of scope.
    struct Stops<'a>(&'a std::sync::atomic::AtomicBool);

    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn the_protected_ways_out_leak_nothing_on_this_machine() {
        let kernel = RealKernel::new();
        let _alone = crate::testing::machine_wide();
        if let Err(error) = admissible_bandwidth(&kernel) {
            return eprintln!("SKIPPED: {error}");
        }
        let before = booked_or_free(&kernel);
        let fair: SchedAttr = SchedPolicy::DEFAULT.into();
        let cpus = kernel.online_cpus().unwrap();
        // A thread that sleeps, set and reset from outside.
        let sleeper = kernel.sleeping_thread().unwrap();
        kernel.set_affinity(sleeper.tid, &cpus).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        set_once(&kernel, sleeper.tid, &reservation(3 << 10)).unwrap();
        set_once(&kernel, sleeper.tid, &fair).unwrap();
        drop(sleeper);
        // Threads that run: one takes and leaves the class itself, one ends in it.
        for leaves in [true, false] {
            let running = std::thread::spawn(move || {
                let kernel = RealKernel::new();
                kernel.set_affinity(Tid(0), &cpus).unwrap();
                kernel.set_scheduler_directly(kernel.own_tid(), &reservation(3 << 10)).unwrap();
                assert!(kernel.scheduler(Tid(0)).unwrap().policy.is_deadline());
                if leaves {
                    kernel.set_scheduler_directly(kernel.own_tid(), &fair).unwrap();
                }
            });
            running.join().unwrap();
        }
        // A thread that spins and so is throttled most of the time, set and reset from outside.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let stop = &stop;
            // Also where something below panics: the scope waits for the thread.
            let _stopped = Stops(stop);
            scope.spawn(move || {
                tell.send(crate::thread::own_tid()).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let spinner = told.recv().unwrap();
            kernel.set_affinity(spinner, &cpus).unwrap();
            let tenth =
                SchedPolicy::deadline(Nanos::MILLISECOND, Nanos::MILLISECOND * 10, Nanos::MILLISECOND * 10);
            let owed = Owed::default();
            for _ in 0..10 {
                set_scheduler(&kernel, &owed, spinner, &tenth.into()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(7));
                set_scheduler(&kernel, &owed, spinner, &fair).unwrap();
                assert_eq!(kernel.scheduler(spinner), Ok(fair));
            }
        });
        // Bandwidth of a thread that ran is given back when its zero-lag timer fires.
        let after = || booked_or_free(&kernel);
        assert!(eventually(|| after() >= before), "{before} before, {} after", after());
    }
}
