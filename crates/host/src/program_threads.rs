//! [`ProgramThreads`]: what a trace shows of programs: which threads each consists of, what each of them got, and how long the
//! program as a whole wanted a CPU and had none.
//!
//! A program's threads are its first one and all that descend from it (`sched_process_fork` is written for threads and
//! processes alike). A program is *kept waiting* while at least one of its threads is ready to run and none of them
//! runs: a second thread that waits while the first works is no loss of CPU time to the program. A thread out of budget
//! is ready to run. Readiness begins with the request to wake.
//!
//! A thread that was last seen on a CPU on which another is found now has left it unseen; it counts as asleep until it
//! shows again, so nothing is invented to its advantage. A thread that was ready and is found on a CPU that idled, without a switch
//! to it (some kernels leave those out), has been there since the last event of that CPU, or since it was ready: the earliest
//! it can have been, as with jobs ([`surety_trace`]'s inference).

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, EventKind, LeaveState, TraceSink};
use surety_model::workload::ThreadRole;
use surety_units::{Nanos, Tid};

use crate::programs::LiveThread;

/// More threads than this are not told apart: a program that makes them without end must not fill the memory.
const THREADS_MAX: usize = 100_000;

/// One program as the trace shows it, inside the observed window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SeenProgram {
    /// Its threads in the order of their creation.
    pub threads: Vec<ProgramThread>,
    /// Time in which at least one of them was on a CPU.
    pub busy: Nanos,
    /// Time in which at least one of them was ready and none was on a CPU.
    pub starved: Nanos,
}

/// One thread of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgramThread {
    pub tid: Tid,
    pub role: ThreadRole,
    /// Time on CPUs inside the window, as the trace has it.
    pub run: Nanos,
}

impl SeenProgram {
    /// The role whose threads together ran longest.
    pub fn busiest(&self) -> Option<&ThreadRole> {
        let mut runs: BTreeMap<&ThreadRole, Nanos> = BTreeMap::new();
        for thread in &self.threads {
            *runs.entry(&thread.role).or_default() += thread.run;
        }
        runs.into_iter().max_by_key(|(_, run)| *run).map(|(role, _)| role)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Asleep,
    Ready,
    On(usize),
}

#[derive(Clone, Debug)]
struct Life {
    program: usize,
    tid: Tid,
    comm: Comm,
    ended: Option<Nanos>,
    place: Place,
    since: Nanos,
    run: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    on: u32,
    ready: u32,
    since: Nanos,
    busy: Nanos,
    starved: Nanos,
}

/// Follows the programs with these first threads through a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramThreads {
    window: (Nanos, Nanos),
    lives: Vec<Life>,
    now: BTreeMap<Tid, usize>,
    counts: Vec<Count>,
    cpus: Vec<OfCpu>,
}

/// A CPU: whose thread is on it, its last event, and whether it idled then.
#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    occupant: Option<usize>,
    last: Nanos,
    idles: bool,
}

impl ProgramThreads {
    /// Follows programs by the thread each began with and those it had before, the oldest first, and counts between two
    /// instants of the trace's clock.
    pub fn new(programs: &[(Tid, Vec<LiveThread>)], window: (Nanos, Nanos)) -> ProgramThreads {
        let mut program_threads = ProgramThreads {
            window,
            counts: vec![Count::default(); programs.len()],
            ..ProgramThreads::default()
        };
        for (program, (root, had)) in programs.iter().enumerate() {
            if had.iter().all(|thread| thread.tid != *root) {
                program_threads.admit(program, *root, Comm::default(), Nanos::ZERO);
            }
            for thread in had {
                program_threads.admit(program, thread.tid, Comm::new(&thread.comm), Nanos::ZERO);
            }
        }
        program_threads
    }

    /// Between these instants it counts.
    pub fn window(&self) -> (Nanos, Nanos) {
        self.window
    }

    fn admit(&mut self, program: usize, tid: Tid, comm: Comm, born: Nanos) {
        if self.lives.len() >= THREADS_MAX {
            return;
        }
        self.now.insert(tid, self.lives.len());
        let (place, ended) = (Place::Asleep, None);
        self.lives.push(Life { program, tid, comm, ended, place, since: born, run: Nanos::ZERO });
    }

    /// Time between two instants that lies inside the window.
    fn inside(&self, from: Nanos, to: Nanos) -> Nanos {
        (to.min(self.window.1) - from.max(self.window.0)).max(Nanos::ZERO)
    }

    fn put(&mut self, index: usize, place: Place, at: Nanos) {
        let Some(life) = self.lives.get(index) else { return };
        let (program, before, since) = (life.program, life.place, life.since);
        if before == place {
            return;
        }
        let ran = self.inside(since, at);
        self.settle(program, at);
        if let Some(count) = self.counts.get_mut(program) {
            match before {
                Place::On(_) => count.on = count.on.saturating_sub(1),
                Place::Ready => count.ready = count.ready.saturating_sub(1),
                Place::Asleep => {}
            }
            match place {
                Place::On(_) => count.on += 1,
                Place::Ready => count.ready += 1,
                Place::Asleep => {}
            }
        }
        if let Place::On(cpu) = before
            && let Some(of_cpu) = self.cpus.get_mut(cpu).filter(|of| of.occupant == Some(index))
        {
            of_cpu.occupant = None;
        }
        if let Place::On(cpu) = place
            && let Some(of_cpu) = self.cpus.get_mut(cpu)
        {
            of_cpu.occupant = Some(index);
        }
        if let Some(life) = self.lives.get_mut(index) {
            if matches!(before, Place::On(_)) {
                life.run += ran;
            }
            (life.place, life.since) = (place, at);
        }
    }

    /// Adds up what a program had until now.
    fn settle(&mut self, program: usize, at: Nanos) {
        let Some(count) = self.counts.get(program).copied() else { return };
        // What is inferred may lie before what another thread of it did.
        let at = at.max(count.since);
        let span = self.inside(count.since, at);
        if let Some(entry) = self.counts.get_mut(program) {
            entry.since = at;
            if count.on > 0 {
                entry.busy += span;
            } else if count.ready > 0 {
                entry.starved += span;
            }
        }
    }

    fn wake(&mut self, tid: Tid, comm: Comm, at: Nanos) {
        let Some(index) = self.now.get(&tid).copied() else { return };
        if let Some(life) = self.lives.get_mut(index) {
            life.comm = comm;
            if life.place == Place::Asleep {
                self.put(index, Place::Ready, at);
            }
        }
    }

    /// Who is found on a CPU is there, and who was there before is not.
    fn found(&mut self, cpu: usize, current: Tid, at: Nanos) {
        /// No machine has more; a damaged event must not make a table of any length.
        const CPUS_MAX: usize = 1 << 16;
        if cpu >= CPUS_MAX {
            return;
        }
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, OfCpu::default());
        }
        let index = self.now.get(&current).copied();
        let Some(OfCpu { occupant, last, idles }) = self.cpus.get(cpu).copied() else { return };
        if let Some(gone) = occupant.filter(|b| Some(*b) != index) {
            self.put(gone, Place::Asleep, at);
        }
        if let Some((index, life)) = index.and_then(|index| Some((index, self.lives.get(index)?))) {
            let since = if idles && life.place == Place::Ready { last.max(life.since) } else { at };
            self.put(index, Place::On(cpu), since);
        }
        if let Some(of_cpu) = self.cpus.get_mut(cpu) {
            (of_cpu.last, of_cpu.idles) = (at, current == Tid::IDLE);
        }
    }

    /// The programs in the order of their first threads.
    pub fn finish(mut self) -> Vec<SeenProgram> {
        let end = self.window.1;
        for index in 0..self.lives.len() {
            self.put(index, Place::Asleep, end);
        }
        (0..self.counts.len()).for_each(|program| self.settle(program, end));
        let seen_of = |(program, count): (usize, &Count)| {
            let lives: Vec<&Life> = self.lives.iter().filter(|l| l.program == program).collect();
            let threads = lives.iter().enumerate().map(|(nth, life)| {
                let last = life.ended.unwrap_or(Nanos::MAX);
                let older = lives
                    .iter()
                    .take(nth)
                    .filter(|other| other.comm == life.comm && other.ended.is_none_or(|ended| ended > last));
                let rank = u32::try_from(older.count()).unwrap_or(u32::MAX);
                let role = ThreadRole { comm: life.comm.text().into_owned(), rank };
                ProgramThread { tid: life.tid, role, run: life.run }
            });
            SeenProgram { threads: threads.collect(), busy: count.busy, starved: count.starved }
        };
        self.counts.iter().enumerate().map(seen_of).collect()
    }
}

impl TraceSink for ProgramThreads {
    fn event(&mut self, event: &Event<'_>) {
        if self.counts.is_empty() {
            return;
        }
        let at = event.time;
        if let EventKind::Exec { tid, old } = event.kind
            && tid != old
            && let Some(index) = self.now.remove(&old)
        {
            // Only the caller survives, under its leader's id.
            self.now.insert(tid, index);
            if let Some(life) = self.lives.get_mut(index) {
                life.tid = tid;
            }
        }
        let cpu = event.cpu.index();
        self.found(cpu, event.current, at);
        match event.kind {
            EventKind::Switch { prev, prev_comm, prev_state, next, next_comm, .. } => {
                if let Some(index) = self.now.get(&prev).copied() {
                    if let Some(life) = self.lives.get_mut(index) {
                        life.comm = prev_comm;
                    }
                    let place = match prev_state {
                        LeaveState::Runnable { .. } => Place::Ready,
                        _ => Place::Asleep,
                    };
                    self.put(index, place, at);
                    if prev_state == LeaveState::Dead {
                        self.now.remove(&prev);
                    }
                }
                if let Some(index) = self.now.get(&next).copied() {
                    if let Some(life) = self.lives.get_mut(index) {
                        life.comm = next_comm;
                    }
                    self.found(cpu, next, at);
                }
                if let Some(of_cpu) = self.cpus.get_mut(cpu) {
                    of_cpu.idles = next == Tid::IDLE;
                }
            }
            EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
                self.wake(woken.tid, woken.comm, at);
            }
            EventKind::Fork { parent, child, child_comm } => {
                let program = self.now.get(&parent).and_then(|i| self.lives.get(*i)).map(|l| l.program);
                // One that was there when the programs were looked at is known.
                if let Some(program) = program.filter(|_| !self.now.contains_key(&child)) {
                    self.admit(program, child, child_comm, at);
                }
            }
            // Whoever lives to the end of the window is ended by us, in no particular order.
            EventKind::Exit { tid, comm } if at <= self.window.1 => {
                let life = self.now.get(&tid).and_then(|index| self.lives.get_mut(*index));
                if let Some(life) = life {
                    life.comm = comm;
                    life.ended = Some(at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::Woken;
    use surety_units::CpuId;

    const ROOT: Tid = Tid(100);

    struct Script {
        program_threads: ProgramThreads,
    }

    impl Script {
        fn at(&mut self, ms: i64, cpu: u32, current: i32, kind: EventKind<'_>) {
            let time = Nanos::from_millis(ms);
            self.program_threads.event(&Event { time, cpu: CpuId(cpu), current: Tid(current), kind });
        }

        fn switch(&mut self, ms: i64, cpu: u32, (prev, state): (i32, LeaveState), next: i32) {
            let (prev_comm, next_comm) = (comm(prev), comm(next));
            let kind = EventKind::Switch {
                prev: Tid(prev),
                prev_comm,
                prev_prio: 120,
                prev_state: state,
                next: Tid(next),
                next_comm,
                next_prio: 120,
            };
            self.at(ms, cpu, prev, kind);
        }

        fn wake(&mut self, ms: i64, tid: i32) {
            let woken = Woken { tid: Tid(tid), comm: comm(tid), prio: 120, target: CpuId(0) };
            self.at(ms, 1, 0, EventKind::Waking(woken));
        }

        fn fork(&mut self, ms: i64, parent: i32, child: i32) {
            let kind = EventKind::Fork { parent: Tid(parent), child: Tid(child), child_comm: comm(parent) };
            self.at(ms, 0, parent, kind);
        }
    }

    fn comm(tid: i32) -> Comm {
        Comm::new(match tid {
            100 => "main",
            101..=109 => "busy",
            _ => "other",
        })
    }

    const SLEEPS: LeaveState = LeaveState::Sleeping;
    const PREEMPTED: LeaveState = LeaveState::Runnable { preempted: true };
    const DEAD: LeaveState = LeaveState::Dead;

    fn script() -> Script {
        let ms = Nanos::from_millis;
        Script { program_threads: ProgramThreads::new(&[(ROOT, Vec::new())], (ms(0), ms(100))) }
    }

    #[test]
    fn a_program_waits_while_one_of_its_threads_is_ready_and_none_runs() {
        let mut s = script();
        s.wake(0, 100);
        s.switch(10, 0, (7, PREEMPTED), 100); // waited 10
        s.fork(12, 100, 101);
        s.wake(14, 101); // ready, but its sibling works
        s.switch(30, 0, (100, PREEMPTED), 7); // ran 20; both ready
        s.switch(45, 0, (7, PREEMPTED), 101); // waited 15
        s.switch(50, 0, (101, SLEEPS), 100); // ran 5
        s.switch(60, 0, (100, SLEEPS), 7); // ran 10
        s.wake(95, 100); // waits until the end of the window
        let programs_seen = s.program_threads.finish();
        let ms = Nanos::from_millis;
        assert_eq!((programs_seen[0].busy, programs_seen[0].starved), (ms(35), ms(30)));
        let runs: Vec<_> = programs_seen[0].threads.iter().map(|t| (t.tid.0, t.run)).collect();
        assert_eq!(runs, [(100, ms(30)), (101, ms(5))]);
    }

    #[test]
    fn threads_that_follow_each_other_have_one_role_and_living_ones_are_numbered() {
        let mut s = script();
        s.switch(0, 0, (7, PREEMPTED), 100);
        let exit = |tid: i32| EventKind::Exit { tid: Tid(tid), comm: comm(tid) };
        for (begin, child) in [(1, 101), (21, 102)] {
            s.fork(begin, 100, child);
            s.switch(begin + 1, 0, (100, SLEEPS), child);
            s.at(begin + 15, 0, child, exit(child));
            s.switch(begin + 16, 0, (child, DEAD), 100);
        }
        s.fork(50, 100, 103);
        s.fork(51, 100, 104);
        s.wake(52, 103);
        s.wake(52, 104);
        s.fork(60, 7, 900);
        for (ms, tid) in [(101, 104), (102, 103), (103, 100)] {
            s.at(ms, 0, tid, exit(tid));
        }
        let programs_seen = s.program_threads.finish();
        let roles: Vec<_> =
            programs_seen[0].threads.iter().map(|t| (t.tid.0, t.role.comm.clone(), t.role.rank)).collect();
        let busy = |tid, rank| (tid, "busy".to_owned(), rank);
        assert_eq!(
            roles,
            [(100, "main".to_owned(), 0), busy(101, 0), busy(102, 0), busy(103, 0), busy(104, 1)]
        );
    }

    #[test]
    fn threads_of_a_process_that_was_there_before_are_told_apart_by_their_age() {
        let ms = Nanos::from_millis;
        let live = |tid| LiveThread { start: 7, tid: Tid(tid), comm: comm(tid).text().into_owned() };
        let had = vec![live(100), live(101), live(102), live(103)];
        let mut s = Script { program_threads: ProgramThreads::new(&[(ROOT, had)], (ms(0), ms(100))) };
        // Made after the recording began, and there when it was looked at.
        s.fork(1, 100, 103);
        s.switch(10, 0, (7, PREEMPTED), 102);
        s.switch(30, 0, (102, SLEEPS), 103);
        s.switch(40, 0, (103, SLEEPS), 7);
        let programs_seen = s.program_threads.finish();
        let seen: Vec<_> = programs_seen[0].threads.iter().map(|t| (t.tid.0, t.role.rank, t.run)).collect();
        assert_eq!(seen, [(100, 0, ms(9)), (101, 0, ms(0)), (102, 1, ms(20)), (103, 2, ms(10))]);
        assert_eq!(programs_seen[0].busiest().map(|role| role.rank), Some(1));
    }

    /// 6.18 in a virtual machine: the thread is woken on an idle CPU, and the next event is its own.
    #[test]
    fn a_switch_from_idle_that_was_not_recorded_begins_a_thread_s_time() {
        let mut s = script();
        s.at(9, 1, 0, EventKind::IrqExit { irq: 1 });
        s.wake(10, 100); // on CPU 1
        s.at(11, 1, 0, EventKind::IrqExit { irq: 1 });
        s.at(19, 0, 7, EventKind::IrqExit { irq: 1 });
        s.switch(25, 1, (100, SLEEPS), 0);
        // Ready since 30, the idle CPU's last event is older.
        s.at(28, 0, 0, EventKind::IrqExit { irq: 1 });
        s.wake(30, 100);
        s.at(35, 0, 100, EventKind::IrqExit { irq: 1 });
        s.switch(45, 0, (100, SLEEPS), 7);
        // Nobody saw it ready: nothing is invented.
        s.at(60, 0, 100, EventKind::IrqExit { irq: 1 });
        s.switch(61, 0, (100, SLEEPS), 7);
        // Another thread had the CPU: when it left is not known.
        s.wake(70, 100);
        s.at(75, 0, 100, EventKind::IrqExit { irq: 1 });
        s.switch(76, 0, (100, SLEEPS), 0);
        // The switch to idle was recorded, and is the CPU's last event.
        s.wake(80, 100);
        s.at(85, 0, 100, EventKind::IrqExit { irq: 1 });
        s.switch(86, 0, (100, SLEEPS), 7);
        let programs_seen = s.program_threads.finish();
        let ms = Nanos::from_millis;
        assert_eq!(programs_seen[0].threads[0].run, ms(14 + 15 + 1 + 1 + 6));
        assert_eq!(programs_seen[0].busy, ms(37));
    }

    #[test]
    fn a_switch_that_was_not_recorded_ends_a_thread_s_time() {
        let mut s = script();
        s.switch(0, 0, (7, SLEEPS), 100);
        s.at(10, 0, 7, EventKind::IrqExit { irq: 1 });
        s.at(20, 0, 100, EventKind::IrqExit { irq: 1 });
        s.switch(25, 0, (100, SLEEPS), 7);
        let programs_seen = s.program_threads.finish();
        assert_eq!(programs_seen[0].busy, Nanos::from_millis(15));
        assert_eq!(programs_seen[0].starved, Nanos::ZERO);
    }
}
