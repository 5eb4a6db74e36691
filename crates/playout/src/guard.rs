//! The life of a thread that looks after threads that wait and got a signal.
//!
//! The kernel says once that a signal came for a thread that waits for an answer, whichever signal. One that the program handles interrupts no read of a file,
//! so its read goes on; one that ends the program lets it go at once. What comes after the first is not said, so such a thread is looked at until
//! its read is answered.

use std::time::Duration;

use surety_kernel::{Kernel as _, RealKernel};
use surety_units::Tid;

use crate::shared::{INTERRUPTED, Shared};

/// Between two looks at a thread that got a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Looks until the file system is no more.
pub(crate) fn guard(shared: &Shared) {
    let kernel = RealKernel::new();
    let mut is_looking = false;
    while !shared.is_over() {
        shared.wait_for_signal(is_looking.then_some(LOOK));
        is_looking = false;
        for file in shared.files() {
            for request in file.doubted() {
                // 0 is one that this process cannot see.
                let is_killed = request.thread == 0 || kernel.is_killed(Tid(request.thread));
                is_looking |= !is_killed;
                if is_killed && file.give_up(request.unique) {
                    shared.note(shared.connection.refuse(request.unique, INTERRUPTED));
                }
            }
        }
    }
}
