//! How long steps take that write into memory or a device, for worlds that have neither.

use surety_host::fills::measure;
use surety_model::workload::{Fill, TaskBody, Workload, fills_mut};
use surety_units::Nanos;

use crate::exit::{Code, Failure};

/// Gives each step that writes bytes, and does not say how long that takes, the CPU time it takes here: those into memory, /dev/null and
/// /dev/zero.
pub fn measured(workload: &mut Workload) -> Result<(), Failure> {
    let mut known: Vec<(Fill, Option<Nanos>)> = Vec::new();
    for task in &mut workload.tasks {
        let TaskBody::Phases(phases) = &mut task.body else { continue };
        for fill in fills_mut(phases).into_iter().filter(|fill| fill.takes.is_none()) {
            let before = known.iter().find(|(other, _)| other == fill).map(|(_, takes)| *takes);
            let takes = match before {
                Some(takes) => takes,
                None => measure(fill).map_err(|why| {
                    Failure::new(Code::Machine, format!("task.{}: {why}", task.name))
                        .help(format!("say `takes` beside `{}`", fill.word()))
                })?,
            };
            if before.is_none() {
                known.push((fill.clone(), takes));
            }
            fill.takes = takes;
        }
    }
    Ok(())
}
