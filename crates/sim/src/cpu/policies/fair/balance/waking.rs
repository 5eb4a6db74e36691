//! Where a thread wakes or begins (`select_task_rq_fair` in `kernel/sched/fair.c`). On a machine whose CPUs share some things and not others:
//!
//! - One that wakes goes near its last CPU, or near that of its waker (`wake_affine`): the waker's if that is idle and both share a cache, its last
//!   one if that is idle, else the less loaded, the last one having half of what makes a difference for it.
//! - Of the CPUs behind that one's last-level cache it takes that one if it is free, its last one if that is, the one before its last (`select_idle_sibling`);
//!   with hardware threads a whole idle core, or where there is none the free sibling of its last CPU; else the next free one in turn.
//!   So an idle sibling of a busy thread is taken before a core only where the thread slept there.
//! - A new one goes down from the whole machine to the idlest group of each level (`sched_balance_find_dst_group`).
//!
//! *Not modelled*: wakers of many threads (`wake_wide`), which thread a CPU idled last of, and that the kernel's hint of idle cores lags behind.

use std::ops::Range;

use super::Balance;
use super::groups::{Group, GroupKind, is_kept_by_node};
use super::levels::Levels;
use crate::cpu::domains::{Level, Shared};
use crate::cpu::hardware::{Hardware, Scheduling, Thread, ThreadId};
use crate::cpu::policies::fair::average::Instant;
use crate::cpu::policies::fair::weight;
use crate::cpu::policy::Arrival;

/// Load of a thread of nice 0.
const LOAD_OF_NICE_0: u64 = 1024;

impl Balance {
    /// The CPU for a new or woken thread.
    pub(in crate::cpu::policies::fair) fn place(
        &mut self,
        hardware: &Hardware,
        id: ThreadId,
        arrival: Arrival,
        load: impl Fn(usize) -> i64,
    ) -> usize {
        let thread = hardware.thread(id);
        let previous = thread.cpu;
        if self.levels.is_some() {
            return self.place_by_levels(hardware, id, arrival);
        }
        if arrival == Arrival::New {
            let idle = self.idle(hardware).find(|cpu| thread.may_run_on(*cpu));
            let cpus = (0..self.cpus.len()).filter(|cpu| thread.may_run_on(*cpu));
            return idle.or_else(|| cpus.min_by_key(|cpu| load(*cpu))).unwrap_or(previous);
        }
        if self.is_free(hardware, previous) {
            return previous;
        }
        let before = std::mem::replace(&mut self.threads[id.index()].before, previous);
        if before != previous && thread.may_run_on(before) && self.is_free(hardware, before) {
            return before;
        }
        self.scan(hardware, thread).unwrap_or(previous)
    }

    /// The next CPU in turn that is free, of as many as are looked at.
    fn scan(&self, hardware: &Hardware, thread: &Thread) -> Option<usize> {
        let (own, cpus) = (thread.cpu, self.cpus.len());
        let turn = |cpu: usize| if cpu > own { cpu - own - 1 } else { cpu + cpus - own - 1 };
        let fits = |cpu: usize| thread.may_run_on(cpu) && self.is_free(hardware, cpu);
        let free = [hardware.sets.idle(), &self.by_idlers].map(|set| set.next_behind(own, fits));
        let next = free.into_iter().flatten().min_by_key(|cpu| turn(*cpu))?;
        let looked_at = match &thread.allowed {
            None => turn(next),
            Some(_) => (0..cpus).filter(|cpu| thread.may_run_on(*cpu) && turn(*cpu) < turn(next)).count(),
        };
        (looked_at < usize::try_from(self.scanned).expect("a number of CPUs")).then_some(next)
    }

    /// The same on a machine of which it is said what its CPUs share.
    fn place_by_levels(&mut self, hardware: &Hardware, id: ThreadId, arrival: Arrival) -> usize {
        let (thread, waker) = (hardware.thread(id), hardware.waker);
        let previous = thread.cpu;
        if arrival == Arrival::New {
            let idlest = self.idlest(hardware, thread, waker);
            return if thread.may_run_on(idlest) { idlest } else { previous };
        }
        let by_waker = waker != previous && thread.may_run_on(waker);
        let near = if by_waker { self.near(hardware, id, waker) } else { previous };
        self.free_near(hardware, id, near)
    }

    /// The waker's CPU, or the last one of a thread (`wake_affine`).
    fn near(&self, hardware: &Hardware, id: ThreadId, waker: usize) -> usize {
        let thread = hardware.thread(id);
        let previous = thread.cpu;
        let levels = self.of_levels();
        let is_previous_unused = self.is_unused(hardware, previous);
        if self.is_unused(hardware, waker) && levels.share_cache(waker, previous) {
            return if is_previous_unused { previous } else { waker };
        }
        if is_previous_unused {
            return previous;
        }
        let at = Instant::new(hardware.now());
        let totals = self.totals(at);
        let load = |cpu: usize| self.load(cpu, at, &totals);
        let own = self.threads[id.index()].queued.at(at, load_alone(thread.scheduling));
        let margin = levels.all[levels.common(waker, previous)].margin();
        let here = (load(waker) + own) * 100 * self.cpus[previous].capacity;
        let there =
            load(previous).saturating_sub(own) * (100 + (margin - 100) / 2) * self.cpus[waker].capacity;
        if here < there { waker } else { previous }
    }

    /// A free CPU behind the last-level cache of one, else that one (`select_idle_sibling`).
    fn free_near(&mut self, hardware: &Hardware, id: ThreadId, near: usize) -> usize {
        let thread = hardware.thread(id);
        let previous = thread.cpu;
        if self.is_free(hardware, near) {
            return near;
        }
        let is_near = |balance: &Balance, cpu| balance.of_levels().share_cache(cpu, near);
        if previous != near && is_near(self, previous) && self.is_free(hardware, previous) {
            return previous;
        }
        let before = std::mem::replace(&mut self.threads[id.index()].before, previous);
        let is_another = before != previous && before != near && is_near(self, before);
        if is_another && thread.may_run_on(before) && self.is_free(hardware, before) {
            return before;
        }
        let domains = &self.of_levels().domains;
        if domains.core > 1 {
            if self.has_idle_core(hardware, near) {
                return self.scan_for_core(hardware, thread, near).unwrap_or(near);
            }
            let fits = |cpu: &usize| thread.may_run_on(*cpu) && self.is_free(hardware, *cpu);
            let mut siblings = domains.core_of(previous).filter(|cpu| *cpu != previous);
            if is_near(self, previous)
                && let Some(cpu) = siblings.find(fits)
            {
                return cpu;
            }
        }
        self.scan_near(hardware, thread, near).unwrap_or(near)
    }

    fn has_idle_core(&self, hardware: &Hardware, near: usize) -> bool {
        let domains = &self.of_levels().domains;
        let mut cores = domains.around(near).step_by(domains.core);
        cores.any(|first| domains.core_of(first).all(|cpu| self.is_unused(hardware, cpu)))
    }

    /// The CPUs behind a cache that a thread may run on, from the one behind a CPU on.
    fn in_turn<'a>(&self, thread: &'a Thread, near: usize) -> impl Iterator<Item = usize> + use<'a> {
        let around = self.of_levels().domains.around(near);
        let all = (near + 1..around.end).chain(around.start..near + 1);
        all.filter(|cpu| thread.may_run_on(*cpu))
    }

    /// How many CPUs behind the cache of one are looked at.
    fn scanned_near(&self, near: usize) -> usize {
        let levels = self.of_levels();
        usize::try_from(levels.scanned[near / levels.domains.llc]).expect("a number of CPUs")
    }

    /// The next free CPU in turn, of as many as are looked at.
    fn scan_near(&self, hardware: &Hardware, thread: &Thread, near: usize) -> Option<usize> {
        self.in_turn(thread, near).take(self.scanned_near(near)).find(|cpu| self.is_free(hardware, *cpu))
    }

    /// A CPU of the next core without threads in turn, else the first CPU that is free (`select_idle_core`).
    fn scan_for_core(&self, hardware: &Hardware, thread: &Thread, near: usize) -> Option<usize> {
        if self.scanned_near(near) == 0 {
            return None;
        }
        let domains = &self.of_levels().domains;
        let is_idle = |cpu: usize| domains.core_of(cpu).all(|cpu| self.is_unused(hardware, cpu));
        let mut in_turn = self.in_turn(thread, near);
        let core = in_turn.find(|cpu| is_idle(*cpu));
        core.or_else(|| self.in_turn(thread, near).find(|cpu| self.is_free(hardware, *cpu)))
    }

    /// Where a thread begins that is made on a CPU.
    fn idlest(&self, hardware: &Hardware, thread: &Thread, from: usize) -> usize {
        let levels = self.of_levels();
        levels.all.iter().rev().fold(from, |cpu, of| {
            let group = self.idlest_group(hardware, thread, (cpu, of));
            group.and_then(|group| self.idlest_of(hardware, thread, group)).unwrap_or(cpu)
        })
    }

    /// The CPU of a group for a new thread: the first free one, else the least loaded.
    fn idlest_of(&self, hardware: &Hardware, thread: &Thread, cpus: Range<usize>) -> Option<usize> {
        let at = Instant::new(hardware.now());
        let allowed = cpus.filter(|cpu| thread.may_run_on(*cpu));
        let free = allowed.clone().find(|cpu| self.is_free(hardware, *cpu));
        let totals = self.totals(at);
        free.or_else(|| allowed.min_by_key(|cpu| self.load(*cpu, at, &totals)))
    }

    /// The other group of the domain of a CPU that a new thread goes to, if it does not stay in that of the CPU.
    fn idlest_group(
        &self,
        hardware: &Hardware,
        thread: &Thread,
        (cpu, of): (usize, &Level),
    ) -> Option<Range<usize>> {
        let is_allowed = |cpus: &Range<usize>| cpus.clone().any(|cpu| thread.may_run_on(cpu));
        let totals = self.totals(Instant::new(hardware.now()));
        let group = |cpus: Range<usize>| {
            let mut group = Group::new(cpus.clone());
            group.capacity = self.cpus[cpus.clone()].iter().map(|cpu| cpu.capacity).sum();
            cpus.for_each(|cpu| {
                group.add(&self.figures(hardware, cpu, &totals), self.is_unused(hardware, cpu));
            });
            group.classify(of.margin(), false, false);
            group
        };
        let others = of.other_groups(cpu).filter(is_allowed).map(group);
        let idlest = others.reduce(|idlest, other| if other.is_idler(&idlest) { other } else { idlest })?;
        let own = of.own_group(cpu);
        if !is_allowed(&own) {
            return Some(idlest.cpus);
        }
        let allowed_there = own.clone().filter(|cpu| thread.may_run_on(*cpu)).count();
        let local = group(own);
        let leaves = match local.kind.cmp(&idlest.kind) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => leaves(&local, &idlest, of, allowed_there),
        };
        leaves.then_some(idlest.cpus)
    }
}

/// Whether a new thread leaves a group for the idlest other one, which is of the same kind.
fn leaves(local: &Group, idlest: &Group, of: &Level, allowed: usize) -> bool {
    let is_of_nodes = of.shared == Shared::Machine;
    if local.kind == GroupKind::Spare {
        let lone_threads = of.lone_threads.min(allowed);
        let more = local.idle.abs_diff(idlest.idle) as u64;
        let is_kept = is_of_nodes && (more == 0 || is_kept_by_node(local.all, lone_threads, more));
        return !is_kept && local.idle < idlest.idle;
    }
    let (own, theirs) = (local.density(), idlest.density());
    let difference = LOAD_OF_NICE_0 * (of.margin() - 100) / 100;
    if is_of_nodes && theirs + difference >= own {
        return false;
    }
    theirs < own + difference && 100 * own > of.margin() * theirs
}

/// What a thread loads its CPU with that always wants it.
fn load_alone(scheduling: Scheduling) -> u64 {
    weight::of(&scheduling).unsigned_abs()
}

impl Levels {
    fn share_cache(&self, a: usize, b: usize) -> bool {
        self.domains.around(a).contains(&b)
    }
}

impl Group {
    /// Whether a new thread goes there rather than to another one (`update_pick_idlest`).
    fn is_idler(&self, other: &Group) -> bool {
        if self.kind != other.kind {
            return self.kind < other.kind;
        }
        match self.kind {
            GroupKind::Spare => (self.idle, other.used) > (other.idle, self.used),
            _ => self.density() < other.density(),
        }
    }
}
