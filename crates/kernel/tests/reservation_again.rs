//! A thread gets a reservation, uses it up, leaves the class, and gets another: does it still run?

use std::time::{Duration, Instant};

use surety_kernel::command::{ChildSetup, Command, spawn};
use surety_kernel::transition::{Owed, set_scheduler};
use surety_kernel::{Kernel, RealKernel, SchedPolicy};
use surety_units::{Nanos, Tid};

/// Leaving at several instants of a period.
const TIMES: u32 = 8;
/// Long after a thread that may run has run.
const PATIENCE: Duration = Duration::from_secs(10);

fn run_time(kernel: &RealKernel, tid: Tid) -> u64 {
    let path = format!("/proc/{tid}/schedstat");
    let text = kernel.read_text(std::path::Path::new(&path)).expect("the process is there");
    text.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).expect("a time")
}

#[test]
fn a_thread_that_left_with_its_budget_used_up_runs_again() {
    let kernel = RealKernel::new();
    let mut command = Command::new("sh");
    command.arg("-c").arg("while :; do :; done");
    let busy = spawn(&mut command, &ChildSetup::default()).expect("a shell can be started");
    let ms = Nanos::from_millis;
    let owed = Owed::default();
    let set = |policy: SchedPolicy| set_scheduler(&kernel, &owed, busy.pid(), &policy.into());
    let reserved = |budget| SchedPolicy::deadline(ms(budget), ms(100), ms(100));
    for time in 0..TIMES {
        match set(reserved(3)) {
            Err(error) if error.is_refused() => {
                eprintln!("SKIPPED: {error}");
                return;
            }
            result => result.unwrap(),
        }
        // Three of a hundred milliseconds are soon used up: most of these leave a thread that waits for its budget.
        std::thread::sleep(Duration::from_millis(150 + 17 * u64::from(time)));
        set(SchedPolicy::DEFAULT).unwrap();
        // The timer of the budget comes while it is not in the class.
        std::thread::sleep(Duration::from_millis(120));
        set(reserved(4)).unwrap();
        let before = run_time(&kernel, busy.pid());
        let begin = Instant::now();
        while run_time(&kernel, busy.pid()) < before + 10_000_000 {
            if begin.elapsed() > PATIENCE {
                // Out of the class it can be ended.
                set(SchedPolicy::DEFAULT).unwrap();
                panic!("time {time}: it does not run any more");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        set(SchedPolicy::DEFAULT).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}
