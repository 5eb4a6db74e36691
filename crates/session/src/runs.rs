//! Runs of a workload in turns: every combination of `[vary]` in every world, each as often as asked for.

use surety_compare::order::interleaved;
use surety_compare::pool::pool;
use surety_model::formats::toml::vary::{Settings, combinations, with};
use surety_model::record::Record;
use surety_model::workload::{Startup, Workload};
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use crate::failure::Failure;
use crate::worlds::Worlds;

/// One line of a table: a combination in a world, and the runs of it.
#[derive(Debug)]
pub struct Variant {
    /// What tells it from the others.
    pub label: String,
    /// The world's number in [`Worlds::names`].
    pub world: usize,
    /// With the values of this combination.
    pub workload: Workload,
    /// What came of it.
    pub runs: Vec<Record>,
    /// Why it cannot be run, or was not.
    pub refused: Option<WorldError>,
}

/// How often, and under which options.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// Runs of each variant.
    pub count: usize,
    /// Of the first round; each round has a seed of its own, the same for all that run in it: they draw the same work.
    pub options: RunOptions,
}

impl Rounds {
    /// The options of one of them, counted from 0.
    pub fn options_of(&self, round: usize) -> RunOptions {
        RunOptions { seed: self.options.seed.wrapping_add(round as u64), ..self.options.clone() }
    }
}

/// Every combination of `[vary]` in every world. Every world is asked what it cannot run before anything runs: a variant that its
/// world objects to is refused, the others are not.
///
/// # Errors
/// A combination that is no workload.
pub fn variants(workload: &Workload, worlds: &Worlds<'_>) -> Result<Vec<Variant>, Failure> {
    let mut variants = Vec::new();
    for settings in combinations(workload)? {
        let set = with(workload, &settings)?;
        for (world, word) in worlds.names().into_iter().enumerate() {
            let label = match (settings.0.is_empty(), worlds.names().len()) {
                (true, _) => word.to_owned(),
                (false, 1) => label_of(&settings),
                (false, _) => format!("{word} {}", label_of(&settings)),
            };
            let refused = worlds.objection(world, &set);
            variants.push(Variant { label, world, workload: set.clone(), runs: Vec::new(), refused });
        }
    }
    Ok(variants)
}

/// How many runs came to their end or were refused, and how many were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Came to their end.
    pub finished: usize,
    /// Were asked for.
    pub asked: usize,
}

/// Makes every run of every variant that is not refused: in turns, each kernel of the lab in as few boots as hold its runs, models
/// last. Ctrl-C leaves the others out.
///
/// # Errors
/// [`WorldError::Interrupted`] where that leaves none.
pub fn make(variants: &mut [Variant], rounds: &Rounds, worlds: &Worlds<'_>) -> Result<Finished, Failure> {
    let order = interleaved(variants.len(), rounds.count, rounds.options.seed);
    let runs: Vec<(usize, RunOptions)> = order
        .into_iter()
        .enumerate()
        .flat_map(|(round, order)| {
            let options = rounds.options_of(round);
            order.into_iter().map(move |index| (index, options.clone()))
        })
        .collect();
    let asked = runs.len();
    let (refused, runs): (Vec<_>, Vec<_>) =
        runs.into_iter().partition(|(index, _)| variants[*index].refused.is_some());
    let mut finished = refused.len();
    let is_dear = |variant: &Variant| worlds.kind(variant.world).is_dear;
    for world in worlds.order().into_iter().filter(|world| worlds.kind(*world).is_dear) {
        let of_world: Vec<_> = runs.iter().filter(|(index, _)| variants[*index].world == world).collect();
        let planned = of_world.iter().map(|(index, options)| {
            let variant = &variants[*index];
            (variant.workload.clone(), options.clone(), variant.label.clone())
        });
        let made = worlds.run_first(of_world.len(), world, &planned.collect::<Vec<_>>());
        for ((index, _), record) in of_world.into_iter().zip(made) {
            finished += usize::from(variants[*index].take(record));
        }
    }
    let mut others: Vec<_> = runs.iter().filter(|(index, _)| !is_dear(&variants[*index])).collect();
    others.sort_by_key(|(index, _)| worlds.kind(variants[*index].world).is_model);
    for (index, options) in others {
        let variant = &mut variants[*index];
        if variant.refused.is_none() {
            let made = worlds.run(variant.world, &variant.workload, options, &variant.label, None);
            if !variant.take(made) {
                break;
            }
        }
        finished += 1;
    }
    interrupt_rest(variants, Finished { finished, asked })
}

/// Variants without a run were interrupted, where not all came to their end.
///
/// # Errors
/// [`WorldError::Interrupted`] where no variant has a run.
pub fn interrupt_rest(variants: &mut [Variant], finished: Finished) -> Result<Finished, Failure> {
    if finished.finished < finished.asked {
        if variants.iter().all(|variant| variant.runs.is_empty()) {
            return Err(WorldError::Interrupted.into());
        }
        let left = variants.iter_mut().filter(|variant| variant.runs.is_empty() && variant.refused.is_none());
        left.for_each(|variant| variant.refused = Some(WorldError::Interrupted));
    }
    Ok(finished)
}

/// The error of variants none of which has a run: the first one's.
pub fn refusal_of_all(variants: &[Variant]) -> Option<WorldError> {
    let is_none = variants.iter().all(|variant| variant.runs.is_empty());
    is_none.then(|| variants.iter().find_map(|variant| variant.refused.clone())).flatten()
}

impl Variant {
    /// Takes what came of a run; whether it came to its end or was refused.
    pub fn take(&mut self, record: Result<Record, WorldError>) -> bool {
        match record {
            Ok(record) => self.runs.push(record),
            Err(WorldError::Interrupted) => return false,
            Err(why) => self.refused = Some(why),
        }
        true
    }

    /// All runs as one record; without any, an empty one that says why.
    pub fn one_record(&self) -> Record {
        let runs: Vec<&Record> = self.runs.iter().collect();
        let why = self.refused.as_ref().map(|error| {
            let place = error.object().and_then(|object| self.workload.source.locate(object));
            format!("could not be run: {}{error}", place.map(|place| place + ": ").unwrap_or_default())
        });
        let (world, reserved) = (self.label.clone(), self.workload.is_reserved());
        let mut record = pool(&runs).unwrap_or_else(|| Record { world, reserved, ..Record::default() });
        record.degraded.extend(why);
        let one = self.runs.first().and_then(|run| run.duration);
        record.add_caveats(&self.workload, one);
        record
    }
}

/// The keys' last words with their values: `count=4 policy=fifo:80`; as much of the path as tells them apart.
fn label_of(settings: &Settings) -> String {
    let last = |path: &str, words: usize| {
        let parts: Vec<&str> = path.split('.').collect();
        parts[parts.len().saturating_sub(words)..].join(".")
    };
    let clear = |path: &str| {
        let is_clear = |words: &usize| {
            settings.0.iter().filter(|(p, _)| last(p, *words) == last(path, *words)).count() == 1
        };
        let words = (1..=path.split('.').count()).find(is_clear);
        words.map_or_else(|| path.to_owned(), |words| last(path, words))
    };
    // Counts of several objects are clear by the objects' names: `readers=10 writers=5`.
    let named = |path: &str| {
        let word = clear(path);
        word.strip_suffix(".count").map_or(word.clone(), str::to_owned)
    };
    let parts = settings.0.iter().map(|(path, value)| format!("{}={value}", named(path)));
    parts.collect::<Vec<_>>().join(" ")
}

/// The least time of runs of these workloads, in words, and what makes it shorter. Start-ups come first on the idle machine, each
/// with its gap.
pub fn estimate(workloads: &[&Workload], options: &RunOptions, is_repeated: bool) -> String {
    let each = options.duration.saturating_add(options.warm_up);
    let gaps = |workload: &&Workload| -> Nanos {
        let of = |startup: &Startup| startup.gap * i64::from(startup.repeat);
        workload.startups.iter().map(of).fold(Nanos::ZERO, Nanos::saturating_add)
    };
    let idle = workloads.iter().map(gaps).fold(Nanos::ZERO, Nanos::saturating_add);
    let all = workloads.iter().fold(idle, |sum, _| sum.saturating_add(each));
    let start_ups = if idle.is_positive() { ", and the idle start-ups before each run" } else { "" };
    let fewer = if is_repeated { "fewer runs (--repeat, --pairs)" } else { "fewer combinations in [vary]" };
    format!(
        "{} runs in turns, {} each with its warm-up: at least {all}{start_ups}; shorter with --for, --warm-up or {fewer}",
        workloads.len(),
        each.to_exact_string()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::formats::toml;

    #[test]
    fn the_time_is_said_before_the_first_run_and_what_makes_it_shorter() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/startup-under-io.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let workload = toml::read("startup-under-io.toml", &text).unwrap();
        let workloads = vec![&workload; combinations(&workload).unwrap().len()];
        let options = RunOptions { duration: Nanos::from_secs(4), ..RunOptions::default() };
        // 12 runs of 4.5 s, and 5 idle start-ups of each with gaps of 100 ms.
        let said = estimate(&workloads, &options, false);
        assert!(
            said.starts_with(
                "12 runs in turns, 4500ms each with its warm-up: at least 60.00 s, and the idle"
            ),
            "{said}"
        );
        assert!(said.ends_with("shorter with --for, --warm-up or fewer combinations in [vary]"), "{said}");
        let plain = Workload::default();
        assert!(!estimate(&[&plain, &plain], &options, true).contains("idle"));
    }
}
