//! `surety latency --on lab:KERNEL`: the probe in a guest.

use surety_lab::job::{Job, modules_for};
use surety_lab::store::StoredKernel;
use surety_lab::world::record_of;
use surety_model::record::Record;
use surety_model::world::{Cancel, LAB_PREFIX, WorldError};
use surety_session::guests::{lab_of, product_of, store};
use surety_units::Nanos;

use crate::args::LatencyArgs;
use crate::exit::{Code, Failure};
use crate::load::parse_loads;
use crate::session::Session;

/// The job of the probe's arguments.
///
/// # Errors
/// What ends a run by what was measured: the probe's words of that do not come back.
pub fn job_of(args: &LatencyArgs) -> Result<Job, Failure> {
    for (name, is_set) in [("--stop-over", args.stop_over.is_some()), ("--until", args.until.is_some())] {
        if is_set {
            let said = format!("{name} is of a probe on this machine; in the lab a run has its length");
            return Err(Failure::new(Code::BadInput, said).help("say how long with --for or --jobs"));
        }
    }
    let (loads, cpus) = (parse_loads(&args.beside.load)?, args.guest.lab_cpus);
    let modules = modules_for(&loads);
    let bytes = loads.iter().map(|load| load.bytes(cpus)).sum::<u128>();
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    if let Some(named) = args.cpus {
        args.guest.options(args.seed).check_cpus(named).map_err(WorldError::from)?;
    }
    let options = crate::latency::options_of(args, Cancel::default())?;
    let jobs = i64::try_from(options.jobs).unwrap_or(i64::MAX);
    let span = options.period.checked_mul(jobs).unwrap_or(Nanos::MAX).saturating_add(options.warm_up);
    Ok(Job::Latency { arguments: words(args), span, modules, bytes })
}

/// The probe's arguments as words, each said in full.
fn words(args: &LatencyArgs) -> Vec<String> {
    let time = |time: Nanos| time.to_exact_string();
    let mut words = Vec::new();
    let mut say = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push(format!("--{name}={value}"));
        }
    };
    say("cpus", args.cpus.map(|cpus| cpus.to_string()));
    say("period", Some(time(args.period)));
    say("policy", Some(args.policy.to_string()));
    say("for", args.duration.map(time));
    say("jobs", args.jobs.map(|jobs| jobs.to_string()));
    say("warm-up", Some(time(args.warm_up)));
    for load in &args.beside.load {
        say("load", Some(load.clone()));
    }
    say("seed", Some(args.seed.to_string()));
    if args.relative {
        words.push("--relative".to_owned());
    }
    words
}

/// Runs the probe in a guest of the kernel that `--on` names.
pub fn run(args: &LatencyArgs, session: &Session) -> Result<Record, Failure> {
    let Some(name) = args.on.strip_prefix(LAB_PREFIX) else {
        let said = format!("the probe runs on `host` or `{LAB_PREFIX}KERNEL`, not on `{}`", args.on);
        return Err(Failure::new(Code::BadInput, said).help("`surety lab list` names the kernels"));
    };
    // What cannot be asked of any kernel is said before one is looked for.
    job_of(args)?;
    let stored = store(session)?.kernel(name)?;
    on_kernel(args, stored, session)
}

/// Runs the probe in a guest of a kernel.
pub fn on_kernel(args: &LatencyArgs, stored: StoredKernel, session: &Session) -> Result<Record, Failure> {
    let job = job_of(args)?;
    let lab = lab_of(stored, args.guest.options(args.seed), &[], session)?;
    lab.check(&job).map_err(WorldError::from)?;
    session.step(&format!("booting {}", lab.stored().in_words()));
    let product = product_of(&lab, &job, session)?;
    Ok(record_of(&product, &lab)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Verb};
    use clap::Parser;

    fn args(words: &[&str]) -> LatencyArgs {
        let words = ["surety", "latency"].iter().chain(words).copied().map(str::to_owned);
        let parsed = Arguments::try_parse_from(words).unwrap();
        let Verb::Latency(args) = parsed.verb else { panic!("another verb") };
        args
    }

    #[test]
    fn the_guest_is_told_what_the_user_said() {
        let all = [
            vec![],
            vec![
                "--cpus",
                "0-1",
                "-i",
                "250us",
                "--policy",
                "deadline:1ms/3ms/5ms",
                "--jobs",
                "17",
                "--seed",
                "9",
            ],
            vec!["--policy", "rr:7", "--for", "3s", "--relative", "--load", "4s2m", "--warm-up", "0s"],
            vec!["--policy", "batch"],
        ];
        for said in all {
            let first = args(&said);
            let told = words(&first);
            let again = args(&told.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(format!("{first:?}"), format!("{again:?}"), "{told:?}");
        }
        assert!(job_of(&args(&["--until", "ci(p99) < 5%"])).is_err());
    }
}
