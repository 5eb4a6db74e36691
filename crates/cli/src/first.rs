//! `surety` without a verb: what to type next, for this machine and this user.

use crate::abilities::{Abilities, ways_to_more};
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Commands that make sense now, each with what it does.
fn next(abilities: &Abilities) -> Vec<(String, String)> {
    let line = |command: &str, does: &str| (command.to_owned(), does.to_owned());
    let mut lines = Vec::new();
    lines.push(line("surety latency --for 5s", "how late threads wake on this machine now"));
    lines.push(line(
        "surety init --command 'PROGRAM ARGUMENTS' --output my.toml",
        "watch a program for 5 s, write its workload file (--pid N: one that runs)",
    ));
    match abilities.may("reservations") {
        true => lines.push(line("surety guarantee my.toml", "measure, plan, prove, enforce, measure again")),
        false => {
            lines.push(line(
                "surety guarantee my.toml",
                "measure, plan and simulate it; enforcing needs more rights",
            ));
        }
    }
    lines
}

/// The text, within 80 columns but for commands.
fn text(abilities: &Abilities) -> String {
    let table = |lines: &[(String, String)]| {
        lines.iter().map(|(command, does)| format!("  {command}\n      {does}\n")).collect::<String>()
    };
    let user = if abilities.user() == 0 { "root".to_owned() } else { format!("user {}", abilities.user()) };
    let mut text = format!("surety: guaranteed time on Linux. Tried here as {user}:\n");
    text += &format!("  allowed: {}\n", abilities.allowed());
    if let Some(refused) = abilities.refused() {
        text += &format!("  refused: {refused}\n");
    }
    text += "\nNext:\n";
    text += &table(&next(abilities));
    if !abilities.is_complete() {
        text += "\nMore rights:\n";
        text += &table(&ways_to_more().map(|(command, gives)| (command, gives.to_owned())));
    }
    text += "\n`surety doctor` checks this machine in detail, `surety --help` lists all commands.\n";
    text
}

/// What is said where no verb is given. It ends in 2, as every incomplete command line does: a script whose verb is an
/// empty variable has proven nothing.
pub fn first(session: &Session) -> Result<Code, Failure> {
    if session.json {
        return Err(Failure::new(Code::BadInput, "no command is given")
            .help("`surety --help` lists them; `surety doctor --json` says what this user may do"));
    }
    session.print(&text(&Abilities::tried(&session.kernel)))?;
    Ok(Code::BadInput)
}
