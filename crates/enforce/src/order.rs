//! [`enforce_all`]: the order in which the threads of a run get what they are to have.

use surety_kernel::SchedAttr;
use surety_units::{CpuSet, Tid};

use crate::enforcer::{EnforceError, Enforcer, Owner};

/// What a thread of a run is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its id in the kernel.
    pub tid: Tid,
    /// Whose it is.
    pub owner: Owner,
    /// Its CPUs; `None`: it stays where it is.
    pub affinity: Option<CpuSet>,
    /// Its class; `None`: it keeps the one it has.
    pub attr: Option<SchedAttr>,
}

impl Wanted {
    fn is_reserved(&self) -> bool {
        self.attr.is_some_and(|attr| attr.policy.is_deadline())
    }
}

/// Gives every thread its CPUs and then its class, each read back; reservations last, so that nothing that is half set up uses
/// them.
///
/// # Errors
/// The first that was refused, with its place; what was changed of others is taken back when the enforcer is dropped.
pub fn enforce_all(enforcer: &mut Enforcer<'_>, all: &[Wanted]) -> Result<(), (usize, EnforceError)> {
    for of_reserved in [false, true] {
        for (place, wanted) in all.iter().enumerate().filter(|(_, w)| w.is_reserved() == of_reserved) {
            let Wanted { tid, owner, affinity, attr } = *wanted;
            let moved = affinity.map_or(Ok(()), |cpus| enforcer.set_affinity(tid, cpus, owner));
            let given =
                moved.and_then(|()| attr.map_or(Ok(()), |attr| enforcer.set_scheduler(tid, attr, owner)));
            given.map_err(|error| (place, error))?;
        }
    }
    Ok(())
}
