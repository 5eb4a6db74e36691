//! Any bytes as the ring-buffer pages of two CPUs: walked, merged, decoded and turned into jobs, in both byte orders and
//! both long sizes. Nothing may panic or hang, time must not go back, and the jobs' sums must hold.
//!
//! The first input byte chooses the shape; the rest is split between the CPUs in pages of 512 bytes. Every second input
//! has the fill of its pages put right, so that the records are reached more often than by chance.

use std::sync::OnceLock;

use surety_model::event::{Event, TraceSink};
use surety_trace::{Endian, EventTable, JobBuilder, PageLayout, RawPages, Symbols, TraceReader};
use surety_units::{CpuId, Nanos};

const PAGE: usize = 512;

const FORMATS: &[(&str, &str)] = &[
    ("sched:sched_switch", include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_switch.txt")),
    ("sched:sched_waking", include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_waking.txt")),
    ("sched:sched_wakeup", include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_wakeup.txt")),
    (
        "sched:sched_wakeup_new",
        include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_wakeup_new.txt"),
    ),
    (
        "sched:sched_migrate_task",
        include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_migrate_task.txt"),
    ),
    (
        "sched:sched_process_fork",
        include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_process_fork.txt"),
    ),
    (
        "sched:sched_process_exec",
        include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_process_exec.txt"),
    ),
    (
        "sched:sched_process_exit",
        include_str!("../../crates/trace/tests/fixtures/formats/sched/sched_process_exit.txt"),
    ),
    (
        "irq:irq_handler_entry",
        include_str!("../../crates/trace/tests/fixtures/formats/irq/irq_handler_entry.txt"),
    ),
    (
        "irq:irq_handler_exit",
        include_str!("../../crates/trace/tests/fixtures/formats/irq/irq_handler_exit.txt"),
    ),
    ("irq:softirq_entry", include_str!("../../crates/trace/tests/fixtures/formats/irq/softirq_entry.txt")),
    ("irq:softirq_exit", include_str!("../../crates/trace/tests/fixtures/formats/irq/softirq_exit.txt")),
    (
        "timer:hrtimer_start",
        include_str!("../../crates/trace/tests/fixtures/formats/timer/hrtimer_start.txt"),
    ),
    (
        "timer:hrtimer_cancel",
        include_str!("../../crates/trace/tests/fixtures/formats/timer/hrtimer_cancel.txt"),
    ),
    (
        "timer:hrtimer_expire_entry",
        include_str!("../../crates/trace/tests/fixtures/formats/timer/hrtimer_expire_entry.txt"),
    ),
    (
        "irq_vectors:local_timer_entry",
        include_str!("../../crates/trace/tests/fixtures/formats/irq_vectors/local_timer_entry.txt"),
    ),
    (
        "irq_vectors:local_timer_exit",
        include_str!("../../crates/trace/tests/fixtures/formats/irq_vectors/local_timer_exit.txt"),
    ),
    ("ftrace:print", include_str!("../../crates/trace/tests/fixtures/formats/ftrace/print.txt")),
];

fn table(endian: Endian) -> &'static EventTable {
    static TABLES: OnceLock<[EventTable; 2]> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        let symbols = "0000000000000001 t dl_task_timer\n0000000000000002 t hrtimer_wakeup\n";
        [Endian::Little, Endian::Big].map(|endian| {
            EventTable::new(endian, FORMATS.iter().copied(), Symbols::parse(symbols))
                .expect("a kernel's own texts")
        })
    });
    &tables[usize::from(endian == Endian::Big)]
}

/// Puts the fill of every page right; the page's own bytes choose whether events were lost.
fn mend(pages: &mut [u8], endian: Endian, long: usize) {
    for page in pages.chunks_mut(PAGE) {
        let data = 8 + long;
        if page.len() < data {
            continue;
        }
        let fill = (page.len() - data) as u64 & !3;
        let lost = u64::from(page[8] & 1) << 31 | u64::from(page[8] & 2) << 29;
        let commit = fill | lost;
        match endian {
            Endian::Little => page[8..data].copy_from_slice(&commit.to_le_bytes()[..long]),
            Endian::Big => page[8..data].copy_from_slice(&commit.to_be_bytes()[8 - long..]),
        }
    }
}

/// Checks that the merge keeps its promise of order, and passes on.
struct Ordered {
    jobs: JobBuilder,
    last: (Nanos, CpuId),
}

impl TraceSink for Ordered {
    fn event(&mut self, event: &Event<'_>) {
        assert!(self.last <= (event.time, event.cpu), "{:?} after {:?}", event, self.last);
        self.last = (event.time, event.cpu);
        self.jobs.event(event);
    }
}

/// One input.
pub fn survives(input: &[u8]) {
    let Some((shape, bytes)) = input.split_first() else { return };
    let endian = if shape & 1 == 0 { Endian::Little } else { Endian::Big };
    let long = if shape & 2 == 0 { 8 } else { 4 };
    let layout = PageLayout::new(8, long, 8 + long, PAGE).expect("a ring buffer's layout");
    let (first, second) = bytes.split_at(bytes.len() / 2 / PAGE * PAGE);
    let (mut first, mut second) = (first.to_vec(), second.to_vec());
    if shape & 4 == 0 {
        mend(&mut first, endian, long);
        mend(&mut second, endian, long);
    }
    let sources = [(CpuId(0), first), (CpuId(1), second)];
    let mut reader = RawPages::new(table(endian).clone(), layout, sources);
    let mut sink = Ordered { jobs: JobBuilder::new(), last: (Nanos::ZERO, CpuId(0)) };
    let summary = reader.read(&mut sink).expect("memory can be read");
    assert!(summary.delivered <= bytes.len() as u64 / 8);
    for thread in sink.jobs.finish().threads {
        assert!(thread.longest_wait <= thread.waited);
        for job in &thread.jobs {
            assert!(job.release <= job.start && job.start <= job.completion, "{job:?}");
            assert!(job.interrupted <= job.execution, "{job:?}");
            assert!(job.execution <= job.completion - job.start, "{job:?}");
            assert!(!job.response().is_negative() && !job.execution_net().is_negative());
        }
    }
}
