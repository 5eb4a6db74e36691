//! A stock kernel under an emulator.

use surety_lab::store::StoredKernel;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::{LAB_PREFIX, RunOptions, World, WorldError};
use surety_units::Nanos;

use super::{Entry, Means, Opened, Opening, WorldKind, Worlds};
use crate::failure::Failure;
use crate::guests;

/// Its row.
pub const LAB: WorldKind = WorldKind {
    words: || vec!["lab:KERNEL".to_owned()],
    clock: Some("mono"),
    is_model: false,
    is_dear: true,
    change,
    open,
};

fn change(means: &mut Means, word: &str) -> Result<(), Failure> {
    let said =
        |why| Failure::request(format!("{word} cannot have {}: {why}", means.platform), "change --platform");
    means.guest = means.guest.with(&means.platform).map_err(said)?;
    Ok(())
}

fn open(word: &str, opening: &Opening<'_>) -> Opened {
    let name = word.strip_prefix(LAB_PREFIX)?;
    let stored = guests::store(opening.context).and_then(|store| store.kernel(name));
    let entry = |stored| vec![(word.to_owned(), Box::new(Guest(stored)) as Box<dyn Entry>)];
    Some(stored.map(entry).map_err(Failure::from))
}

struct Guest(StoredKernel);

impl Entry for Guest {
    fn world<'e>(
        &'e self,
        worlds: &'e Worlds<'_>,
        options: &RunOptions,
    ) -> Result<Box<dyn World + 'e>, WorldError> {
        let Worlds { context, means, .. } = worlds;
        let world = guests::world_of(&self.0, &means.guest, options.seed, *context)?;
        Ok(Box::new(if means.traced { world } else { world.untraced() }))
    }

    fn objection(&self, worlds: &Worlds<'_>, workload: &Workload) -> Option<WorldError> {
        let seed = worlds.means.guest.seed;
        match guests::world_of(&self.0, &worlds.means.guest, seed, worlds.context) {
            Ok(world) => world.objections(workload).into_iter().next(),
            Err(error) => Some(error.into()),
        }
    }

    fn kernel(&self) -> Option<&StoredKernel> {
        Some(&self.0)
    }

    fn packets(
        &self,
        worlds: &Worlds<'_>,
        interval: Nanos,
        options: &RunOptions,
        _: &str,
    ) -> Result<Record, WorldError> {
        guests::packets(interval, options, &worlds.means.guest, self.0.clone(), worlds.context)
    }

    fn requests(
        &self,
        worlds: &Worlds<'_>,
        schedulers: &[String],
        options: &RunOptions,
    ) -> Result<Record, WorldError> {
        guests::requests(schedulers, options, &worlds.means.guest, self.0.clone(), worlds.context)
    }
}
