//! What a Perfetto trace says beside its events, so that they are read right.
//!
//! - `system_info`: without it trace processors take the bits of `prev_state` for those of Linux 4.4, where 0x100 is `Waking` and
//!   not a preempted thread. The bits that are written are those since 4.14, whatever kernel was recorded, so that is the
//!   release that is named. It stands before the first bundle.
//! - `clock_snapshot`: times are written as boot times. Where the trace's clock is another with a number, that one showed the
//!   same value at the first event.
//! - `process_tree`: who called exec is the first thread of a process, and its forebear by a fork where that is a process
//!   too. Whether a fork made a process or a thread no event says, so other threads are in no process.

use std::collections::BTreeMap;
use std::io::{self, Write};

use surety_model::event::{Comm, EventKind};
use surety_units::{Nanos, Tid};

use super::Packets;
use crate::perfetto::{clocks, packet, processes, system};

/// The first release with the bits of `prev_state` that are written.
const RELEASE: &str = "4.14";
/// So many processes, and forks, are remembered.
const PROCESSES_MAX: usize = 1 << 16;

/// A process that the events name.
#[derive(Clone, Copy, Debug)]
struct Process {
    parent: Option<Tid>,
    comm: Comm,
}

/// The processes of a trace.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    /// Who forked each thread.
    forked: BTreeMap<Tid, Tid>,
    processes: BTreeMap<Tid, Process>,
}

impl Lineage {
    pub(super) fn learn(&mut self, kind: &EventKind<'_>) {
        match *kind {
            EventKind::Fork { parent, child, .. } if self.forked.len() < PROCESSES_MAX => {
                self.forked.insert(child, parent);
            }
            EventKind::Exec { tid, .. } if self.processes.len() < PROCESSES_MAX => {
                let parent = self.forked.get(&tid).copied();
                self.processes.insert(tid, Process { parent, comm: Comm::default() });
            }
            EventKind::Switch { prev, prev_comm, .. } => {
                if let Some(process) = self.processes.get_mut(&prev) {
                    process.comm = prev_comm;
                }
            }
            _ => {}
        }
    }
}

impl<W: Write> Packets<W> {
    pub(super) fn system(&mut self) -> io::Result<()> {
        self.packet.message(packet::SYSTEM_INFO, |m| {
            m.message(system::UTSNAME, |m| {
                m.put(system::SYSNAME, b"Linux");
                m.put(system::RELEASE, RELEASE.as_bytes());
            });
        });
        self.write()
    }

    /// `clock` by the tracer's name; one without a number says nothing.
    pub(super) fn clocks(&mut self, first: Nanos, clock: &str) -> io::Result<()> {
        let own = match clock {
            "mono" => Some(clocks::MONOTONIC),
            "mono_raw" => Some(clocks::MONOTONIC_RAW),
            "boot" => None,
            _ => return Ok(()),
        };
        self.packet.message(packet::CLOCK_SNAPSHOT, |m| {
            for id in [Some(clocks::BOOT), own].into_iter().flatten() {
                m.message(clocks::CLOCK, |m| {
                    m.count(clocks::ID, id);
                    m.integer(clocks::TIME, first.get());
                });
            }
            m.count(clocks::PRIMARY, clocks::BOOT);
        });
        self.packet.integer(packet::TIMESTAMP, first.get());
        self.write()
    }

    pub(super) fn processes(&mut self, first: Nanos, lineage: &Lineage) -> io::Result<()> {
        let list = &lineage.processes;
        if list.is_empty() {
            return Ok(());
        }
        self.packet.message(packet::PROCESS_TREE, |m| {
            for (pid, process) in list {
                m.message(processes::PROCESS, |m| {
                    m.integer(processes::PID, pid.0.into());
                    if let Some(parent) = process.parent.filter(|parent| list.contains_key(parent)) {
                        m.integer(processes::PARENT, parent.0.into());
                    }
                    m.put(processes::COMMAND, process.comm.text().as_bytes());
                });
            }
        });
        self.packet.integer(packet::TIMESTAMP, first.get());
        self.write()
    }
}
