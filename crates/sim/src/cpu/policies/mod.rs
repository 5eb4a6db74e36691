//! The schedulers there are, each in a file of its own that knows no other, and [`SCHEDULERS`], a row for each.

pub mod deadline;
pub mod edf;
pub mod fair;
pub mod high;
pub mod muqss;
pub mod overcommit;
pub mod realtime;

use std::collections::BTreeSet;

use surety_model::workload::{POLICIES, PolicySpec};
use surety_model::world::WorldError;

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::{CpuPolicy, SchedulerRow};

/// Policies of the fair class.
const FAIR: &[&str] = &["fair", "batch", "idle"];

/// Every scheduler. Of two that take the same policy a platform names the one it has; where it names none of those that take
/// a policy, the first does, behind those that stand above it here. Those whose policies no kernel has take part where the platform
/// names them or a workload uses their policy.
pub const SCHEDULERS: &[SchedulerRow] = &[
    SchedulerRow {
        word: "deadline",
        takes: &["deadline"],
        is_of_kernels: true,
        make: |hardware, rank| Box::new(deadline::Deadline::new(hardware, rank)),
    },
    SchedulerRow { word: "apedf", takes: &["deadline"], is_of_kernels: false, make: deadline::adaptive },
    SchedulerRow {
        word: "overcommit",
        takes: &["overcommit"],
        is_of_kernels: false,
        make: |hardware, rank| Box::new(overcommit::Overcommit::new(hardware, rank)),
    },
    SchedulerRow {
        word: "edf",
        takes: &["edf"],
        is_of_kernels: false,
        make: |hardware, rank| Box::new(edf::Edf::new(hardware, rank)),
    },
    SchedulerRow {
        word: "realtime",
        takes: &["fifo", "rr"],
        is_of_kernels: true,
        make: |hardware, rank| Box::new(realtime::Realtime::new(hardware, rank)),
    },
    SchedulerRow {
        word: "high",
        takes: &["high"],
        is_of_kernels: false,
        make: |hardware, rank| {
            let fair = fair::plain_6_18(hardware, rank);
            Box::new(high::High::new(hardware, rank, fair))
        },
    },
    SchedulerRow { word: "fair", takes: FAIR, is_of_kernels: true, make: fair::eevdf_6_18 },
    SchedulerRow { word: "cfs-6.1", takes: FAIR, is_of_kernels: true, make: fair::cfs },
    SchedulerRow { word: "cfs-2.6.23", takes: FAIR, is_of_kernels: true, make: fair::cfs_2_6_23 },
    SchedulerRow { word: "eevdf-6.6", takes: FAIR, is_of_kernels: true, make: fair::eevdf_6_6 },
    SchedulerRow { word: "eevdf-6.12", takes: FAIR, is_of_kernels: true, make: fair::eevdf_6_12 },
    SchedulerRow { word: "eevdf-7.2", takes: FAIR, is_of_kernels: true, make: fair::eevdf_7_2 },
    SchedulerRow {
        word: "muqss",
        takes: &["fair", "batch", "idle", "iso"],
        is_of_kernels: false,
        make: |hardware, rank| Box::new(muqss::Muqss::new(hardware, rank)),
    },
];

/// The scheduler of realtime threads inside the reservation of a group.
pub(crate) fn inside_reservation(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(realtime::Realtime::inside(hardware, rank))
}

/// The schedulers of a platform that names these, the most important first, with the table's for the policies of kernels that none
/// of these takes.
///
/// # Errors
/// Where a name is not in the table, or two of them take the same policy.
pub fn in_order(words: &[String]) -> Result<Vec<&'static SchedulerRow>, WorldError> {
    for_policies(words, [])
}

/// The same with the table's for those of these policies, too, that none of them takes.
///
/// # Errors
/// As [`in_order`], and where the scheduler for a policy takes one that another scheduler has.
pub fn for_policies(
    words: &[String],
    used: impl IntoIterator<Item = PolicySpec>,
) -> Result<Vec<&'static SchedulerRow>, WorldError> {
    let mut order = named(words)?;
    let used: BTreeSet<&'static str> = used.into_iter().map(PolicySpec::word).collect();
    let is_wanted = |word: &&'static str| {
        used.contains(word) || POLICIES.iter().any(|row| row.word == *word && !row.is_simulated())
    };
    for (place, row) in SCHEDULERS.iter().enumerate() {
        if row.takes.iter().any(is_wanted) && taken_twice(&order, row).is_none() {
            let is_above = |other: &&SchedulerRow| SCHEDULERS[..place].iter().any(|a| a.word == other.word);
            let at = order.iter().rposition(is_above).map_or(0, |above| above + 1);
            order.insert(at, row);
        }
    }
    for word in used {
        if let Some(row) = SCHEDULERS.iter().find(|row| row.takes.contains(&word))
            && !order.iter().any(|row| row.takes.contains(&word))
        {
            return Err(WorldError::Machine {
                what: format!("no scheduler of the platform takes the policy `{word}`"),
                remedy: format!("name the one that does: `--platform class-order={}`", row.word),
            });
        }
    }
    Ok(order)
}

/// A policy that a scheduler takes and one of the others, too.
fn taken_twice(order: &[&SchedulerRow], row: &SchedulerRow) -> Option<&'static str> {
    order.iter().flat_map(|other| other.takes).find(|policy| row.takes.contains(policy)).copied()
}

/// The rows of these names.
fn named(words: &[String]) -> Result<Vec<&'static SchedulerRow>, WorldError> {
    let mut order: Vec<&SchedulerRow> = Vec::new();
    for word in words {
        let Some(row) = SCHEDULERS.iter().find(|row| row.word == word) else {
            let known: Vec<&str> = SCHEDULERS.iter().map(|row| row.word).collect();
            return Err(WorldError::Machine {
                what: format!("there is no scheduler `{word}`"),
                remedy: format!("name those of {}", known.join(", ")),
            });
        };
        if let Some(policy) = taken_twice(&order, row) {
            return Err(WorldError::Machine {
                what: format!("two schedulers of the platform take the policy `{policy}`"),
                remedy: "name one of them".to_owned(),
            });
        }
        order.push(row);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::platform::PROFILES;

    const KERNEL: [&str; 3] = ["deadline", "realtime", "fair"];

    /// The kernel's schedulers in their order, whatever else is in the table.
    fn words(named: &[&str]) -> Result<Vec<&'static str>, String> {
        let named: Vec<String> = named.iter().map(|word| (*word).to_owned()).collect();
        let order = in_order(&named).map_err(|error| error.to_string())?;
        Ok(order.into_iter().map(|row| row.word).filter(|word| KERNEL.contains(word)).collect())
    }

    #[test]
    fn a_platform_names_its_schedulers_and_the_table_fills_in_the_others() {
        let cases: [(&[&str], &[&str]); 4] = [
            (&[], &KERNEL),
            (&["realtime", "deadline"], &["realtime", "deadline", "fair"]),
            (&["fair"], &KERNEL),
            (&["fair", "deadline"], &["fair", "deadline", "realtime"]),
        ];
        for (named, order) in cases {
            assert_eq!(words(named).unwrap(), order, "{named:?}");
        }
        assert!(words(&["fair", "fair"]).unwrap_err().contains("two schedulers of the platform take"));
        assert!(words(&["none"]).unwrap_err().contains("there is no scheduler `none`"));
    }

    /// A machine of every platform has a scheduler for each policy of kernels, and of the others those that a workload uses.
    #[test]
    fn every_policy_has_one_scheduler() {
        for (name, of) in PROFILES {
            let order = in_order(&of(1).schedulers).unwrap();
            for policy in POLICIES {
                let takes = order.iter().filter(|row| row.takes.contains(&policy.word));
                let expected = usize::from(!policy.is_simulated());
                assert_eq!(takes.count(), expected, "{name}: {}", policy.word);
            }
        }
    }
}
