//! The model's policies and reservations as the kernel's attributes, and back into words.

use surety_kernel::{SchedAttr, SchedPolicy};
use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;

/// What `sched_setattr` takes for a policy. [`PolicySpec::Deadline`] without its reservation is the default
/// policy: the reservation brings the class. So is one no kernel has, and a latency nice is left out: no world with a kernel runs them.
pub fn attr_of_policy(policy: PolicySpec) -> SchedAttr {
    let policy = match policy {
        PolicySpec::Fair { nice, slice } => SchedPolicy::Other { nice, slice },
        PolicySpec::LatencyNice { nice, .. } => SchedPolicy::Other { nice, slice: None },
        PolicySpec::Batch { nice } => SchedPolicy::Batch { nice },
        PolicySpec::Idle => SchedPolicy::Idle,
        PolicySpec::Fifo { priority } => SchedPolicy::Fifo { priority },
        PolicySpec::RoundRobin { priority } => SchedPolicy::RoundRobin { priority },
        PolicySpec::Deadline | PolicySpec::Simulated { .. } => SchedPolicy::DEFAULT,
    };
    SchedAttr::from(policy)
}

/// What `sched_setattr` takes for a reservation. Children start without it: the kernel lets a deadline thread
/// start others only that way.
pub fn attr_of_reservation(reservation: &Reservation) -> SchedAttr {
    let policy = SchedPolicy::Deadline {
        runtime: reservation.runtime,
        deadline: reservation.deadline,
        period: reservation.period,
        reclaim: reservation.reclaim,
        overrun_signal: false,
    };
    SchedAttr { reset_on_fork: true, ..SchedAttr::from(policy) }
}

/// Attributes in the words of a workload file.
pub fn describe(attr: &SchedAttr) -> String {
    match attr.policy {
        SchedPolicy::Other { nice: 0, slice: None } => "fair".to_owned(),
        SchedPolicy::Other { nice, slice: None } => format!("fair nice {nice}"),
        SchedPolicy::Other { nice, slice: Some(slice) } => {
            format!("fair nice {nice} slice {}", slice.to_exact_string())
        }
        SchedPolicy::Batch { nice } => format!("batch nice {nice}"),
        SchedPolicy::Idle => "idle".to_owned(),
        SchedPolicy::Fifo { priority } => format!("fifo:{priority}"),
        SchedPolicy::RoundRobin { priority } => format!("rr:{priority}"),
        SchedPolicy::Deadline { runtime, deadline, period, reclaim, .. } => format!(
            "deadline {}/{}/{}{}",
            runtime.to_exact_string(),
            deadline.to_exact_string(),
            period.to_exact_string(),
            if reclaim { " reclaim" } else { "" }
        ),
        SchedPolicy::Ext { nice } => format!("ext nice {nice}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_units::Nanos;

    #[test]
    fn reservations_become_deadline_attributes_that_children_do_not_inherit() {
        let reservation = Reservation::implicit(Nanos::from_millis(26), Nanos::from_millis(40));
        let attr = attr_of_reservation(&reservation);
        assert!(attr.reset_on_fork && attr.policy.is_deadline());
        assert_eq!(describe(&attr), "deadline 26ms/40ms/40ms");
        assert_eq!(describe(&attr_of_policy(PolicySpec::Fifo { priority: 80 })), "fifo:80");
        assert_eq!(describe(&attr_of_policy(PolicySpec::default())), "fair");
    }
}
