//! Scenarios of several CPUs once more in the lab, traced: where their threads are placed.

use surety_model::event::TraceSink;
use surety_model::world::{RunOptions, WorldError};
use surety_reproduce::validation::{Kernel, Placement, Scenario, Traced};
use surety_units::{CpuId, CpuSet, Nanos};

use super::{BATCH, changes, divided, options, own_environment, world, write};
use crate::args::ValidateArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// How long it is measured at most: every event costs the emulator time.
const DURATION: Nanos = Nanos::from_secs(2);

/// Runs in a guest what is not in the file; scenarios whose own runs are not there are left out.
///
/// # Errors
/// When a run fails or is interrupted, or the file cannot be written.
pub(super) fn run_missing(
    args: &ValidateArgs,
    session: &Session,
    kernel: &str,
    chosen: &[Scenario],
    file: &mut Kernel,
) -> Result<(), Failure> {
    let is_missing = |scenario: &&Scenario| {
        let kept = file.scenarios.get(&scenario.title);
        scenario.cpus > 1 && kept.is_some_and(|kept| kept.unfit.is_none() && kept.traced.is_none())
    };
    let mut missing: Vec<&Scenario> = chosen.iter().filter(is_missing).collect();
    let key = |scenario: &&Scenario| (scenario.cpus, scenario.platform.clone());
    missing.sort_by_key(key);
    for group in missing.chunk_by(|one, other| key(one) == key(other)) {
        for batch in group.chunks(BATCH) {
            run(args, session, (kernel, batch), file)?;
            write(args, file)?;
        }
    }
    Ok(())
}

/// Runs scenarios of one kind of guest in one boot.
fn run(
    args: &ValidateArgs,
    session: &Session,
    (kernel, batch): (&str, &[&Scenario]),
    file: &mut Kernel,
) -> Result<(), Failure> {
    let Some(Scenario { cpus, platform, .. }) = batch.first() else { return Ok(()) };
    let world = world(args, session, kernel, (*cpus, platform, true))?;
    let set: CpuSet = (0..*cpus).map(CpuId).collect();
    let run = |scenario: &&Scenario| {
        let options = options(args, session, set, scenario)?;
        let options = RunOptions { duration: options.duration.min(DURATION), ..options };
        Ok((scenario.workload.clone(), options, format!("{}, traced", scenario.title)))
    };
    let runs: Vec<_> = batch.iter().map(run).collect::<Result<_, Failure>>()?;
    let topology = divided(&changes(platform)?, *cpus);
    let mut placements: Vec<Placement> =
        batch.iter().map(|scenario| Placement::of(&scenario.workload, topology, set)).collect();
    let sinks = placements.iter_mut().map(|placement| placement as &mut dyn TraceSink);
    let made = world.run_traced(0, &runs, &mut sinks.collect::<Vec<_>>());
    for (((scenario, placement), run), (_, options, _)) in batch.iter().zip(placements).zip(made).zip(&runs) {
        let failed = |why: String| Failure::new(Code::Machine, format!("{}, traced: {why}", scenario.title));
        let record = match run {
            Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
            run => run.map_err(|why| failed(why.to_string()))?,
        };
        let machine = record.in_force.machine.clone();
        let machine = machine.ok_or_else(|| failed("its record says nothing of the machine".to_owned()))?;
        if let Some(kept) = file.scenarios.get_mut(&scenario.title) {
            let environment = own_environment(&record);
            let (duration, figures) = (options.duration, placement.figures());
            kept.traced = Some(Traced { duration, environment, machine, figures });
        }
    }
    Ok(())
}
