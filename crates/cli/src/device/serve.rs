//! `surety device serve`: a modelled disk as a block device of this machine, until Ctrl-C.

use std::path::PathBuf;

use surety_emudisk::{EmulatedDisk, EmulationError, Plan, SPIN};
use surety_kernel::clock;
use surety_report::table::cells;
use surety_units::Nanos;

use super::profile;
use crate::args::ServeArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// Between two looks at Ctrl-C.
const LOOK: Nanos = Nanos::from_millis(50);

/// Serves the disk until Ctrl-C, then prints its account.
pub fn serve(args: &ServeArgs, session: &Session) -> Result<Code, Failure> {
    if session.json {
        return Err(Failure::new(Code::BadInput, "this serves a device and prints no JSON document")
            .help("leave --json out"));
    }
    let plan = Plan {
        profile: profile(&args.profile, "disk")?,
        bytes: args.size.0,
        needs: args.size.0,
        backing: args.backing.clone(),
        seed: args.seed,
        spin: SPIN,
        faults: args.fail.clone(),
        watchdog: PathBuf::from("/proc/self/exe"),
    };
    plan.check(&session.kernel).map_err(refused)?;
    let disk = EmulatedDisk::make(&plan, &session.kernel, session.need_journal()?).map_err(refused)?;
    disk.begin();
    session.print(&announcement(&disk, args))?;
    while !session.cancel.is_cancelled() && !disk.is_over() {
        clock::sleep_for(LOOK)?;
    }
    let trouble = disk.trouble();
    let told = told(&disk, session, trouble.is_some());
    drop(disk);
    session.print(&told)?;
    match trouble {
        Some(why) => Err(Failure::new(Code::Machine, format!("the disk did not serve as it should: {why}"))),
        None => Ok(Code::Kept),
    }
}

/// The path first: a script reads the first word.
fn announcement(disk: &EmulatedDisk<'_>, args: &ServeArgs) -> String {
    let device = disk.device();
    let place =
        disk.backing().map_or_else(|| "in memory".to_owned(), |path| format!("in {}", path.display()));
    let depth = device.tags().map_or_else(|| "not known".to_owned(), |tags| tags.to_string());
    let ending = "Ctrl-C ends it";
    format!(
        "{} is {} of {} {place}; the kernel sends it {depth} requests at a time, of which the disk takes {}; {ending}\n",
        device.path().display(),
        disk.profile().name,
        args.size,
        disk.profile().depth(),
    )
}

/// What was counted, and whether the disk was disturbed: of one that is in trouble that is not said.
fn told(disk: &EmulatedDisk<'_>, session: &Session, is_in_trouble: bool) -> String {
    let Some(summary) = disk.summary() else { return "no requests\n".to_owned() };
    let time = |time: Nanos| time.to_string();
    let row = vec![
        summary.reads.to_string(),
        summary.writes.to_string(),
        summary.flushes.to_string(),
        summary.discards.to_string(),
        format!("{:.1}", summary.bytes as f64 / 1e6),
        time(summary.response),
        time(summary.service),
        time(disk.way()),
        disk.beyond_way().map_or_else(|| "-".to_owned(), time),
        time(summary.lateness_mean),
        time(summary.lateness_p99),
        time(summary.lateness_max),
    ];
    let head = [
        "reads",
        "writes",
        "flushes",
        "discards",
        "MB",
        "response",
        "service",
        "way off",
        "beyond",
        "late: mean",
        "p99",
        "max",
    ];
    let fine = if is_in_trouble { "decides nothing" } else { "not disturbed" };
    let verdict = disk.objection().unwrap_or_else(|| fine.to_owned());
    format!("{}{verdict}\n", cells(&head, &[row], &session.style()))
}

fn refused(error: EmulationError) -> Failure {
    let code = match &error {
        EmulationError::Size { .. } | EmulationError::Fault { .. } | EmulationError::Backing { .. } => {
            Code::BadInput
        }
        _ => Code::Machine,
    };
    Failure::new(code, error.to_string())
}
