//! The schedulers there are, each in a file of its own that knows no other, as the rows of [`SCHEDULERS`] have it.

pub mod deadline;
pub mod edf;
pub mod fair;
pub mod high;
pub mod muqss;
pub mod overcommit;
pub mod realtime;

use std::collections::BTreeSet;

use surety_model::schedulers::SCHEDULERS;
use surety_model::workload::{PolicySpec, policies};
use surety_model::world::WorldError;

use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::{CpuPolicy, Scheduler, SchedulerMake};

macro_rules! makers {
    ($($make:path: $row:expr,)*) => {
        /// How each scheduler of the table is made, in its order.
        const MAKERS: &[SchedulerMake] = &[$($make),*];
    };
}
surety_model::schedulers!(makers);

/// Every scheduler.
fn schedulers() -> impl Iterator<Item = Scheduler> {
    SCHEDULERS.iter().zip(MAKERS).map(|(row, make)| Scheduler { row, make: *make })
}

/// `high` with the fair class of 6.18 below.
fn high_with_fair(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    let fair = fair::eevdf_6_18::plain(hardware, rank);
    Box::new(high::High::new(hardware, rank, fair))
}

/// The scheduler of realtime threads inside the reservation of a group.
pub(crate) fn inside_reservation(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(realtime::Realtime::inside(hardware, rank))
}

/// The schedulers of a platform that names these, the most important first, with the table's for the policies of kernels that none
/// of these takes.
///
/// # Errors
/// Where a name is not in the table, or two of them take the same policy.
pub fn in_order(words: &[String]) -> Result<Vec<Scheduler>, WorldError> {
    for_policies(words, [])
}

/// The same with the table's for those of these policies, too, that none of them takes.
///
/// # Errors
/// As [`in_order`], and where the scheduler for a policy takes one that another scheduler has.
pub fn for_policies(
    words: &[String],
    used: impl IntoIterator<Item = PolicySpec>,
) -> Result<Vec<Scheduler>, WorldError> {
    let mut order = named(words)?;
    let used: BTreeSet<&'static str> = used.into_iter().map(PolicySpec::word).collect();
    let is_wanted = |word: &&'static str| {
        used.contains(word) || policies().any(|row| row.word == *word && !row.is_simulated())
    };
    for (place, row) in schedulers().enumerate() {
        if row.takes.iter().any(is_wanted) && taken_twice(&order, &row).is_none() {
            let is_above = |other: &Scheduler| SCHEDULERS[..place].iter().any(|a| a.word == other.word);
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
fn taken_twice(order: &[Scheduler], row: &Scheduler) -> Option<&'static str> {
    order.iter().flat_map(|other| other.takes).find(|policy| row.takes.contains(policy)).copied()
}

/// The rows of these names.
fn named(words: &[String]) -> Result<Vec<Scheduler>, WorldError> {
    let mut order: Vec<Scheduler> = Vec::new();
    for word in words {
        let Some(row) = schedulers().find(|row| row.word == word) else {
            let known: Vec<&str> = SCHEDULERS.iter().map(|row| row.word).collect();
            return Err(WorldError::Machine {
                what: format!("there is no scheduler `{word}`"),
                remedy: format!("name those of {}", known.join(", ")),
            });
        };
        if let Some(policy) = taken_twice(&order, &row) {
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
            for policy in policies() {
                let takes = order.iter().filter(|row| row.takes.contains(&policy.word));
                let expected = usize::from(!policy.is_simulated());
                assert_eq!(takes.count(), expected, "{name}: {}", policy.word);
            }
        }
    }
}
