//! `surety`: guaranteed time on Linux.
//!
//! A thin shell over the libraries: arguments in, worlds run, reports out, one documented exit code
//! ([`exit::Code`]). What a verb does stands in the file of its name.

#![forbid(unsafe_code)]
// A binary's items are for nobody else: their comments are for its readers.
#![allow(missing_docs)]

mod apply;
mod args;
mod compare;
mod doctor;
mod exit;
mod gates;
mod guarantee;
mod input;
mod lab;
mod latency;
mod load;
mod noise;
mod planning;
mod repeated;
mod report;
mod reproduce;
mod run;
mod session;
mod trace;
mod words;
mod workers;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Verb};
use crate::exit::{Code, Failure};
use crate::session::Session;

fn main() -> ExitCode {
    // Loads that make processes start this program anew for that.
    if let Some(code) = surety_probe::helper_main() {
        return ExitCode::from(code);
    }
    if let Some(code) = lab::inside::guest() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no failure and go to standard output; clap knows.
            let _ = error.print();
            let code = if error.use_stderr() { Code::BadInput } else { Code::Kept };
            return code.into();
        }
    };
    // Where that is refused, what programs leave is found by their groups and their mark alone.
    let _ = surety_kernel::command::adopt_orphans();
    let session = Session::new(&arguments.common);
    match dispatch(&arguments, &session) {
        Ok(code) => code.into(),
        Err(failure) => {
            session.fail(&failure);
            failure.code.into()
        }
    }
}

fn dispatch(arguments: &Arguments, session: &Session) -> Result<Code, Failure> {
    match &arguments.verb {
        Verb::Guarantee(args) => guarantee::guarantee(args, session),
        Verb::Run(args) => run::run(args, session),
        Verb::Compare(args) => compare::compare(args, session),
        Verb::Plan(args) => planning::plan(args, session),
        Verb::Apply(args) => apply::apply(args, session),
        Verb::Trace(args) => trace::trace(args, session),
        Verb::Latency(args) => latency::latency(args, session),
        Verb::Lab(args) => lab::lab(args, session),
        Verb::Noise(args) => noise::noise(args, session),
        Verb::Reproduce(args) => reproduce::reproduce(args, session),
        Verb::Report(args) => report::report(args, session),
        Verb::Doctor(args) => doctor::doctor(args, session),
    }
}
