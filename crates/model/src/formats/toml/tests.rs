//! The whole format read and written back, and every kind of mistake with the place it is reported at.

use surety_units::{Bytes, Nanos};

use super::{Comments, read, write, write_commented};
use crate::distribution::{Empirical, TimeDistribution};
use crate::promise::Promise;
use crate::source::place_of;
use crate::workload::*;

/// Every key of format 1 at least once.
const EVERYTHING: &str = r#"
format = 1
title  = "Everything"

[[task]]
name     = "player"
period   = "40ms"
start    = "5ms"
jitter   = "100us"
work     = { kind = "lognormal", mean = "14ms", p99 = "22ms" }
late     = "skip"
sleep    = "relative"
nice     = -5
slice    = "3ms"
group    = "ui"
instances = 4
jobs     = 5000
promise  = ["response <= 40ms @ 99%", "missed == 0"]
reservation = { runtime = "26ms", deadline = "40ms", period = "40ms", reclaim = true }

[[task]]
name = "sporadic"
gap = "30ms"
work = { kind = "uniform", low = "1ms", high = "2ms" }
policy = "fifo:80"
instances = "per-cpu"

[[task]]
name = "hog"
work = "forever"
policy = "idle"

[[task]]
name = "replayed"
period = "10ms"
work = { trace = "jobs.csv" }
policy = "rr:10"

[[task]]
name = "measured"
period = "10ms"
work = { kind = "empirical", values = ["1ms", "2ms"], counts = [3, 1] }
policy = "batch"
nice = 5

[[task]]
name = "steps"
period = "16.6ms"
phases = [{ run = "1ms" }, { lock = "m" }, { run = { kind = "exponential", mean = "100us" } }, { unlock = "m" },
          { sleep = "1ms" }, { signal = "e" }, { wait = "e" }]

[[task]]
name     = "encoder"
command  = "ffmpeg -threads 1 -re -i in.mkv -f null -"
prepare  = "ffmpeg -f lavfi -i testsrc2 -t 8 in.mkv"
package  = "ffmpeg"
worker   = { comm = "ffmpeg", rank = 1 }
promise  = "share >= 25%"

[[task]]
name = "audio"
match = { comm = "pipewire" }

[[task]]
name = "video"
match = { pid = 12 }

[[task]]
name = "server"
match = { process = 13 }

[[task]]
name = "pool"
match = { task = "server", comm = "io", rank = 2 }

[[task]]
name = "muxer"
match = { task = "encoder", comm = "mux" }

[[irq]]
name     = "net"
device   = "eth"
arrivals = { kind = "sporadic", gap = "95us" }
work     = "9us"
hard     = "2us"
buffer   = 256
promise  = ["lost == 0"]
reservation = { runtime = "20us", period = "100us" }

[[irq]]
name = "disk"
arrivals = { kind = "closed", outstanding = 8, service = "40us" }
work = { kind = "normal", mean = "12us", std_dev = "1us" }

[disk.d]
make      = "1GiB"
model     = "hdd-2004"
scheduler = "bfq"
depth     = 4
request   = "128KiB"
wbt       = "1ms"
journal   = false
faults    = [{ at = "24MiB", bytes = "64KiB", fails = "reads" }, { at = "512B", bytes = "512B" }]

[link.l]
rate      = "100Mbit/s"
scheduler = "b-wf2q+"
quantum   = "3000B"

[link.plain]
rate = "1MB/s"

[[flow]]
name     = "call"
link     = "l"
packet   = "200B"
weight   = 4
arrivals = { kind = "periodic", period = "20ms" }
start    = "1s"
curve    = { first = "256kbit/s", bend = "5ms", then = "64kbit/s" }
promise  = "latency <= 5ms @ 99%"

[[flow]]
name     = "bulk"
link     = "plain"
count    = 10
size     = "64kB"
arrivals = { kind = "closed", outstanding = 4, service = "10ms" }

[[stream]]
name     = "movie"
count    = 4
disk     = "d"
file     = { make = "105MB" }
rate     = "1MB/s"
read     = "64KiB"
jitter   = "10ms"
buffer   = "1MiB"
batch    = "160KiB"
bound    = "120ms"
mode     = "longest"
group    = "ui"
promise  = ["late == 0"]

[[stream]]
name = "capture"
file = "out.raw"
rate = "10Mbit/s"
write = true

[[startup]]
name     = "xterm"
command  = "xterm -e true"
prepare  = "cp /usr/bin/xterm ."
ready    = "stdout:ready"
cold     = true
repeat   = 10
gap      = "500ms"
timeout  = "120s"
disk     = "d"
group    = "all"
promise  = ["startup <= 1.2x idle"]

[[startup]]
name = "replay"
replay = "xterm.trace"
ready = "socket:/run/x"

[[load]]
name     = "readers"
kind     = "readers"
count    = 10
disk     = "d"
size     = "64MiB"
block    = "64KiB"
rate     = "10MB/s"
direct   = true
random   = true
group    = "ui"
nice     = 3

[[load]]
name = "make"
kind = "command"
command = "make -j2"
once = true

[[load]]
name = "tick"
kind = "timers"
period = "2ms"

[[load]]
name = "spin"
kind = "spinners"
count = "4 per-cpu"

[[group]]
name     = "ui"
weight   = 200
io-weight = 1000
parent   = "all"

[[group]]
name     = "all"
quota    = "150ms"
burst    = "20ms"

[[group]]
name     = "rest"
idle     = true
cpus     = "0-1,3"

[[group]]
name     = "control"
reservation = { runtime = "5ms", period = "20ms" }

[[chain]]
name     = "key"
start    = { kind = "poisson", rate = "0.5/s" }
through  = ["measured", "steps"]
promise  = ["response <= 100ms @ 95%"]

[[chain]]
name = "beat"
start = { kind = "periodic", period = "1s" }
through = ["replayed"]

[[resource]]
name = "m"
protocol = "inherit"

[vary]
"disk.d.scheduler" = ["none", "bfq"]
"load.readers.count" = [0, 10]
rows = [{ "task.player.reservation" = "none", "load.spin.count" = 1 }, { "startup.xterm.cold" = false }]
"#;

#[test]
fn the_whole_format_reads_and_writes_back() {
    let workload = read("all.toml", EVERYTHING).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(workload.tasks.len(), 12);
    let player = workload.task("player").unwrap();
    assert_eq!(player.release.interval(), Some(Nanos::from_millis(40)));
    assert_eq!(player.instances, Instances::Count(4));
    assert_eq!(player.promises[0], Promise::parse("response <= 40ms @ 99%").unwrap());
    assert_eq!(workload.streams[0].access, Some(Bytes(65_536)));
    assert_eq!(workload.streams[1].direction, Direction::Write);
    assert_eq!(workload.vary.rows.len(), 2);
    let text = write(&workload);
    let again = read("again.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(again, workload);
    assert_eq!(write(&again), text);
}

/// One mistake: the file's lines after `format = 1`, where it is reported, and words of the message or help.
struct Mistake {
    text: &'static str,
    line: usize,
    column: usize,
    says: &'static [&'static str],
}

#[test]
fn mistakes_are_reported_at_their_place() {
    let task = |line: &str| format!("format = 1\n[[task]]\nname = \"t\"\n{line}\n");
    let in_task = [
        Mistake { text: "work = \"5ms\"\nperod = \"40ms\"", line: 5, column: 1, says: &["perod", "period"] },
        Mistake { text: "work = \"5ms\"\nperiod = 40", line: 5, column: 10, says: &["unit", "40ms"] },
        Mistake { text: "work = \"5ms\"\nperiod = \"40\"", line: 5, column: 10, says: &["unit"] },
        Mistake { text: "work = \"5ms\"\nperiod = \"-40ms\"", line: 5, column: 10, says: &["negative"] },
        Mistake {
            text: "work = \"5ms\"\ngap = \"9ms\"\njitter = \"1ms\"",
            line: 6,
            column: 10,
            says: &["jitter", "period"],
        },
        Mistake {
            text: "work = \"5ms\"\nperiod = \"9ms\"\nspacing = \"10ms\"",
            line: 6,
            column: 11,
            says: &["spacing", "gap"],
        },
        Mistake { text: "work = \"5ms\"\nperiod = \"0s\"", line: 5, column: 10, says: &["zero"] },
        Mistake { text: "period = \"40ms\"", line: 2, column: 1, says: &["exactly one of work"] },
        Mistake { text: "work = \"5ms\"\ncommand = \"x\"", line: 5, column: 11, says: &["exactly one"] },
        Mistake {
            text: "work = \"5ms\"\nprepare = \"x\"",
            line: 5,
            column: 11,
            says: &["`prepare`", "command"],
        },
        Mistake { text: "command = \"x\"\nworker = { rank = 1 }", line: 5, column: 10, says: &["comm"] },
        Mistake { text: "work = \"5ms\"\nuser = \"nobody\"", line: 5, column: 8, says: &["`command`"] },
        Mistake {
            text: "command = \"x\"\nkeep_capabilities = \"nice\"",
            line: 5,
            column: 21,
            says: &["`nice` is no capability", "sys_nice"],
        },
        Mistake { text: "match = { rank = 1 }", line: 4, column: 9, says: &["`rank` belongs to `task`"] },
        Mistake {
            text: "match = { process = 7, comm = \"x\" }",
            line: 4,
            column: 9,
            says: &["stands alone"],
        },
        Mistake { text: "match = { task = \"t\" }", line: 4, column: 9, says: &["needs `comm`"] },
        Mistake {
            text: "match = { task = \"t\", comm = \"x\" }",
            line: 4,
            column: 9,
            says: &["`t` is no program"],
        },
        Mistake {
            text: "match = { task = \"z\", comm = \"x\" }",
            line: 4,
            column: 9,
            says: &["no task `z`"],
        },
        Mistake {
            text: "work = \"5ms\"\nreservation = { runtime = \"20us\", period = \"50us\" }",
            line: 5,
            column: 44,
            says: &["50us", "kernel", "100us"],
        },
        Mistake {
            text: "work = \"5ms\"\nreservation = { runtime = \"50ms\", period = \"40ms\" }",
            line: 5,
            column: 27,
            says: &["50ms", "longer", "40ms"],
        },
        Mistake {
            text: "work = \"5ms\"\npromise = [\"response <= 40ms @ 99\"]",
            line: 5,
            column: 32,
            says: &["unit"],
        },
        Mistake { text: "work = \"5ms\"\npromise = \"speed > 3\"", line: 5, column: 12, says: &["speed"] },
        Mistake { text: "work = \"5ms\"\npolicy = \"fifo:100\"", line: 5, column: 10, says: &["fifo:N"] },
        Mistake {
            text: "work = \"5ms\"\npolicy = \"fifo:1\"\nnice = 1",
            line: 6,
            column: 8,
            says: &["nice"],
        },
        Mistake {
            text: "work = \"5ms\"\npolicy = \"deadline\"",
            line: 5,
            column: 10,
            says: &["reservation"],
        },
        Mistake { text: "work = \"5ms\"\ngroup = \"gui\"", line: 5, column: 9, says: &["no group", "gui"] },
        Mistake { text: "work = \"5ms\"\nnice = 20", line: 5, column: 8, says: &["-20", "19"] },
        Mistake {
            text: "work = { kind = \"lognormal\", mean = \"14ms\", p99 = \"1ms\" }",
            line: 4,
            column: 8,
            says: &["no log-normal"],
        },
        Mistake { text: "work = { kind = \"lognorml\" }", line: 4, column: 17, says: &["lognormal"] },
        Mistake {
            text: "work = \"5ms\"\n[[load]]\nname = \"t\"\nkind = \"spinners\"",
            line: 6,
            column: 8,
            says: &["two activities", "t"],
        },
        Mistake { text: "work = \"5ms\"\ninstances = \"all\"", line: 5, column: 13, says: &["4 per-cpu"] },
        Mistake { text: "work = \"5ms\"\nslice = \"1s\"", line: 5, column: 9, says: &["100ms"] },
        Mistake { text: "work = \"5ms\"\nlatency_nice = 20", line: 5, column: 16, says: &["-20", "19"] },
        Mistake {
            text: "work = \"5ms\"\nlatency_nice = 5\nslice = \"1ms\"",
            line: 5,
            column: 16,
            says: &["both say how long a slice is"],
        },
        Mistake {
            text: "work = \"5ms\"\nlatency_nice = 5\npolicy = \"batch\"",
            line: 5,
            column: 16,
            says: &["takes no `latency_nice`"],
        },
        Mistake {
            text: "phases = [{ run = \"1ms\" }, { lock = \"m\" }, { run = \"1ms\" }]\n[[resource]]\nname = \"m\"",
            line: 4,
            column: 10,
            says: &["still holds `m`", "unlock"],
        },
        Mistake {
            text: "phases = [{ lock = \"m\" },\n{ lock = \"m\" }, { unlock = \"m\" }]\n[[resource]]\nname = \"m\"",
            line: 5,
            column: 1,
            says: &["locked twice"],
        },
        Mistake {
            text: "phases = [{ unlock = \"m\" }]\n[[resource]]\nname = \"m\"",
            line: 4,
            column: 11,
            says: &["not held"],
        },
        Mistake {
            text: "phases = [{ run = \"1ms\" }, { wait = \"a\" }]\n[[event]]\nname = \"a\"\nraised = 1\n[[event]]\nname = \"b\"\nraised = 1",
            line: 9,
            column: 8,
            says: &["no task waits for the event `b`"],
        },
        Mistake {
            text: "phases = [{ lock = \"m\" }, { unlock = \"m\" }]",
            line: 4,
            column: 11,
            says: &["no resource `m`"],
        },
        Mistake {
            text: "phases = [{ signal = \"full\" }, { wait = \"ful\" }]",
            line: 4,
            column: 32,
            says: &["raises", "did you mean `full`"],
        },
    ];
    for mistake in in_task {
        check(&task(mistake.text), &mistake);
    }
    for mistake in [
        Mistake { text: "", line: 1, column: 1, says: &["format", "missing"] },
        Mistake { text: "format = 2", line: 1, column: 10, says: &["format 2"] },
        Mistake { text: "format = 1\n[[task]\n", line: 2, column: 8, says: &[] },
        Mistake { text: "format = 1\n[vary]\n\"task.x.nice\" = [1]", line: 3, column: 1, says: &["no task"] },
        Mistake {
            text: "format = 1\n[[group]]\nname=\"a\"\nparent=\"a\"",
            line: 4,
            column: 8,
            says: &["inside itself"],
        },
        Mistake {
            text: "format = 1\n[[task]]\nname=\"a\"\nperiod=\"1s\"\nphases = [{ loop = 9000, phases = [{ loop = 9000, phases = [{ yield = true }] }] }]",
            line: 5,
            column: 36,
            says: &["takes no time", "in all"],
        },
        Mistake {
            text: "format = 1\n[[group]]\nname=\"a\"\nquota=\"500us\"",
            line: 4,
            column: 7,
            says: &["least", "1.000 ms"],
        },
        Mistake {
            text: "format = 1\n[[group]]\nname=\"a\"\nburst=\"5ms\"",
            line: 4,
            column: 7,
            says: &["no quota"],
        },
        Mistake {
            text: "format = 1\n[[group]]\nname=\"a\"\nquota=\"5ms\"\nburst=\"6ms\"\nquota-period=\"2s\"",
            line: 5,
            column: 7,
            says: &["saves no more", "fills quotas every"],
        },
        Mistake {
            text: "format = 1\n[[group]]\nname=\"a\"\nio-weight = 1001",
            line: 4,
            column: 13,
            says: &["1000"],
        },
        Mistake {
            text: "format = 1\n[disk.d]\ngroup=\"a\"\n[[group]]\nname=\"a\"",
            line: 3,
            column: 7,
            says: &["virtual machine", "`on`"],
        },
        Mistake {
            text: "format = 1\n[[startup]]\nname=\"s\"\ncommand=\"x\"\ngroup=\"a\"",
            line: 5,
            column: 7,
            says: &["no group"],
        },
        Mistake {
            text: "format = 1\n[[load]]\nname=\"a\"\nkind=\"spiners\"",
            line: 4,
            column: 6,
            says: &["spinners"],
        },
    ] {
        check(mistake.text, &mistake);
    }
}

fn check(text: &str, mistake: &Mistake) {
    let errors = read("f.toml", text).expect_err(text);
    let first = &errors.list[0];
    let place = place_of(text, first.span.start);
    assert_eq!((place.line, place.column), (mistake.line, mistake.column), "{text}\n{errors}");
    let said = errors.to_string();
    for word in mistake.says {
        assert!(said.contains(word), "{text}\n{said}\nlacks `{word}`");
    }
    assert!(said.starts_with("f.toml:"), "{said}");
}

#[test]
fn a_number_is_told_the_limit_that_it_is_beyond() {
    let said = |number: &str| {
        let text = format!(
            "format = 1\n[[irq]]\nname = \"i\"\narrivals = {{ kind = \"periodic\", period = \"1ms\" }}\n\
                            work = \"1us\"\nbuffer = {number}\n"
        );
        read("w.toml", &text).unwrap_err().to_string()
    };
    assert!(said("0").contains("`buffer` is 1 or more"), "{}", said("0"));
    for large in ["9223372036854775807", "92233720368547758070"] {
        assert!(said(large).contains("`buffer` is between 1 and 9223372036854775806"), "{}", said(large));
    }
}

#[test]
fn a_fraction_is_no_whole_number() {
    let text = "format = 1\n[disk.d]\nmodel = \"emmc\"\ntunables = { slice_idle = 1.5 }\n";
    let said = read("w.toml", text).unwrap_err().to_string();
    assert!(said.contains("w.toml:4:27: `slice_idle` is a whole number, not a fraction"), "{said}");
}

#[test]
fn every_mistake_is_reported_at_once() {
    let text = "format = 1\n[[task]]\nname = \"a\"\nwork = 5\nperiod = \"x\"\nfoo = 1\n";
    let errors = read("f.toml", text).unwrap_err();
    assert_eq!(errors.list.len(), 3, "{errors}");
}

mod laws {
    use super::*;
    use proptest::prelude::*;

    fn time() -> impl Strategy<Value = Nanos> {
        (1i64..10_000_000_000).prop_map(Nanos::new)
    }

    fn work() -> impl Strategy<Value = TimeDistribution> {
        prop_oneof![
            time().prop_map(TimeDistribution::Constant),
            (time(), time()).prop_map(|(a, b)| TimeDistribution::Uniform { low: a.min(b), high: a.max(b) }),
            (time(), time()).prop_map(|(mean, std_dev)| TimeDistribution::Normal { mean, std_dev }),
            time().prop_map(|mean| TimeDistribution::Exponential { mean }),
        ]
    }

    fn measured() -> impl Strategy<Value = TimeDistribution> {
        let pairs = proptest::collection::vec((time(), 1u64..1 << 40), 1..6);
        let sequence = proptest::collection::vec(0i64..1_000_000_000, 1..9).prop_map(|values| {
            let values: Vec<Nanos> = values.into_iter().map(Nanos::new).collect();
            TimeDistribution::Empirical(Empirical::in_order(&values).unwrap())
        });
        let pairs = pairs.prop_map(|p| TimeDistribution::Empirical(Empirical::new(p).unwrap()));
        prop_oneof![work(), pairs, sequence]
    }

    proptest! {
        #[test]
        fn tasks_read_back(period in time(), work in work(), nice in -20i32..20, hurries: bool, title in "\\PC*", jobs in 1u64..1 << 40) {
            let mut task = Task::periodic("t", period, work);
            task.policy = PolicySpec::Fair { nice, slice: None };
            if hurries {
                task.policy = PolicySpec::LatencyNice { nice, latency_nice: -nice.max(-19) };
            }
            task.jobs = Some(jobs);
            let workload = Workload { title: Some(title), tasks: vec![task], ..Workload::default() };
            let text = write(&workload);
            let again = read("t.toml", &text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(again, workload);
        }

        #[test]
        fn sporadic_tasks_read_back_under_any_comment(
            gap in time(),
            spacing in proptest::option::of(measured()),
            work in measured(),
            lines in proptest::collection::vec("\\PC{0,30}|[\\x00-\\x7f]{0,30}", 0..4),
        ) {
            let mut task = Task::periodic("t", gap, work);
            (task.release, task.spacing) = (Release::Sporadic { gap }, spacing);
            let loads = vec![Load::new("busy", LoadKind::Spinners, 2)];
            let workload = Workload { tasks: vec![task], loads, ..Workload::default() };
            let comments: Comments =
                ["", "task.t", "load.busy", "load.none"].map(|path| (path.to_owned(), lines.clone())).into();
            let text = write_commented(&workload, &comments);
            let again = read("t.toml", &text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(again, workload);
        }

        #[test]
        fn any_text_gives_a_workload_or_diagnostics(text in "\\PC{0,200}") {
            if let Err(errors) = read("t.toml", &text) {
                prop_assert!(!errors.list.is_empty());
                let _ = errors.to_string();
            }
        }
    }
}

#[test]
fn a_key_that_a_kind_of_load_does_not_take_is_an_error_at_its_place() {
    let text =
        |kind: &str, key: &str| format!("format = 1\n[[load]]\nname = \"l\"\nkind = \"{kind}\"\n{key}\n");
    for (kind, key) in [
        ("spinners", "size = \"1MiB\""),
        ("forks", "once = true"),
        ("udp-flood", "rate = \"1MB/s\""),
        ("readers", "period = \"1ms\""),
        ("file-copy", "random = true"),
        ("messages", "disk = \"d\""),
        ("spinners", "message-cost = \"1us\""),
    ] {
        let found = read("l.toml", &text(kind, key)).unwrap_err();
        let word = key.split(' ').next().unwrap();
        let said = found.to_string();
        assert!(said.contains(&format!("`{kind}` takes no `{word}`")) && said.contains(":5:"), "{said}");
    }
    for (kind, key) in [
        ("timers", "period = \"0ms\""),
        ("udp-sender", "rate = \"0B/s\""),
        ("messages", "message-cost = \"0us\""),
    ] {
        assert!(read("l.toml", &text(kind, key)).unwrap_err().to_string().contains("more than nothing"));
    }
    assert!(read("l.toml", &text("udp-sender", "rate = \"100Mbit/s\"")).is_ok());
    let talk = read("l.toml", &text("messages", "message-cost = \"1.6us\"")).unwrap();
    assert_eq!(talk.loads[0].message_cost, Some(Nanos::new(1600)));
    assert_eq!(read("l.toml", &write(&talk)).unwrap(), talk);
}
