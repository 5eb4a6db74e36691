//! Pairs of runs of two sides, taken in turns, for a comparison.

use surety_compare::Side;
use surety_compare::order::{interleaved, least_disturbed};
use surety_model::record::{Disturbance, Record};
use surety_model::workload::Workload;
use thiserror::Error;

use crate::failure::Failure;
use crate::runs::Rounds;
use crate::worlds::Worlds;

/// One side: its name and what it runs.
pub type Named = (String, Workload);

/// Why there are no pairs.
#[derive(Debug, Error)]
#[error("{failure}")]
pub struct PairFailure {
    /// Whose run it was: 0 or 1.
    pub side: usize,
    /// What ended it.
    pub failure: Failure,
}

/// The runs of both sides that are compared, in the order in which they were made.
#[derive(Debug)]
pub struct Pairs {
    /// Of A and of B.
    pub runs: [Vec<Record>; 2],
    /// The worst disturbance of each pair, as a part of the CPUs.
    pub disturbed: Vec<f64>,
    /// Pairs asked for.
    pub asked: usize,
    /// What ended it before all were taken, and whose run that was.
    pub ended: Option<PairFailure>,
}

impl Pairs {
    /// Pairs that came to their end, disturbed ones included.
    pub fn taken(&self) -> usize {
        self.disturbed.len()
    }

    /// The least disturbed pairs of one side, 0 or 1.
    pub fn side(&self, side: usize, label: &str, workload: Option<String>) -> Side<'_> {
        let kept = least_disturbed(&self.disturbed, self.asked.min(self.taken()));
        let runs = kept.iter().map(|place| &self.runs[side][*place]).collect();
        Side { label: label.to_owned(), runs, workload }
    }
}

/// Takes `rounds.count` pairs in the first world: in one boot where it is a kernel of the lab, where nobody else runs; else in turns until
/// as many are calm, at most twice as many, unless disturbed ones are to be kept.
///
/// # Errors
/// What ends a run before the first pair; later it is in the pairs.
pub fn take(
    sides: &[Named; 2],
    rounds: &Rounds,
    keep_disturbed: bool,
    worlds: &Worlds<'_>,
) -> Result<Pairs, PairFailure> {
    if worlds.kind(0).is_dear {
        in_one_guest(sides, rounds, worlds)
    } else {
        in_turns(sides, rounds, keep_disturbed, worlds)
    }
}

/// Takes pairs until as many are calm as were asked for.
fn in_turns(
    sides: &[Named; 2],
    rounds: &Rounds,
    keep_disturbed: bool,
    worlds: &Worlds<'_>,
) -> Result<Pairs, PairFailure> {
    let pairs = rounds.count;
    let mut runs: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    let (mut disturbed, mut ended): (Vec<f64>, _) = (Vec::new(), None);
    'pairs: for (round, order) in interleaved(2, 2 * pairs, rounds.options.seed).iter().enumerate() {
        let calm = disturbed.iter().filter(|part| **part <= Disturbance::LIMIT).count();
        if calm >= pairs || (keep_disturbed && round >= pairs) {
            break;
        }
        let options = rounds.options_of(round);
        let mut worst = 0.0_f64;
        for &side in order {
            let again = if round < pairs { "" } else { ", for a disturbed pair" };
            let label = format!("{} {} of {pairs}{again}", ["A", "B"][side], round + 1);
            let made = worlds.run(0, &sides[side].1, &options, &label, None);
            let record = match made.map_err(|error| PairFailure { side, failure: error.into() }) {
                Err(failure) if !disturbed.is_empty() => {
                    ended = Some(failure);
                    break 'pairs;
                }
                record => record?,
            };
            worst = worst.max(record.in_force.disturbance.map_or(0.0, Disturbance::worst));
            runs[side].push(record);
        }
        disturbed.push(worst);
    }
    Ok(Pairs { runs, disturbed, asked: pairs, ended })
}

/// Takes as many pairs as were asked for in one boot: nobody else runs in a guest, so none is taken again.
fn in_one_guest(sides: &[Named; 2], rounds: &Rounds, worlds: &Worlds<'_>) -> Result<Pairs, PairFailure> {
    let pairs = rounds.count;
    let orders = interleaved(2, pairs, rounds.options.seed).into_iter().enumerate();
    let order: Vec<(usize, usize)> =
        orders.flat_map(|(round, order)| order.into_iter().map(move |side| (round, side))).collect();
    let planned = order.iter().map(|(round, side)| {
        let label = format!("{} {} of {pairs}", ["A", "B"][*side], round + 1);
        (sides[*side].1.clone(), rounds.options_of(*round), label)
    });
    let made = worlds.run_first(order.len(), 0, &planned.collect::<Vec<_>>());
    let mut runs: [Vec<Record>; 2] = [Vec::new(), Vec::new()];
    let mut ended = None;
    for ((_, side), record) in order.into_iter().zip(made) {
        match record.map_err(|error| PairFailure { side, failure: error.into() }) {
            Err(failure) if runs.iter().all(|made| !made.is_empty()) => {
                ended = Some(failure);
                break;
            }
            record => runs[side].push(record?),
        }
    }
    // A pair of which one run was made is none.
    let finished = runs[0].len().min(runs[1].len());
    Ok(Pairs { runs, disturbed: vec![0.0; finished], asked: pairs, ended })
}
