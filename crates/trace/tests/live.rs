//! A recording made now, on this kernel, against that kernel's own text of it.
//!
//! Needs root: tracefs is mounted in a mount namespace of the recording shell's own, and an instance is made and removed.
//! Without that the test says so loudly and passes.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;

use surety_model::event::Event;
use surety_trace::{EVENTS, JobBuilder, TextTrace, TraceReader};

/// Records about 0.2 s of forks and sleeps into the directory `$1`; `$2` is the instance, `$3` the events.
const RECORD: &str = r#"
set -e
mount --make-rprivate /
mount -t tracefs nodev "$1/tracefs"
cd "$1/tracefs"
mkdir "instances/$2"
trap 'echo 0 > "$1/tracefs/instances/$2/tracing_on"; cd "$1/tracefs"; rmdir "instances/$2"' EXIT
cp events/header_page "$1/formats/header_page.txt"
for event in $3 ftrace/print; do
    [ -e "events/$event/format" ] || continue
    mkdir -p "$1/formats/${event%/*}"
    cat "events/$event/format" > "$1/formats/$event.txt"
done
cd "instances/$2"
echo 0 > tracing_on
echo mono > trace_clock
echo 4096 > buffer_size_kb
for event in $3; do
    [ -e "events/$event/enable" ] && echo 1 > "events/$event/enable"
done
echo 1 > tracing_on
echo surety:b:0:1 > trace_marker
for k in 1 2 3 4; do (sleep 0.02; true); done
echo surety:e:0 > trace_marker
echo 0 > tracing_on
cat trace > "$1/trace.txt"
for cpu in per_cpu/cpu*; do
    timeout 2 dd if="$cpu/trace_pipe_raw" of="$1/${cpu#per_cpu/}.raw" bs=4096 iflag=nonblock 2>/dev/null || true
done
cat /proc/kallsyms > "$1/kallsyms.txt"
"#;

fn record(dir: &Path) -> Result<(), String> {
    for part in ["tracefs", "formats"] {
        std::fs::create_dir_all(dir.join(part)).map_err(|e| e.to_string())?;
    }
    let events = EVENTS.iter().map(|e| e.replace(':', "/")).collect::<Vec<_>>().join(" ");
    let instance = format!("surety-test-{}", std::process::id());
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", RECORD, "sh"])
        .arg(dir)
        .args([&instance, &events])
        .output()
        .map_err(|e| format!("unshare: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn decoded_events_are_what_this_kernel_prints() {
    let dir = std::env::temp_dir().join(format!("surety-trace-live-{}", std::process::id()));
    let recorded = record(&dir);
    if let Err(reason) = recorded {
        let _ = std::fs::remove_dir_all(&dir);
        eprintln!("SKIPPED: no recording could be made here: {}", reason.trim());
        return;
    }
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let (text, kallsyms) = (read("trace.txt"), read("kallsyms.txt"));
    let mut decoded = Vec::new();
    let mut builder = JobBuilder::new();
    let mut sink = |event: &Event<'_>| {
        decoded.push(support::render(event));
        surety_model::event::TraceSink::event(&mut builder, event);
    };
    let summary = support::pages(&dir, &dir.join("formats"), &kallsyms).read(&mut sink);
    let _ = std::fs::remove_dir_all(&dir);
    let summary = summary.unwrap();
    // The kernel's text begins with a note where a CPU's first events are missing.
    let expected = support::parse_text(&text);
    assert!(expected.len() > 100, "{} events", expected.len());
    assert!(summary.is_complete(), "{summary:?}");
    support::assert_same(&decoded, &expected);
    let mut from_text = Vec::new();
    let mut text = TextTrace::open(text.into_bytes()).unwrap();
    let of_text = text.read(&mut |event: &Event<'_>| from_text.push(support::render(event))).unwrap();
    assert_eq!(of_text.malformed, 0, "{:?}", of_text.faults);
    support::assert_same(&decoded, &from_text);
    let jobs = builder.finish();
    for thread in &jobs.threads {
        for job in &thread.jobs {
            assert!(job.execution + job.throttled <= job.completion - job.start, "{job:?}");
            assert!(job.interrupted <= job.execution, "{job:?}");
        }
    }
    eprintln!("{} events of {} threads, {:?}", expected.len(), jobs.threads.len(), jobs.anomalies);
}
