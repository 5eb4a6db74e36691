//! This simulator and PARTSim (<https://github.com/gabrieleara/PARTSim>) by wall time of the same sets of tasks.
//!
//! A set has 10, 100 or 1000 periodic tasks on 1 or 4 CPUs: global EDF, each task in a constant-bandwidth server whose budget is
//! its work and an eighth more; four fifths of the CPUs are used. Both files are written from the same numbers, in whole
//! microseconds. `PARTSIM` and `SURETY` name the two programs, which are timed as a whole, start and reading included (`partsim`,
//! `surety`); `ours` is reading the workload and a run with its record, without a program. None makes a trace.

use std::env;
use std::fmt::{Display, Formatter, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use divan::Bencher;
use surety_model::formats::toml;
use surety_model::platform::{Enforcement, Platform};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_stats::random::Pcg;
use surety_units::Nanos;

/// Seconds that both simulate.
const SECONDS: i64 = 10;

const SETS: [Set; 6] = [
    Set { tasks: 10, cpus: 1 },
    Set { tasks: 100, cpus: 1 },
    Set { tasks: 1_000, cpus: 1 },
    Set { tasks: 10, cpus: 4 },
    Set { tasks: 100, cpus: 4 },
    Set { tasks: 1_000, cpus: 4 },
];

#[derive(Clone, Copy)]
struct Set {
    tasks: u32,
    cpus: u32,
}

impl Display for Set {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks, {} CPU{}", self.tasks, self.cpus, if self.cpus == 1 { "" } else { "s" })
    }
}

impl Set {
    /// Period, work and budget of each task, us.
    fn drawn(self) -> Vec<(u64, u64, u64)> {
        let mut chance = Pcg::new(11, u128::from(self.tasks));
        let drawn = |_| {
            let period = 20_000 + chance.below(180_000);
            let work = (period * u64::from(self.cpus) * 4 / 5 / u64::from(self.tasks)).max(8);
            (period, work, work + work / 8)
        };
        (0..self.tasks).map(drawn).collect()
    }

    fn workload(self) -> String {
        let mut text = "format = 1\n".to_owned();
        for (place, (period, work, budget)) in self.drawn().into_iter().enumerate() {
            write!(
                text,
                "[[task]]\nname = \"t{place}\"\nperiod = \"{period}us\"\nwork = \"{work}us\"\nlate = \"queue\"\n\
                 reservation = {{ runtime = \"{budget}us\", period = \"{period}us\" }}\n"
            )
            .expect("a string takes all");
        }
        text
    }

    /// PARTSim's two files: a machine, and the tasks.
    fn files(self) -> (String, String) {
        let mut system = format!(
            "cpu_islands:\n  - name: all\n    numcpus: {}\n    kernel:\n      scheduler: edf\n      task_placement: global\n    \
             volts: [1]\n    freqs: [1000]\n    base_freq: 1000\n    power_model: flat\n    speed_model: flat\n\
             power_models:\n  - name: flat\n    type: balsini_pannocchi\n    params:\n",
            self.cpus
        );
        for workload in ["idle", "busy"] {
            write!(
                system,
                "      - workload: {workload}\n        power_params: [1, 0, 0, 0]\n        speed_params: [1, 0, 0, 0]\n"
            )
            .expect("a string takes all");
        }
        let mut tasks = "taskset:\n".to_owned();
        for (place, (period, work, budget)) in self.drawn().into_iter().enumerate() {
            write!(
                tasks,
                "  - name: t{place}\n    iat: {period}\n    runtime: {budget}\n    startcpu: {}\n    code:\n      \
                 - fixed({work},busy)\n",
                place % self.cpus as usize
            )
            .expect("a string takes all");
        }
        tasks.push_str("resources: []\n");
        (system, tasks)
    }
}

/// Says how to have the programs timed, where they are not.
pub fn announce() {
    if program("PARTSIM").is_none() {
        println!(
            "PARTSim is not timed: clone https://github.com/gabrieleara/PARTSim, build it as its README says, and name \
             build/rtsim/rtsim in PARTSIM."
        );
    }
    if program("SURETY").is_none() {
        println!(
            "surety is not timed as a program: build it (make build) and name target/release/surety in SURETY."
        );
    }
}

fn program(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|program| program.is_file())
}

/// Times a program on files written for it.
fn time(bencher: Bencher<'_, '_>, program: &Path, files: &[(&str, String)], arguments: &[&str]) {
    let directory = env::temp_dir().join(format!("growth-{}", process::id()));
    fs::create_dir_all(&directory).expect("a directory for its files");
    for (name, text) in files {
        fs::write(directory.join(name), text).expect("its files");
    }
    bencher.bench(|| {
        let mut command = Command::new(program);
        let command =
            command.args(arguments).current_dir(&directory).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = command.status().expect("it starts");
        assert!(ended.success(), "{} ended with {ended}", program.display());
    });
    fs::remove_dir_all(directory).expect("its directory goes");
}

#[divan::bench(args = SETS, sample_count = 5, sample_size = 1)]
fn ours(bencher: Bencher<'_, '_>, set: Set) {
    let text = set.workload();
    let platform =
        Platform { enforcement: Enforcement::Exact, fair_server: None, ..Platform::linux_6_18(set.cpus) };
    let world = SimWorld::new(platform);
    let options =
        RunOptions { duration: Nanos::from_secs(SECONDS), warm_up: Nanos::ZERO, ..RunOptions::default() };
    bencher.bench(|| {
        let workload = toml::read("set.toml", divan::black_box(&text)).expect("a workload");
        world.run(&workload, &options, &mut Unobserved).expect("a run")
    });
}

#[divan::bench(args = SETS, sample_count = 5, sample_size = 1)]
fn surety(bencher: Bencher<'_, '_>, set: Set) {
    let Some(program) = program("SURETY") else { return };
    let platform = format!("cpus={},enforcement=exact,fair-server=off", set.cpus);
    let window = [format!("{SECONDS}s"), "0s".to_owned()];
    let arguments = [
        "run",
        "set.toml",
        "--on",
        "sim",
        "--platform",
        &platform,
        "--for",
        &window[0],
        "--warm-up",
        &window[1],
    ];
    time(bencher, &program, &[("set.toml", set.workload())], &arguments);
}

#[divan::bench(args = SETS, sample_count = 5, sample_size = 1)]
fn partsim(bencher: Bencher<'_, '_>, set: Set) {
    let Some(program) = program("PARTSIM") else { return };
    let (system, tasks) = set.files();
    let end = (SECONDS * 1_000_000).to_string();
    let arguments = ["system.yml", "taskset.yml", &end];
    time(bencher, &program, &[("system.yml", system), ("taskset.yml", tasks)], &arguments);
}
