//! The host world on the kernel that runs the tests: what it measures is what was done.

use std::sync::{Mutex, PoisonError};

use surety_host::HostWorld;
use surety_kernel::{Kernel, RealKernel};
use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::world::{RunOptions, Unobserved, World, WorldError};
use surety_units::{CpuId, CpuSet, Nanos};

/// One experiment at a time: they share a CPU.
static ALONE: Mutex<()> = Mutex::new(());

fn run(text: &str, options: &RunOptions) -> Result<Record, WorldError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = RealKernel::new();
    let workload = toml::read("test.toml", text).unwrap_or_else(|e| panic!("{e}"));
    HostWorld::new(&kernel, None).run(&workload, options, &mut Unobserved)
}

fn short(millis: i64) -> RunOptions {
    RunOptions {
        duration: Nanos::from_millis(millis),
        warm_up: Nanos::from_millis(100),
        cpus: Some(CpuSet::single(CpuId(0))),
        ..RunOptions::default()
    }
}

#[test]
fn every_planned_activation_is_accounted_for_and_works_what_it_drew() {
    let text = "format = 1\n[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"2ms\"\npromise = \"response <= 10ms @ 50%\"\n";
    let record = run(text, &short(1000)).unwrap_or_else(|e| panic!("{e}"));
    let task = record.activity("t").unwrap();
    assert_eq!(task.activations, 100);
    assert_eq!(task.completed + task.skipped + task.unfinished, 100);
    assert_eq!(record.in_force.threads.len(), 1);
    let share = task.share_received().unwrap();
    if let Some(execution) = &task.execution {
        // Of one job alone a hypervisor may take time off that the kernel learns of late.
        assert!(execution.quantile(0.5).unwrap() >= Nanos::from_millis(2));
        // Every completed job used its work, and nobody uses more than all jobs and their overhead.
        assert!(share >= task.completed as f64 * 0.002 - 0.01 && share < 0.3, "{share}");
    }
    if RealKernel::new().effective_user() == 0 {
        let trace = record.trace.unwrap_or_else(|| panic!("root records a trace: {:?}", record.degraded));
        assert!(trace.events > 200, "{trace:?}");
        assert!(task.longest_gap.is_some(), "the task's thread is in the trace");
    }
    assert!(task.missed < 50 || !record.is_trusted(), "many misses on an idle CPU: {record:?}");
}

#[test]
fn two_spinners_on_one_cpu_get_all_of_it_between_them() {
    let text = "format = 1\n[[load]]\nname = \"s\"\nkind = \"spinners\"\ncount = 2\n";
    let record = run(text, &short(1000)).unwrap_or_else(|e| panic!("{e}"));
    let share = record.activity("s").unwrap().share.clone().unwrap();
    assert_eq!(share.threads.len(), 2);
    assert!(share.fraction() <= 1.001, "{share:?}");
    // Other programs may take some of the CPU, and then the record says so.
    assert!(share.fraction() > 0.9 || !record.is_trusted(), "{share:?} {:?}", record.degraded);
}

#[test]
fn what_this_world_cannot_run_is_refused_in_words() {
    let irq = "format = 1\n[[irq]]\nname = \"net\"\narrivals = { kind = \"closed\", outstanding = 8, service = \"95us\" }\nwork = \"9us\"\n";
    let error = run(irq, &short(100)).unwrap_err();
    assert!(error.to_string().contains("irq.net") && error.to_string().contains("sporadic"), "{error}");
    let gone = "format = 1\n[[task]]\nname = \"c\"\ncommand = \"/no/such/program\"\n";
    let error = run(gone, &short(100)).unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    let dies = "format = 1\n[[task]]\nname = \"c\"\ncommand = \"sh -c 'echo broken >&2; exit 7'\"\n";
    let error = run(dies, &short(500)).unwrap_err();
    assert!(error.to_string().contains("broken") && error.to_string().contains('7'), "{error}");
}

#[test]
fn reserved_tasks_run_under_their_reservation_and_the_record_says_so() {
    let kernel = RealKernel::new();
    if kernel.effective_user() != 0 {
        eprintln!("SKIPPED: only root may set SCHED_DEADLINE");
        return;
    }
    let text = "format = 1\n[[task]]\nname = \"t\"\nperiod = \"20ms\"\nwork = \"3ms\"\n\
                reservation = { runtime = \"5ms\", period = \"20ms\" }\n[[load]]\nname = \"s\"\nkind = \"spinners\"\n";
    let record = run(text, &short(1000)).unwrap_or_else(|e| panic!("{e}"));
    assert!(record.reserved);
    let thread = record.in_force.threads.iter().find(|t| t.activity == "t").unwrap();
    assert_eq!(thread.policy, "deadline 5ms/20ms/20ms");
    assert!(thread.as_requested, "{thread:?}");
    assert_eq!(record.activity("t").unwrap().activations, 50);
}

#[test]
fn cancelling_ends_a_run_early() {
    let options = short(60_000);
    let cancel = options.cancel.clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        cancel.cancel();
    });
    let text = "format = 1\n[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"2ms\"\n";
    assert_eq!(run(text, &options).unwrap_err(), WorldError::Interrupted);
}
