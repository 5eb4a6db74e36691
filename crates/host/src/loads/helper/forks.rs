//! `forks`: each makes a process, waits for its end, and makes the next.

use surety_kernel::process::Forker;
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::loads::helper::{Employer, Shift, Task, refusal};
use crate::loads::{Counts, Ground, LoadDriver, LoadWorker, Workers, per_second, refused};

/// Processes made between two looks at the end of the run.
const BATCH: u64 = 8;

/// The row of the kind.
pub(crate) const DRIVER: LoadDriver = LoadDriver { kind: LoadKind::Forks, most: 256, prepare, figures };

fn prepare(load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
    if let Some(why) = refusal() {
        return Err(refused(load, why));
    }
    let make = |_| Box::new(Employer { task: Task::Forks, mark: ground.mark.clone() }) as Box<dyn LoadWorker>;
    Ok((0..count).map(make).collect())
}

fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![per_second("processes", done.rounds, "/s", observed)]
}

/// What the helper does.
pub(crate) fn work(shift: &Shift) -> Result<(), String> {
    let forker = Forker::new().map_err(|e| e.to_string())?;
    let mut counts = Counts::default();
    while !shift.is_over() {
        for _ in 0..BATCH {
            match forker.fork_and_wait() {
                Ok(()) => counts.rounds += 1,
                // At the limit of processes: others may end.
                Err(_) => counts.lost += 1,
            }
        }
        shift.count(0, counts);
    }
    Ok(())
}
