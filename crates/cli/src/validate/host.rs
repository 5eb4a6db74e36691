//! Scenarios on this machine: which runs of it can be trusted.
//!
//! A run counts when nobody disturbed it (`validation::UNDISTURBED`): neither other programs nor the hypervisor had more than that part of
//! its CPUs. One that was disturbed is made again, [`TRIES`] times as often as runs are wanted at most. Runs of a scenario are of one boot
//! of one machine, so that what they differ by is no other machine's. Threads under SCHED_DEADLINE run on every CPU of their root domain:
//! where the scenario is of fewer CPUs than there are, its CPUs are made a domain for as long as such scenarios are run.

use std::collections::BTreeSet;

use surety_enforce::OwnDomain;
use surety_kernel::Kernel as _;
use surety_model::record::Disturbance;
use surety_model::world::WorldError;
use surety_reproduce::validation::{HOST, Kept, Kernel, Scenario, UNDISTURBED, figures_of};
use surety_session::worlds::Worlds;
use surety_units::{CpuSet, Tid};

use super::{options, own_environment, world, write};
use crate::args::ValidateArgs;
use crate::exit::Failure;
use crate::session::Session;

/// Between two runs: the kernel keeps the bandwidth of a reservation to its zero-lag time.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(500);
/// Runs that are made for each that is wanted, at most.
const TRIES: usize = 3;
/// What tells boots apart, in the environment of what is kept.
pub(super) const BOOT: &str = "boot";

/// Which boot this is, as it is kept.
fn boot(session: &Session) -> String {
    session.kernel.boot_id().unwrap_or_default().chars().take(8).collect()
}

/// Whether what is kept of a scenario has all that is wanted.
fn is_whole(args: &ValidateArgs, kept: &Kept, boot: &str) -> bool {
    kept.environment.get(BOOT).is_some_and(|of| of == boot) && kept.runs.len() >= args.runs
}

/// Runs what is not in the file, and keeps each scenario as soon as it is done.
///
/// # Errors
/// When it is interrupted, or the file cannot be written.
pub(super) fn run_missing(
    args: &ValidateArgs,
    session: &Session,
    chosen: &[Scenario],
    file: &mut Kernel,
) -> Result<(), Failure> {
    let online = session.kernel.online_cpus().map_err(|e| Failure::from(machine(&e)))?;
    let boot = boot(session);
    let mut missing: Vec<&Scenario> = Vec::new();
    for cpus in chosen.iter().map(|scenario| scenario.cpus).collect::<BTreeSet<u32>>() {
        let of_number = super::missing(args, chosen, file, (cpus, ""), |kept| is_whole(args, kept, &boot));
        missing.extend(of_number);
    }
    let (missing_here, too_large): (Vec<&Scenario>, Vec<&Scenario>) =
        missing.into_iter().partition(|scenario| scenario.cpus as usize <= online.len());
    let mut missing = missing_here;
    // What the list has for larger machines is none of this one's.
    for scenario in too_large.into_iter().filter(|scenario| !scenario.is_listed) {
        let mut kept = super::empty(args, online, scenario);
        let (asked, there) = (scenario.cpus, online.len());
        kept.unfit = Some(format!(
            "it is to run on {asked} CPUs, and this machine has {there}: use --cpu-count {there}"
        ));
        file.scenarios.insert(scenario.title.clone(), kept);
    }
    // The machine is divided once, for all that need it.
    missing.sort_by_key(|scenario| (scenario.cpus, scenario.workload.is_reserved()));
    let needs_domain = |s: &&Scenario| s.workload.is_reserved() && (s.cpus as usize) < online.len();
    for group in missing.chunk_by(|a, b| a.cpus == b.cpus && needs_domain(a) == needs_domain(b)) {
        let first = &group[0];
        // On a machine of its own the last CPUs are the quietest.
        let cpus: CpuSet = online.iter().skip(online.len() - first.cpus as usize).collect();
        let domain = match needs_domain(first) {
            true => Some(own_domain(session, cpus)?),
            false => None,
        };
        let _aside = Aside::of(session, cpus, online);
        let refused = domain.as_ref().and_then(|made| made.as_ref().err().cloned());
        // What this machine is like is read with the domain there.
        let world = world(args, session, HOST, (first.cpus, "", false))?;
        for scenario in group {
            let mut kept = super::empty(args, cpus, scenario);
            match &refused {
                Some(why) => kept.unfit = Some(why.clone()),
                None => run(args, session, (&world, scenario), &mut kept)?,
            }
            kept.environment.insert(BOOT.to_owned(), boot.clone());
            file.scenarios.insert(scenario.title.clone(), kept);
            write(args, file)?;
        }
    }
    Ok(())
}

/// The CPUs as a root domain, or why they cannot be one, in words.
fn own_domain(session: &Session, cpus: CpuSet) -> Result<Result<OwnDomain<'_>, String>, Failure> {
    let made = OwnDomain::make(&session.kernel, session.need_journal()?, cpus);
    let why = |error| {
        format!("its reserved threads may run on every CPU, and CPUs {cpus} are no root domain: {error}")
    };
    Ok(made.map_err(why))
}

/// This thread, which looks on while a run lasts, kept off the CPUs of the run where there are others. In a divided machine the kernel
/// would leave it there.
struct Aside<'a> {
    session: &'a Session,
    before: Option<CpuSet>,
}

impl<'a> Aside<'a> {
    fn of(session: &'a Session, cpus: CpuSet, online: CpuSet) -> Aside<'a> {
        let (kernel, others) = (&session.kernel, online.without(&cpus));
        let before = kernel.affinity(Tid(0)).ok().filter(|_| !others.is_empty());
        // Where it may not be moved it stays, and what it uses counts as the run's own.
        let before = before.filter(|_| kernel.set_affinity(Tid(0), &others).is_ok());
        Aside { session, before }
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = self.session.kernel.set_affinity(Tid(0), &before);
        }
    }
}

/// Runs a scenario until enough runs were undisturbed.
fn run(
    args: &ValidateArgs,
    session: &Session,
    (world, scenario): (&Worlds<'_>, &Scenario),
    kept: &mut Kept,
) -> Result<(), Failure> {
    let mut least = f64::INFINITY;
    let mut machines = Vec::new();
    let options = options(args, session, kept.cpus, scenario)?;
    while kept.runs.len() < args.runs {
        if kept.runs.len() + kept.repeated as usize >= TRIES * args.runs {
            kept.unfit = Some(format!(
                "{} of {} runs were disturbed: others or the hypervisor had {:.1} % of CPUs {} at least; end other programs",
                kept.repeated,
                kept.runs.len() + kept.repeated as usize,
                least * 100.0,
                kept.cpus
            ));
            break;
        }
        let record = match world.run(0, &scenario.workload, &options, &scenario.title, None) {
            Ok(record) => record,
            Err(WorldError::Interrupted) => return Err(WorldError::Interrupted.into()),
            Err(why) => {
                kept.unfit = Some(why.to_string());
                break;
            }
        };
        std::thread::sleep(PAUSE);
        let disturbance = record.in_force.disturbance.unwrap_or(Disturbance { others: 1.0, stolen: 0.0 });
        if disturbance.worst() > UNDISTURBED {
            least = least.min(disturbance.worst());
            kept.repeated += 1;
            continue;
        }
        kept.unfit = record.degraded.first().cloned();
        if kept.unfit.is_some() {
            break;
        }
        kept.environment = own_environment(&record);
        machines.extend(record.in_force.machine.clone());
        kept.runs.push(figures_of(&record));
        kept.disturbances.push(disturbance);
    }
    kept.machine = super::middle_machine(machines);
    Ok(())
}

/// How undisturbed the runs are that are compared, in a sentence; none where nothing was measured of them.
pub(super) fn in_words<'k>(kept: impl Iterator<Item = &'k Kept>) -> Option<String> {
    let (mut runs, mut again, mut worst) = (0, 0, Disturbance::default());
    for kept in kept.filter(|kept| kept.unfit.is_none()) {
        runs += kept.disturbances.len();
        again += kept.repeated;
        for of_run in &kept.disturbances {
            worst.others = worst.others.max(of_run.others);
            worst.stolen = worst.stolen.max(of_run.stolen);
        }
    }
    let percent = |part: f64| part * 100.0;
    (runs > 0).then(|| {
        format!(
            "The host's figures are of {runs} runs; {again} were made again because they were disturbed. In those that count others had at most \
             {:.2} % of the CPUs, the hypervisor {:.2} %.",
            percent(worst.others),
            percent(worst.stolen)
        )
    })
}

fn machine(error: &surety_kernel::KernelError) -> WorldError {
    WorldError::Machine { what: "the machine's CPUs are not known".to_owned(), remedy: error.to_string() }
}
