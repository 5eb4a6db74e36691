//! A machine of alike CPUs: [`machine`] moves time and threads, [`policy`] is what every scheduler implements,
//! [`policies`] holds them, [`hardware`] is the state both see, [`program`] is what threads do, [`device`] is what interrupts,
//! [`at_disk`] what disks have to say in a trace.
//! `timers` is how sleeps end, `resting` which schedulers a CPU need not ask, [`sorted`] and [`places`] are what queues and sets of CPUs are made of.

pub mod at_disk;
pub mod device;
pub mod domains;
pub mod earliest;
pub mod hardware;
pub mod machine;
pub mod places;
pub mod policies;
pub mod policy;
pub mod program;
pub mod recorder;
mod resources;
mod resting;
pub mod sorted;
pub(crate) mod timers;
pub mod times;
