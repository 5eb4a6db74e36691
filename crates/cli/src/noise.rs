//! `surety noise`: what takes a busy thread's CPU away.

use surety_host::noise_probe::{NoiseOptions, NoiseProbe};
use surety_host::probe_setup::ProbePolicy;
use surety_report::{Report, Row};

use crate::args::NoiseArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::gates;
use crate::load::parse_loads;
use crate::session::Session;

/// The verb.
pub fn noise(args: &NoiseArgs, session: &Session) -> Result<Code, Failure> {
    let ProbePolicy::Class(policy) = args.policy else {
        return Err(Failure::new(Code::BadInput, "a thread under SCHED_DEADLINE cannot watch one CPU")
            .help("use --policy fifo:N"));
    };
    let loads = parse_loads(&args.beside.load)?;
    session.step(&format!("busy for {}", args.duration.to_exact_string()));
    let options = NoiseOptions {
        cpus: args.cpus,
        duration: args.duration,
        threshold: args.threshold,
        policy,
        loads,
        trace: !args.no_trace,
        cancel: session.cancel.clone(),
    };
    files::check_outputs([args.html.as_ref(), args.gates.told.junit.as_ref(), args.gates.told.tap.as_ref()])?;
    let run = NoiseProbe::new(&session.kernel, session.journal()).run(&options)?;
    let code = if session.cancel.is_cancelled() { Code::Interrupted } else { Code::Kept };
    let code = gates::check(&args.gates, [("noise", &run.record)], code, session)?;
    let rows = [Row::new("noise", &run.record)];
    let report = Report {
        title: Some(&run.verdict),
        heading: Some("CPU noise"),
        lead: Some(&run.verdict),
        rows: &rows,
        exit: Some(code as u8),
        ..Report::default()
    };
    session.publish_as(&report, args.html.as_deref(), || {
        surety_report::table::noise(&rows[0], &run.causes, &run.verdict, &session.style())
    })?;
    Ok(code)
}
