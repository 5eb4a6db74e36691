//! Workloads from files and from the command line.

use std::path::Path;

use surety_model::formats::toml;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::workload::{Program, Release, Task, TaskBody, ThreadMatch, Workload};
use surety_units::Nanos;

use crate::args::GuaranteeArgs;
use crate::exit::{Code, Failure};
use crate::load::append_loads;

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
        let mut workload = read_workload(path)?;
        append_loads(&mut workload, &args.beside.load)?;
        return Ok(workload);
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
    append_loads(&mut workload, &args.beside.load)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quoted_commands_split_into_the_same_words(words in proptest::collection::vec("\\PC{0,8}", 1..5)) {
            let line = quote_command(&words);
            prop_assert_eq!(surety_probe::split_command(&line).unwrap(), words);
        }
    }
}
