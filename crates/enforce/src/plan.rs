//! A [`Plan`] put on threads.

use surety_kernel::Kernel;
use surety_model::plan::Plan;
use surety_units::{CpuSet, Tid};

use crate::attributes::{attr_of_reservation, describe};
use crate::enforcer::{EnforceError, Enforcer, Owner};
use crate::inspector::{Place, Post};

/// Which thread an activity of a plan is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The activity's name in the plan.
    pub activity: String,
    /// Its thread.
    pub tid: Tid,
    /// Whose thread that is.
    pub owner: Owner,
}

/// What was put in force for one activity, as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub activity: String,
    /// Its thread.
    pub tid: Tid,
    /// Its class now, in words.
    pub policy: String,
    /// What it is to have until the end; the thread itself may end before.
    pub post: Post,
}

/// Gives every bound activity its planned reservation. All or nothing: on the first refusal what was done is
/// taken back.
///
/// A reservation needs a thread that may run on the whole root domain and nowhere else, so affinity is set first: to the root
/// domain that the plan names for it (the bindings of an activity take those of its threads in order), else to `domain`. The
/// kernel looks at the CPU a thread last ran on, so one that sleeps in another root domain is refused until it has woken.
pub fn put_in_force(
    plan: &Plan,
    bindings: &[Binding],
    domain: CpuSet,
    kernel: &dyn Kernel,
    enforcer: &mut Enforcer<'_>,
) -> Result<Vec<Applied>, EnforceError> {
    let result: Result<Vec<Applied>, EnforceError> = bindings
        .iter()
        .enumerate()
        .filter_map(|(at, binding)| Some((at, binding, plan.reservation_of(&binding.activity)?)))
        .map(|(at, binding, planned)| {
            let before = bindings[..at].iter().filter(|b| b.activity == binding.activity).count();
            let home = planned.root_domains.get(before).copied().unwrap_or(domain);
            enforcer.set_affinity(binding.tid, home, binding.owner)?;
            let attr = attr_of_reservation(&planned.reservation);
            enforcer.set_scheduler(binding.tid, attr, binding.owner)?;
            let policy = describe(&kernel.scheduler(binding.tid)?);
            let thread = (binding.activity.as_str(), binding.tid, binding.owner);
            let post = Post { may_end: true, ..Post::set(kernel, thread, Some(attr), Place::Exactly(home)) };
            Ok(Applied { activity: binding.activity.clone(), tid: binding.tid, policy, post })
        })
        .collect();
    if result.is_err() {
        let _ = enforcer.undo();
    }
    result
}
