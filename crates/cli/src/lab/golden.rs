//! `surety lab record` and `surety lab check`.

use clap::Parser;
use serde_json::json;
use surety_lab::LabWorld;
use surety_lab::golden::Golden;
use surety_lab::job::Job;
use surety_lab::samples::{Series, compare};
use surety_lab::vm::LabOptions;
use surety_model::world::WorldError;

use crate::args::lab::{LabCheckArgs, LabRecordArgs};
use crate::args::{Arguments, Verb};
use crate::exit::{Code, Failure};
use crate::files::{self, DOCUMENT_MAX, NewFile};
use crate::input::read_workload;
use crate::latency::in_guest;
use crate::load::append_loads;
use crate::run::options_of;
use crate::session::Session;
use surety_session::guests::{lab_of, product_of, store};
use surety_session::probe::job_of;

/// `lab record`.
pub fn record(args: &LabRecordArgs, session: &Session) -> Result<Code, Failure> {
    let (job, options) = scenario(&args.scenario, session)?;
    let lab = lab_of(store(session)?.kernel(&args.kernel)?, options, &[], session)?;
    // A file that cannot be right, or cannot be written, is not worth a boot.
    Golden::of(&lab, &job, Vec::new())?;
    let output = NewFile::create(&args.output)?;
    session.step(&format!("booting {}", lab.stored().in_words()));
    let product = product_of(&lab, &job, session)?;
    let golden = Golden::of(&lab, &job, product.samples)?;
    let wake_ups: usize = golden.samples.iter().map(|s| s.latency_ns.len()).sum();
    if wake_ups == 0 {
        let said = "nothing woke up in this scenario: there is nothing to compare";
        return Err(Failure::new(Code::BadInput, said.to_owned())
            .help("give the workload a task that sleeps, such as one with a `period`"));
    }
    output.fill(&golden.write())?;
    if session.json {
        session.print_json(&json!({
            "schema": "surety.lab-record/1",
            "file": args.output,
            "hash": golden.hash,
            "wake_ups": wake_ups,
            "build": golden.build,
        }))?;
    } else {
        session.print(&format!("{wake_ups} wake-ups of {}, hash {}\n", golden.build.package, golden.hash))?;
        session.step(&format!("written to {}", args.output.display()));
    }
    Ok(Code::Kept)
}

/// The job and the guest of arguments such as `latency --jobs 500 --lab-cpus 2`.
fn scenario(words: &[String], session: &Session) -> Result<(Job, LabOptions), Failure> {
    let wrong =
        |what: String| Failure::new(Code::BadInput, what).help("write `-- run FILE ...` or `-- latency ...`");
    let words = std::iter::once("surety".to_owned()).chain(words.iter().cloned());
    let parsed = Arguments::try_parse_from(words).map_err(|e| {
        wrong(format!("the scenario: {}", e.to_string().trim_start_matches("error: ").trim_end()))
    })?;
    match parsed.verb {
        Some(Verb::Latency(args)) => {
            let (options, guest) = (in_guest(&args, session)?, args.guest.options(args.seed));
            options.cpus.map_or(Ok(()), |cpus| guest.check_cpus(cpus)).map_err(WorldError::from)?;
            Ok((job_of(&options), guest))
        }
        Some(Verb::Run(args)) => {
            let more = [
                ("--on", !args.on.is_empty()),
                ("--repeat", args.repeat != 1),
                ("--ab", args.ab.is_some()),
                ("--expect", !args.gates.expect.is_empty()),
                ("--trace", args.trace.is_some()),
                ("--no-trace", args.no_trace),
                ("--html", args.running.html.is_some()),
                ("--disk", !args.disks.disk.is_empty()),
            ];
            if let Some((name, _)) = more.into_iter().find(|(_, is_said)| *is_said) {
                return Err(wrong(format!("the scenario: {name} is nothing that can be stored")));
            }
            let mut workload = read_workload(&args.workload)?;
            append_loads(&mut workload, &args.beside.load)?;
            LabWorld::check(&workload)?;
            let options = options_of(&args.running, &workload, session)?;
            let guest = args.guest.options(args.running.seed);
            let changes = args.platform.platform.clone().unwrap_or_default();
            let guest = guest.with(&changes).map_err(|why| wrong(format!("--platform: {why}")))?;
            options.cpus.map_or(Ok(()), |cpus| guest.check_cpus(cpus)).map_err(WorldError::from)?;
            Ok((LabWorld::job(&workload, &guest, &options, false)?, guest))
        }
        _ => Err(wrong("only `run` and `latency` are scenarios of the lab".to_owned())),
    }
}

/// `lab check`: 0 when nothing changed, 1 when something did, 4 when one kernel could only be compared with itself.
pub fn check(args: &LabCheckArgs, session: &Session) -> Result<Code, Failure> {
    let golden = read(args)?;
    let store = store(session)?;
    let name = args.kernel.as_deref().unwrap_or(&golden.kernel);
    let lab = lab_of(store.kernel(name)?, golden.options(), &[], session)?;
    let objections = golden.objections(lab.build());
    let before: Vec<Series> = if objections.is_empty() {
        golden.samples.clone()
    } else {
        for objection in &objections {
            session.note(objection);
        }
        session
            .note("stored samples do not carry over: both kernels run now, and are compared with each other");
        let first = store.content(&golden.kernel, &golden.build.kernel).map_err(|error| {
            Failure::new(Code::Machine, format!("{}: {error}", golden.build.package))
                .help("record the scenario anew with `surety lab record`")
        })?;
        let first = lab_of(first, golden.options(), &[], session)?;
        session.step(&format!("A: booting {}", first.stored().in_words()));
        product_of(&first, &golden.job, session)?.samples
    };
    session.step(&format!("B: booting {}", lab.stored().in_words()));
    let after = product_of(&lab, &golden.job, session)?.samples;
    let changes = compare(&before, &after);
    let is_same_kernel = lab.build().kernel == golden.build.kernel;
    // Two runs of one kernel by one program agree whatever the stored samples were.
    let decided = !is_same_kernel || objections.is_empty();
    if session.json {
        session.print_json(&json!({
            "schema": "surety.lab-check/1",
            "file": args.file,
            "a": { "package": golden.build.package, "stored": objections.is_empty() },
            "b": { "package": lab.build().package },
            "objections": objections,
            "decided": decided,
            "changes": changes,
        }))?;
    } else {
        session.print(&format!("{}\n", changes.in_words()))?;
        let (a, b) = (&golden.build.package, &lab.build().package);
        session.print(&if is_same_kernel {
            format!("kernel {a}\n")
        } else {
            format!("from {a} to {b}\n")
        })?;
        if !decided {
            session.note(
                "both runs were of one kernel: that they agree shows only that runs repeat; record the scenario anew",
            );
        }
    }
    Ok(match (changes.is_none(), decided) {
        (true, true) => Code::Kept,
        (true, false) => Code::Undecided,
        (false, _) => Code::Broken,
    })
}

fn read(args: &LabCheckArgs) -> Result<Golden, Failure> {
    let unreadable = |why: String| {
        Failure::new(Code::BadInput, format!("{}: {why}", args.file.display()))
            .help("`surety lab record` writes files that can be checked")
    };
    let text = files::read_text(&args.file, DOCUMENT_MAX).map_err(unreadable)?;
    Golden::read(&text).map_err(unreadable)
}
