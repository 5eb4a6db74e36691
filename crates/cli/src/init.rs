//! `surety init`: a commented workload file to start from, out of a program that was watched or a template.

use std::path::Path;

use serde_json::json;
use surety_host::split_command;
use surety_host::watching::{WatchOptions, Watched, Watching, watch};
use surety_kernel::Kernel;
use surety_model::formats::toml;
use surety_model::workload::{Program, TaskBody, ThreadMatch};
use surety_model::world::WorldError;
use surety_session::Context;
use surety_session::histories::{Histories, Measuring, Seen};
use surety_session::machine::this_machine;
use surety_units::{Nanos, Tid};

use crate::args::InitArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

use portrait::{Subject, draw};

mod places;
mod portrait;
mod share;
mod templates;

/// A command that was watched for less than this is none to learn from.
const WATCHED_MIN: Nanos = Nanos::from_millis(500);
/// A path as a word of the commands in the file's comments.
fn in_a_command(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    if name.chars().any(char::is_control) {
        let what = "--output: the name has a character that no comment can hold";
        return Err(Failure::new(Code::BadInput, what).help("name a file without control characters"));
    }
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || "/._-+,:@%".contains(c));
    Ok(if is_plain { name } else { format!("'{}'", name.replace('\'', "'\\''")) })
}

/// What the file is called in its own comments where it goes to standard output.
const NAMELESS: &str = "FILE";

/// `surety init`: watches a program or fills in a template, and writes the workload.
pub fn init(args: &InitArgs, session: &Session) -> Result<Code, Failure> {
    if let Some(path) = args.output.as_deref().filter(|path| path.exists() && !args.force) {
        let what = format!("{} is there already", path.display());
        return Err(
            Failure::new(Code::BadInput, what).help("add --force to replace it, or choose another name")
        );
    }
    files::check_outputs([args.output.as_ref()])?;
    let file = args.output.as_ref().map_or(Ok(NAMELESS.to_owned()), |path| in_a_command(path))?;
    let (text, found) = match args.template {
        Some(template) => (templates::text(template, &file), None),
        None => watched(args, &file, session).map(|(text, found)| (text, Some(found)))?,
    };
    if let Err(errors) = toml::read("the workload", &text) {
        return Err(Failure::new(Code::Internal, format!("what was written does not read back: {errors}")));
    }
    if let Some(path) = &args.output {
        files::write(path, &text)?;
    }
    publish(args, &text, found.as_deref(), session)?;
    Ok(Code::Kept)
}

/// Shows the file, or where it is and what to do with it.
fn publish(args: &InitArgs, text: &str, found: Option<&str>, session: &Session) -> Result<(), Failure> {
    if session.json {
        return session.print_json(&json!({
            "schema": "surety.init/1",
            "workload": text,
            "found": found,
            "file": args.output,
            "exit": Code::Kept as u8,
        }));
    }
    found.iter().for_each(|found| session.step(&format!("found: {found}")));
    match args.output.as_deref().map(Path::display) {
        Some(path) => {
            session.step(&format!("written to {path}; next: surety run {path}, or surety guarantee {path}"))
        }
        None => session.print(text)?,
    }
    Ok(())
}

/// Who is watched, and how the file finds it again.
struct Chosen {
    watched: Watched,
    body: TaskBody,
    name: String,
    caveat: Option<String>,
    /// One thread of a process alone.
    thread: Option<Tid>,
}

/// Watches and draws.
fn watched(args: &InitArgs, file: &str, session: &Session) -> Result<(String, String), Failure> {
    let chosen = match (&args.command, args.pid) {
        (Some(line), _) => of_command(line, args)?,
        (None, Some(pid)) => of_process(pid, &session.kernel)?,
        (None, None) => {
            let what = "nothing says what is to be watched";
            return Err(Failure::new(Code::BadInput, what).help("add --command, --pid or --template"));
        }
    };
    if args.pid.is_some() && args.rights != crate::rights::RightsArgs::default() {
        let what = "--user and --keep-capabilities are for a command, and a running program has its own";
        return Err(Failure::new(Code::BadInput, what).help("leave them out"));
    }
    session.step(&format!("watching {} for {}", chosen.name, args.duration.to_exact_string()));
    let options =
        WatchOptions { warm_up: args.warm_up, duration: args.duration, cancel: session.cancel.clone() };
    let mut seen = Seen::default();
    let mut watching = {
        let mut bar = session.watch("watching", None);
        let mut measuring = Measuring { watch: &mut *bar, seen: &mut seen };
        watch(&chosen.watched, &options, (&session.kernel, session.journal()), &mut measuring)?
    };
    if session.cancel.is_cancelled() {
        return Err(WorldError::Interrupted.into());
    }
    check_end(&chosen.name, &watching)?;
    if let Some(tid) = chosen.thread {
        watching.threads.retain(|thread| thread.tid == tid);
        watching.used = watching.threads.iter().map(|thread| thread.run).sum();
    }
    watching.unseen.iter().for_each(|why| session.note(why));
    let histories: Histories = seen.histories();
    let (_, platform) = this_machine(&session.kernel);
    let Chosen { body, name, caveat, .. } = chosen;
    let subject = Subject { body, name: &name, caveat, platform: &platform, file };
    let portrait = draw(&subject, &watching, &histories)
        .map_err(|little| Failure::new(Code::Undecided, little.what).help(little.remedy))?;
    Ok((portrait.text, portrait.found))
}

fn of_command(line: &str, args: &InitArgs) -> Result<Chosen, Failure> {
    let refused = |what: String, help: &str| Failure::new(Code::BadInput, what).help(help.to_owned());
    let words = split_command(line)
        .map_err(|why| refused(format!("--command `{line}`: {why}"), "quote it as for a shell"))?;
    let of_shell = |word: &&String| ["|", "||", "&&", ";", "&", ">", "<", ">>"].contains(&word.as_str());
    if let Some(word) = words.iter().find(of_shell) {
        let what = format!("--command is started without a shell, and `{word}` is a shell's");
        return Err(refused(what, "write --command \"sh -c '...'\""));
    }
    let Some(program) = words.first() else {
        return Err(refused("--command is empty".to_owned(), "name a program with its arguments"));
    };
    let name = program.rsplit('/').next().unwrap_or(program).to_owned();
    let rights = args.rights.rights();
    let body = TaskBody::Command(Program { rights: rights.clone(), ..Program::new(line) });
    let watched = Watched::Command(words, rights);
    Ok(Chosen { watched, body, name, caveat: None, thread: None })
}

fn of_process(pid: i32, kernel: &dyn Kernel) -> Result<Chosen, Failure> {
    let owner = kernel.owner(Tid(pid)).map_err(|_| {
        Failure::new(Code::BadInput, format!("there is no process or thread {pid}"))
            .help("`ps -eL` lists those there are")
    })?;
    let name = kernel.name(Tid(pid)).unwrap_or_else(|_| format!("process-{pid}"));
    let is_whole = owner.process == Tid(pid);
    let is_one = kernel.threads(owner.process).is_ok_and(|threads| threads.len() < 2);
    let which = if is_whole && !is_one { ThreadMatch::Process(pid) } else { ThreadMatch::Thread(pid) };
    Ok(Chosen {
        watched: Watched::Process(owner.process),
        body: TaskBody::Match(which),
        caveat: Some(format!(
            "Number {pid} is good while it runs; write `match = {{ comm = \"{}\" }}` for the only thread of that name.",
            name.replace(['"', '\\'], "?")
        )),
        name,
        thread: (!is_whole).then_some(Tid(pid)),
    })
}

/// Refuses a command that ended before there was anything to see.
fn check_end(name: &str, watching: &Watching) -> Result<(), Failure> {
    let Some((status, after, said)) = &watching.ended else { return Ok(()) };
    if watching.window.1 - watching.window.0 >= WATCHED_MIN {
        return Ok(());
    }
    let said = said.as_ref().map_or_else(String::new, |said| format!("; it said: {said}"));
    let what = format!("{name} ended after {after} with {status}, before it could be watched{said}");
    let help = match status.success() {
        true => {
            "give a command that lasts, such as \"sh -c 'while :; do COMMAND; done'\"; how long a start takes is what \
             `[[startup]]` measures (docs/startup.md)"
        }
        false => "run it by itself to see what it needs",
    };
    Err(Failure::new(Code::BadInput, what).help(help))
}

#[cfg(test)]
mod tests;
