//! The experiments, one file each.

mod cards;
mod in_lab;
mod inter_frame;
mod interpacket;
mod interrupts;
mod irq_copy;
mod irq_disk;
mod irq_loss;
mod network_thread;
mod player_network;
mod rt_vs_vanilla;
mod schedulers;
mod spinner;

use crate::Experiment;

/// Every experiment that can be reproduced.
pub const EXPERIMENTS: &[&dyn Experiment] = &[
    &spinner::Spinner,
    &rt_vs_vanilla::RtVsVanilla,
    &schedulers::Schedulers,
    &irq_disk::IrqDisk,
    &irq_copy::IrqCopy,
    &irq_loss::IrqLoss,
    &inter_frame::InterFrame,
    &player_network::PlayerNetwork,
    &network_thread::NetworkThread,
    &interpacket::Interpacket,
];
