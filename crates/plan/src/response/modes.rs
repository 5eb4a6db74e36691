//! Work that is not independent from job to job: sized for the modes it comes in, where that needs more.
//!
//! Modes were learnt from the jobs in their order (`surety_model::modes`). They are made as bad as the measurement leaves possible
//! (`surety_analysis::sampled::modes`), the smallest budget for them is looked for from what independent work needs
//! upwards. The fraction claimed is the smaller of the two.

use surety_analysis::cbs::CbsError;
use surety_analysis::cbs::modulated::ModulatedWork;
use surety_analysis::sampled::INDEPENDENT;
use surety_analysis::sampled::modes::MeasuredModes;
use surety_model::claim::{ClaimedModes, ClaimedWork, ClaimedWorkError};
use surety_model::distribution::TimeDistribution;
use surety_model::modes::{ModeFit, rows};
use surety_model::plan::ProofInput;
use surety_stats::intervals::failure_lower;
use surety_stats::random::Pcg;
use surety_units::Nanos;

use crate::CONFIDENCE;
use crate::refusal::Refused;
use crate::response::Sizing;

/// Jobs beyond the budget are assumed to need at most this many times the largest sample.
const LARGEST_TIMES: i64 = 2;
/// Jobs of a check.
const JOBS: u64 = 1_000_000;
/// The seed of a check.
const SEED: u128 = 1;
/// A fraction is refuted with this confidence; late jobs come in clusters as long as modes last, so this many count as one.
const REFUTED: f64 = 0.999;

/// Raises a sizing to what the modes need.
///
/// `sampled`: the modes are measured, so their sampling error counts; else they are what the workload declares.
pub(crate) fn raise(
    sizing: &mut Sizing,
    fit: &ModeFit,
    sampled: bool,
    search: impl Fn(&ModulatedWork, f64, Nanos) -> Result<Nanos, Refused>,
) -> Result<(), Refused> {
    let measured = MeasuredModes::of(fit);
    let largest = fit.work.iter().map(|work| work.quantile(1.0)).max().unwrap_or(Nanos::ZERO);
    let work = if sampled {
        let worst = measured.worst(largest * LARGEST_TIMES, CONFIDENCE);
        worst.map_err(|error| Refused::plainly(error.to_string()))?
    } else {
        measured.as_measured()
    };
    let mode =
        |(place, words): (usize, String)| ProofInput::new(&format!("work in mode {}", place + 1), words);
    sizing.inputs.extend(fit.describe_modes().into_iter().enumerate().map(mode));
    sizing.inputs.push(ProofInput::new("transitions between modes", fit.describe_transitions()));
    sizing.inputs.push(ProofInput::new("BIC by number of modes", fit.describe_orders()));
    sizing.inputs.push(ProofInput::new("residuals of the modes", fit.describe_residuals()));
    if sampled {
        sizing.steps.push(format!(
            "with {:.0} % confidence the modes are no worse than with transitions {}",
            CONFIDENCE * 100.0,
            rows(&work.transitions)
        ));
    }
    let independent = sizing.work;
    let by_modes = search(&work, sizing.required, independent)?;
    let more = 100.0 * (by_modes.get() as f64 / independent.get().max(1) as f64 - 1.0);
    sizing.steps.push(format!(
        "work is not independent from job to job: as if it were, budgets worth {independent} would be enough; with its {} modes, \
         and in their order where that is declared, it takes {by_modes} ({more:+.1} %)",
        work.work.len()
    ));
    sizing.work = by_modes;
    // What the fraction stands on is the modes and their own limits.
    sizing.assumptions.retain(|words| words != INDEPENDENT);
    sizing.assumptions.push(if fit.explains_all() {
        "inside a mode work is independent from job to job, which the residuals do not reject".to_owned()
    } else {
        format!(
            "inside a mode work is independent from job to job; the residuals still show some dependence ({})",
            fit.describe_residuals()
        )
    });
    sizing.modes = Some(work);
    Ok(())
}

/// Modes as a plan file keeps them.
pub(crate) fn claimed(work: &ModulatedWork) -> ClaimedModes {
    ClaimedModes {
        work: work.work.iter().map(ClaimedWork::of).collect(),
        transitions: work.transitions.clone(),
    }
}

/// The modes of a plan file.
pub(crate) fn work_of(claimed: &ClaimedModes) -> Result<ModulatedWork, ClaimedWorkError> {
    let work: Result<Vec<TimeDistribution>, _> = claimed.work.iter().map(ClaimedWork::distribution).collect();
    Ok(ModulatedWork { work: work?, transitions: claimed.transitions.clone() })
}

/// What came of playing modes.
pub(crate) struct PlayedModes {
    /// Jobs done within the budgets.
    pub done: u64,
    /// Jobs played.
    pub jobs: u64,
    /// Whether as many as claimed may be.
    pub agrees: bool,
}

/// Plays the recursion of the backlog in exact times, no grid, for a million jobs; `claimed`: the fraction to be refuted.
///
/// Errors: the modes are none.
pub(crate) fn play(
    work: &ModulatedWork,
    runtime: Nanos,
    (between, within): (u32, u32),
    claimed: f64,
) -> Result<PlayedModes, CbsError> {
    // Refuses what is no chain, and knows how long modes last.
    let (queue, _) = work.queue(runtime, between.max(1), 4)?;
    let lasts =
        (0..queue.modes()).map(|g| 1.0 / (1.0 - queue.transition(g, g)).max(1e-6)).fold(1.0, f64::max);
    let mut generator = Pcg::new(SEED, 1);
    let served = runtime * i64::from(between);
    let reach = runtime * i64::from(within);
    let (mut mode, mut backlog, mut done) = (0, Nanos::ZERO, 0);
    for _ in 0..JOBS {
        let all = backlog + work.work[mode].draw_from(&mut generator);
        done += u64::from(all <= reach);
        backlog = (all - served).max(Nanos::ZERO);
        let mut left = generator.unit_open();
        let next = (0..queue.modes()).find(|to| {
            left -= queue.transition(mode, *to);
            left < 0.0
        });
        mode = next.unwrap_or(mode);
    }
    let cluster = (2.0 * lasts).ceil() as u64;
    let failed = (JOBS - done).div_ceil(cluster);
    let least = failure_lower(failed, JOBS.div_ceil(cluster), REFUTED);
    Ok(PlayedModes { done, jobs: JOBS, agrees: 1.0 - least >= claimed })
}
