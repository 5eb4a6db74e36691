//! The rules of the scripted machine: `sched_setattr`'s checks in the kernel's order, and /proc's texts.

use std::path::Path;

use surety_units::{Nanos, Tid};

use super::{Script, ScriptedThread};
use crate::sched::{
    DEADLINE_PERIOD_MAX, DEADLINE_RUNTIME_MIN, RELEASE, SchedAttr, SchedPolicy, UTIL_SCALE, keeps_slices,
};

impl Script {
    pub(super) fn add_thread(&mut self, tid: Tid, process: Tid, name: &str) {
        let thread = ScriptedThread {
            process,
            name: name.to_owned(),
            start_time: self.next_start,
            attr: SchedAttr::from(SchedPolicy::DEFAULT),
            affinity: self.online,
            // Whoever asks is running.
            running: tid == self.own_pid,
            environment: Vec::new(),
            budget: None,
        };
        self.next_start += 1;
        self.machine.threads.insert(tid, thread);
    }

    pub(super) fn caller(&self, tid: Tid) -> Tid {
        if tid == Tid(0) { self.own_pid } else { tid }
    }

    pub(super) fn booked(&self) -> u64 {
        let held: u64 = self.machine.threads.values().map(|t| t.attr.policy.booked_bandwidth()).sum();
        held + self.machine.leaked
    }

    /// The checks of `sched_setattr` in the kernel's order: parameters, privilege, affinity, admission.
    pub(super) fn set_scheduler(&mut self, tid: Tid, attr: &SchedAttr) -> Result<(), i32> {
        let tid = self.caller(tid);
        let (capacity, booked, online, privileged) =
            (self.capacity, self.booked(), self.online, self.privileged);
        let thread = self.machine.threads.get_mut(&tid).ok_or(libc::ESRCH)?;
        let old = thread.attr.policy;
        match attr.policy {
            SchedPolicy::Deadline { runtime, deadline, period, .. } => {
                let ordered = runtime <= deadline && deadline <= period;
                let shortest = Nanos::from_micros(100);
                if runtime < DEADLINE_RUNTIME_MIN
                    || !ordered
                    || period < shortest
                    || period > DEADLINE_PERIOD_MAX
                {
                    return Err(libc::EINVAL);
                }
                if !privileged || !online.is_subset(&thread.affinity) {
                    return Err(libc::EPERM);
                }
                if booked - old.booked_bandwidth() + attr.policy.booked_bandwidth() > capacity {
                    return Err(libc::EBUSY);
                }
            }
            SchedPolicy::Fifo { priority } | SchedPolicy::RoundRobin { priority } => {
                if !(1..=99).contains(&priority) {
                    return Err(libc::EINVAL);
                }
                if !privileged {
                    return Err(libc::EPERM);
                }
            }
            SchedPolicy::Other { nice, .. } | SchedPolicy::Batch { nice } | SchedPolicy::Ext { nice } => {
                if !(-20..=19).contains(&nice) {
                    return Err(libc::EINVAL);
                }
                if !privileged && nice < 0 {
                    return Err(libc::EPERM);
                }
            }
            SchedPolicy::Idle => {}
        }
        if old.is_deadline() && !attr.policy.is_deadline() && !thread.running {
            self.machine.leaked += old.booked_bandwidth();
        }
        if let (false, SchedPolicy::Deadline { runtime, .. }) = (old.is_deadline(), attr.policy) {
            thread.budget = thread.budget.map(|_| runtime);
        }
        let clamp = |given: Option<u32>, had: Option<u32>, default| {
            given.map_or(had, |value| (value != default).then_some(value))
        };
        let release = self.machine.files.get(Path::new(RELEASE));
        let leaves_slices_out = release.and_then(|text| keeps_slices(text)) == Some(false);
        let policy = match attr.policy {
            SchedPolicy::Other { nice, .. } if leaves_slices_out => SchedPolicy::Other { nice, slice: None },
            policy => policy,
        };
        thread.attr = SchedAttr {
            policy,
            util_min: clamp(attr.util_min, thread.attr.util_min, 0),
            util_max: clamp(attr.util_max, thread.attr.util_max, UTIL_SCALE),
            ..*attr
        };
        Ok(())
    }

    /// Files under /proc that threads have.
    pub(super) fn proc_text(&self, path: &Path) -> Option<String> {
        let rest = path.strip_prefix("/proc").ok()?.to_str()?;
        let (tid, file) = rest.split_once('/')?;
        let tid = if tid == "self" { self.own_pid } else { Tid(tid.parse().ok()?) };
        let thread = self.machine.threads.get(&tid)?;
        match file {
            "comm" => Some(format!("{}\n", thread.name)),
            "environ" => Some(thread.environment.iter().map(|variable| format!("{variable}\0")).collect()),
            "stat" => {
                let state = if thread.running { 'R' } else { 'S' };
                Some(format!("{tid} ({}) {state}{} {} 0\n", thread.name, " 0".repeat(18), thread.start_time))
            }
            "sched" => thread.budget.map(|left| format!("dl.runtime : {}\n", left.get())),
            _ => None,
        }
    }

    pub(super) fn proc_list(&self, path: &Path) -> Option<Vec<String>> {
        let rest = path.strip_prefix("/proc").ok()?.to_str()?;
        if rest.is_empty() {
            let leaders = self.machine.threads.iter().filter(|(tid, thread)| **tid == thread.process);
            return Some(leaders.map(|(tid, _)| tid.to_string()).collect());
        }
        let process = Tid(rest.strip_suffix("/task")?.parse().ok()?);
        let threads = self.machine.threads.iter().filter(|(_, thread)| thread.process == process);
        let names: Vec<String> = threads.map(|(tid, _)| tid.to_string()).collect();
        (!names.is_empty()).then_some(names)
    }
}

/// The controllers that a control group of version 2 gives its children after an order of `+NAME` or `-NAME`.
pub(super) fn given(before: &str, order: &str) -> String {
    let name = order.trim_start_matches(['+', '-']);
    let mut names: Vec<&str> = before.split_ascii_whitespace().filter(|other| *other != name).collect();
    if order.starts_with('+') {
        names.push(name);
    }
    names.join(" ")
}
