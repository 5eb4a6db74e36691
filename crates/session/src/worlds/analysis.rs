//! Theory.

use surety_analysis::AnalysisWorld;
use surety_model::platform::Platform;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, World, WorldError};

use super::machines::Machine;
use super::{Entry, Opened, Opening, WorldKind, Worlds};

/// Its word.
const WORD: &str = "analysis";

/// Its row.
pub const ANALYSIS: WorldKind =
    WorldKind { words: &[WORD], clock: None, is_model: true, is_dear: false, open };

fn open(word: &str, opening: &Opening<'_>) -> Opened {
    let of = |(label, machine)| (label, Box::new(Analysis(machine)) as Box<dyn Entry>);
    (word == WORD).then(|| Ok(opening.machines.each(word).into_iter().map(of).collect()))
}

struct Analysis(Machine);

impl Entry for Analysis {
    fn world<'e>(
        &'e self,
        worlds: &'e Worlds<'_>,
        options: &RunOptions,
    ) -> Result<Box<dyn World + 'e>, WorldError> {
        Ok(self.on(worlds.platform_of(&self.0, options)?))
    }

    fn objection(&self, worlds: &Worlds<'_>, workload: &Workload) -> Option<WorldError> {
        // What is not analysed does not depend on the machine, which a guest has yet to tell.
        AnalysisWorld::new(worlds.host.clone()).objections(workload).into_iter().next()
    }

    fn of_another_machine(&self, platform: &Platform) -> Option<Box<dyn World>> {
        Some(self.on(platform.clone()))
    }
}

impl Analysis {
    fn on(&self, platform: Platform) -> Box<dyn World> {
        Box::new(AnalysisWorld::new(platform))
    }
}
