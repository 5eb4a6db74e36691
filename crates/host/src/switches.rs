//! [`OwnSwitches`]: what an ordinary user sees of the scheduler: when their own threads got and lost a CPU.
//!
//! Together with the tasks' own stamps that is enough to tell jobs and their CPU time apart; who ran instead stays
//! unknown.

use surety_kernel::perf::{SwitchRecord, ThreadSwitches};
use surety_model::event::{Comm, Event, EventKind, JobMarker, JobUse, LeaveState, TraceSink, Woken};
use surety_model::world::Observer;
use surety_trace::JobBuilder;
use surety_units::{Bytes, CpuId, Nanos, Tid};

use crate::decode::{Decoded, quality};
use crate::returned::{MemberResult, Returned};
use crate::window::Window;

/// Buffer of each thread: two thousand switches between two looks.
const BUFFER: Bytes = Bytes(64 << 10);

/// The kernel's priority of a fair thread: these events say nothing of priorities.
const FAIR: i32 = 120;

/// Switches of threads of ours, collected while a run lasts.
#[derive(Default)]
pub(crate) struct OwnSwitches {
    threads: Vec<(ThreadSwitches, Vec<SwitchRecord>)>,
}

impl OwnSwitches {
    /// Starts collecting for these threads, as many as the user's limits allow.
    pub fn open(tids: impl Iterator<Item = Tid>, degraded: &mut Vec<String>) -> OwnSwitches {
        let mut switches = OwnSwitches::default();
        switches.open_more(tids, degraded);
        switches
    }

    /// The same for threads that are there since.
    pub fn open_more(&mut self, tids: impl Iterator<Item = Tid>, degraded: &mut Vec<String>) {
        for tid in tids {
            match ThreadSwitches::open(tid, BUFFER) {
                Ok(switches) => self.threads.push((switches, Vec::new())),
                Err(error) => {
                    let said = format!("the switches of own threads were not all recorded: {error}");
                    // One sentence says it of all threads that come later.
                    if !degraded.iter().any(|before| before.starts_with("the switches of own threads")) {
                        degraded.push(said);
                    }
                    break;
                }
            }
        }
    }

    /// Whether no thread is watched.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Tells all switches as events, in the order of time; returns how many were lost. A thread that had slept counts as woken when it
    /// gets a CPU: when it was is in no event.
    pub fn tell(mut self, observer: &mut dyn Observer) -> u64 {
        self.collect();
        let (mut told, mut lost) = (Vec::new(), 0);
        for (switches, records) in &self.threads {
            lost += replay(switches.tid(), records, Vec::new(), &mut told);
            wake(switches.tid(), records, &mut told);
        }
        // Who gets a CPU was woken before.
        told.sort_by_key(|told| (told.time, told.gets_a_cpu()));
        told.iter().for_each(|told| observer.event(&told.event()));
        lost
    }

    /// Takes what has come since the last look.
    pub fn collect(&mut self) {
        for (switches, records) in &mut self.threads {
            switches.read(|record| records.push(record));
        }
    }

    /// Switches and stamps together as histories.
    pub fn into_histories(
        mut self,
        results: &[MemberResult],
        window: &Window,
        observer: &mut dyn Observer,
    ) -> Decoded {
        if self.threads.is_empty() {
            return Decoded::default();
        }
        self.collect();
        let wanted = observer.wants_events();
        let (mut told, mut lost) = (Vec::new(), 0);
        for (switches, records) in &self.threads {
            let tid = switches.tid();
            if let Some(result) = results.iter().find(|r| r.tid == tid) {
                lost += replay(tid, records, marks_of(result, window), &mut told);
            }
        }
        // All threads in the order of time, as whoever looks at events expects; a CPU is left before another thread has it.
        told.sort_by_key(|told| (told.time, told.gets_a_cpu()));
        let mut jobs = JobBuilder::new();
        for told in &told {
            let event = told.event();
            jobs.event(&event);
            if wanted {
                observer.event(&event);
            }
        }
        let events = u64::try_from(told.len()).unwrap_or(u64::MAX);
        let histories = jobs.finish().threads;
        let quality = quality(events, lost, &histories);
        Decoded { histories, quality: Some(quality), source: "switches of own threads", ..Decoded::default() }
    }
}

/// What one thread's switches and stamps tell.
struct Told {
    time: Nanos,
    cpu: CpuId,
    tid: Tid,
    what: What,
}

enum What {
    Woken,
    In,
    Out { preempted: bool },
    Mark(String),
}

impl Told {
    fn gets_a_cpu(&self) -> bool {
        matches!(self.what, What::In)
    }

    fn event(&self) -> Event<'_> {
        let idle = LeaveState::Other(b'I');
        let (current, kind) = match &self.what {
            What::Woken => {
                let woken = Woken { tid: self.tid, comm: Comm::default(), prio: FAIR, target: self.cpu };
                (Tid::IDLE, EventKind::Waking(woken))
            }
            What::In => (Tid::IDLE, switch(Tid::IDLE, idle, self.tid)),
            What::Out { preempted: true } => {
                (self.tid, switch(self.tid, LeaveState::Runnable { preempted: true }, Tid::IDLE))
            }
            What::Out { preempted: false } => (self.tid, switch(self.tid, LeaveState::Sleeping, Tid::IDLE)),
            What::Mark(text) => (self.tid, EventKind::Marker { text }),
        };
        Event { time: self.time, cpu: self.cpu, current, kind }
    }
}

/// A thread's wake-ups, as late as they can have been.
fn wake(tid: Tid, records: &[SwitchRecord], told: &mut Vec<Told>) {
    let mut has_slept = false;
    for record in records {
        match *record {
            SwitchRecord::In { time, cpu } if has_slept => {
                told.push(Told { time, cpu, tid, what: What::Woken });
            }
            SwitchRecord::Out { preempted, .. } => has_slept = !preempted,
            // What was lost may have been the sleep or its end.
            SwitchRecord::Lost { .. } => has_slept = false,
            SwitchRecord::In { .. } => {}
        }
    }
}

/// One thread's switches and stamps in the order of time; returns how many switches were lost.
fn replay(tid: Tid, records: &[SwitchRecord], marks: Vec<(Nanos, String)>, told: &mut Vec<Told>) -> u64 {
    let mut lost = 0;
    let mut last = CpuId(0);
    let mut marks = marks.into_iter().peekable();
    let mut mark_until = |until: Nanos, cpu: CpuId, told: &mut Vec<Told>| {
        while let Some((time, text)) = marks.next_if(|(at, _)| *at <= until) {
            told.push(Told { time, cpu, tid, what: What::Mark(text) });
        }
    };
    for record in records {
        match *record {
            SwitchRecord::In { time, cpu } => {
                mark_until(time, last, told);
                last = cpu;
                told.push(Told { time, cpu, tid, what: What::In });
            }
            SwitchRecord::Out { time, cpu, preempted } => {
                mark_until(time, cpu, told);
                told.push(Told { time, cpu, tid, what: What::Out { preempted } });
            }
            SwitchRecord::Lost { count } => lost += count,
        }
    }
    mark_until(Nanos::MAX, last, told);
    lost
}

fn switch(prev: Tid, prev_state: LeaveState, next: Tid) -> EventKind<'static> {
    EventKind::Switch {
        prev,
        prev_comm: Comm::default(),
        prev_prio: FAIR,
        prev_state,
        next,
        next_comm: Comm::default(),
        next_prio: FAIR,
    }
}

/// The begins and ends of a thread's jobs and what they used, from its own stamps, as the texts of markers.
fn marks_of(result: &MemberResult, window: &Window) -> Vec<(Nanos, String)> {
    let Returned::Synthetic(run) = &result.outcome else { return Vec::new() };
    let text = |write: &dyn Fn(&mut [u8; 64]) -> usize| {
        let mut buffer = [0; 64];
        let length = write(&mut buffer);
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let mut marks = Vec::new();
    for stamp in &run.stamps {
        let begin = JobMarker::Begin { job: stamp.job, release: window.begin + stamp.release };
        marks.push((window.begin + stamp.start, text(&|buffer| begin.write(buffer))));
        if let Some(completion) = stamp.completion {
            let at = window.begin + completion;
            let used = JobUse { job: stamp.job, cpu: stamp.execution };
            marks.push((at, text(&|buffer| JobMarker::End { job: stamp.job }.write(buffer))));
            marks.push((at, text(&|buffer| used.write(buffer))));
        }
    }
    marks
}
