//! A world that computes what others run, on a machine that they tell it.

use surety_model::platform::Platform;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, World, WorldError};

use super::machines::Machine;
use super::{Entered, Entry, Worlds};

/// A model of a machine.
pub struct Model {
    machine: Machine,
    /// The model of a machine that is known.
    on: fn(Platform) -> Box<dyn World>,
}

impl Model {
    /// Under this name, of this machine.
    pub fn entered((name, machine): (String, Machine), on: fn(Platform) -> Box<dyn World>) -> Entered {
        (name, Box::new(Model { machine, on }))
    }
}

impl Entry for Model {
    fn world<'e>(
        &'e self,
        worlds: &'e Worlds<'_>,
        options: &RunOptions,
    ) -> Result<Box<dyn World + 'e>, WorldError> {
        Ok((self.on)(worlds.platform_of(&self.machine, options)?))
    }

    fn objection(&self, worlds: &Worlds<'_>, workload: &Workload) -> Option<WorldError> {
        // What a model leaves out does not depend on the machine, which a guest has yet to tell.
        (self.on)(worlds.host.clone()).objections(workload).into_iter().next()
    }

    fn of_another_machine(&self, platform: &Platform) -> Option<Box<dyn World>> {
        Some((self.on)(platform.clone()))
    }
}
