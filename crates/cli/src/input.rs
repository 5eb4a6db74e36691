//! Workloads from files and from the command line.

use std::path::Path;

use surety_model::formats::toml;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::workload::{Load, LoadKind, Program, Release, Task, TaskBody, ThreadMatch, Workload};
use surety_units::Nanos;

use crate::args::GuaranteeArgs;
use crate::exit::{Code, Failure};

/// A workload file larger than this is something else.
const LENGTH_MAX: u64 = 16 << 20;

/// Reads a workload file in which nothing is varied.
pub fn read_workload(path: &Path) -> Result<Workload, Failure> {
    let workload = read_varied(path)?;
    if !workload.vary.is_empty() {
        let what = format!("{}: only `surety run` runs every combination of [vary]", path.display());
        return Err(Failure::new(Code::BadInput, what).help("write one file for each variant"));
    }
    Ok(workload)
}

/// Reads a workload file, its `[vary]` included.
pub fn read_varied(path: &Path) -> Result<Workload, Failure> {
    let name = path.display().to_string();
    let unreadable = |why: String| {
        Failure::new(Code::BadInput, format!("{name} cannot be read: {why}"))
            .help("the examples directory holds workload files to start from")
    };
    let length = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.len();
    if length > LENGTH_MAX {
        return Err(unreadable(format!("{length} bytes are no workload")));
    }
    let bytes = std::fs::read(path).map_err(|e| unreadable(e.to_string()))?;
    let text = String::from_utf8(bytes)
        .map_err(|e| unreadable(format!("byte {} is no UTF-8", e.utf8_error().valid_up_to())))?;
    Ok(toml::read(&name, &text)?)
}

/// The workload that `guarantee` means: a file, a command with a share, or a running thread with a response time.
pub fn workload_of(args: &GuaranteeArgs) -> Result<Workload, Failure> {
    if let Some(path) = &args.workload {
        return read_workload(path);
    }
    let mut workload = Workload::default();
    let promise = |metric, comparison, bound, at| Promise { metric, comparison, bound, at, over: None };
    let template = Task::periodic(
        "task",
        Nanos::SECOND,
        surety_model::distribution::TimeDistribution::Constant(Nanos::ZERO),
    );
    if let Some(share) = args.share {
        let program = args.command.first().map_or("command", |c| c.rsplit('/').next().unwrap_or(c));
        workload.title = Some(format!("{program} with {share} of a CPU"));
        workload.tasks.push(Task {
            name: program.to_owned(),
            body: TaskBody::Command(Program::new(&quote_command(&args.command))),
            release: Release::Unspecified,
            promises: vec![promise(Metric::Share, Comparison::AtLeast, Bound::Share(share), None)],
            ..template
        });
    } else if let (Some(pid), Some(response)) = (args.pid, args.response) {
        workload.title = Some(format!("thread {pid} within {}", response.to_exact_string()));
        let release = match args.period {
            Some(period) => Release::Periodic { period, start: Nanos::ZERO, jitter: Nanos::ZERO },
            None => Release::Unspecified,
        };
        workload.tasks.push(Task {
            name: format!("thread-{pid}"),
            body: TaskBody::Match(ThreadMatch { comm: None, pid: Some(pid) }),
            release,
            promises: vec![promise(
                Metric::Response,
                Comparison::AtMost,
                Bound::Time(response),
                Some(args.at),
            )],
            ..template
        });
    }
    if let Some(load) = &args.load {
        workload.loads = parse_load(load)?;
    }
    Ok(workload)
}

/// Words as one line that [`surety_probe::split_command`] splits into the same words.
pub fn quote_command(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,+@%".contains(c));
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Reads `8s`, `4s2m`, `10r`: counts with the letter of a kind.
pub fn parse_load(text: &str) -> Result<Vec<Load>, Failure> {
    const LETTERS: &[(char, LoadKind)] =
        &[('s', LoadKind::Spinners), ('m', LoadKind::MemoryThrash), ('r', LoadKind::Readers)];
    let wrong = || {
        Failure::new(Code::BadInput, format!("`{text}` is no load"))
            .help("write counts with s (spinners), m (memory thrashers) or r (readers): 8s, 4s2m, 10r")
    };
    let mut loads: Vec<Load> = Vec::new();
    let mut digits = String::new();
    for character in text.chars() {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        let (_, kind) = LETTERS.iter().find(|(letter, _)| *letter == character).ok_or_else(wrong)?;
        let count: u32 = digits.parse().ok().filter(|n| (1..=10_000).contains(n)).ok_or_else(wrong)?;
        digits.clear();
        if loads.iter().any(|l| l.kind == *kind) {
            return Err(wrong());
        }
        loads.push(Load::new(kind.word(), *kind, count));
    }
    if loads.is_empty() || !digits.is_empty() { Err(wrong()) } else { Ok(loads) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loads_are_counts_with_letters() {
        let loads = parse_load("4s2m").unwrap_or_default();
        let kinds: Vec<_> = loads.iter().map(|l| (l.kind, l.count.on(1))).collect();
        assert_eq!(kinds, [(LoadKind::Spinners, 4), (LoadKind::MemoryThrash, 2)]);
        for bad in ["", "s", "4", "4x", "4s4s", "0s", "4s2"] {
            assert!(parse_load(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn quoted_commands_split_into_the_same_words(words in proptest::collection::vec("\\PC{0,8}", 1..5)) {
            let line = quote_command(&words);
            prop_assert_eq!(surety_probe::split_command(&line).unwrap(), words);
        }
    }
}
