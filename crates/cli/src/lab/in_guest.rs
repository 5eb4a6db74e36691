//! What this program does as the first process of a guest: the job, in the host world of the guest's kernel.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use surety_host::interpacket::InterpacketProbe;
use surety_host::latency::LatencyProbe;
use surety_host::request_cost::RequestCostProbe;
use surety_host::{Equipment, Hardware, HostWorld, at_place};
use surety_kernel::journal::{Journal, RuntimeDir};
use surety_kernel::{Kernel, RealKernel, boot, cpu_group, partition};
use surety_lab::devices::Device;
use surety_lab::guest::{self, Channel};
use surety_lab::job::{Job, Probe, Refusal, Run};
use surety_lab::machine::GuestMachine;
use surety_lab::samples::{Series, WakeUps};
use surety_lab::shown::Shown;
use surety_model::event::{Event, TraceSink};
use surety_model::record::Record;
use surety_model::world::{Cancel, Observer, RunOptions, Unobserved, World};
use surety_report::{Report, Row};
use surety_session::modelled::ModelledDisks;
use surety_session::probe::options_of;
use surety_units::{CpuId, Nanos};

use crate::args::{Packing, Storing};
use crate::exit::Failure;
use crate::trace::output::TraceOutput;

/// Where a trace waits until it is sent.
const TRACE: &str = "/tmp/trace.dat";

/// Does the guest's work, where this process is the first of a guest.
pub fn guest() -> Option<ExitCode> {
    guest::is_guest().then(|| guest::main(work))
}

fn work(job: &Job, number: usize, channel: &mut Channel) -> Result<(), Refusal> {
    match job {
        Job::Workload { runs, devices, outside, partitioned, machine } => {
            let run = runs.get(number).ok_or_else(|| Refusal::machine("the job has no such run"))?;
            if *partitioned && number == 0 {
                let kernel = RealKernel::new();
                let failed = |e: surety_kernel::KernelError| Refusal::machine(e.to_string());
                partition::each_cpu(&kernel, kernel.online_cpus().map_err(failed)?).map_err(failed)?;
            }
            let shown = shown(machine)?;
            workload(run, devices, (*outside, *partitioned), shown, channel)
        }
        Job::Latency { probe } => latency(probe, channel),
        Job::Packets { interval, duration, warm_up, seed, devices } => {
            let cancel = Cancel::default();
            let options = RunOptions {
                seed: *seed,
                duration: *duration,
                warm_up: *warm_up,
                cpus: None,
                cancel,
                ..RunOptions::default()
            };
            packets(*interval, &options, devices, channel)
        }
        Job::Requests { schedulers, seed } => requests(schedulers, *seed, channel),
        Job::Shell => Ok(()),
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal::machine(failure.to_string())
    }
}

fn workload(
    run: &Run,
    devices: &[Device],
    (outside, partitioned): (Option<u32>, bool),
    shown: Shown,
    channel: &mut Channel,
) -> Result<(), Refusal> {
    let Run { seed, duration, warm_up, cpus, trace, untraced, files, .. } = run;
    let workload = run.workload().map_err(|e| Refusal::machine(e.to_string()))?;
    let cpus = cpus.as_deref().map(str::parse).transpose();
    let options = RunOptions {
        seed: *seed,
        duration: *duration,
        warm_up: *warm_up,
        cpus: cpus.map_err(|e: surety_units::QuantityError| Refusal::machine(e.to_string()))?,
        cancel: Cancel::default(),
        files: Arc::new(files.clone()),
    };
    let storing = Storing { file_version: None, compression: Some(Packing::None) };
    let output = trace.then(|| TraceOutput::create(Path::new(TRACE), &storing, Vec::new())).transpose()?;
    let wake_ups = WakeUps::of(workload.tasks.iter().map(|t| t.name.as_str()));
    let mut seen = Seen { channel, wake_ups, window: None, output };
    let kernel = RealKernel::new();
    // Threads of the kernel, and settings of disks, are changed under it, as on any machine.
    let has_groups = !workload.groups.is_empty();
    if has_groups {
        cpu_group::mount_where_there_is_none(&kernel).map_err(|e| Refusal::machine(e.to_string()))?;
    }
    let has_nothing = devices.is_empty() && workload.disks.is_empty() && !has_groups;
    let journal = if has_nothing { None } else { Some(journal(&kernel)?) };
    let world = HostWorld::new(&kernel, journal.as_ref())
        .equipped(&equipment_of(devices)?)
        .emulating(&ModelledDisks::GUEST)
        .with_outside(outside.map(CpuId));
    let world = if partitioned { world.partitioned() } else { world };
    let world = if *untraced { world.untraced() } else { world };
    let set_features = || shown.set_features(&kernel);
    let world = world.changed(&set_features);
    let mut record = world.run(&workload, &options, &mut seen)?;
    shown.note(&mut record);
    let Seen { channel, wake_ups, window, output } = seen;
    channel.result(&document(&record), &wake_ups.finish())?;
    if let Some(output) = output {
        window.into_iter().for_each(|window| channel.observed(window));
        output.finish("mono")?;
        channel.trace(Path::new(TRACE))?;
        // It is memory of the guest's, which the next run may need.
        let _ = std::fs::remove_file(TRACE);
    }
    Ok(())
}

/// What this kernel says of its machine, which is to be as it was asked for.
fn shown(machine: &GuestMachine) -> Result<Shown, Refusal> {
    let kernel = RealKernel::new();
    let debugfs = Path::new("/sys/kernel/debug");
    let asks_there = machine.topology.is_some() || !machine.features.is_empty();
    if asks_there && !kernel.exists(&debugfs.join("sched")) {
        boot::mount("debugfs", debugfs).map_err(|e| Refusal::machine(e.to_string()))?;
    }
    Shown::of(&kernel, machine).map_err(|why| Refusal::Machine {
        object: None,
        what: format!("the machine is not as asked for: {why}"),
        remedy: "leave out what it cannot be given with --platform".to_owned(),
    })
}

/// A journal of the guest's, in its memory.
fn journal(kernel: &RealKernel) -> Result<Journal, Refusal> {
    let refused = |e: surety_kernel::journal::JournalError| Refusal::machine(e.to_string());
    let directory = RuntimeDir::find().map_err(refused)?;
    Journal::open(kernel, &directory).map_err(refused)
}

/// What stands at the places of the devices.
fn equipment_of(devices: &[Device]) -> Result<Equipment, Refusal> {
    let of = |(number, device): (usize, &Device)| {
        let places = device.places(number);
        let find = |class, place: &str| at_place(class, place).map_err(Refusal::machine);
        let hardware = match places.second {
            None => {
                let block = usize::try_from(device.block).unwrap_or(usize::MAX);
                Hardware::Disk { name: find("block", &places.first)?, block }
            }
            Some(second) => Hardware::Cards {
                near: find("net", &places.first)?,
                far: find("net", &second)?,
                softirqs: device.softirqs,
                metronome: places.third.map(|place| find("net", &place)).transpose()?,
            },
        };
        Ok((device.role.clone(), hardware))
    };
    devices.iter().enumerate().map(of).collect()
}

fn packets(
    interval: Nanos,
    options: &RunOptions,
    devices: &[Device],
    channel: &mut Channel,
) -> Result<(), Refusal> {
    let found = equipment_of(devices)?.into_values().next();
    let Some(Hardware::Cards { near, far, .. }) = found else {
        return Err(Refusal::machine("packets go between two cards, and the guest has none"));
    };
    let kernel = RealKernel::new();
    let probe = InterpacketProbe::new(&kernel, None).on_cards(near, far);
    let record = probe.run(interval, options, &mut Unobserved)?;
    channel.result(&document(&record), &[])
}

fn requests(schedulers: &[String], seed: u64, channel: &mut Channel) -> Result<(), Refusal> {
    let kernel = RealKernel::new();
    let journal = journal(&kernel)?;
    let options = RunOptions { seed, ..RunOptions::default() };
    let probe = RequestCostProbe::new(&kernel, Some(&journal)).on_null();
    channel.result(&document(&probe.run(schedulers, &options)?), &[])
}

fn latency(probe: &Probe, channel: &mut Channel) -> Result<(), Refusal> {
    let options = options_of(probe, Cancel::default()).map_err(|e| Refusal::machine(e.to_string()))?;
    let run = LatencyProbe::new(&RealKernel::new(), None).run(&options, None)?;
    let series = run.samples.into_iter();
    let series = series.map(|(cpu, latency_ns)| Series { name: format!("cpu{cpu}"), latency_ns });
    channel.result(&document(&run.record), &series.collect::<Vec<_>>())
}

fn document(record: &Record) -> String {
    let rows = [Row::new("lab", record)];
    let report = Report { rows: &rows, all_rows: true, ..Report::default() };
    surety_report::json::record_json(&report).to_string()
}

/// Watches the run for the host.
struct Seen<'c> {
    channel: &'c mut Channel,
    wake_ups: WakeUps,
    /// Sent after the run, so that sending takes none of its time.
    window: Option<(Nanos, Nanos)>,
    output: Option<TraceOutput>,
}

impl Observer for Seen<'_> {
    fn progress(&mut self, done: Nanos, total: Nanos) {
        self.channel.progress(done, total);
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.window = Some(window);
    }

    fn notice(&mut self, text: &str) {
        self.channel.notice(text);
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        self.wake_ups.event(event);
        if let Some(output) = &mut self.output {
            output.event(event);
        }
    }
}
