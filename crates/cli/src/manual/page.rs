//! One page of the manual, in roff: what the definitions of the command line say, then what [`super::sections`] adds.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::sections::{DOCUMENTS, ENVIRONMENT, FILES, Row, row};
use crate::exit::EXIT_CODES;

/// The page of a command that knows its full name.
pub fn page(command: &Command) -> std::io::Result<String> {
    let command = &command.clone().mut_args(|argument| match argument.is_global_set() {
        true => argument.help_heading("Options of every verb"),
        false => argument,
    });
    let source = concat!("surety ", env!("CARGO_PKG_VERSION"));
    let made = Man::new(command.clone()).source(source).manual("Surety");
    let mut page = Vec::new();
    made.render_title(&mut page)?;
    made.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    made.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        made.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        made.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    notes(command, &mut roff);
    exit_status(command, &mut roff);
    let name = name_of(command);
    if let Some(row) = row(name.strip_prefix("surety").unwrap_or(&name).trim_start()) {
        examples(row, &mut roff);
        named("FILES", FILES, &mut roff);
        named("ENVIRONMENT", ENVIRONMENT, &mut roff);
        see_also(row, command, &mut roff);
    }
    roff.to_writer(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn name_of(command: &Command) -> String {
    command.get_bin_name().unwrap_or("surety").to_owned()
}

/// How it is called, as `--help` says it: options by their own section.
fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    let name = name_of(command);
    for (number, line) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if number > 0 {
            roff.control("br", []);
        }
        roff.text(match line.strip_prefix(&name) {
            Some(rest) => vec![bold(name.as_str()), roman(rest)],
            None => vec![roman(line)],
        });
    }
    roff
}

/// What long help says at its end.
fn notes(command: &Command, roff: &mut Roff) {
    let Some(text) = command.get_after_long_help() else { return };
    roff.control("SH", ["NOTES"]);
    for paragraph in text.to_string().split("\n\n") {
        roff.control("PP", []);
        roff.text([roman(paragraph)]);
    }
}

/// The exit codes of its help, or of every command.
fn exit_status(command: &Command, roff: &mut Roff) {
    let own = command.get_after_help().map(ToString::to_string);
    roff.control("SH", ["EXIT STATUS"]);
    for line in own.as_deref().unwrap_or(EXIT_CODES).lines().skip(1) {
        let (code, meaning) = line.trim().split_once(' ').unwrap_or((line, ""));
        item(&[bold(code)], meaning.trim(), roff);
    }
}

fn examples(row: &Row, roff: &mut Roff) {
    roff.control("SH", ["EXAMPLES"]);
    for (what, command) in row.examples {
        roff.control("PP", []);
        roff.text([roman(format!("{what}:"))]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([bold(*command)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
}

fn named(section: &str, items: &[(&str, &str)], roff: &mut Roff) {
    roff.control("SH", [section]);
    for (name, meaning) in items {
        item(&[bold(*name)], meaning, roff);
    }
}

fn item(name: &[Inline], meaning: &str, roff: &mut Roff) {
    roff.control("TP", []);
    roff.text(name.to_vec());
    roff.text([roman(meaning)]);
}

/// Pages beside this one: the one above, those that its row names, and the documents.
fn see_also(row: &Row, command: &Command, roff: &mut Roff) {
    roff.control("SH", ["SEE ALSO"]);
    let name = name_of(command);
    let above = name.rsplit_once(' ').map(|(above, _)| format!("{}(1)", above.replace(' ', "-")));
    let pages: Vec<Inline> =
        above.iter().map(String::as_str).chain(row.see.iter().copied()).flat_map(page_named).collect();
    roff.text(pages.into_iter().skip(1).collect::<Vec<_>>());
    roff.control("PP", []);
    let documents: Vec<Inline> =
        row.documents.iter().flat_map(|document| [roman(", "), bold(*document)]).skip(1).collect();
    roff.text([documents, vec![roman(format!(" ({DOCUMENTS})"))]].concat());
}

/// Another page, after what divides it from the one before.
fn page_named(page: &str) -> [Inline; 3] {
    let (name, section) = page.split_once('(').unwrap_or((page, "1)"));
    [roman(", "), bold(name), roman(format!("({section}"))]
}
