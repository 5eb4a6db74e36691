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

/// A thread that runs for 2 ms of every 10 ms, as text of switches alone.
fn switches() -> String {
    let mut text = "# tracer: nop\n".to_owned();
    for k in 0..100 {
        let mut add = |us: u64, (from, was, state): (&str, u32, &str), (to, is): (&str, u32)| {
            let at = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
            text += &format!(
                "{from:>16}-{was} [000] d..2. {at}: sched_switch: prev_comm={from} prev_pid={was} prev_prio=120 \
                 prev_state={state} ==> next_comm={to} next_pid={is} next_prio=120\n"
            );
        };
        add(1_000_000 + k * 10_000, ("<idle>", 0, "R"), ("beat", 77));
        add(1_002_000 + k * 10_000, ("beat", 77, "S"), ("<idle>", 0));
    }
    text
}

/// `record longer` was said once of a trace that no length would help.
#[test]
fn verbs_that_need_releases_say_so_of_switches_alone() {
    let place = Place::new();
    fs::write(place.out().join("a.txt"), switches()).unwrap();
    let stats = json(&place.run(&["trace", "stats", "a.txt", "--comm", "beat", "--json"]));
    assert!(stats["threads"][0]["jobs"].as_u64().unwrap() >= 98, "{stats}");
    let explained = place.run(&["trace", "explain", "a.txt", "--comm", "beat"]);
    let said = words(&explained);
    assert_eq!(explained.status.code(), Some(2), "{said}");
    assert!(said.contains("no wake-up is in it") && said.contains("surety trace stats"), "{said}");
    assert!(!said.contains("record longer"), "{said}");
    let fitted = json(&place.run(&["trace", "fit", "a.txt", "--comm", "beat", "--json"]));
    let left = fitted["remainder"].as_array().unwrap().iter().find(|left| left["name"] == "beat").unwrap();
    assert_eq!(left["why"], "unreleased", "{fitted}");
    let said = String::from_utf8(place.run(&["trace", "fit", "a.txt", "--comm", "beat"]).stdout).unwrap();
    assert!(said.contains("wake-ups were not recorded") && !said.contains("record longer"), "{said}");
}

/// A table of sums broke into parts, the second of which began with `of it preempted`.
#[test]
fn sums_fit_what_they_are_read_on_and_every_title_says_of_what() {
    let place = Place::new();
    fs::write(place.out().join("a.txt"), switches()).unwrap();
    for (width, shown, left_out) in [("160", 7, false), ("60", 4, true), ("40", 2, true)] {
        let told = place.run(&["trace", "timehist", "a.txt", "--summary", "--width", width]);
        let said = String::from_utf8(told.stdout).unwrap();
        let table: Vec<&str> = said.lines().take_while(|line| !line.is_empty()).collect();
        assert!(table.iter().all(|line| line.len() <= width.parse().unwrap()), "{said}");
        let titles: Vec<&str> = table[0].split("  ").filter(|title| !title.is_empty()).collect();
        assert!(titles.len() >= shown && table[1].starts_with("77 beat"), "{width}: {said}");
        assert_eq!(said.contains("not shown for want of room"), left_out, "{width}: {said}");
        let is_told = |title: &str| titles.iter().any(|t| t.trim() == title);
        assert!(is_told("run") && !is_told("mean") && !is_told("max"), "{said}");
        assert_eq!(is_told("mean run"), !left_out, "{said}");
    }
}
