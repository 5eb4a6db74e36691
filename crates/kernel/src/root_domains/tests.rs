//! Root domains: rules from trees of files, and what is found against what `sched_setattr` answers, in partitions made for
//! some milliseconds.

use super::*;
use crate::deadline::held_bandwidth;
use crate::sched::{DEADLINE_PERIOD_MAX, DEADLINE_RUNTIME_MIN};
use crate::{RealKernel, SchedPolicy, ScriptedKernel};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use surety_units::Tid;

const V1: &str = "cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n";
const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,relatime 0 0\n";

/// Directory, CPUs, and the word of its switch or kind.
type Cpuset = (&'static str, &'static str, &'static str);

/// A machine of eight CPUs, all online, whose cpusets are these.
fn machine(mounts: &str, sets: &[Cpuset]) -> ScriptedKernel {
    let kernel = ScriptedKernel::new(8);
    kernel.add_file("/sys/devices/system/cpu/possible", "0-7\n");
    kernel.add_file("/sys/devices/system/cpu/isolated", "\n");
    kernel.add_file("/proc/self/mounts", mounts);
    let is_first = mounts == V1;
    let root = if is_first { "/sys/fs/cgroup/cpuset" } else { "/sys/fs/cgroup" };
    kernel.add_file(format!("{root}/release_agent"), "\n");
    kernel.add_file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    for (dir, cpus, word) in sets {
        let dir = if dir.is_empty() { root.to_owned() } else { format!("{root}/{dir}") };
        kernel.add_file(format!("{dir}/tasks"), "");
        let (switch, effective) = match is_first {
            true => ("cpuset.sched_load_balance", "cpuset.effective_cpus"),
            false => ("cpuset.cpus.partition", "cpuset.cpus.effective"),
        };
        kernel.add_file(format!("{dir}/cpuset.cpus"), &format!("{cpus}\n"));
        kernel.add_file(format!("{dir}/{effective}"), &format!("{cpus}\n"));
        // The root of version 2 has no such file.
        if !word.is_empty() {
            kernel.add_file(format!("{dir}/{switch}"), &format!("{word}\n"));
        }
    }
    kernel
}

/// `0-3 4-5 | 6-7`: balanced domains, then what is isolated.
fn said(domains: &RootDomains) -> String {
    let balanced: Vec<String> = domains.balanced.iter().map(CpuSet::to_string).collect();
    format!("{} | {}", balanced.join(" "), domains.isolated)
}

#[test]
fn cpusets_make_the_domains_the_kernel_makes_of_them() {
    let cases: &[(&str, &[Cpuset], &str)] = &[
        // Version 1: as long as the top is balanced, what is below does not matter.
        (V1, &[("", "0-7", "1"), ("a", "0-3", "1"), ("b", "4-7", "0")], "0-7 | "),
        (V1, &[("", "0-7", "0")], " | 0-7"),
        (V1, &[("", "0-7", "0"), ("a", "0-3", "1"), ("b", "4-7", "1")], "0-3 4-7 | "),
        (V1, &[("", "0-7", "0"), ("b", "1,3,5", "1"), ("a", "0,2", "1")], "0,2 1,3,5 | 4,6-7"),
        (V1, &[("", "0-7", "0"), ("a", "0-3", "1"), ("b", "3-5", "1"), ("c", "6", "1")], "0-5 6 | 7"),
        // Three that share CPUs only through the last.
        (V1, &[("", "0-7", "0"), ("a", "0-1", "1"), ("b", "4-5", "1"), ("c", "1-4", "1")], "0-5 | 6-7"),
        // One that is not balanced is looked into, one that is is not; one without CPUs counts for nothing.
        (V1, &[("", "0-7", "0"), ("a", "0-5", "0"), ("a/x", "0-1", "1"), ("a/y", "2", "0")], "0-1 | 2-7"),
        (V1, &[("", "0-7", "0"), ("a", "0-5", "1"), ("a/x", "0-1", "1"), ("e", "", "1")], "0-5 | 6-7"),
        // Version 2: files of the root are of what it keeps for itself.
        (V2, &[("", "0-7", ""), ("system.slice", "0-7", "member")], "0-7 | "),
        (V2, &[("", "0-3", ""), ("rt", "4-7", "root")], "0-3 4-7 | "),
        (V2, &[("", "0-3", ""), ("rt", "4-5", "root"), ("quiet", "6-7", "isolated")], "0-3 4-5 | 6-7"),
        (
            V2,
            &[("", "0-7", ""), ("rt", "4-7", "root invalid (Cpu list in cpuset.cpus not exclusive)")],
            "0-7 | ",
        ),
        // A partition inside of one, and one below ordinary groups.
        (V2, &[("", "0-3", ""), ("rt", "4-5", "root"), ("rt/in", "6-7", "root")], "0-3 4-5 6-7 | "),
        (V2, &[("", "0-5", ""), ("a.slice", "0-5", "member"), ("a.slice/b", "6-7", "root")], "0-5 6-7 | "),
        // A partition that gave everything away is none.
        (V2, &[("", "0-3", ""), ("rt", "", "root"), ("rt/in", "4-7", "root")], "0-3 4-7 | "),
    ];
    for (mounts, sets, expected) in cases {
        let found = RootDomains::read(&machine(mounts, sets));
        assert_eq!((said(&found).as_str(), &found.unseen), (*expected, &None), "{sets:?}");
    }
}

#[test]
fn isolated_at_boot_and_offline_cpus_are_in_no_balanced_domain() {
    let whole = [("", "0-7", "1")];
    let kernel = machine(V1, &whole);
    kernel.add_file("/sys/devices/system/cpu/isolated", "2,6-7\n");
    let found = RootDomains::read(&kernel);
    assert_eq!(said(&found), "0-1,3-5 | 2,6-7");
    let shown = |sets: Vec<CpuSet>| sets.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(shown(found.for_reservations()), "0-1,3-5");
    assert_eq!(shown(found.admitting()), "0-1,3-5 2,6-7");
    // An offline CPU is in the default domain, which nobody's affinity then covers.
    kernel.add_file("/sys/devices/system/cpu/online", "0-6\n");
    let found = RootDomains::read(&kernel);
    assert_eq!((said(&found).as_str(), found.isolated_offline), ("0-1,3-5 | 2,6", CpuSet::single(CpuId(7))));
    assert_eq!(shown(found.admitting()), "0-1,3-5");
    // Of a machine without a balanced domain the default one is all there is.
    let found = RootDomains::read(&machine(V1, &[("", "0-7", "0")]));
    assert_eq!(shown(found.for_reservations()), "0-7");
}

#[test]
fn what_cannot_be_read_is_said() {
    // No cpusets at all.
    let kernel = ScriptedKernel::new(4);
    assert_eq!(
        (said(&RootDomains::read(&kernel)).as_str(), RootDomains::read(&kernel).unseen),
        ("0-3 | ", None)
    );
    kernel.add_file("/proc/cgroups", "#subsys_name hierarchy num_cgroups enabled\ncpuset 4 3 1\ncpu 1 1 1\n");
    assert!(RootDomains::read(&kernel).unseen.is_some_and(|why| why.contains("none is mounted")));
    // Of a container, whose own control group is where the hierarchy is mounted.
    let kernel = machine(V2, &[("", "0-3", "")]);
    kernel.add_file("/sys/fs/cgroup/cgroup.type", "domain\n");
    let found = RootDomains::read(&kernel);
    assert_eq!(said(&found), "0-3 | 4-7");
    assert!(found.unseen.is_some_and(|why| why.contains("not the topmost")));
    // The scheduler's statistics show them all the same, in either of their forms.
    for level in ["", "MC "] {
        let cpu = |at: u32, mask: &str| format!("cpu{at} 0 0 0\ndomain0 {level}{mask} 1 2 3\n");
        let mut text = "version 17\ntimestamp 4300\n".to_owned();
        (0..3).for_each(|at| text += &format!("{}domain1 {level}00000007 4 5\n", cpu(at, "00000003")));
        (3..6).for_each(|at| text += &cpu(at, "00000038"));
        kernel.add_file("/proc/schedstat", &(text + "cpu6 0 0 0\ncpu7 0 0 0\n"));
        let found = RootDomains::read(&kernel);
        assert_eq!((said(&found).as_str(), &found.unseen), ("0-2 3-5 | 6-7", &None));
    }
    assert_eq!(of_mask("00000001,80000000").map(|set| set.to_string()).as_deref(), Some("31-32"));
}

/// What `sched_setattr` answers to a thread that ran on one of these CPUs and is bound to exactly them; `None` where the answer
/// is neither yes nor EPERM.
fn is_admitted(cpus: CpuSet) -> Option<bool> {
    // The thread asks for itself: one that sleeps would be judged where it last ran.
    let asking = std::thread::spawn(move || {
        let kernel = RealKernel::new();
        kernel.set_affinity(Tid(0), &cpus).ok()?;
        // So little of so long that it books nothing, which a domain that is made anew meanwhile could miscount.
        let nothing = SchedPolicy::deadline(DEADLINE_RUNTIME_MIN, DEADLINE_PERIOD_MAX, DEADLINE_PERIOD_MAX);
        assert_eq!(nothing.booked_bandwidth(), 0);
        let answer = match kernel.set_scheduler_directly(kernel.own_tid(), &nothing.into()) {
            Ok(()) => true,
            Err(error) if error.errno == libc::EPERM => false,
            Err(_) => return None,
        };
        kernel.set_scheduler_directly(kernel.own_tid(), &SchedPolicy::DEFAULT.into()).ok()?;
        Some(answer)
    });
    asking.join().ok()?
}

/// Asks the kernel about every domain found, and about each with a CPU taken out of it.
fn compare(kernel: &RealKernel, state: &str) -> RootDomains {
    let found = RootDomains::read(kernel);
    for domain in found.admitting() {
        assert_eq!(is_admitted(domain), Some(true), "{state}: {domain} is a domain in {found:?}");
        for left_out in domain.iter().filter(|_| domain.len() > 1) {
            let rest = domain.without(&CpuSet::single(left_out));
            assert_eq!(is_admitted(rest), Some(false), "{state}: {rest} is not all of one in {found:?}");
        }
    }
    found
}

/// A program that puts the machine back when its input ends, which it does however this process ends.
struct PutsBack {
    program: Child,
}

impl PutsBack {
    fn start(root: &Path, children: &[PathBuf]) -> PutsBack {
        let script = "trap '' HUP INT TERM; root=$1; shift; echo ready; cat >/dev/null; \
                      echo 1 >$root/cpuset.sched_load_balance; for dir; do [ ! -d $dir ] || rmdir $dir; done";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(root).args(children);
        let mut program =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is a shell");
        // Ready once the signals are ignored.
        let mut word = [0; 6];
        std::io::Read::read_exact(program.stdout.as_mut().unwrap(), &mut word).expect("the shell says so");
        PutsBack { program }
    }
}

impl Drop for PutsBack {
    fn drop(&mut self) {
        if let Some(mut input) = self.program.stdin.take() {
            let _ = input.flush();
        }
        let _ = self.program.wait();
    }
}

#[test]
fn what_is_found_is_what_the_kernel_admits() {
    let kernel = RealKernel::new();
    let _alone = crate::testing::machine_wide();
    let online = kernel.online_cpus().unwrap();
    if is_admitted(online) != Some(true) {
        return eprintln!("SKIPPED: this user gets no SCHED_DEADLINE on all CPUs here");
    }
    let before = compare(&kernel, "as it is");
    let root = Path::new("/sys/fs/cgroup/cpuset");
    let (left, right) = (root.join("surety-test-left"), root.join("surety-test-right"));
    let switch = |dir: &Path, on: bool| {
        kernel.write_text(&dir.join("cpuset.sched_load_balance"), if on { "1" } else { "0" })
    };
    let reader = Reader { kernel: &kernel };
    if !kernel.exists(&root.join("release_agent")) || online.len() < 2 {
        return eprintln!("SKIPPED partitions: they need version 1 of the cpuset controller and two CPUs");
    }
    if before != RootDomains::one(online) || !reader.children(root, "tasks").is_empty() {
        return eprintln!("SKIPPED partitions: the cpusets are in use: {before:?}");
    }
    if held_bandwidth(&kernel).map_or(true, |held| !held.is_empty()) {
        return eprintln!("SKIPPED partitions: somebody has a reservation now");
    }
    let servers = crate::facts::MachineFacts::read(&kernel).scheduler.servers;
    let booked = |cpu| {
        let fair = servers.has(crate::servers::ServerKind::Fair);
        servers.booked_on(crate::servers::Charge { fair, ext: false }, cpu)
    };
    let first = CpuSet::single(online.lowest().unwrap());
    let others = online.without(&first);
    {
        let _puts_back = PutsBack::start(root, &[left.clone(), right.clone()]);
        let result = (|| -> Result<(), crate::KernelError> {
            kernel.make_dir(&left)?;
            kernel.make_dir(&right)?;
            switch(root, false)?;
            assert_eq!(compare(&kernel, "nothing balanced").isolated, online);
            kernel.write_text(&left.join("cpuset.cpus"), &first.to_string())?;
            let found = compare(&kernel, "one cpuset, the others isolated");
            assert_eq!((found.balanced, found.isolated), (vec![first], others));
            kernel.write_text(&right.join("cpuset.cpus"), &others.to_string())?;
            assert_eq!(compare(&kernel, "two cpusets").balanced, [first, others]);
            // Each admits what it should; another program may ask for a moment.
            let leaked =
                || crate::deadline::account(&kernel, &booked).map(|of| of.map_or(0, |a| a.leaked().0));
            assert!((0..5).any(|_| leaked() == Ok(0)), "{:?}", leaked());
            kernel.write_text(&right.join("cpuset.cpus"), &online.to_string())?;
            assert_eq!(compare(&kernel, "two that share a CPU").balanced, [online]);
            switch(&left, false)?;
            switch(&right, false)?;
            assert_eq!(compare(&kernel, "cpusets that are not balanced").isolated, online);
            Ok(())
        })();
        result.unwrap();
    }
    assert_eq!(compare(&kernel, "as it was"), before);
    assert!(!kernel.exists(&left) && !kernel.exists(&right));
}
