//! [`argument`]: why the kernel's fair server does not run ahead of a reservation.
//!
//! Each CPU has a reservation for the fair class (`dl_server`, 50 ms in each second). It is deferred: it
//! becomes a deadline entity only if by `T - Q` into its period fair threads have not had its Q anyway, and
//! every moment a fair thread runs in the background is deducted (`kernel/sched/deadline.c`,
//! `update_curr_dl_se` and `dl_server_timer`). So it stays in the background as long as deadline threads
//! leave each CPU at least Q in every window of `T - Q`, and fair threads are ready to use it; when none is
//! ready, it is off.

use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::supply::Supply;

/// What can be said about the fair servers: steps of a proof, and what has to be assumed beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FairServerArgument {
    /// Whether the servers provably or under `assumptions` stay in the background.
    pub holds: bool,
    /// The numbers.
    pub steps: Vec<String>,
    /// What has to hold on the machine.
    pub assumptions: Vec<String>,
}

/// The argument for these reserved threads on this platform.
pub fn argument(reservations: &[Reservation], platform: &Platform) -> FairServerArgument {
    let Some(server) = platform.fair_server else {
        return FairServerArgument {
            holds: true,
            steps: vec!["the kernel has no fair server".to_owned()],
            assumptions: Vec::new(),
        };
    };
    let window = server.period - server.runtime;
    let room = window - server.runtime;
    // One that reclaims may take what others leave, up to the cap.
    let (part, whole) = platform.deadline_cap.ratio();
    let takes = |r: &Reservation| {
        let own = Supply::new(*r, platform.enforcement, false).at_most(window);
        if r.reclaim { own.max(window.mul_ratio(part, whole) + r.runtime).min(window) } else { own }
    };
    let all: Nanos = reservations.iter().map(takes).sum();
    let most = reservations.iter().map(takes).max().unwrap_or(Nanos::ZERO);
    let mut assumptions =
        vec!["no realtime thread holds a CPU so long that the fair server has to step in".to_owned()];
    let shape = format!(
        "the fair server ({} in {}) acts only if fair threads had less than {} after {window}",
        server.runtime, server.period, server.runtime
    );
    let verdict = |takes: Nanos, whose: &str| {
        format!(
            "{whose} at most {takes} of any {window}: {} are left on the CPU, {} are needed",
            window - takes,
            server.runtime
        )
    };
    if all <= room {
        let steps = vec![shape, verdict(all, "all reserved threads together take")];
        return FairServerArgument { holds: true, steps, assumptions };
    }
    let spread = reservations.len() <= platform.cpus as usize && most <= room;
    let steps = vec![shape, verdict(most, "the largest reservation takes")];
    if spread {
        assumptions.push(
            "each reserved thread stays on a CPU of its own, as wake-ups and the push and pull of the deadline class \
             arrange it"
                .to_owned(),
        );
    }
    FairServerArgument { holds: spread, steps, assumptions }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(q: i64, t: i64) -> Reservation {
        Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(t))
    }

    #[test]
    fn room_for_the_server_is_counted_per_cpu() {
        for (reservations, cpus, holds, assumptions) in [
            (vec![of(26, 40)], 1, true, 1),
            (vec![of(26, 40), of(4, 20)], 1, true, 1),
            (vec![of(26, 40), of(8, 20)], 1, false, 1),
            (vec![of(32, 40), of(16, 20)], 2, true, 2),
            (vec![of(97, 100)], 2, false, 1),
        ] {
            let found = argument(&reservations, &Platform::linux_6_18(cpus));
            assert_eq!(
                (found.holds, found.assumptions.len()),
                (holds, assumptions),
                "{reservations:?}: {found:?}"
            );
        }
        let none = Platform { fair_server: None, ..Platform::linux_6_18(1) };
        assert!(argument(&[of(97, 100)], &none).holds);
    }
}
