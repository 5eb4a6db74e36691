//! How much a run may ask for: threads and activations, refused in words before anything is made of them.
//!
//! Worlds keep what became of every activation until the run is over, some 100 bytes of each, so [`ACTIVATIONS_MAX`] are half
//! a gigabyte.

use surety_units::Nanos;

use crate::activation::{Activations, draw_key};
use crate::workload::{ActivityKind, Arrivals, Task, Workload};
use crate::world::{RunOptions, WorldError};

/// Threads of all tasks and loads of a run.
pub const THREADS_MAX: u64 = 20_000;
/// Activations of all tasks of a run and events of its chains, warm-up included.
pub const ACTIVATIONS_MAX: u64 = 1 << 22;
/// Requests of one interrupt source per second: each is simulated by itself.
const REQUESTS_PER_SECOND_MAX: u64 = 1_000_000;

/// Refuses a run of `workload` on `cpus` CPUs that would need more memory than is there for it.
///
/// # Errors
/// [`WorldError::Unsupported`] with the object that asks for most, how much it asks for and what to change.
pub fn check(world: &str, workload: &Workload, options: &RunOptions, cpus: u32) -> Result<(), WorldError> {
    let refuse =
        |object: String, why: String| Err(WorldError::Unsupported { world: world.to_owned(), object, why });
    let threads = || {
        let tasks =
            workload.tasks.iter().map(|task| (ActivityKind::Task, &task.name, task.instances.on(cpus)));
        tasks.chain(workload.loads.iter().map(|load| (ActivityKind::Load, &load.name, load.count.on(cpus))))
    };
    let all: u64 = threads().map(|(_, _, count)| u64::from(count)).sum();
    if let (true, Some((kind, name, count))) =
        (all > THREADS_MAX, threads().max_by_key(|(_, _, count)| *count))
    {
        let why =
            format!("it is {count} of {all} threads, and a run has at most {THREADS_MAX}; ask for fewer");
        return refuse(kind.path(name), why);
    }
    let length = options.warm_up.saturating_add(options.duration);
    let planned = |task: &Task| match workload.is_fed(task) {
        true => workload.deliveries(task, length),
        false => activations(task, length, cpus),
    };
    let of_tasks = workload.tasks.iter().map(|task| (ActivityKind::Task, &task.name, planned(task)));
    let of_chains =
        workload.chains.iter().map(|chain| (ActivityKind::Chain, &chain.name, chain.expected(length)));
    let each: Vec<(ActivityKind, &String, u64)> = of_tasks.chain(of_chains).collect();
    let all = each.iter().map(|(.., count)| *count).fold(0, u64::saturating_add);
    if let (true, Some((kind, name, count))) =
        (all > ACTIVATIONS_MAX, each.iter().max_by_key(|(.., count)| *count))
    {
        let why = format!(
            "it has {count} of {all} activations in {length}, and a run keeps at most {ACTIVATIONS_MAX}; run it shorter with --for, or \
             give it a longer period"
        );
        return refuse(kind.path(name), why);
    }
    Ok(())
}

/// Refuses interrupt sources and flows that a simulation of single requests does not get through.
///
/// # Errors
/// [`WorldError::Unsupported`] with the source or the flow.
pub fn check_requests(world: &str, workload: &Workload) -> Result<(), WorldError> {
    let least = Nanos::new(Nanos::SECOND.get() / REQUESTS_PER_SECOND_MAX.cast_signed());
    let irqs = workload.irqs.iter().map(|irq| (ActivityKind::Irq, &irq.name, &irq.arrivals));
    let flows = workload.flows.iter().map(|flow| (ActivityKind::Flow, &flow.name, &flow.arrivals));
    for (kind, name, arrivals) in irqs.chain(flows) {
        let too_fast = match *arrivals {
            Arrivals::Periodic { period } => period < least,
            Arrivals::Sporadic { gap } => gap < least,
            Arrivals::Poisson { rate } => rate.per_second() > REQUESTS_PER_SECOND_MAX as f64,
            // The link itself limits how fast a flow's messages come back.
            Arrivals::Closed { service, .. } => kind == ActivityKind::Irq && service < least,
        };
        if too_fast {
            return Err(WorldError::Unsupported {
                world: world.to_owned(),
                object: kind.path(name),
                why: format!(
                    "its requests come faster than one every {least}, the most that is simulated; make them rarer"
                ),
            });
        }
    }
    Ok(())
}

/// Activations of all instances of a task in a run of this length.
fn activations(task: &Task, length: Nanos, cpus: u32) -> u64 {
    if task.is_endless() {
        return 0;
    }
    let each = Activations::of(task, &draw_key(&task.name, 0), 0).room(length);
    each.saturating_mul(u64::from(task.instances.on(cpus)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::toml::read;

    fn refusal(text: &str, seconds: i64) -> Option<String> {
        let workload = read("w.toml", &format!("format = 1\n{text}")).unwrap();
        let options = RunOptions { duration: Nanos::from_secs(seconds), ..RunOptions::default() };
        let found = check("sim", &workload, &options, 2).and_then(|()| check_requests("sim", &workload));
        found.err().map(|error| error.to_string())
    }

    #[test]
    fn what_would_not_fit_is_refused_with_its_name_and_how_much_it_asks_for() {
        for (task, seconds, said) in [
            ("period = \"1ns\"\nwork = \"1ns\"", 1, Some("sim cannot run task.t: it has 15000000")),
            (
                "period = \"1us\"\nwork = \"1ns\"",
                25,
                Some("it has 25500002 of 25500002 activations in 25.50 s"),
            ),
            ("period = \"1us\"\nwork = \"1ns\"\njobs = 1000", 25, None),
            ("gap = \"1ns\"\nspacing = { kind = \"exponential\", mean = \"1ms\" }\nwork = \"1ns\"", 25, None),
            ("period = \"1ms\"\nwork = \"1us\"\ninstances = 300", 25, Some("of 7650600 activations")),
            ("work = \"1us\"\ninstances = \"10000 per-cpu\"", 25, None),
            ("period = \"1us\"\nwork = \"forever\"", 25, None),
        ] {
            let refused = refusal(&format!("[[task]]\nname = \"t\"\n{task}\n"), seconds);
            match said {
                Some(said) => {
                    assert!(refused.as_ref().is_some_and(|r| r.contains(said)), "{task}: {refused:?}")
                }
                None => assert_eq!(refused, None, "{task}"),
            }
        }
        let loads = "[[load]]\nname = \"a\"\nkind = \"spinners\"\ncount = \"10000 per-cpu\"\n\
                     [[task]]\nname = \"t\"\nwork = \"1ms\"\n";
        assert!(refusal(loads, 1).unwrap().contains("load.a: it is 20000 of 20001 threads"));
        let fast =
            "[[irq]]\nname = \"n\"\nwork = \"1us\"\narrivals = { kind = \"sporadic\", gap = \"999ns\" }\n";
        assert!(refusal(fast, 1).unwrap().contains("irq.n: its requests come faster"));
    }
}
