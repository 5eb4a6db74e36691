//! The schedulers there are, each in a file of its own that knows no other.

pub mod deadline;
pub mod fair;
pub mod realtime;

use surety_model::platform::SchedClass;

use crate::cpu::hardware::Hardware;
use crate::cpu::policy::CpuPolicy;

/// Makes a policy for a machine.
pub type Make = fn(&mut Hardware) -> Box<dyn CpuPolicy>;

/// Every policy with the class it schedules.
pub const ALL: &[(SchedClass, Make)] = &[
    (SchedClass::Deadline, |hardware| Box::new(deadline::Deadline::new(hardware))),
    (SchedClass::Realtime, |hardware| Box::new(realtime::Realtime::new(hardware))),
    (SchedClass::Fair, |hardware| Box::new(fair::Fair::new(hardware))),
];

/// The policy of a class.
pub fn make(class: SchedClass, hardware: &mut Hardware) -> Box<dyn CpuPolicy> {
    let (_, make) = ALL.iter().find(|(c, _)| *c == class).expect("every class is in the table");
    make(hardware)
}
