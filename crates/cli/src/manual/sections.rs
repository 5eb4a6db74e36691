//! What pages of the manual say beside the definitions of the command line: examples, files, and where more stands.

/// What the page of one verb has more.
pub struct Row {
    /// Its words after `surety`; nothing for the program's own page.
    pub verb: &'static str,
    /// What is done, and the command that does it.
    pub examples: &'static [(&'static str, &'static str)],
    /// Other pages with their sections; that of the verb above is named by itself.
    pub see: &'static [&'static str],
    /// Files below the installed documents.
    pub documents: &'static [&'static str],
}

/// The row of a verb.
pub fn row(verb: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.verb == verb)
}

/// Where the documents are.
pub const DOCUMENTS: &str = "below share/doc/surety where it is installed: /usr or /usr/local";

/// Files that every verb may use.
pub const FILES: &[(&str, &str)] = &[
    (
        "/run/surety, $XDG_RUNTIME_DIR/surety or /tmp/surety-UID",
        "The run-time directory of root, and of other users: the journal of what was changed of this machine. The next start takes back what a killed one left.",
    ),
    (
        "/var/cache/surety/lab, $XDG_CACHE_HOME/surety/lab or ~/.cache/surety/lab",
        "Kernels of the lab: for root, and for other users.",
    ),
    ("share/doc/surety/examples", "Workload files to try."),
];

/// Variables of the environment that every verb looks at.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    ("SURETY_RUNTIME_DIR", "Another run-time directory; only its user may be able to write it."),
    ("SURETY_LAB_DIR", "Another directory of kernels."),
    ("COLUMNS", "Columns of text, where --width says nothing."),
    ("NO_COLOR", "Where it is set, --color auto uses none."),
];

const ROWS: &[Row] = &[
    Row {
        verb: "",
        examples: &[
            ("See what this machine can guarantee", "surety doctor"),
            (
                "Walk the whole loop: measure a workload, plan and prove a reservation, put it in force, measure again",
                "sudo surety guarantee examples/video-player.toml",
            ),
            (
                "Guarantee a quarter of a CPU to a command",
                "sudo surety guarantee --share 25% -- ffmpeg -i in.mkv out.mp4",
            ),
            ("Measure how late threads wake", "sudo surety latency --for 10s"),
        ],
        see: &["surety-guarantee(1)", "surety-latency(1)", "surety-trace(1)", "chrt(1)", "sched(7)"],
        documents: &["README.md", "docs/formats/workload.md", "docs/reservations.md"],
    },
    Row {
        verb: "init",
        examples: &[
            (
                "Watch a command for 5 s, and write its workload file",
                "sudo surety init --command './player film.mkv' --output my.toml",
            ),
            ("Watch a running program", "sudo surety init --pid 1234 --for 20s"),
            ("Start from a template", "surety init --template control-loop --output loop.toml"),
        ],
        see: &["surety-guarantee(1)", "surety-run(1)", "surety-trace-fit(1)"],
        documents: &["docs/first-minute.md", "docs/formats/workload.md"],
    },
    Row {
        verb: "guarantee",
        examples: &[
            (
                "A workload file, with the proofs in full and a page to look at",
                "sudo surety guarantee examples/video-player.toml --explain --html page.html",
            ),
            (
                "A quarter of a CPU for a command, beside eight spinning threads",
                "sudo surety guarantee --share 25% --load 8s -- ./server",
            ),
            (
                "Responses within 5 ms for a running process",
                "sudo surety guarantee --pid 1234 --response 5ms --period 40ms",
            ),
        ],
        see: &["surety-plan(1)", "surety-apply(1)", "surety-doctor(1)", "sched(7)"],
        documents: &[
            "docs/reservations.md",
            "docs/formats/workload.md",
            "docs/streams.md",
            "docs/expectations.md",
        ],
    },
    Row {
        verb: "run",
        examples: &[
            (
                "Simulate a workload, and bound it by analysis",
                "surety run examples/video-player.toml --on sim analysis",
            ),
            (
                "On this kernel and simulated, ten seconds, on one CPU",
                "sudo surety run examples/fifo-hog.toml --on host sim --cpus 1 --for 10s",
            ),
            (
                "A gate for a build",
                "surety run examples/video-player.toml --on sim --expect 'missed == 0' 'p99 < 40ms'",
            ),
        ],
        see: &["surety-compare(1)", "surety-report(1)", "surety-lab(1)"],
        documents: &[
            "docs/formats/workload.md",
            "docs/loads.md",
            "docs/simulator.md",
            "docs/expectations.md",
        ],
    },
    Row {
        verb: "compare",
        examples: &[
            ("Results of before and after a change", "surety compare before.json after.json"),
            (
                "Several runs of each side, one metric",
                "surety compare a1.json a2.json --against b1.json b2.json --metric 'player response'",
            ),
            ("A gate: at most 5 % more", "surety compare before.json after.json --expect 'p99 <= +5%'"),
        ],
        see: &["surety-run(1)", "surety-report(1)"],
        documents: &["docs/compare.md"],
    },
    Row {
        verb: "plan",
        examples: &[
            (
                "Reservations with their proofs, into a file",
                "surety plan examples/video-player.toml --explain --output player.plan",
            ),
            ("Verify a plan again", "surety plan --check player.plan"),
            ("Plan for a machine with four CPUs", "surety plan examples/control-loop.toml --cpu-count 4"),
        ],
        see: &["surety-apply(1)", "surety-guarantee(1)", "sched(7)"],
        documents: &["docs/plan.md", "docs/formats/plan.md", "docs/schedulability.md"],
    },
    Row {
        verb: "apply",
        examples: &[
            (
                "Start a command as planned; everything is taken back when it ends",
                "sudo surety apply player.plan -- ./player film.mkv",
            ),
            (
                "Put a running thread under the plan for an hour",
                "sudo surety apply player.plan --bind player=1234 --for 1h",
            ),
        ],
        see: &["surety-plan(1)", "chrt(1)", "sched(7)"],
        documents: &["docs/formats/plan.md", "docs/reservations.md"],
    },
    Row {
        verb: "trace",
        examples: &[
            (
                "Record two seconds of the whole machine",
                "sudo surety trace record --for 2s --output trace.dat",
            ),
            ("Who got how much, and how late", "surety trace stats trace.dat --top 10"),
            ("Who delayed a thread", "surety trace explain trace.dat --comm player"),
        ],
        see: &["trace-cmd(1)", "perf-sched(1)"],
        documents: &["docs/formats/traces.md"],
    },
    Row {
        verb: "trace record",
        examples: &[
            ("Two seconds of the whole machine", "sudo surety trace record --for 2s --output trace.dat"),
            (
                "A flight recorder: the ten seconds before a late job",
                "sudo surety trace record --keep 10s --stop-when 'response(player) > 40ms' --output late.dat",
            ),
            (
                "One process and what it starts, and of the switches those of real-time threads",
                "sudo surety trace record --pid 1234 --filter 'sched_switch:prev_prio < 100 || next_prio < 100'",
            ),
            (
                "While a command runs, with events of disks",
                "sudo surety trace record --event 'block:*' --size 1GB -- make",
            ),
        ],
        see: &["surety-trace-stats(1)", "surety-trace-explain(1)", "trace-cmd-record(1)"],
        documents: &["docs/formats/trace-record.md"],
    },
    Row {
        verb: "trace stats",
        examples: &[
            ("The ten busiest threads", "surety trace stats trace.dat --top 10"),
            ("Of a recording that is packed", "surety trace stats trace.dat.gz"),
            (
                "One thread in detail, as a page",
                "surety trace stats trace.dat --comm player --distribution --html player.html",
            ),
            ("A gate", "surety trace stats trace.dat --comm player --expect 'latency.p99 < 200us'"),
        ],
        see: &["surety-trace-record(1)", "surety-trace-explain(1)"],
        documents: &["docs/formats/trace-stats.md"],
    },
    Row {
        verb: "trace explain",
        examples: &[
            (
                "The three worst jobs of a thread, step by step",
                "surety trace explain trace.dat --comm player --worst 3",
            ),
            ("Why start-ups of a program are slow", "surety trace explain trace.dat --startup editor"),
        ],
        see: &["surety-trace-record(1)", "surety-trace-stats(1)"],
        documents: &["docs/formats/trace-explain.md", "docs/formats/trace-attribution.md"],
    },
    Row {
        verb: "trace irqs",
        examples: &[
            ("All interrupts of a trace", "surety trace irqs trace.dat"),
            (
                "One of them, with its distributions",
                "surety trace irqs trace.dat --irq NET_RX --distribution",
            ),
        ],
        see: &["surety-trace-record(1)"],
        documents: &["docs/formats/trace-irqs.md"],
    },
    Row {
        verb: "trace show",
        examples: &[
            (
                "The first twenty jobs of a thread",
                "surety trace show trace.dat --comm player --jobs --limit 20",
            ),
            (
                "Events of CPU 1 in the second second",
                "surety trace show trace.dat --cpus 1 --from 1s --to 2s",
            ),
        ],
        see: &["surety-trace-convert(1)", "trace-cmd-report(1)"],
        documents: &["docs/formats/trace-show.md"],
    },
    Row {
        verb: "trace timehist",
        examples: &[
            (
                "Every time of a thread on a CPU, and what it waited before",
                "surety trace timehist trace.dat --comm player",
            ),
            (
                "Who had the CPUs in the second second",
                "surety trace timehist trace.dat --summary --from 1s --to 2s",
            ),
        ],
        see: &["surety-trace-map(1)", "perf-sched(1)"],
        documents: &["docs/formats/trace-timehist.md"],
    },
    Row {
        verb: "trace map",
        examples: &[("Ten milliseconds of all CPUs", "surety trace map trace.dat --from 1s --to 1010ms")],
        see: &["surety-trace-timehist(1)", "perf-sched(1)"],
        documents: &["docs/formats/trace-map.md"],
    },
    Row {
        verb: "trace fit",
        examples: &[(
            "A workload file to simulate and to plan for",
            "surety trace fit trace.dat --no-irqs --output fitted.toml",
        )],
        see: &["surety-run(1)", "surety-plan(1)"],
        documents: &["docs/formats/trace-fit.md", "docs/modes.md"],
    },
    Row {
        verb: "trace reserve",
        examples: &[(
            "The smallest reservation that answers 99 % of the jobs of a thread within 5 ms",
            "surety trace reserve trace.dat --comm player --response 5ms --at 99%",
        )],
        see: &["surety-plan(1)", "sched(7)"],
        documents: &["docs/formats/trace-fit.md", "docs/reservations.md"],
    },
    Row {
        verb: "trace convert",
        examples: &[
            (
                "For the viewer of Perfetto, with deadlines",
                "surety trace convert trace.dat trace.pftrace --deadline player=40ms",
            ),
            ("For scripts, an event a line", "surety trace convert trace.dat trace.jsonl"),
        ],
        see: &["surety-trace-show(1)", "trace-cmd(1)"],
        documents: &["docs/formats/trace-events.md", "docs/formats/trace-perfetto.md"],
    },
    Row {
        verb: "top",
        examples: &[
            ("Who waits now, and who has the CPU instead", "sudo surety top"),
            ("Wake-ups later than 200 us first", "sudo surety top --sort missed --late 200us"),
            ("A minute into a file", "sudo surety top --record load.jsonl --count 60"),
            ("What was recorded", "surety top --replay load.jsonl"),
        ],
        see: &["surety-latency(1)", "surety-trace-explain(1)", "top(1)"],
        documents: &["docs/top.md"],
    },
    Row {
        verb: "latency",
        examples: &[
            ("Ten seconds on all CPUs, at FIFO 80", "sudo surety latency"),
            (
                "An hour at most, until the 99.9th percentile is known within 5 %",
                "sudo surety latency --until 'ci(p99.9) < 5%' --for 1h",
            ),
            (
                "Beside a flood of packets and memory traffic",
                "sudo surety latency --load ping-flood,memory-thrash:2 --for 5s",
            ),
            (
                "Stop at 500 us, and keep the trace of it",
                "sudo surety latency --stop-over 500us --output late.dat",
            ),
        ],
        see: &["surety-noise(1)", "surety-trace-explain(1)", "cyclictest(8)"],
        documents: &["docs/latency.md", "docs/loads.md"],
    },
    Row {
        verb: "noise",
        examples: &[
            ("Five seconds on CPU 0", "sudo surety noise --cpus 0 --for 5s"),
            ("What even a real-time thread loses", "sudo surety noise --policy fifo:50 --threshold 5us"),
        ],
        see: &["surety-latency(1)", "rtla-osnoise(1)"],
        documents: &["docs/latency.md", "docs/formats/noise.md"],
    },
    Row {
        verb: "lab",
        examples: &[
            ("What kernels there are", "surety lab list"),
            (
                "Fetch one, and measure in it",
                "surety lab fetch 6.12-cloud && surety latency --on lab:6.12-cloud --jobs 1000",
            ),
        ],
        see: &["surety-run(1)", "surety-latency(1)", "qemu-system-x86_64(1)"],
        documents: &["docs/lab.md", "docs/lab-interrupts.md"],
    },
    Row {
        verb: "lab list",
        examples: &[("Kernels, and which are fetched", "surety lab list")],
        see: &["surety-lab-fetch(1)"],
        documents: &["docs/lab.md"],
    },
    Row {
        verb: "lab fetch",
        examples: &[(
            "The cloud kernel 6.12 and its PREEMPT_RT sister",
            "surety lab fetch 6.12-cloud 6.12-rt",
        )],
        see: &["surety-lab-list(1)"],
        documents: &["docs/lab.md"],
    },
    Row {
        verb: "lab run",
        examples: &[(
            "A workload on a kernel of the lab",
            "surety lab run 6.12-cloud examples/deadline-spinner.toml --for 4s",
        )],
        see: &["surety-run(1)"],
        documents: &["docs/lab.md"],
    },
    Row {
        verb: "lab shell",
        examples: &[("A shell in a guest", "surety lab shell 6.12-cloud")],
        see: &["surety-lab-run(1)"],
        documents: &["docs/lab.md"],
    },
    Row {
        verb: "lab record",
        examples: &[(
            "A thousand wake-ups, to be checked again later",
            "surety lab record 6.12-cloud -o wake-ups.json -- latency --jobs 1000",
        )],
        see: &["surety-lab-check(1)"],
        documents: &["docs/lab.md"],
    },
    Row {
        verb: "lab check",
        examples: &[(
            "The same wake-ups on another kernel",
            "surety lab check wake-ups.json --kernel 6.12-rt",
        )],
        see: &["surety-lab-record(1)"],
        documents: &["docs/lab.md"],
    },
    Row {
        verb: "device",
        examples: &[
            ("The disks and I/O schedulers that are simulated", "surety device list"),
            (
                "A disk of this machine as a profile",
                "sudo surety device characterise /dev/sdb --for 60s -o mine.toml",
            ),
        ],
        see: &["surety-run(1)"],
        documents: &["docs/disk-simulator.md", "docs/disk-models.md", "docs/emulated-disk.md"],
    },
    Row {
        verb: "device list",
        examples: &[("Disks and I/O schedulers", "surety device list")],
        see: &["surety-device-show(1)"],
        documents: &["docs/disk-simulator.md"],
    },
    Row {
        verb: "device show",
        examples: &[
            ("A disk's numbers with their sources", "surety device show hdd-2004"),
            ("The tunables of an I/O scheduler", "surety device show bfq"),
        ],
        see: &["surety-device-list(1)"],
        documents: &["docs/disk-models.md"],
    },
    Row {
        verb: "device characterise",
        examples: &[(
            "A minute of reading, into a profile",
            "sudo surety device characterise /dev/sdb --for 60s -o mine.toml",
        )],
        see: &["surety-device-show(1)", "fio(1)"],
        documents: &["docs/disk-models.md"],
    },
    Row {
        verb: "device serve",
        examples: &[(
            "A block device as fast as a disk of 2004",
            "sudo surety device serve hdd-2004 --size 1GiB",
        )],
        see: &["surety-device-list(1)", "losetup(8)"],
        documents: &["docs/emulated-disk.md"],
    },
    Row {
        verb: "stream",
        examples: &[(
            "A directory for any player, at 4 MB/s a file",
            "sudo surety stream mount /srv/films /mnt/films --rate 4MB/s",
        )],
        see: &["surety-guarantee(1)"],
        documents: &["docs/streams.md", "docs/c-library.md"],
    },
    Row {
        verb: "stream mount",
        examples: &[(
            "A directory for any player of any user",
            "sudo surety stream mount /srv/films /mnt/films --rate 4MB/s --allow-others",
        )],
        see: &["surety-guarantee(1)", "umount(8)"],
        documents: &["docs/streams.md"],
    },
    Row {
        verb: "reproduce",
        examples: &[
            ("The experiments there are", "surety reproduce"),
            ("One of them, where it was published to run", "surety reproduce irq-copy"),
        ],
        see: &["surety-validate(1)", "surety-lab(1)"],
        documents: &["docs/reproduce.md"],
    },
    Row {
        verb: "validate",
        examples: &[
            ("One scenario on a kernel of the lab", "surety validate 'FIFO beside fair' --on lab:6.12-cloud"),
            ("All on this kernel, five seconds each", "sudo surety validate --on host --for 5s"),
            (
                "A workload of one's own on two CPUs",
                "surety validate examples/video-player.toml --on lab:6.12-cloud --cpu-count 2 --for 5s",
            ),
        ],
        see: &["surety-reproduce(1)", "surety-lab(1)"],
        documents: &["docs/validation.md", "docs/simulator.md"],
    },
    Row {
        verb: "workload",
        examples: &[(
            "A file of rt-app as one of ours",
            "surety workload convert load.json --output load.toml",
        )],
        see: &["surety-workload-convert(1)", "surety-run(1)"],
        documents: &["docs/formats/rt-app.md", "docs/formats/workload.md"],
    },
    Row {
        verb: "workload convert",
        examples: &[
            ("See what a file of rt-app becomes", "surety workload convert load.json"),
            ("Keep it", "surety workload convert load.json --output load.toml"),
            (
                "Tasks of PARTSim on their system",
                "surety workload convert taskset.yml --platform-file system.yml",
            ),
        ],
        see: &["surety-run(1)", "rt-app(1)"],
        documents: &[
            "docs/formats/rt-app.md",
            "docs/formats/rtdag.md",
            "docs/formats/partsim.md",
            "docs/formats/workload.md",
        ],
    },
    Row {
        verb: "report",
        examples: &[
            ("Results as a page", "surety report results.json --html page.html"),
            (
                "A gate on results of another program",
                "surety report cyclictest.json --expect 'p99.9 < 50us' --junit gates.xml",
            ),
        ],
        see: &["surety-compare(1)", "surety-run(1)"],
        documents: &["docs/formats/import.md", "docs/expectations.md"],
    },
    Row {
        verb: "doctor",
        examples: &[("What this machine can and cannot do", "surety doctor")],
        see: &["surety-guarantee(1)", "sched(7)"],
        documents: &["docs/reservations.md"],
    },
    Row {
        verb: "completions",
        examples: &[(
            "For bash, for oneself",
            "surety completions bash > ~/.local/share/bash-completion/completions/surety",
        )],
        see: &["bash(1)", "zsh(1)", "fish(1)"],
        documents: &["docs/manual.md"],
    },
    Row {
        verb: "man",
        examples: &[
            ("A page without installing it", "surety man trace record | man -l -"),
            ("All pages", "surety man --output /usr/local/share/man/man1"),
        ],
        see: &["man(1)"],
        documents: &["docs/manual.md"],
    },
];

#[cfg(test)]
pub fn rows() -> &'static [Row] {
    ROWS
}
