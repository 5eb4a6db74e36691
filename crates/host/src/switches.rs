//! [`OwnSwitches`]: what an ordinary user sees of the scheduler: when their own threads got and lost a CPU.
//!
//! Together with the tasks' own stamps that is enough to tell jobs and their CPU time apart; who ran instead stays
//! unknown.

use surety_kernel::perf::{SwitchRecord, ThreadSwitches};
use surety_model::event::{Comm, Event, EventKind, JobMarker, JobUse, LeaveState, TraceSink};
use surety_model::world::Observer;
use surety_trace::JobBuilder;
use surety_units::{Bytes, CpuId, Nanos, Tid};

use crate::decode::{Decoded, quality};
use crate::returned::{MemberResult, Returned};
use crate::window::Window;

/// Buffer of each thread: two thousand switches between two looks.
const BUFFER: Bytes = Bytes(64 << 10);

/// Switches of threads of ours, collected while a run lasts.
#[derive(Default)]
pub(crate) struct OwnSwitches {
    threads: Vec<(ThreadSwitches, Vec<SwitchRecord>)>,
}

impl OwnSwitches {
    /// Starts collecting for these threads, as many as the user's limits allow.
    pub fn open(tids: impl Iterator<Item = Tid>, degraded: &mut Vec<String>) -> OwnSwitches {
        let mut threads = Vec::new();
        for tid in tids {
            match ThreadSwitches::open(tid, BUFFER) {
                Ok(switches) => threads.push((switches, Vec::new())),
                Err(error) => {
                    degraded.push(format!("the switches of own threads were not all recorded: {error}"));
                    break;
                }
            }
        }
        OwnSwitches { threads }
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
        let mut jobs = JobBuilder::new();
        let (mut events, mut lost) = (0, 0);
        for (switches, records) in &self.threads {
            let tid = switches.tid();
            let Some(result) = results.iter().find(|r| r.tid == tid) else { continue };
            let mut sink = |event: &Event<'_>| {
                events += 1;
                jobs.event(event);
                if wanted {
                    observer.event(event);
                }
            };
            lost += replay(tid, records, result, window, &mut sink);
        }
        let histories = jobs.finish().threads;
        let quality = quality(events, lost, &histories);
        Decoded { histories, quality: Some(quality), source: "switches of own threads", ..Decoded::default() }
    }
}

/// One thread's switches and stamps in the order of time; returns how many switches were lost.
fn replay(
    tid: Tid,
    records: &[SwitchRecord],
    result: &MemberResult,
    window: &Window,
    sink: &mut dyn TraceSink,
) -> u64 {
    let mut lost = 0;
    let mut cpu = CpuId(0);
    let mut marks = marks_of(result, window).into_iter().peekable();
    let mut mark_until = |time: Nanos, cpu: CpuId, sink: &mut dyn TraceSink| {
        while let Some((at, text)) = marks.next_if(|(at, _)| *at <= time) {
            sink.event(&Event { time: at, cpu, current: tid, kind: EventKind::Marker { text: &text } });
        }
    };
    for record in records {
        match *record {
            SwitchRecord::In { time, cpu: on } => {
                mark_until(time, cpu, sink);
                cpu = on;
                sink.event(&switch(time, cpu, Tid::IDLE, LeaveState::Other(b'I'), tid));
            }
            SwitchRecord::Out { time, cpu: on, preempted } => {
                mark_until(time, on, sink);
                let state = if preempted { LeaveState::Runnable { preempted } } else { LeaveState::Sleeping };
                sink.event(&switch(time, on, tid, state, Tid::IDLE));
            }
            SwitchRecord::Lost { count } => lost += count,
        }
    }
    mark_until(Nanos::MAX, cpu, sink);
    lost
}

fn switch(time: Nanos, cpu: CpuId, prev: Tid, prev_state: LeaveState, next: Tid) -> Event<'static> {
    let kind = EventKind::Switch {
        prev,
        prev_comm: Comm::default(),
        prev_prio: 120,
        prev_state,
        next,
        next_comm: Comm::default(),
        next_prio: 120,
    };
    Event { time, cpu, current: prev, kind }
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
