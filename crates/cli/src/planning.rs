//! `surety plan`: reservations with their proofs from what the workload declares.

use std::collections::BTreeMap;

use surety_kernel::deadline;
use surety_model::platform::Platform;
use surety_plan::{PlanOptions, plan as make_plan};
use surety_probe::platform_of;
use surety_report::Report;

use crate::args::PlanArgs;
use crate::exit::{Code, Failure};
use crate::input::read_workload;
use crate::session::{Session, write_file};

/// The verb.
pub fn plan(args: &PlanArgs, session: &Session) -> Result<Code, Failure> {
    let workload = read_workload(&args.workload)?;
    let facts = surety_kernel::facts::MachineFacts::read(&session.kernel);
    let online = facts.cpus.online.map_or(1, |c| c.len() as u32);
    let mut options = match args.cpus {
        Some(cpus) => PlanOptions::new(Platform::linux_6_18(cpus)),
        None => PlanOptions::new(platform_of(&facts, online)),
    };
    if args.cpus.is_none() {
        options.admitted = deadline::total_held(&session.kernel).unwrap_or_default().0;
    }
    let options = options.verified_by(&workload, args.duration);
    let plan = make_plan(&workload, &BTreeMap::new(), &options);
    let code = if plan.refusals.is_empty() { Code::Kept } else { Code::Broken };
    if let Some(path) = &args.output {
        write_file(path, &surety_report::plan_file::plan_to_json(&plan))?;
    }
    if session.json {
        let report = Report {
            title: workload.title.as_deref(),
            file: workload.source.name(),
            rows: &[],
            plan: Some(&plan),
            exit: Some(code as u8),
            made: None,
        };
        session.print_json(&surety_report::json::record_json(&report))?;
    } else if args.explain {
        session.print(&surety_report::table::explain(&plan, &session.style()))?;
    } else {
        session.print(&surety_report::table::plan(&plan, &session.style()))?;
    }
    Ok(code)
}
