//! `messages` loads: groups of ten senders and ten receivers.

use surety_model::workload::{ActivityKind, Load, LoadKey, LoadKind, MESSAGE_SENDERS, Workload};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::{Activity, Builder, Place};
use crate::cpu::hardware::Scheduling;
use crate::world::io::{Actor, BLOCK_MAX, Socket, Talker};
use crate::world::jobs::Thread;
use crate::world::unsupported;

/// Senders of a group, and receivers.
const EACH: usize = MESSAGE_SENDERS as usize;
/// Processes of a group.
pub(in crate::world) const PROCESSES: usize = 2 * EACH;
/// What a message may cost.
const COST: (Nanos, Nanos) = (Nanos::new(100), Nanos::MILLISECOND);

/// Whether a kind of load is processes that write to each other.
pub(in crate::world) fn talks(kind: LoadKind) -> bool {
    kind.row().takes(LoadKey::MessageCost.word())
}

/// What of such loads is not simulated.
pub(super) fn objections(workload: &Workload) -> impl Iterator<Item = WorldError> {
    let loads = workload.loads.iter().filter(|load| talks(load.kind));
    loads.filter_map(|load| Some(unsupported(ActivityKind::Load.path(&load.name), objection(load)?)))
}

fn objection(load: &Load) -> Option<String> {
    let block = load.block().0;
    match load.message_cost {
        None => Some(
            "what a message costs is the machine's: add `message-cost`, the CPU time of its write and its read, such as \
             message-cost = \"1.6us\": where `surety run` of this load on `host` says 87.5 % of a CPU and 543,000 messages/s it is \
             0.875 s / 543,000"
                .to_owned(),
        ),
        Some(cost) if cost < COST.0 || cost > COST.1 => {
            Some(format!("`message-cost` is simulated from {} to {}, not {cost}", COST.0, COST.1))
        }
        Some(_) => (block > BLOCK_MAX).then(|| {
            format!("messages of up to {BLOCK_MAX} bytes are simulated, which a socket keeps in one piece, not `block` of {block}")
        }),
    }
}

impl Builder<'_> {
    /// The processes of a group: its receivers first, as the host makes them.
    pub(super) fn talkers(&mut self, index: usize, load: &Load, (scheduling, place): (Scheduling, Place)) {
        let cost = load.message_cost.unwrap_or_default();
        let written = Nanos::new(cost.get() / 2);
        let (read, block, observe) = (cost - written, load.block().0, self.observe);
        let first = self.stage.machine.programs().io.sockets.len();
        for _ in 0..EACH {
            let (data, room) = (self.stage.machine.add_signal(), self.stage.machine.add_signal());
            self.stage.machine.programs_mut().io.sockets.push(Socket::new(data, room, block));
        }
        let receivers = (0..EACH).map(|number| Talker::receiver(first + number, read, block, observe));
        let senders = (0..EACH).map(|_| Talker::sender((first, EACH), written));
        for talker in receivers.chain(senders) {
            let actors = &mut self.stage.machine.programs_mut().io.actors;
            actors.push(Actor::Talker(talker));
            let thread = Thread::of_actor(actors.len() - 1);
            self.member(Activity::Load(index), &load.name, scheduling, place, thread);
        }
    }
}
