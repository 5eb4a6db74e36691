//! The simulator.

use surety_model::platform::PROFILES;
use surety_sim::SimWorld;

use super::model::Model;
use super::{Opened, Opening, WorldKind};

/// Its row.
pub const SIM: WorldKind = WorldKind {
    words,
    // A simulation's time begins at 0 and counts as CLOCK_MONOTONIC does.
    clock: Some("mono"),
    is_model: true,
    is_dear: false,
    // When it is made: then its machine is known.
    change: |_, _| Ok(()),
    open,
};

/// A simulator of a kernel with a name.
const NAMED: &str = "sim:";

fn words() -> Vec<String> {
    let named = PROFILES.iter().map(|(name, _)| format!("{NAMED}{name}"));
    std::iter::once("sim".to_owned()).chain(named).collect()
}

fn open(word: &str, opening: &Opening<'_>) -> Opened {
    let of = |named| Model::entered(named, |platform| Box::new(SimWorld::new(platform)));
    if word == "sim" {
        return Some(Ok(opening.machines.each(word).into_iter().map(of).collect()));
    }
    let machine = opening.machines.named(word.strip_prefix(NAMED)?)?;
    Some(Ok(vec![of((word.to_owned(), machine))]))
}
