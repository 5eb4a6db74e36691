//! The experiments, one file each.

mod abiss;
mod abiss_be;
mod abiss_latency;
mod by_rule;
mod cards;
mod cgroup_dilution;
mod chromebook;
mod class_order;
mod in_lab;
mod inter_frame;
mod interpacket;
mod interrupts;
mod irq_copy;
mod irq_disk;
mod irq_loss;
mod latency_nice;
mod network_thread;
mod overcommit;
mod packets;
mod player_network;
mod regret;
mod rt_throttling;
mod rt_vs_vanilla;
mod schedulers;
mod spinner;
mod startup;
mod timers;
mod under_io;
mod video_under_io;

use crate::Experiment;

/// Every experiment that can be reproduced.
pub const EXPERIMENTS: &[&Experiment] = &[
    &spinner::EXPERIMENT,
    &rt_vs_vanilla::EXPERIMENT,
    &schedulers::EXPERIMENT,
    &class_order::EXPERIMENT,
    &overcommit::EXPERIMENT,
    &chromebook::EXPERIMENT,
    &rt_throttling::EXPERIMENT,
    &latency_nice::EXPERIMENT,
    &cgroup_dilution::EXPERIMENT,
    &timers::EXPERIMENT,
    &irq_disk::EXPERIMENT,
    &irq_copy::EXPERIMENT,
    &irq_loss::EXPERIMENT,
    &inter_frame::EXPERIMENT,
    &player_network::EXPERIMENT,
    &network_thread::EXPERIMENT,
    &interpacket::EXPERIMENT,
    &packets::EXPERIMENT,
    &abiss_be::EXPERIMENT,
    &abiss_latency::EXPERIMENT,
    &startup::EXPERIMENT,
    &video_under_io::EXPERIMENT,
    &regret::EXPERIMENT,
];
