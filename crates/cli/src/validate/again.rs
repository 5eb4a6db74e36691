//! Scenarios once more in the lab, under the conditions that their figures and causes want.

use surety_model::event::TraceSink;
use surety_model::world::{RunOptions, WorldError};
use surety_reproduce::validation::{
    Again, Condition, Kept, Kernel, NotCompared, Placement, Scenario, conditions, figures_of,
};
use surety_units::{CpuId, CpuSet};

use super::{BATCH, changes, divided, options, own_environment, world, write};
use crate::args::ValidateArgs;
use crate::exit::Failure;
use crate::session::Session;

/// Runs in a guest what is not in the file of runs under conditions; scenarios whose own runs are not there are left out. Each condition has boots
/// of its own.
///
/// # Errors
/// When it is interrupted, or the file cannot be written.
pub(super) fn run_missing(
    args: &ValidateArgs,
    session: &Session,
    kernel: &str,
    chosen: &[Scenario],
    file: &mut Kernel,
) -> Result<(), Failure> {
    let of_scenario = |scenario| conditions(scenario, kernel).into_iter().map(move |c| (scenario, c));
    let mut missing: Vec<(&Scenario, Condition)> = chosen.iter().flat_map(of_scenario).collect();
    missing.retain(|(scenario, condition)| {
        let kept = file.scenarios.get(&scenario.title);
        kept.is_some_and(|kept| {
            kept.unfit.is_none() && kept.workload == scenario.text && kept.under(*condition).is_none()
        })
    });
    let key = |(scenario, condition): &(&Scenario, Condition)| {
        (scenario.cpus, scenario.platform.clone(), *condition)
    };
    missing.sort_by_key(key);
    for group in missing.chunk_by(|one, other| key(one) == key(other)) {
        for batch in group.chunks(BATCH) {
            run(args, session, (kernel, batch), file)?;
            write(args, file)?;
        }
    }
    Ok(())
}

/// Runs scenarios of one kind of guest under one condition, in one boot.
fn run(
    args: &ValidateArgs,
    session: &Session,
    (kernel, batch): (&str, &[(&Scenario, Condition)]),
    file: &mut Kernel,
) -> Result<(), Failure> {
    let Some((first, condition)) = batch.first() else { return Ok(()) };
    let is_traced = *condition == Condition::Traced;
    let (cpus, platform) = (first.cpus, &first.platform);
    let world = world(args, session, kernel, (cpus, platform, is_traced))?;
    let set: CpuSet = (0..cpus).map(CpuId).collect();
    let run = |(scenario, condition): &(&Scenario, Condition)| {
        let kept = file.scenarios.get(&scenario.title).cloned().unwrap_or_default();
        let Kept { duration, warm_up, .. } = kept;
        let seed = condition.seed(kept.seed);
        let options = RunOptions { seed, duration, warm_up, ..options(args, session, set, scenario)? };
        Ok((scenario.workload.clone(), options, format!("{}, {condition}", scenario.title)))
    };
    let runs: Vec<_> = batch.iter().map(run).collect::<Result<_, Failure>>()?;
    let topology = divided(&changes(platform)?, cpus);
    // Where there is one CPU nothing is placed, and events are left in the guest.
    let is_placed = is_traced && cpus > 1;
    let placements = batch.iter().filter(|_| is_placed);
    let mut placements: Vec<Placement> =
        placements.map(|(scenario, _)| Placement::of(&scenario.workload, topology, set)).collect();
    let made = if is_placed {
        let sinks = placements.iter_mut().map(|placement| placement as &mut dyn TraceSink);
        world.run_traced(0, &runs, &mut sinks.collect::<Vec<_>>())
    } else {
        world.run_first(runs.len(), 0, &runs)
    };
    let mut placements = placements.into_iter();
    for ((scenario, condition), run) in batch.iter().zip(made) {
        let placement = placements.next();
        let again = match run {
            Ok(record) => Again {
                environment: own_environment(&record),
                machine: record.in_force.machine.clone(),
                unfit: None,
                runs: vec![figures_of(&record, placement)],
            },
            Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
            Err(why) => Again { unfit: Some(why.to_string()), ..Again::default() },
        };
        if let Some(kept) = file.scenarios.get_mut(&scenario.title) {
            kept.again.insert(condition.to_string(), again);
        }
    }
    Ok(())
}

/// Runs under conditions that decide nothing, and why.
pub(super) fn not_compared<'k>(
    scenario: &'k Scenario,
    kernel: &'k str,
    kept: &'k Kept,
) -> impl Iterator<Item = NotCompared> + 'k {
    let of = kept.again.iter().filter_map(|(condition, again)| Some((condition, again.unfit.as_ref()?)));
    of.map(move |(condition, why)| NotCompared {
        scenario: scenario.title.clone(),
        kernel: kernel.to_owned(),
        why: format!("{condition}: {why}"),
    })
}
