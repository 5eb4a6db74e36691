//! The simulator.

use surety_model::platform::Platform;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, World, WorldError};
use surety_sim::SimWorld;

use super::machines::Machine;
use super::{Entry, Opened, Opening, WorldKind, Worlds};

/// Its row.
pub const SIM: WorldKind = WorldKind {
    words: &["sim", "sim:linux-6.18", "sim:linux-6.12", "sim:linux-6.1"],
    // A simulation's time begins at 0 and counts as CLOCK_MONOTONIC does.
    clock: Some("mono"),
    is_model: true,
    is_dear: false,
    open,
};

/// A simulator of a kernel with a name.
const NAMED: &str = "sim:";

fn open(word: &str, opening: &Opening<'_>) -> Opened {
    let of = |(label, machine)| (label, Box::new(Sim(machine)) as Box<dyn Entry>);
    if word == "sim" {
        return Some(Ok(opening.machines.each(word).into_iter().map(of).collect()));
    }
    let machine = opening.machines.named(word.strip_prefix(NAMED)?)?;
    Some(Ok(vec![of((word.to_owned(), machine))]))
}

struct Sim(Machine);

impl Entry for Sim {
    fn world<'e>(
        &'e self,
        worlds: &'e Worlds<'_>,
        options: &RunOptions,
    ) -> Result<Box<dyn World + 'e>, WorldError> {
        Ok(self.on(worlds.platform_of(&self.0, options)?))
    }

    fn objection(&self, worlds: &Worlds<'_>, workload: &Workload) -> Option<WorldError> {
        // What is not simulated does not depend on the machine, which a guest has yet to tell.
        SimWorld::new(worlds.host.clone()).objections(workload).into_iter().next()
    }

    fn of_another_machine(&self, platform: &Platform) -> Option<Box<dyn World>> {
        Some(self.on(platform.clone()))
    }
}

impl Sim {
    fn on(&self, platform: Platform) -> Box<dyn World> {
        Box::new(SimWorld::new(platform))
    }
}
