//! The pages the benchmark reads give exactly the jobs that were written into them.

use crate::support::synthetic::{ROUND, Writer};
use surety_trace::{JobBuilder, RawPages, TraceReader};
use surety_units::{CpuId, Nanos};

#[test]
fn synthetic_rounds_give_one_job_each() {
    let formats = crate::support::fixtures().join("formats");
    let texts = crate::support::formats(&formats);
    let sources = [0, 1].map(|cpu| (CpuId(cpu), Writer::new(&texts).rounds(500, cpu.into())));
    let mut reader =
        RawPages::new(crate::support::table(&formats, ""), crate::support::layout(&formats), sources);
    let mut builder = JobBuilder::new();
    let summary = reader.read(&mut builder).unwrap();
    let jobs = builder.finish();
    assert_eq!(summary.delivered, 2 * 500 * ROUND as u64);
    assert!(summary.is_complete());
    assert_eq!(jobs.anomalies, surety_trace::jobs::Anomalies::default());
    let told: Vec<_> = jobs.threads.iter().flat_map(|t| &t.jobs).collect();
    assert_eq!((told.len(), jobs.threads.len()), (1000, 100));
    for job in told {
        // The steps of a round: 400 + 300 + 900 to the switch, 19200 on the CPU, 1100 and 3000 under interrupts.
        assert_eq!(job.latency(), Nanos::new(1600));
        assert_eq!((job.execution, job.interrupted), (Nanos::new(19_200), Nanos::new(4_100)));
    }
}
