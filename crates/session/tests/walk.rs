//! The loop driven without a terminal: every stage as a value, every world by the one table.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::cell::RefCell;

use surety_host::Bindings;
use surety_kernel::journal::Journal;
use surety_kernel::{Kernel, RealKernel};
use surety_model::event::TraceSink;
use surety_model::formats::toml;
use surety_model::verdict::Outcome;
use surety_model::workload::Workload;
use surety_model::world::{Cancel, Observer, RunOptions, WorldError};
use surety_session::guarantee::{Guarantee, Request, State};
use surety_session::runs::{self, Rounds};
use surety_session::{Context, Failure, Means, Stage, Watch, Worlds};
use surety_units::Nanos;

/// Somebody who only remembers what was said.
#[derive(Default)]
struct Quiet {
    kernel: RealKernel,
    cancel: Cancel,
    stages: RefCell<Vec<Stage>>,
}

struct Unwatched;

impl Observer for Unwatched {}

impl Watch for Unwatched {
    fn turn_to(&mut self, _: &str) {}
}

impl Context for Quiet {
    fn kernel(&self) -> &RealKernel {
        &self.kernel
    }

    fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn journal(&self) -> Option<&Journal> {
        None
    }

    fn stage(&self, stage: Stage) {
        self.stages.borrow_mut().push(stage);
    }

    fn step(&self, _: &str) {}

    fn note(&self, _: &str) {}

    fn watch<'a>(&self, _: &str, _: Option<&'a mut dyn TraceSink>) -> Box<dyn Watch + 'a> {
        Box::new(Unwatched)
    }
}

fn workload(text: &str) -> Workload {
    toml::read("w.toml", &format!("format = 1\n{text}")).unwrap()
}

const TASK: &str =
    "[[task]]\nname = \"t\"\nperiod = \"20ms\"\nwork = \"1ms\"\npromise = [\"response <= 20ms @ 80%\"]\n";

fn short(context: &Quiet, ms: i64) -> RunOptions {
    RunOptions {
        duration: Nanos::from_millis(ms),
        warm_up: Nanos::from_millis(50),
        cancel: context.cancel.clone(),
        ..RunOptions::default()
    }
}

fn means() -> Means {
    let guest = surety_lab::vm::LabOptions::default();
    Means { traced: false, force: false, bindings: Bindings::default(), platform: Default::default(), guest }
}

#[test]
fn every_stage_of_the_loop_is_a_value() {
    let context = Quiet::default();
    if context.kernel.effective_user() != 0 {
        return eprintln!("SKIPPED: only root may reserve CPU time");
    }
    let request =
        Request { options: short(&context, 1500), force: false, bindings: Bindings::default(), draws: false };
    let mut walk = Guarantee::new(workload(TASK), request, &context).unwrap();
    if !walk.may_reserve() {
        return eprintln!("SKIPPED: this user may not reserve CPU time");
    }
    // Stages in the wrong order are refused in words.
    for refused in [walk.predict().err(), walk.enforce().err()] {
        assert_eq!(refused.unwrap().to_string(), "there is no plan yet");
    }
    let measured = walk.measure().unwrap();
    assert_eq!(walk.results.len(), 1);
    assert!(walk.result(State::HostUnreserved).is_some_and(|r| r.activity("t").unwrap().activations > 0));
    let fitted = walk.profile(&measured).unwrap();
    // Where the machine was too busy to record, the task is planned as declared.
    assert!(fitted.is_empty() || fitted.contains_key("t"));
    let refused = walk.plan(measured, &fitted).unwrap();
    let plan = walk.plan.clone().unwrap();
    assert_eq!(refused == Outcome::Kept, plan.refusals.is_empty());
    assert_eq!(plan.reservations.len() + plan.refusals.len(), 1);
    if plan.refusals.is_empty() {
        walk.predict().unwrap();
        let verdicts = walk.enforce().unwrap();
        assert_eq!(verdicts.len(), 1);
        let states: Vec<State> = walk.results.iter().map(|(state, _)| *state).collect();
        let all = [
            State::HostUnreserved,
            State::Analysis,
            State::SimUnreserved,
            State::SimReserved,
            State::HostReserved,
        ];
        assert_eq!(states, all);
        assert!(walk.result(State::HostReserved).unwrap().reserved);
        // Plan and simulator count what the kernel's own work took when the task was measured.
        let measured =
            &walk.result(State::HostUnreserved).unwrap().in_force.machine.as_ref().unwrap().overheads;
        assert_eq!(plan.platform.overheads, *measured);
        let simulated = walk.result(State::SimReserved).unwrap().in_force.machine.as_ref().unwrap();
        assert_eq!(simulated.overheads, *measured);
    }
    let stages = context.stages.borrow();
    assert!(stages.is_sorted() && stages.contains(&Stage::Planning), "{stages:?}");
}

#[test]
fn a_world_that_objects_is_refused_before_anything_runs_and_the_others_run() {
    let context = Quiet::default();
    let words = ["analysis", "sim"].map(str::to_owned);
    let worlds = Worlds::new(&words, means(), &context).unwrap();
    let stream = "[disk.d]\nmake = \"64MiB\"\n[[stream]]\nname = \"s\"\ndisk = \"d\"\nfile = \"/a/film\"\n\
                  rate = \"1MB/s\"\nread = \"64KiB\"\npromise = [\"late == 0\"]\n";
    let mut variants = runs::variants(&workload(&format!("{TASK}{stream}")), &worlds).unwrap();
    let refused: Vec<_> = variants.iter().map(|v| v.refused.as_ref().and_then(WorldError::object)).collect();
    assert_eq!(refused, [None, Some("stream.s.file")]);
    let rounds = Rounds { count: 2, options: short(&context, 100) };
    let finished = runs::make(&mut variants, &rounds, &worlds).unwrap();
    assert_eq!((finished.finished, finished.asked), (4, 4));
    assert_eq!(variants.iter().map(|v| v.runs.len()).collect::<Vec<_>>(), [2, 0]);
    assert!(runs::refusal_of_all(&variants).is_none());
    assert!(runs::refusal_of_all(&variants[1..]).is_some());
    // Interrupted before the first run, there is no result.
    let mut variants = runs::variants(&workload(TASK), &worlds).unwrap();
    context.cancel.cancel();
    let ended = runs::make(&mut variants, &rounds, &worlds);
    assert!(ended.is_err_and(|failure| failure.is_interruption()));
}

#[test]
fn what_cannot_be_walked_is_refused_in_words() {
    let context = Quiet::default();
    let request =
        Request { options: short(&context, 100), force: false, bindings: Bindings::default(), draws: false };
    let nothing = workload("[[task]]\nname = \"t\"\nperiod = \"20ms\"\nwork = \"1ms\"\n");
    let refused = Guarantee::new(nothing, request, &context).map(|_| ());
    assert!(
        matches!(&refused, Err(Failure::Request { help, .. }) if help.contains("promise =")),
        "{refused:?}"
    );
    let refused = Worlds::new(&["mars".to_owned()], means(), &context).map(|_| ());
    assert!(matches!(&refused, Err(Failure::Request { what, .. }) if what.contains("mars")), "{refused:?}");
}
