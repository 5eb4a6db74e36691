//! `SCHED_DEADLINE`: earliest deadline first over Constant Bandwidth Servers, after `kernel/sched/deadline.c`.
//!
//! `entity` holds the rules of one reservation, `bandwidth` GRUB, `server` the fair server. Here they meet
//! the CPUs. A budget is looked at when time is booked: on ticks and at switches; with exact enforcement a timer
//! sees to it that time is booked when the budget ends. A reservation without budget leaves the queue until its
//! timer fires at the next period, or runs on as a fair thread if it is to be demoted.
//!
//! `placement` is on which CPU a thread runs, `adaptive` where that is not the kernel's way, `lending` who runs on the budget of one that waits for a lock, `returning` when one that
//! left may come back.

pub(super) mod adaptive;
mod bandwidth;
mod entity;
mod lending;
mod placement;
mod queues;
mod returning;
mod server;

use std::collections::BTreeMap;

use surety_model::platform::{Enforcement, FairServer};
use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, Scheduling, ThreadId};
use crate::cpu::places::Places;
use crate::cpu::policy::{Arrival, CpuPolicy, Departure, Pick};
use crate::cpu::recorder::Kept;
use crate::engine::Slot;

use bandwidth::Bandwidths;
use entity::Entity;
use placement::{Global, Migration};
use queues::Queues;
use server::{Action, Server};

/// The kinds of timer, in the two low bits of a timer's number.
const REPLENISH: u32 = 0;
const INACTIVE: u32 = 1;
const ENFORCE: u32 = 2;

/// Where an entity stands that no thread ever had a reservation for.
const NONE: u32 = u32::MAX;

/// The deadline class.
pub struct Deadline {
    rank: Rank,
    /// When threads change their CPU.
    migration: &'static dyn Migration,
    /// Servers first, one for each CPU and scheduler that is served; then threads with a reservation.
    entities: Vec<Entity>,
    servers: Vec<Server>,
    /// The schedulers served: the fair one where the platform has servers for that, and those inside reservations of groups.
    served: Vec<Rank>,
    /// Entity of each thread.
    of_thread: Vec<u32>,
    /// Thread of each entity that is no server.
    thread_of: Vec<ThreadId>,
    queues: Queues,
    bandwidths: Bandwidths,
    /// Per CPU, where budgets are enforced exactly.
    enforce: Vec<Slot>,
    /// Queued threads, running or not.
    waiting: usize,
    /// CPUs whose running thread has left the class, or has another reservation, since they last chose.
    lowered: Places,
    /// Who runs on the budget of a thread's entity instead of it, while that waits for a lock (see `lending`).
    lent: BTreeMap<usize, ThreadId>,
    /// The entity that was picked last, where any is lent.
    acts_for: Option<usize>,
}

impl Deadline {
    /// For a machine without threads.
    pub fn new(hardware: &mut Hardware, rank: Rank) -> Deadline {
        Deadline::migrating(hardware, rank, &Global)
    }

    /// The same with other migrations than the kernel's.
    fn migrating(hardware: &mut Hardware, rank: Rank, migration: &'static dyn Migration) -> Deadline {
        let cpus = hardware.cpus.len();
        let mut policy = Deadline {
            rank,
            migration,
            entities: Vec::new(),
            servers: Vec::new(),
            served: Vec::new(),
            of_thread: Vec::new(),
            thread_of: Vec::new(),
            queues: Queues::new(cpus, rank > Rank(0)),
            bandwidths: Bandwidths::new(cpus, hardware.platform.deadline_cap, hardware.platform.reclaiming),
            enforce: Vec::new(),
            waiting: 0,
            lowered: Places::none(cpus),
            lent: BTreeMap::new(),
            acts_for: None,
        };
        if let Some(common) = hardware.platform.fair_server {
            let serves = hardware.rank_of(PolicySpec::default().word());
            let of = |server: FairServer| Reservation::implicit(server.runtime, server.period);
            let own = |cpu| hardware.platform.fair_server_at(cpu).unwrap_or(common);
            let each: Vec<Reservation> = (0..cpus).map(|cpu| of(own(cpu))).collect();
            policy.serve(hardware, &each, &Server::deferred(serves, hardware.times.server_resolution));
        }
        policy.bandwidths.book_idle_servers(hardware.platform.booked_for_ext());
        for (serves, reservation) in hardware.inside.clone() {
            policy.serve(hardware, &vec![reservation; cpus], &Server::immediate(serves));
        }
        if hardware.platform.enforcement == Enforcement::Exact {
            policy.enforce = (0..cpus).map(|cpu| hardware.add_timer(rank, number(cpu, ENFORCE))).collect();
        }
        policy
    }

    /// A server on each CPU, with a reservation each.
    fn serve(&mut self, hardware: &mut Hardware, reservations: &[Reservation], server: &Server) {
        for (cpu, reservation) in reservations.iter().enumerate() {
            self.add_entity(hardware, *reservation, cpu, server.is_deferred());
            self.servers.push(server.clone());
        }
        self.served.push(server.serves);
    }

    fn add_entity(
        &mut self,
        hardware: &mut Hardware,
        reservation: Reservation,
        cpu: usize,
        is_fair_server: bool,
    ) -> usize {
        let index = self.entities.len();
        let timers = (
            hardware.add_timer(self.rank, number(index, REPLENISH)),
            hardware.add_timer(self.rank, number(index, INACTIVE)),
        );
        let entity = Entity::new(reservation, cpu, timers);
        if is_fair_server {
            self.bandwidths.book_server(cpu, entity.bandwidth());
        } else {
            self.bandwidths.book(cpu, entity.bandwidth());
        }
        self.entities.push(entity);
        index
    }

    /// What a thread of the class asks for now: its first reservation, another, or the one with which it left.
    fn take_reservation(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let t = hardware.thread(thread);
        let Scheduling::Deadline(reservation) = t.asked else { return };
        if self.of_thread[thread.index()] == NONE {
            let index = self.add_entity(hardware, reservation, t.cpu, false);
            self.of_thread[thread.index()] = u32::try_from(index).expect("fewer than 2^32 entities");
            self.thread_of.push(thread);
            return;
        }
        let entity = &mut self.entities[self.of_thread[thread.index()] as usize];
        if entity.reservation == reservation && entity.booked {
            entity.leaves = false;
            return;
        }
        let (cpu, before) = (entity.cpu, entity.bandwidth());
        entity.take(reservation);
        let (after, was_booked) = (entity.bandwidth(), std::mem::replace(&mut entity.booked, true));
        entity.leaves = false;
        if entity.active {
            self.bandwidths.deactivate(cpu, before);
            self.bandwidths.activate(cpu, after);
        }
        if was_booked {
            self.bandwidths.give_back(cpu, before);
        }
        self.bandwidths.book(cpu, after);
    }

    /// Whether an entity is a server: those come first, for one scheduler after another, by CPU.
    fn is_server(&self, entity: usize) -> bool {
        entity < self.servers.len()
    }

    fn is_fair_server(&self, entity: usize) -> bool {
        self.servers.get(entity).is_some_and(Server::is_deferred)
    }

    fn thread_at(&self, entity: usize) -> Option<ThreadId> {
        entity.checked_sub(self.servers.len()).map(|place| self.thread_of[place])
    }

    fn entity_of(&self, thread: ThreadId) -> usize {
        debug_assert_ne!(self.of_thread[thread.index()], NONE, "a deadline thread has a reservation");
        self.of_thread[thread.index()] as usize
    }

    fn insert(&mut self, hardware: &mut Hardware, index: usize) {
        hardware.stirs(self.entities[index].cpu, self.rank);
        self.queues.insert(index, &mut self.entities[index]);
        self.waiting += usize::from(index >= self.servers.len());
    }

    fn remove(&mut self, index: usize) {
        if self.queues.remove(&mut self.entities[index]) {
            self.waiting -= usize::from(index >= self.servers.len());
        }
    }

    /// The bandwidth counts as active from now on (`task_contending`).
    fn contend(&mut self, hardware: &mut Hardware, index: usize) {
        let entity = &mut self.entities[index];
        hardware.engine.cancel(entity.inactive);
        if !entity.active {
            entity.active = true;
            self.bandwidths.activate(entity.cpu, entity.bandwidth());
        }
    }

    /// It sleeps: the bandwidth stays active until the 0-lag time (`task_non_contending`).
    fn stop_contending(&mut self, hardware: &mut Hardware, index: usize) {
        let entity = &self.entities[index];
        let free = entity.zero_lag();
        if free > hardware.now() {
            hardware.arm_timer(entity.inactive, entity.cpu, free);
        } else {
            self.deactivate(index);
        }
    }

    fn deactivate(&mut self, index: usize) {
        let entity = &mut self.entities[index];
        if entity.active {
            entity.active = false;
            self.bandwidths.deactivate(entity.cpu, entity.bandwidth());
        }
        if std::mem::take(&mut entity.leaves) {
            entity.booked = false;
            self.bandwidths.give_back(entity.cpu, entity.bandwidth());
        }
    }

    fn start_timer(&self, hardware: &mut Hardware, index: usize, at: Nanos) {
        let entity = &self.entities[index];
        hardware.arm_timer(entity.timer, entity.cpu, at);
        hardware.keep(entity.cpu, Kept::TimerStart { timer: index as u64 + 1, expires: at });
    }

    /// Its budget is used up or given up.
    fn throttle(&mut self, hardware: &mut Hardware, index: usize) {
        self.remove(index);
        let next = self.entities[index].next_period();
        hardware.reschedule(self.entities[index].cpu);
        if next < hardware.now() {
            self.entities[index].replenish(hardware.now());
            self.insert(hardware, index);
            return;
        }
        self.entities[index].throttled = true;
        self.start_timer(hardware, index, next);
        if let Some(thread) = self.thread_at(index).filter(|_| self.entities[index].reservation.demote) {
            hardware.changes.push((thread, Scheduling::Policy(PolicySpec::default())));
        }
    }

    /// A thread's replenishment.
    fn replenish(&mut self, hardware: &mut Hardware, index: usize) {
        if !self.entities[index].throttled {
            return;
        }
        self.entities[index].replenish(hardware.now());
        let Some(thread) = self.runs_for(index) else { return };
        let t = hardware.thread(thread);
        if t.rank != self.rank {
            hardware.changes.push((thread, t.asked));
            return;
        }
        if !t.state.wants_cpu() {
            return;
        }
        let own = self.entities[index].cpu;
        let pinned = self.queues.len() == 1 || t.is_pinned() || self.keeps(own);
        self.insert(hardware, index);
        let elsewhere = self.fitting(hardware, index).or_else(|| {
            let deadline = self.entities[index].deadline;
            self.later_cpu(hardware, own, deadline).filter(|cpu| self.queues.is_empty(*cpu))
        });
        match elsewhere.filter(|_| !pinned && self.replenished_moves(hardware, own)) {
            Some(cpu) => {
                self.move_to(hardware, index, cpu);
                hardware.reschedule(cpu);
            }
            None => self.offer(hardware, index),
        }
    }

    /// Does what a server asks for: mostly nothing.
    #[inline]
    fn act(&mut self, hardware: &mut Hardware, server: usize, action: Action) {
        if action != Action::Nothing {
            self.carry_out(hardware, server, action);
        }
    }

    #[inline(never)]
    fn carry_out(&mut self, hardware: &mut Hardware, server: usize, action: Action) {
        match action {
            Action::Nothing => {}
            Action::Arm(at) => self.start_timer(hardware, server, at),
            Action::Enqueue => {
                hardware.engine.cancel(self.entities[server].timer);
                if !self.entities[server].is_queued() {
                    self.insert(hardware, server);
                }
                self.offer(hardware, server);
            }
            Action::Throttle(until) => {
                self.remove(server);
                self.start_timer(hardware, server, until);
                hardware.reschedule(self.entities[server].cpu);
            }
            Action::Stop => {
                self.remove(server);
                hardware.engine.cancel(self.entities[server].timer);
                self.stop_contending(hardware, server);
            }
        }
    }

    /// The server of a CPU for one of the schedulers served.
    fn server(&self, hardware: &Hardware, served: usize, cpu: usize) -> usize {
        served * hardware.cpus.len() + cpu
    }

    /// An entity joins the queue of a CPU, whoever runs on it.
    fn join(&mut self, hardware: &mut Hardware, (index, cpu): (usize, usize), arrival: Arrival) {
        if self.entities[index].is_queued() {
            // Somebody has run on it while its thread waited for a lock.
            return;
        }
        let now = hardware.now();
        self.follow(index, cpu);
        self.contend(hardware, index);
        self.rate_has_changed(hardware, cpu);
        let entity = &mut self.entities[index];
        if entity.throttled {
            return;
        }
        if arrival == Arrival::Changed {
            if !entity.begun || entity.deadline < now {
                entity.begin_period(now);
            }
        } else if entity.wakes_too_early(now) {
            entity.throttled = true;
            entity.budget = entity.budget.min(Nanos::ZERO);
            let next = entity.next_period();
            self.start_timer(hardware, index, next);
            return;
        } else {
            entity.wake(now);
        }
        self.insert(hardware, index);
    }

    /// Books an entity's bandwidth where its thread is.
    fn follow(&mut self, index: usize, to: usize) {
        let entity = &mut self.entities[index];
        if entity.cpu != to {
            self.bandwidths.migrate(entity.cpu, to, entity.bandwidth(), entity.active);
            entity.cpu = to;
        }
    }

    fn rate(&self, index: usize) -> Option<u64> {
        let entity = &self.entities[index];
        entity.reservation.reclaim.then(|| self.bandwidths.rate(entity.cpu, entity.bandwidth()))
    }

    /// With exact enforcement: has the CPU's time booked when the budget of what it will run ends. A fair server's ends when its
    /// threads are booked: the kernel sets the timer for deadline threads alone (`set_next_task_dl`).
    fn arm_enforcement(&self, hardware: &mut Hardware, cpu: usize) {
        let Some(timer) = self.enforce.get(cpu) else { return };
        match self.queues.first(cpu).filter(|index| !self.is_fair_server(*index)) {
            Some(index) => {
                let entity = &self.entities[index];
                let lasts = match self.rate(index) {
                    Some(rate) => Bandwidths::lasts(entity.budget, rate),
                    None => entity.budget,
                };
                // A budget that was cut to nothing is found used up when some time has been booked, as in the kernel.
                let ends = hardware.free_from(cpu) + lasts.max(Nanos::new(1));
                hardware.arm_timer(*timer, cpu, ends);
            }
            None => hardware.engine.cancel(*timer),
        }
    }

    /// With exact enforcement: bandwidth has become active or inactive, and all time up to now is booked at the rate of before.
    /// The kernel books at the rate of the moment it looks, so what runs on ticks stays as that.
    fn rate_has_changed(&self, hardware: &mut Hardware, cpu: usize) {
        let runs = hardware.current_of(cpu, self.rank).is_some();
        if runs && !hardware.cpus[cpu].reschedule {
            self.arm_enforcement(hardware, cpu);
        }
    }
}

fn number(index: usize, kind: u32) -> u32 {
    u32::try_from(index).expect("fewer than 2^26 entities") << 2 | kind
}

/// Makes the scheduler, for a machine without threads.
pub(super) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Deadline::new(hardware, rank))
}

impl CpuPolicy for Deadline {
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId) {
        let t = hardware.thread(thread);
        let Scheduling::Deadline(reservation) = t.asked else {
            self.of_thread.push(NONE);
            return;
        };
        let cpu = t.cpu;
        let index = self.add_entity(hardware, reservation, cpu, false);
        self.of_thread.push(u32::try_from(index).expect("fewer than 2^32 entities"));
        self.thread_of.push(thread);
    }

    fn refuses_until(&self, hardware: &Hardware, thread: ThreadId, asked: Reservation) -> Option<Nanos> {
        self.booked_until(hardware, thread, asked)
    }

    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, _arrival: Arrival) -> usize {
        let t = hardware.thread(thread);
        let cpu = t.cpu;
        if self.queues.len() == 1 || t.is_pinned() || self.keeps(cpu) {
            return cpu;
        }
        let index = self.entity_of(thread);
        if let Some(fitting) = self.fitting(hardware, index) {
            return fitting;
        }
        let deadline = self.entities[index].deadline_after_wake(hardware.now());
        let outranked = self.is_outranked(hardware, cpu);
        let runs_here = self.queues.is_empty(cpu) || deadline < self.queues.first_deadline(cpu);
        let current_moves =
            hardware.current_of(cpu, self.rank).is_none_or(|current| !hardware.thread(current).is_pinned());
        if runs_here && current_moves && !outranked {
            return cpu;
        }
        self.later_cpu(hardware, cpu, deadline).unwrap_or(cpu)
    }

    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival) {
        if arrival == Arrival::Changed {
            self.take_reservation(hardware, thread);
        }
        self.join(hardware, (self.entity_of(thread), cpu), arrival);
        self.join_lent(hardware, thread);
    }

    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, departure: Departure) {
        let index = self.entity_of(thread);
        self.remove(index);
        // One that goes for good has its bandwidth booked until its 0-lag time (`switched_from_dl`).
        self.entities[index].leaves = departure == Departure::Changes
            && !matches!(hardware.thread(thread).asked, Scheduling::Deadline(_));
        if departure != Departure::Changes || self.entities[index].leaves {
            self.stop_contending(hardware, index);
        }
        if departure != Departure::Changes {
            self.leave_lent(hardware, thread);
        } else if hardware.current(cpu) == Some(thread) {
            self.lowered.set(cpu, true);
            hardware.stirs(cpu, self.rank);
        }
    }

    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick {
        self.lowered.set(cpu, false);
        self.arm_enforcement(hardware, cpu);
        let first = self.queues.first(cpu);
        self.acts_for = first.filter(|_| !self.lent.is_empty());
        match first {
            None => {
                if self.lent.is_empty() {
                    hardware.rests(cpu, self.rank);
                }
                Pick::Nothing
            }
            Some(index) => match self.runs_for(index) {
                Some(thread) => Pick::Thread(thread),
                None => Pick::Serve(self.servers[index].serves),
            },
        }
    }

    fn account(&mut self, hardware: &mut Hardware, _cpu: usize, thread: ThreadId, ran: Nanos) {
        let index = self.runs_on(thread);
        let used = match self.rate(index) {
            Some(rate) => Bandwidths::used(ran, rate),
            None => ran,
        };
        let entity = &mut self.entities[index];
        entity.budget -= used;
        if !entity.budget.is_positive() && !entity.throttled {
            self.throttle(hardware, index);
        }
    }

    fn wakeup_preempt(&mut self, hardware: &mut Hardware, cpu: usize, current: ThreadId, woken: ThreadId) {
        let (current, woken) = (self.runs_on(current), self.first_of(woken));
        if self.entities[woken].deadline < self.entities[current].deadline {
            hardware.reschedule(cpu);
        }
    }

    fn is_queued(&self, thread: ThreadId) -> bool {
        self.entities[self.first_of(thread)].is_queued()
    }

    fn lend(&mut self, hardware: &mut Hardware, lendings: &[(ThreadId, ThreadId)]) {
        self.lends(hardware, lendings);
    }

    fn yield_now(&mut self, hardware: &mut Hardware, _cpu: usize, thread: ThreadId) {
        let index = self.runs_on(thread);
        self.entities[index].yielded = true;
        if !self.entities[index].throttled {
            self.throttle(hardware, index);
        }
    }

    fn accounts_on_enqueue(&self, _thread: ThreadId) -> bool {
        // What joins may change the rate at which the running budget goes down.
        !self.enforce.is_empty()
    }

    fn accounts_for_timer(&self, number: u32) -> bool {
        match number & 3 {
            INACTIVE => !self.enforce.is_empty(),
            // A fair server is judged by the time up to now, and so is the budget of a CPU.
            REPLENISH => self.is_server((number >> 2) as usize),
            _ => true,
        }
    }

    fn timer_cpu(&self, number: u32) -> Option<usize> {
        let index = (number >> 2) as usize;
        Some(if number & 3 == ENFORCE { index } else { self.entities[index].cpu })
    }

    fn timer(&mut self, hardware: &mut Hardware, number: u32) {
        let index = (number >> 2) as usize;
        match number & 3 {
            REPLENISH => {
                hardware.keep(self.entities[index].cpu, Kept::TimerExpire { timer: index as u64 + 1 });
                if self.is_server(index) {
                    let now = hardware.now();
                    let action = self.servers[index].timer(&mut self.entities[index], now);
                    self.act(hardware, index, action);
                } else {
                    self.replenish(hardware, index);
                }
            }
            INACTIVE => {
                self.deactivate(index);
                self.rate_has_changed(hardware, self.entities[index].cpu);
            }
            _ => {
                // Time is booked. What is left, because the rate has changed, gets a timer again.
                if !hardware.cpus[index].reschedule {
                    self.arm_enforcement(hardware, index);
                }
            }
        }
    }

    fn looks(&mut self, hardware: &Hardware, cpu: usize) -> bool {
        self.queues.some_may_wait() && self.lowers(hardware, cpu)
    }

    fn pulls_from(&mut self, hardware: &Hardware, cpu: usize) -> Option<usize> {
        self.pullable(hardware, cpu).map(|index| self.entities[index].cpu)
    }

    fn pull(&mut self, hardware: &mut Hardware, cpu: usize) {
        if let Some(index) = self.pullable(hardware, cpu) {
            self.move_to(hardware, index, cpu);
        }
    }

    fn push(&mut self, hardware: &mut Hardware, cpu: usize) {
        if !self.queues.has_second(cpu) && !self.is_outranked(hardware, cpu) {
            return;
        }
        for _ in 1..self.queues.len() {
            if self.keeps(cpu) {
                return;
            }
            let Some((deadline, index)) = self.movable(hardware, cpu, None) else { return };
            let target = self.fitting(hardware, index).or_else(|| self.later_cpu(hardware, cpu, deadline));
            let Some(target) = target.filter(|target| *target != cpu) else { return };
            self.move_to(hardware, index, target);
            hardware.reschedule(target);
        }
    }

    fn watches(&self) -> bool {
        !self.servers.is_empty()
    }

    fn enqueued(&mut self, hardware: &mut Hardware, cpu: usize, of: Rank) {
        let Some(served) = self.served.iter().position(|rank| *rank == of) else { return };
        let (server, now) = (self.server(hardware, served, cpu), hardware.now());
        if self.servers[server].is_off() {
            self.contend(hardware, server);
        }
        let action = self.servers[server].start(&mut self.entities[server], now);
        self.act(hardware, server, action);
    }

    fn ran(&mut self, hardware: &mut Hardware, cpu: usize, of: Option<Rank>, ran: Nanos) {
        for served in 0..self.served.len() {
            if of.is_none_or(|of| self.served[served] == of) {
                let (server, now) = (self.server(hardware, served, cpu), hardware.now());
                let action = self.servers[server].ran(&mut self.entities[server], of.is_none(), ran, now);
                self.act(hardware, server, action);
            }
        }
    }

    fn unserved(&mut self, hardware: &mut Hardware, cpu: usize) {
        let server = self.queues.first(cpu).filter(|first| self.is_server(*first));
        let server = server.expect("it was picked");
        let action = self.servers[server].stop();
        self.act(hardware, server, action);
    }
}
