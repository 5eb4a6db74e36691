//! `surety completions` and `surety man`: from the definitions of the command line that parse it and print its help.

use clap::{Command, CommandFactory};
use clap_mangen::Man;

mod page;
mod sections;

use crate::args::{Arguments, CompletionsArgs, ManArgs, Shell};
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// What is printed here has one form, which others read.
fn refuse_json(session: &Session) -> Result<(), Failure> {
    match session.json {
        true => Err(Failure::new(Code::BadInput, "this prints no JSON document").help("leave --json out")),
        false => Ok(()),
    }
}

/// `surety completions`.
pub fn completions(args: &CompletionsArgs, session: &Session) -> Result<Code, Failure> {
    refuse_json(session)?;
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "surety", &mut script);
    session.print(&String::from_utf8_lossy(&script))?;
    Ok(Code::Kept)
}

/// `surety man`.
pub fn man(args: &ManArgs, session: &Session) -> Result<Code, Failure> {
    refuse_json(session)?;
    let program = documented();
    if let Some(directory) = &args.output {
        for (name, page) in pages(&program)? {
            files::write(&directory.join(name), &page)?;
        }
        return Ok(Code::Kept);
    }
    let mut chosen = &program;
    for word in &args.verb {
        chosen = chosen.find_subcommand(word).ok_or_else(|| {
            let verbs: Vec<&str> = chosen.get_subcommands().map(Command::get_name).collect();
            let what = format!("`{}` has no verb `{word}`", chosen.get_bin_name().unwrap_or("surety"));
            let help = format!("ask for one of {}", verbs.join(", "));
            Failure::new(Code::BadInput, what).help(if verbs.is_empty() {
                "leave it out".to_owned()
            } else {
                help
            })
        })?;
    }
    session.print(&page(chosen)?)?;
    Ok(Code::Kept)
}

/// The command line with the full names of its verbs.
fn documented() -> Command {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    program
}

/// A page of the manual, in roff.
fn page(command: &Command) -> Result<String, Failure> {
    let made = page::page(command);
    made.map_err(|e| Failure::new(Code::Internal, format!("a page of the manual: {e}")))
}

/// The pages of a command and all verbs below it, each with the name of its file.
fn pages(command: &Command) -> Result<Vec<(String, String)>, Failure> {
    let mut all = vec![(Man::new(command.clone()).get_filename(), page(command)?)];
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        all.extend(pages(verb)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Every verb below a command, by its words.
    fn verbs(command: &Command) -> Vec<Command> {
        let below = command.get_subcommands().flat_map(verbs);
        std::iter::once(command.clone()).chain(below).collect()
    }

    #[test]
    fn every_verb_has_a_page_with_all_its_options() {
        let program = documented();
        let pages = pages(&program).unwrap_or_else(|failure| panic!("{:?}", failure.message));
        let all = verbs(&program);
        assert_eq!(pages.len(), all.len());
        for name in
            ["surety.1", "surety-run.1", "surety-trace.1", "surety-trace-record.1", "surety-lab-check.1"]
        {
            assert!(pages.iter().any(|(found, _)| found == name), "{name}");
        }
        for (command, (name, page)) in all.iter().zip(&pages) {
            assert_eq!(*name, format!("{}.1", command.get_bin_name().unwrap_or("surety").replace(' ', "-")));
            let shown = command.get_arguments().filter(|option| !option.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                let escaped = option.replace('-', "\\-");
                assert!(page.contains(&format!("\\-\\-{escaped}")), "{name} lacks --{option}");
            }
            for section in
                ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "FILES", "SEE ALSO"]
            {
                let heading =
                    if section.contains(' ') { format!("\"{section}\"") } else { section.to_owned() };
                assert!(
                    page.contains(&format!(".SH {heading}\n")),
                    "{name} lacks {section}: give it a row in manual/sections.rs"
                );
            }
        }
    }

    /// The command that a line of the shell runs.
    fn words(line: &str) -> Vec<String> {
        let words = surety_host::split_command(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let own = words.into_iter().skip_while(|word| word == "sudo");
        own.take_while(|word| !["|", ">", "&&"].contains(&word.as_str())).collect()
    }

    #[test]
    fn examples_are_of_their_verb_and_parse() {
        let program = documented();
        let pages = pages(&program).unwrap_or_else(|failure| panic!("{:?}", failure.message));
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for row in sections::rows() {
            assert!(!row.examples.is_empty(), "{}", row.verb);
            for (_, line) in row.examples {
                let words = words(line);
                if let Err(error) = Arguments::try_parse_from(&words) {
                    panic!("{line}: {error}");
                }
                let verb: Vec<&str> = row.verb.split_whitespace().collect();
                assert!(
                    words[1..].starts_with(&verb.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()),
                    "{line}"
                );
                for file in words.iter().filter(|word| word.starts_with("examples/")) {
                    assert!(root.join(file).exists(), "{line}");
                }
            }
            for document in row.documents {
                assert!(root.join(document).exists(), "{}: {document}", row.verb);
            }
            for page in row.see.iter().filter(|page| page.starts_with("surety")) {
                let file = page.replace("(1)", ".1");
                assert!(pages.iter().any(|(name, _)| *name == file), "{}: {page}", row.verb);
            }
        }
    }

    #[test]
    fn completions_know_every_verb_and_option() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "surety", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in verbs(&documented()) {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
                let shown = command.get_arguments().filter(|option| !option.is_hide_set());
                for option in shown.filter_map(clap::Arg::get_long) {
                    assert!(script.contains(option), "{shell}: {option}");
                }
            }
        }
    }
}
