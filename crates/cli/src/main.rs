//! `surety`: guaranteed time on Linux.
//!
//! A thin shell over the libraries: arguments in, worlds run, reports out, one documented exit code
//! ([`exit::Code`]). What a verb does stands in the file of its name.

#![forbid(unsafe_code)]
// A binary's items are for nobody else: their comments are for its readers.
#![allow(missing_docs)]

mod abilities;
mod apply;
mod args;
mod compare;
mod device;
mod doctor;
mod exit;
mod files;
mod fills;
mod first;
mod gates;
mod guarantee;
mod harmless;
mod init;
mod input;
mod internal;
mod lab;
mod latency;
mod load;
mod manual;
mod noise;
mod planning;
mod report;
mod reproduce;
mod rights;
mod run;
mod session;
mod stream;
mod top;
mod trace;
mod validate;
mod workload;

use std::process::ExitCode;

use clap::Parser;
use surety_model::world::WorldError;

use crate::args::{Arguments, Verb};
use crate::exit::{Code, Failure};
use crate::session::Session;

fn main() -> ExitCode {
    if let Some(code) = surety_kernel::journal::watchdog_main() {
        return ExitCode::from(code);
    }
    if let Some(code) = surety_emudisk::watchdog_main() {
        return ExitCode::from(code);
    }
    // Loads that make processes start this program anew for that.
    if let Some(code) = surety_host::helper_main() {
        return ExitCode::from(code);
    }
    if let Some(code) = lab::in_guest::guest() {
        return code;
    }
    internal::announce();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return session::refuse_arguments(&error).into(),
    };
    // Where that is refused, what programs leave is found by their groups and their mark alone.
    let _ = surety_kernel::command::adopt_orphans();
    let session = Session::new(&arguments.common);
    // Whoever holds a change of the machine takes it back while the stack is unwound.
    match internal::caught(|| dispatch(&arguments, &session)) {
        Ok(code) => code.into(),
        Err(failure) => {
            let failure = if files::was_stopped() { WorldError::Interrupted.into() } else { failure };
            session.fail(&failure);
            failure.code.into()
        }
    }
}

fn dispatch(arguments: &Arguments, session: &Session) -> Result<Code, Failure> {
    let Some(verb) = &arguments.verb else { return first::first(session) };
    match verb {
        Verb::Init(args) => init::init(args, session),
        Verb::Guarantee(args) => guarantee::guarantee(args, session),
        Verb::Run(args) => run::run(args, session),
        Verb::Compare(args) => compare::compare(args, session),
        Verb::Plan(args) => planning::plan(args, session),
        Verb::Apply(args) => apply::apply(args, session),
        Verb::Top(args) => top::top(args, session),
        Verb::Trace(args) => trace::trace(args, session),
        Verb::Latency(args) => latency::latency(args, session),
        Verb::Lab(args) => lab::lab(args, session),
        Verb::Noise(args) => noise::noise(args, session),
        Verb::Device(args) => device::device(args, session),
        Verb::Stream(args) => stream::stream(args, session),
        Verb::Reproduce(args) => reproduce::reproduce(args, session),
        Verb::Validate(args) => validate::validate(args, session),
        Verb::Workload(args) => workload::workload(args, session),
        Verb::Report(args) => report::report(args, session),
        Verb::Doctor(args) => doctor::doctor(args, session),
        Verb::Completions(args) => manual::completions(args, session),
        Verb::Man(args) => manual::man(args, session),
    }
}
