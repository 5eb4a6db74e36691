//! Workloads from files and from the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use surety_device::profile::Profile;
use surety_kernel::Kernel;
use surety_model::formats::foreign::dialect_of;
use surety_model::formats::foreign::partsim::System;
use surety_model::formats::toml;
use surety_model::promise::{Bound, Comparison, Metric, Promise};
use surety_model::workload::{
    ActivityKind, Program, Release, StartupBody, Task, TaskBody, ThreadMatch, Workload,
};
use surety_units::{Nanos, Tid};

use crate::args::GuaranteeArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::load::append_loads;
use surety_session::workers::thread_name;

/// A workload file larger than this is something else.
const LENGTH_MAX: u64 = 16 << 20;

/// Reads a workload file in which nothing is varied.
pub fn read_workload(path: &Path) -> Result<Workload, Failure> {
    read_workload_and_text(path).map(|(workload, _)| workload)
}

/// The same with the text of the file.
pub fn read_workload_and_text(path: &Path) -> Result<(Workload, String), Failure> {
    let (workload, text) = read_with_text(path, None)?;
    if !workload.vary.is_empty() {
        let what = format!("{}: only `surety run` runs every combination of [vary]", path.display());
        return Err(Failure::new(Code::BadInput, what).help("write one file for each variant"));
    }
    Ok((workload, text))
}

/// Reads the machine of a program whose files say it apart from the tasks, with the tables that it names beside it.
pub fn read_system(path: &Path) -> Result<System, Failure> {
    let name = path.display().to_string();
    let text = files::read_text(path, LENGTH_MAX)
        .map_err(|why| Failure::new(Code::BadInput, format!("{name} cannot be read: {why}")))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    Ok(System::read(&name, &text, &mut |table| files::read_text(&beside.join(table), LENGTH_MAX))?)
}

/// Reads a workload file, its `[vary]` included, or one of another program.
pub fn read_varied(path: &Path) -> Result<Workload, Failure> {
    read_on(path, None)
}

/// The same, played on a machine that another file of that program says.
pub fn read_on(path: &Path, system: Option<&System>) -> Result<Workload, Failure> {
    read_with_text(path, system).map(|(workload, _)| workload)
}

fn read_with_text(path: &Path, system: Option<&System>) -> Result<(Workload, String), Failure> {
    let name = path.display().to_string();
    let unreadable = |why: String| {
        Failure::new(Code::BadInput, format!("{name} cannot be read: {why}"))
            .help("the examples directory holds workload files to start from")
    };
    let text = files::read_text(path, LENGTH_MAX).map_err(unreadable)?;
    let dialect = dialect_of(&name, &text);
    if system.is_some() && !dialect.is_some_and(|dialect| dialect.has_system) {
        let what =
            format!("{name} is no task set of PARTSim: --platform-file applies to PARTSim task sets only");
        return Err(Failure::new(Code::BadInput, what).help("change the machine with --platform KEY=VALUE"));
    }
    let workload = match dialect {
        Some(dialect) => dialect.read_on(&name, &text, system)?,
        None => toml::read(&name, &text)?,
    };
    Ok((workload, text))
}

/// The texts of the files that a workload names, beside it, else here: recordings of start-ups, profiles of disks.
pub fn files_of(workload: &Workload) -> Result<BTreeMap<String, String>, Failure> {
    let replays = workload.startups.iter().filter_map(|startup| match &startup.body {
        StartupBody::Replay(file) => Some((ActivityKind::Startup.path(&startup.name), file)),
        StartupBody::Command(_) => None,
    });
    let profiles = workload.disks.iter().filter_map(|disk| {
        let file = disk.model.as_ref().filter(|model| Profile::is_file(model))?;
        Some((format!("disk.{}", disk.name), file))
    });
    let mut found = BTreeMap::new();
    for (object, file) in replays.chain(profiles) {
        let Some(text) = text_of(workload, &object, file)? else { continue };
        if Profile::is_file(file) {
            // One of DiskSim names others. What is wrong with it is told by the world that needs it.
            let mut failed = None;
            let _ =
                Profile::of_file(file, file, &text, &mut |inner| match text_of(workload, &object, inner) {
                    Ok(Some(text)) => Ok(found.entry(inner.to_owned()).or_insert(text).clone()),
                    Ok(None) => Err("it is not there".to_owned()),
                    Err(failure) => {
                        failed = Some(failure);
                        Err(String::new())
                    }
                });
            if let Some(failure) = failed {
                return Err(failure);
            }
        }
        found.insert(file.clone(), text);
    }
    Ok(found)
}

/// The text of a file that an object of a workload names, beside it, else here. The world that needs it says when it is not there.
fn text_of(workload: &Workload, object: &str, file: &str) -> Result<Option<String>, Failure> {
    let beside = workload.source.name().and_then(|name| Path::new(name).parent()).map(|d| d.join(file));
    let path = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(file));
    if !path.exists() {
        return Ok(None);
    }
    let failed = |why: String| {
        Failure::new(Code::BadInput, format!("{object}: {}: {why}", path.display()))
            .help("files are looked for beside the workload, then here")
    };
    files::read_text(&path, LENGTH_MAX).map(Some).map_err(failed)
}

/// The workload that `guarantee` means: a file, a command with a share, or a running thread or process with a response time.
pub fn workload_of(args: &GuaranteeArgs, kernel: &dyn Kernel) -> Result<Workload, Failure> {
    if let Some(path) = &args.workload {
        let mut workload = read_workload(path)?;
        append_loads(&mut workload, &args.beside.load)?;
        args.rights.give(&mut workload)?;
        return Ok(workload);
    }
    let mut workload = Workload::default();
    let promise = |metric, comparison, bound, at| Promise { metric, comparison, bound, at, over: None };
    let template = Task::periodic(
        "task",
        Nanos::SECOND,
        surety_model::distribution::TimeDistribution::Constant(Nanos::ZERO),
    );
    let mut task = match args.pid {
        Some(pid) if is_of_several(kernel, pid) => Task {
            name: format!("process-{pid}"),
            body: TaskBody::Match(ThreadMatch::Process(pid)),
            ..template
        },
        Some(pid) => {
            Task { name: thread_name(pid), body: TaskBody::Match(ThreadMatch::Thread(pid)), ..template }
        }
        None if args.command.is_empty() => {
            return Err(Failure::new(Code::BadInput, "nothing says what is to get the share")
                .help("add `-- COMMAND`, or --pid N for a running thread"));
        }
        None => Task {
            name: args.command.first().map_or("command", |c| c.rsplit('/').next().unwrap_or(c)).to_owned(),
            body: TaskBody::Command(Program::new(&quote_command(&args.command))),
            ..template
        },
    };
    task.release = match args.period {
        Some(period) => Release::Periodic { period, start: Nanos::ZERO, jitter: Nanos::ZERO },
        None => Release::Unspecified,
    };
    let whose = if args.pid.is_some() { task.name.replace('-', " ") } else { task.name.clone() };
    let (promised, title) = match (args.share, args.response) {
        (Some(share), _) => (
            promise(Metric::Share, Comparison::AtLeast, Bound::Share(share), None),
            format!("{whose} with {share} of a CPU"),
        ),
        (None, Some(response)) => (
            promise(Metric::Response, Comparison::AtMost, Bound::Time(response), Some(args.at)),
            format!("{whose} within {}", response.to_exact_string()),
        ),
        (None, None) => {
            return Err(Failure::new(Code::BadInput, "nothing is promised to the thread of --pid")
                .help("add --response TIME with --period TIME, or --share PERCENT"));
        }
    };
    task.promises = vec![promised];
    workload.title = Some(title);
    workload.tasks.push(task);
    append_loads(&mut workload, &args.beside.load)?;
    args.rights.give(&mut workload)?;
    Ok(workload)
}

/// Whether this is the number of a process with several threads: then all of it is meant, else the one thread.
fn is_of_several(kernel: &dyn Kernel, pid: i32) -> bool {
    let is_process = kernel.owner(Tid(pid)).is_ok_and(|owner| owner.process == Tid(pid));
    is_process && kernel.threads(Tid(pid)).is_ok_and(|threads| threads.len() > 1)
}

/// Words as one line that [`surety_host::split_command`] splits into the same words.
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
            prop_assert_eq!(surety_host::split_command(&line).unwrap(), words);
        }
    }
}
