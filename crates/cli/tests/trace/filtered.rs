//! Recordings of some processes, some CPUs, some events; and that they are seen by nobody else and gone after a death.

use surety_model::event::{Event, EventKind};

use super::*;

/// A process that makes children and is gone with its owner.
pub(super) struct Beat(Child);

impl Beat {
    pub(super) fn start() -> Beat {
        let script = "while :; do sleep 0.005; done";
        Beat(Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap())
    }

    pub(super) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every event of a file.
fn each(place: &Place, file: &str, mut look: impl FnMut(&Event<'_>)) {
    let bytes = fs::read(place.out().join(file)).unwrap();
    surety_trace::open(bytes).unwrap().read(&mut look).unwrap();
}

#[test]
fn a_process_and_what_it_makes_is_recorded_and_nobody_else() {
    if tracefs().is_none() {
        return;
    }
    let (place, beat, other) = (Place::new(), Beat::start(), Beat::start());
    let own = i32::try_from(beat.0.id()).unwrap();
    let output =
        place.run(&["trace", "record", "-o", "a.dat", "--for", "300ms", "--pid", &beat.pid(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(json(&output)["pids"], serde_json::json!([own]));
    let (mut family, mut switches, mut strangers) = (BTreeSet::from([own]), 0, Vec::new());
    each(&place, "a.dat", |event| match event.kind {
        EventKind::Fork { parent, child, .. } if family.contains(&parent.0) => {
            family.insert(child.0);
        }
        EventKind::Switch { prev, next, .. } => {
            switches += 1;
            if !family.contains(&prev.0) && !family.contains(&next.0) {
                strangers.push([prev.0, next.0]);
            }
        }
        _ => {}
    });
    assert!(family.len() > 5 && switches > 20, "{} threads, {switches} switches", family.len());
    // A child that was made after the process was chosen and before the recording began is followed, and its fork is not in it.
    let of_one = |tid: &i32| *tid != 0 && strangers.iter().all(|parties| parties.contains(tid));
    let is_early_child = strangers.first().is_none_or(|parties| parties.iter().any(of_one));
    assert!(is_early_child && strangers.len() < 10, "{strangers:?} of {switches} switches");
    assert!(!family.contains(&i32::try_from(other.0.id()).unwrap()));

    let missing = place.run(&["trace", "record", "-o", "b.dat", "--for", "1s", "--pid", "999999999"]);
    assert_eq!(missing.status.code(), Some(2), "{}", words(&missing));
    assert!(words(&missing).contains("there is no such process or thread"), "{}", words(&missing));
}

#[test]
fn cpus_and_expressions_choose_events_and_a_wrong_one_is_refused_in_the_kernels_words() {
    if tracefs().is_none() {
        return;
    }
    let (place, _beat) = (Place::new(), Beat::start());
    let filter = "sched_switch:next_comm == \"sleep\"";
    let output = place.run(&[
        "trace", "record", "-o", "a.dat", "--for", "300ms", "--cpus", "0", "--filter", filter, "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let made = json(&output);
    assert_eq!(made["cpus"], "0");
    let expected =
        serde_json::json!([{ "event": "sched:sched_switch", "expression": "next_comm == \"sleep\"" }]);
    assert_eq!(made["filters"], expected);
    let mut switches = 0;
    each(&place, "a.dat", |event| {
        assert_eq!(event.cpu, CpuId(0));
        if let EventKind::Switch { next_comm, .. } = event.kind {
            assert_eq!(next_comm.text(), "sleep");
            switches += 1;
        }
    });
    let stats = |more: &[&str]| place.run(&[&["trace", "stats", "a.dat"], more].concat());
    // Held it would be of the jobs that are there, of which the filter leaves none whole.
    let expected = stats(&["--expect", "completed >= 0"]);
    assert_eq!(expected.status.code(), Some(4), "{}", String::from_utf8_lossy(&expected.stdout));
    let read = json(&stats(&["--json"]));
    let left_out = format!("--cpus 0 --filter '{filter}'");
    assert_eq!(read["quality"]["left_out"], left_out);
    let said = String::from_utf8(stats(&[]).stdout).unwrap();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("events were left out when it was recorded: {left_out}")), "{said}");
    if switches == 0 {
        println!("SKIPPED: no `sleep` ran on CPU 0 in 300 ms");
    }

    let wrong = "sched_switch:prev_prio < 100 && nobody == 1";
    let refused = place.run(&["trace", "record", "-o", "b.dat", "--filter", wrong, "--", "touch", "ran"]);
    assert_eq!(refused.status.code(), Some(2), "{}", words(&refused));
    let said = words(&refused);
    assert!(said.contains("sched:sched_switch") && said.contains("Field not found"), "{said}");
    let far = place.run(&["trace", "record", "-o", "b.dat", "--cpus", "0,500", "--for", "1s"]);
    assert!(words(&far).contains("CPUs 500 are not online"), "{}", words(&far));
    assert_eq!(place.files(), ["a.dat".to_owned()].into());
}

#[test]
fn a_killed_recording_leaves_no_filter_and_others_never_saw_one() {
    let Some(tracefs) = tracefs() else { return };
    let (place, beat) = (Place::new(), Beat::start());
    let of_all = || {
        ["set_event_pid", "tracing_cpumask", "events/sched/sched_switch/filter"]
            .map(|file| fs::read_to_string(tracefs.root().join(file)).unwrap())
    };
    let before = of_all();
    let pid = beat.pid();
    let arguments = ["trace", "record", "-o", "a.dat", "--pid", &pid, "--cpus", "0"];
    let mut child =
        place.surety(&arguments).args(["--filter", "sched_switch:next_prio < 1000"]).spawn().unwrap();
    let number = child.id();
    let filter = |name: &str| {
        let path = tracefs.root().join("instances").join(name).join("events/sched/sched_switch/filter");
        fs::read_to_string(path).unwrap_or_default().contains("next_prio")
    };
    let is_filtered = || instances_of(&tracefs, number).iter().any(|name| filter(name));
    let seen = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_filtered()
    });
    assert_eq!(of_all(), before, "the machine's own tracing is not touched");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen, "it recorded with its filter");
    // The next start removes what is left.
    let output = place.run(&["trace", "record", "-o", "b.dat", "--for", "20ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(instances_of(&tracefs, number), [] as [String; 0]);
    assert_eq!(of_all(), before);
}
