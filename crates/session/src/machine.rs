//! This machine as a platform, with what is reserved on it now.

use surety_host::platform_of;
use surety_kernel::facts::{BudgetEnd, MachineFacts};
use surety_kernel::{Kernel, SchedPolicy, deadline};
use surety_model::platform::{OtherReservation, Platform};
use surety_model::reservation::Reservation;
use surety_units::Tid;

/// What the kernel says of this machine, and the platform that models of it have.
pub fn this_machine(kernel: &dyn Kernel) -> (MachineFacts, Platform) {
    let facts = MachineFacts::tried(kernel);
    let mut platform = platform_of(&facts);
    platform.others = reserved_now(kernel);
    (facts, platform)
}

/// The reservations that threads of this machine have; none where they cannot be read.
fn reserved_now(kernel: &dyn Kernel) -> Vec<OtherReservation> {
    let of = |(tid, policy): (Tid, SchedPolicy)| {
        let SchedPolicy::Deadline { runtime, deadline, period, reclaim, .. } = policy else { return None };
        let reservation = Reservation { deadline, reclaim, ..Reservation::implicit(runtime, period) };
        let name = kernel.name(tid).unwrap_or_else(|_| "thread".to_owned());
        if name == BudgetEnd::THREAD {
            return None;
        }
        let other = OtherReservation::unknown(format!("{name} (thread {})", tid.0), reservation);
        Some(OtherReservation { root_domain: kernel.affinity(tid).ok(), ..other })
    };
    deadline::reservations(kernel).unwrap_or_default().into_iter().filter_map(of).collect()
}
