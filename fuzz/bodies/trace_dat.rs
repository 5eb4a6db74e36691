//! Any bytes as a trace.dat file: opened, read, turned into jobs. Nothing may panic or hang, and what is said of the file
//! must hold: no error lies beyond its end, no more events come out than bytes went in.
//!
//! An input whose first byte is even is a file as it is. Otherwise the rest is a list of changes to a whole file made by
//! our own writer: two bytes of place, two of a value; so lengths and counts behind each other are reached. Bits 2 and 3 of
//! the first byte choose version 6 or one of the packings of version 7.

use std::sync::OnceLock;

use surety_model::event::{Event, TraceSink};
use surety_trace::{Endian, JobBuilder, TraceDat, TraceDatContent, TraceDatError, TraceReader};
use surety_units::{CpuId, Nanos};

#[path = "../../crates/trace/tests/support/tracedat_v7.rs"]
mod tracedat_v7;

use tracedat_v7::{Packing, converted};

/// Memory is bounded, so what comes out of a small file is too: a piece unpacks to no more than it says.
const EVENTS_MAX: u64 = 1 << 24;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../crates/trace/tests/fixtures/", $name))
    };
}

/// A file of two CPUs with a few events' formats, in either byte order.
fn whole(endian: Endian) -> &'static [u8] {
    static FILES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        [Endian::Little, Endian::Big].map(|endian| {
            let content = TraceDatContent {
                endian,
                header_page: fixture!("formats/header_page.txt"),
                header_event: "",
                formats: vec![
                    ("ftrace:print", fixture!("formats/ftrace/print.txt")),
                    ("sched:sched_switch", fixture!("formats/sched/sched_switch.txt")),
                    ("sched:sched_waking", fixture!("formats/sched/sched_waking.txt")),
                    ("timer:hrtimer_cancel", fixture!("formats/timer/hrtimer_cancel.txt")),
                ],
                symbols: "0000000000000001 t dl_task_timer\n",
                printk_formats: "",
                names: "1 init\n",
                clock: "mono",
                statistics: vec!["overrun: 1\ncommit overrun: 0\ndropped events: 2\n".to_owned()],
                pages: [
                    include_bytes!("../../crates/trace/tests/fixtures/throttled/cpu0.raw").as_slice(),
                    include_bytes!("../../crates/trace/tests/fixtures/throttled/cpu1.raw").as_slice(),
                ]
                .into_iter()
                .zip(0..)
                .map(|(pages, cpu)| (CpuId(cpu), pages.to_vec()))
                .collect(),
            };
            let mut file = Vec::new();
            content.write(&mut file).expect("memory can be written");
            file
        })
    });
    &files[usize::from(endian == Endian::Big)]
}

/// The same file in a version and a packing.
fn packed(endian: Endian, choice: u8) -> &'static [u8] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let one = |endian, packing| converted(whole(endian), packing, 4096);
        [Endian::Little, Endian::Big]
            .into_iter()
            .flat_map(|e| [Packing::None, Packing::Zlib, Packing::Zstd].map(|packing| one(e, packing)))
            .collect()
    });
    match choice {
        0 => whole(endian),
        n => &files[usize::from(n) - 1 + 3 * usize::from(endian == Endian::Big)],
    }
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
        let endian = if shape & 2 == 0 { Endian::Little } else { Endian::Big };
        let mut file = packed(endian, shape >> 2 & 3).to_vec();
        for change in rest.chunks_exact(4) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
            if let Some(bytes) = file.get_mut(at..at + 2) {
                bytes.copy_from_slice(&change[2..]);
            }
        }
        file
    };
    let mut read = match TraceDat::open(&file) {
        Ok(read) => read,
        Err(TraceDatError::Damaged { offset, .. }) => {
            assert!(offset <= file.len() as u64);
            return;
        }
        Err(_) => return,
    };
    let most = if read.version() == 6 { file.len() as u64 / 8 } else { EVENTS_MAX };
    check(&mut read, most);
    // Every buffer, as if it had been asked for; more cost time and show nothing new.
    let names: Vec<String> = read.buffers().take(4).map(str::to_owned).collect();
    for name in names {
        assert!(read.choose_buffer(&name));
        check(&mut read, most);
    }
}

/// Reads the chosen buffer; what comes out must hold together.
fn check(read: &mut TraceDat<&Vec<u8>>, most: u64) {
    let mut sink = Ordered { jobs: JobBuilder::new(), last: Nanos::ZERO };
    let summary = read.read(&mut sink).expect("memory can be read");
    assert!(summary.delivered <= most);
    for thread in sink.jobs.finish().threads {
        for job in &thread.jobs {
            assert!(job.release <= job.start && job.start <= job.completion, "{job:?}");
            assert!(job.execution <= job.completion - job.start, "{job:?}");
        }
    }
}
