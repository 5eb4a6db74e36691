//! Any bytes as a perf.data file, or as changes to a whole one: opened, read, turned into jobs. Nothing may panic or hang,
//! time must not go back, and no error lies beyond the file's end.
//!
//! An input whose first byte is even is a file as it is. Otherwise the rest is a list of changes to a recorded file, two
//! bytes of place and two of a value each: bits 1 and 2 of the first byte choose a file, a pipe, or a compressed file, bit
//! 3 whether the places are in its last 64 KiB.

use std::sync::OnceLock;

use surety_model::event::{Event, TraceSink};
use surety_trace::{JobBuilder, PerfData, PerfDataError, TraceDatError, TraceReader};
use surety_units::Nanos;

#[path = "../../crates/trace/tests/support/perfdata.rs"]
mod perfdata;

use perfdata::{Content, Shape, records, written};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../crates/trace/tests/fixtures/", $name))
    };
}

/// The same recording as a file, through a pipe, and compressed.
fn files() -> &'static [Vec<u8>; 3] {
    static FILES: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    FILES.get_or_init(|| {
        let header_page = fixture!("formats/header_page.txt");
        let pages = [
            include_bytes!("../../crates/trace/tests/fixtures/throttled/cpu0.raw").as_slice(),
            include_bytes!("../../crates/trace/tests/fixtures/throttled/cpu1.raw").as_slice(),
        ];
        let content = Content {
            header_page,
            formats: vec![
                ("ftrace:print", fixture!("formats/ftrace/print.txt")),
                ("sched:sched_switch", fixture!("formats/sched/sched_switch.txt")),
                ("sched:sched_waking", fixture!("formats/sched/sched_waking.txt")),
                ("timer:hrtimer_cancel", fixture!("formats/timer/hrtimer_cancel.txt")),
            ],
            symbols: "0000000000000001 t dl_task_timer\n",
            records: records(header_page, pages),
        };
        [Shape::File, Shape::Pipe, Shape::Packed].map(|shape| written(&content, shape))
    })
}

/// Checks that times do not go back, and passes on.
struct Ordered {
    jobs: JobBuilder,
    last: Nanos,
}

impl TraceSink for Ordered {
    fn event(&mut self, event: &Event<'_>) {
        assert!(self.last <= event.time);
        self.last = event.time;
        self.jobs.event(event);
    }
}

/// One input.
pub fn survives(input: &[u8]) {
    let Some((shape, rest)) = input.split_first() else { return };
    let file = if shape & 1 == 0 {
        rest.to_vec()
    } else {
        let files = files();
        let mut file = files[usize::from(shape >> 1 & 3) % files.len()].clone();
        let base = if shape & 8 == 0 { 0 } else { file.len().saturating_sub(1 << 16) };
        for change in rest.chunks_exact(4) {
            let at = base + usize::from(u16::from_le_bytes([change[0], change[1]]));
            if let Some(bytes) = file.get_mut(at..at + 2) {
                bytes.copy_from_slice(&change[2..]);
            }
        }
        file
    };
    let mut read = match PerfData::open(&file) {
        Ok(read) => read,
        Err(PerfDataError::Damaged(TraceDatError::Damaged { offset, .. })) => {
            assert!(offset <= file.len() as u64);
            return;
        }
        Err(_) => return,
    };
    let mut sink = Ordered { jobs: JobBuilder::new(), last: Nanos::ZERO };
    let summary = read.read(&mut sink).expect("memory can be read");
    // Packed records are the only ones that take less than their length.
    assert!(summary.delivered <= 256 * file.len() as u64 + (8 << 20));
    for thread in sink.jobs.finish().threads {
        for job in &thread.jobs {
            assert!(job.release <= job.start && job.start <= job.completion, "{job:?}");
            assert!(job.execution <= job.completion - job.start, "{job:?}");
        }
    }
}
