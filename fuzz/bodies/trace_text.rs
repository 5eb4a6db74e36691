//! Any bytes as a trace in text: cut into lines, read, turned into jobs. Nothing may panic or hang, time must not go back,
//! and no more events come out than lines went in.

use surety_model::event::{Event, EventKind, TraceSink};
use surety_trace::{JobBuilder, OpenError, TextTrace, TraceReader};
use surety_units::Nanos;

/// Checks that times do not go back, and passes on.
struct Ordered {
    jobs: JobBuilder,
    last: Nanos,
    losses: u64,
}

impl TraceSink for Ordered {
    fn event(&mut self, event: &Event<'_>) {
        assert!(self.last <= event.time);
        self.last = event.time;
        self.losses += u64::from(matches!(event.kind, EventKind::Lost { .. }));
        self.jobs.event(event);
    }
}

/// One input.
pub fn survives(input: &[u8]) {
    // What begins as another format is judged by that one's reader.
    let known = !matches!(surety_trace::open(input), Err(OpenError::Unknown { .. }));
    let Ok(mut read) = TextTrace::open(input) else { return };
    let mut sink = Ordered { jobs: JobBuilder::new(), last: Nanos::ZERO, losses: 0 };
    let summary = read.read(&mut sink).expect("memory can be read");
    let lines = input.split(|byte| *byte == b'\n').count() as u64;
    assert!(summary.delivered + summary.malformed + summary.unknown + summary.gaps <= lines);
    assert!(sink.losses <= summary.gaps);
    let counted: u64 = summary.events.iter().map(|event| event.count).sum();
    assert!(summary.delivered <= counted && counted <= lines);
    // A short text that has an event is known as a trace, if not as one of another format.
    if counted > 0 && input.len() <= 4096 && !input.contains(&0) {
        assert!(known);
    }
    for thread in sink.jobs.finish().threads {
        for job in &thread.jobs {
            assert!(job.release <= job.start && job.start <= job.completion, "{job:?}");
            assert!(job.execution <= job.completion - job.start, "{job:?}");
        }
    }
}
