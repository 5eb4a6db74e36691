//! The first signal asks, the second ends: by a program that is really signalled.

use std::os::unix::process::ExitStatusExt;

use surety_kernel::command::{ChildSetup, Command, Stream, spawn};
use surety_kernel::signals::Interrupt;
use surety_kernel::{Kernel, RealKernel, clock};
use surety_units::Nanos;

const SIGNALS: &str = "SURETY_TEST_SIGNALS";

/// Not a test by itself: the program that signals itself. Exits with 7 when it got through.
#[test]
fn signalled() {
    let Ok(count) = std::env::var(SIGNALS) else { return };
    let count: u32 = count.parse().unwrap();
    let interrupt = Interrupt::install().unwrap();
    let kernel = RealKernel::new();
    let own = kernel.identity(kernel.own_pid()).unwrap();
    for _ in 0..count {
        assert!(kernel.signal(own, libc::SIGINT).unwrap());
        let patience = clock::monotonic() + Nanos::from_secs(20);
        while !interrupt.is_set() && clock::monotonic() < patience {
            std::thread::yield_now();
        }
    }
    if count > 1 {
        // The kernel may hand the signal to another thread of this program, a moment later.
        clock::sleep_until(clock::monotonic() + Nanos::from_secs(20), None).unwrap();
    }
    std::process::exit(if interrupt.is_set() { 7 } else { 8 });
}

#[test]
fn the_second_signal_ends_the_program() {
    for (count, code, signal) in [(0, Some(8), None), (1, Some(7), None), (2, None, Some(libc::SIGINT))] {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "signalled", "--nocapture"]).env(SIGNALS, count.to_string());
        program.stdout(Stream::Null).stderr(Stream::Null);
        let mut program = spawn(&mut program, &ChildSetup::default()).unwrap();
        let patience = clock::monotonic() + Nanos::from_secs(60);
        let status = program.wait_until(patience).unwrap().expect("it ends by itself").status;
        assert_eq!((status.code(), status.signal()), (code, signal), "{count} signals");
    }
}
