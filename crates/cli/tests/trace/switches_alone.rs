//! Activations told apart by switches alone, against the jobs of the same recording with its wake-ups.

use surety_model::event::{Event, EventKind, TraceSink};
use surety_model::job::{Job, Separation};
use surety_trace::JobBuilder;
use surety_trace::jobs::sink::{JobSink, ThreadKey, ThreadTotals};
use surety_units::Nanos;

use super::filtered::Beat;
use super::*;

/// A job as both tell it: its end, its thread, its start and CPU time with and without interrupts; `None` where a switch was not
/// recorded and had to be placed, which a wake-up helps to.
type Told = BTreeMap<(Nanos, i32), Option<(Nanos, Nanos, Nanos)>>;

/// Keeps what it is told of jobs separated by sleep.
#[derive(Default)]
struct Both {
    jobs: Told,
    activations: Told,
    threads: usize,
}

fn add(to: &mut Told, thread: &ThreadKey, job: &Job) {
    if thread.separation == Separation::BusyPeriod {
        let times = (job.start, job.execution, job.execution_net());
        to.insert((job.completion, thread.tid.0), (job.inferred == Nanos::ZERO).then_some(times));
    }
}

impl JobSink for Both {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        add(&mut self.jobs, thread, job);
    }

    fn activation(&mut self, thread: &ThreadKey, job: &Job) {
        add(&mut self.activations, thread, job);
    }

    fn forget(&mut self, thread: &ThreadKey) {
        self.jobs.retain(|(_, tid), _| *tid != thread.tid.0);
        self.activations.retain(|(_, tid), _| *tid != thread.tid.0);
    }

    fn ended(&mut self, _: &ThreadKey, _: &ThreadTotals) {
        self.threads += 1;
    }
}

/// Hands on everything but wake-ups.
struct Stripped<'s>(&'s mut dyn TraceSink);

impl TraceSink for Stripped<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if !matches!(event.kind, EventKind::Waking(_) | EventKind::Wakeup(_) | EventKind::WakeupNew(_)) {
            self.0.event(event);
        }
    }
}

fn read(bytes: &[u8], sink: &mut dyn TraceSink) {
    surety_trace::open(bytes).unwrap().read(sink).unwrap();
}

#[test]
fn a_recording_without_its_wake_ups_tells_the_same_execution_times() {
    if tracefs().is_none() {
        return;
    }
    let (place, _beats) = (Place::new(), [Beat::start(), Beat::start()]);
    let made = json(&place.run(&["trace", "record", "-o", "a.dat", "--for", "500ms", "--json"]));
    if made["lost"] != 0 {
        return eprintln!("SKIPPED: {} events were lost", made["lost"]);
    }
    let bytes = fs::read(place.out().join("a.dat")).unwrap();
    let mut whole = JobBuilder::into_sink(Both::default());
    read(&bytes, &mut whole);
    let mut stripped = JobBuilder::into_sink(Both::default());
    read(&bytes, &mut Stripped(&mut stripped));
    let ((whole, anomalies), (stripped, others)) = (whole.end(), stripped.end());
    assert!(stripped.jobs.is_empty() && whole.jobs.len() > 100, "{} jobs", whole.jobs.len());

    let (jobs, activations) = (&whole.jobs, &stripped.activations);
    let compared = activations.iter().filter_map(|(key, told)| Some((key, (*told)?, (*jobs.get(key)?)?)));
    let compared: Vec<_> = compared.collect();
    let other: Vec<_> = compared.iter().filter(|(_, activation, job)| activation != job).collect();
    assert!(other.is_empty() && compared.len() > 50, "{other:?} of {}", compared.len());
    // The first job of a thread has no sleep before it in the trace.
    let unrecorded = anomalies.inferred + anomalies.doubtful + others.inferred + others.doubtful;
    let allowed = whole.threads + usize::try_from(unrecorded).unwrap();
    let missing = jobs.keys().filter(|key| !activations.contains_key(key)).count();
    assert!(missing <= allowed, "{missing} jobs of {} threads are no activations", whole.threads);
    let unknown = activations.keys().filter(|key| !jobs.contains_key(key)).count();
    assert!(unknown <= allowed, "{unknown} activations are no jobs");
}

#[test]
fn a_recording_of_switches_alone_shows_execution_and_period_and_says_what_is_missing() {
    if tracefs().is_none() {
        return;
    }
    let (place, beat) = (Place::new(), Beat::start());
    let arguments = ["trace", "record", "-o", "a.dat", "--for", "400ms", "--only-events"];
    let output = place.surety(&arguments).args(["--event", "sched:sched_switch"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let pid = beat.pid();
    let seen = json(&place.run(&["trace", "stats", "a.dat", "--tid", &pid, "--json"]));
    let [thread] = seen["threads"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!(thread["separation"], "switches");
    assert!(thread["jobs"].as_u64().unwrap() > 10, "{thread}");
    assert_eq!((&thread["response_ns"], &thread["latency_ns"]), (&Value::Null, &Value::Null));
    assert!(thread["execution_ns"]["mean"].as_u64().unwrap() > 0, "{thread}");
    assert!(thread["inter_arrival_ns"]["max"].as_u64().unwrap() > 1_000_000, "{thread}");
    assert_eq!(seen["anomalies"]["unreleased"], 0);
    let text = place.run(&["trace", "stats", "a.dat"]);
    let text = String::from_utf8_lossy(&text.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["no wake-ups: response and latency are not known", "by switches alone"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let close = json(&place.run(&["trace", "stats", "a.dat", "--tid", &pid, "--distribution", "--json"]));
    assert_eq!(close["thread"]["separation"], "switches");
    let counts: Vec<u64> =
        close["quantities"].as_array().unwrap().iter().map(|q| q["count"].as_u64().unwrap()).collect();
    assert!(counts[0] > 10 && counts[1] > 10 && counts[2] == 0, "{counts:?}");
}

#[test]
fn a_thread_that_sleeps_all_the_time_is_shown_as_one_that_does() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let mut sleeper = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    // It is asleep before the recording begins.
    std::thread::sleep(Duration::from_millis(100));
    let made = json(&place.run(&["trace", "record", "-o", "a.dat", "--for", "200ms", "--json"]));
    let pid = sleeper.id().to_string();
    let seen = json(&place.run(&["trace", "stats", "a.dat", "--tid", &pid, "--json"]));
    let text = place.run(&["trace", "stats", "a.dat"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    if made["lost"] != 0 {
        return eprintln!("SKIPPED: {} events were lost", made["lost"]);
    }
    let [thread] = seen["threads"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!((&thread["name"], &thread["throughout"]), (&"sleep".into(), &"asleep".into()));
    assert_eq!((&thread["jobs"], &thread["run_ns"], &thread["waited_ns"]), (&0.into(), &0.into(), &0.into()));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("throughout") && text.contains("slept"), "{text}");
}
