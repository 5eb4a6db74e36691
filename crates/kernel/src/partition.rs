//! [`each_cpu`]: a root domain for each CPU of a machine that is ours alone; [`join`]: the place of a thread in it.
//!
//! The kernel refuses a reservation (EPERM) to a thread that may not run on every CPU of its root domain
//! (`__sched_setscheduler` in `kernel/sched/syscalls.c`), as an interrupt thread bound to the CPU of its line. A cgroup whose
//! `cpuset.cpus.partition` is `root` is a root domain of its own (`Documentation/admin-guide/cgroup-v2.rst`), and what is in no such
//! cgroup keeps the other CPUs. So each CPU but the first gets a cgroup, and the first is what is left. They are threaded:
//! threads of one process, and the kernel's own, go into them one by one.
//!
//! Like [`crate::boot`] this is for the guest of a virtual machine, and is not undone.

use std::path::{Path, PathBuf};

use surety_units::{CpuId, CpuSet, Tid};

use crate::boot;
use crate::error::KernelError;
use crate::kernel::Kernel;

/// The file system of control groups, version 2, and where it belongs.
const FILE_SYSTEM: &str = "cgroup2";
const PLACE: &str = "/sys/fs/cgroup";

fn group_of(cpu: CpuId) -> PathBuf {
    Path::new(PLACE).join(format!("cpu{cpu}"))
}

/// Makes them of these CPUs, all that are online. Nothing is done where there is only one.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; EBUSY where control groups are mounted already; EINVAL where the kernel makes no
/// partition of a CPU.
pub fn each_cpu(kernel: &dyn Kernel, cpus: CpuSet) -> Result<(), KernelError> {
    if cpus.len() < 2 {
        return Ok(());
    }
    boot::mount(FILE_SYSTEM, Path::new(PLACE))?;
    kernel.write_text(&Path::new(PLACE).join("cgroup.subtree_control"), "+cpuset")?;
    for cpu in cpus.iter().skip(1) {
        let group = group_of(cpu);
        kernel.make_dir(&group)?;
        let cpu = cpu.to_string();
        let settings =
            [("cgroup.type", "threaded"), ("cpuset.cpus", cpu.as_str()), ("cpuset.cpus.partition", "root")];
        for (file, value) in settings {
            kernel.write_text(&group.join(file), value)?;
        }
        // What it makes no partition of it says there, in words, and takes the writing.
        let said = kernel.read_text(&group.join("cpuset.cpus.partition"))?;
        if said.trim() != "root" {
            let object = format!("a partition of CPU {cpu}: {}", said.trim());
            return Err(KernelError::new(crate::error::Operation::Write, object, libc::EINVAL));
        }
    }
    Ok(())
}

/// Puts a thread where this CPU is. On the first one all threads are that were not put elsewhere.
///
/// # Errors
/// ESRCH for a thread that is gone, EINVAL for one that the kernel has bound itself.
pub fn join(kernel: &dyn Kernel, tid: Tid, cpu: CpuId) -> Result<(), KernelError> {
    let group = group_of(cpu);
    if kernel.list_dir(&group).is_err() {
        return Ok(());
    }
    kernel.write_text(&group.join("cgroup.threads"), &tid.to_string())
}
