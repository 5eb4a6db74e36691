//! Theory.

use surety_analysis::AnalysisWorld;

use super::model::Model;
use super::{Opened, Opening, WorldKind};

/// Its word.
const WORD: &str = "analysis";

/// Its row.
pub const ANALYSIS: WorldKind = WorldKind {
    words: || vec![WORD.to_owned()],
    clock: None,
    is_model: true,
    is_dear: false,
    // When it is made: then its machine is known.
    change: |_, _| Ok(()),
    open,
};

fn open(word: &str, opening: &Opening<'_>) -> Opened {
    let of = |named| Model::entered(named, |platform| Box::new(AnalysisWorld::new(platform)));
    (word == WORD).then(|| Ok(opening.machines.each(word).into_iter().map(of).collect()))
}
