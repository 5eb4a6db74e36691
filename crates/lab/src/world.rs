//! [`LabWorld`]: the world `lab:KERNEL`.

use surety_model::event::{Event, TraceSink};
use surety_model::formats::record;
use surety_model::record::Record;
use surety_model::workload::{LoadRow, TaskBody, Workload};
use surety_model::world::{
    LAB_PREFIX, Observer, RunOptions, World, WorldError, refused_kinds, refused_loads,
};
use surety_units::Nanos;

use crate::boots::{Recorded, boots};
use crate::digest::hash64;
use crate::disks;
use crate::error::LabError;
use crate::job::{Job, Product};
use crate::lab::Lab;
use crate::samples::hash_of;
use crate::vm::LabOptions;

/// A kernel of the lab as a place to run workloads in.
pub struct LabWorld<'a> {
    lab: Lab<'a>,
    untraced: bool,
}

impl<'a> LabWorld<'a> {
    /// The world of a kernel.
    pub fn new(lab: Lab<'a>) -> LabWorld<'a> {
        LabWorld { lab, untraced: false }
    }

    /// The same world, with nothing recorded of what the guest's scheduler does.
    pub fn untraced(self) -> LabWorld<'a> {
        LabWorld { untraced: true, ..self }
    }

    /// Whether a guest could run a workload at all.
    ///
    /// # Errors
    /// [`WorldError::Unsupported`] for the first object no guest has.
    pub fn check(workload: &Workload) -> Result<(), WorldError> {
        check_supported(workload, "lab")
    }

    /// The job of one run of a workload in a guest of some kind.
    ///
    /// # Errors
    /// [`LabError::Options`] for devices that cannot be.
    pub fn job(
        workload: &Workload,
        guest: &LabOptions,
        options: &RunOptions,
        trace: bool,
    ) -> Result<Job, LabError> {
        let recorded = Recorded { trace, untraced: false };
        let (mut boots, mut refused) = boots(&[(0, workload, options)], guest, recorded);
        // One run gives the one or the other.
        match refused.pop() {
            Some((_, error)) => Err(error),
            None => Ok(boots.remove(0).job),
        }
    }

    /// The record of a product of a job; its events go to the observer.
    fn recorded(
        &self,
        product: &Product,
        job: &Job,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        if !product.trace.is_empty() {
            let unreadable = |why: &dyn std::fmt::Display| WorldError::Machine {
                what: format!("the trace that the guest sent cannot be read: {why}"),
                remedy: "run it without a trace".to_owned(),
            };
            let trace = surety_trace::open(product.trace.clone());
            let mut trace = trace.map_err(|e| unreadable(&e))?;
            product.window.iter().for_each(|window| observer.observes(*window));
            trace.read(&mut ToObserver(observer)).map_err(|e| unreadable(&e))?;
        }
        let mut record = record_of(product, &self.lab)?;
        let programs = self.lab.programs_in_words(job)?.map(|words| ("lab programs".to_owned(), words));
        let words = job.words_of_kernel().map(|words| ("lab command line".to_owned(), words.to_owned()));
        record.in_force.environment.extend(programs.into_iter().chain(words));
        Ok(record)
    }
}

impl LabWorld<'_> {
    /// What no guest can run, or none that is divided as this one.
    fn check_here(&self, workload: &Workload) -> Result<(), WorldError> {
        check_supported(workload, &self.name())?;
        match workload.groups.first().filter(|_| self.lab.options().partitioned) {
            None => Ok(()),
            Some(group) => Err(WorldError::Unsupported {
                world: self.name(),
                object: format!("group.{}", group.name),
                why:
                    "with --lab-partition threads are in the control groups of their CPUs; leave one of the two out"
                        .to_owned(),
            }),
        }
    }
}

impl World for LabWorld<'_> {
    fn name(&self) -> String {
        format!("{LAB_PREFIX}{}", self.lab.stored().name())
    }

    fn objections(&self, workload: &Workload) -> Vec<WorldError> {
        self.check_here(workload).err().into_iter().collect()
    }

    fn run(
        &self,
        workload: &Workload,
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Record, WorldError> {
        let made = self.run_each(&[(workload.clone(), options.clone())], observer).into_iter().next();
        made.unwrap_or(Err(WorldError::Interrupted))
    }

    /// Boots one guest for all runs that can share it ([`boots`]). All of them are made on the lab's own seed: a run's own
    /// decides what its workload draws. One that ends the guest ends those behind it in the same guest.
    fn run_each(
        &self,
        runs: &[(Workload, RunOptions)],
        observer: &mut dyn Observer,
    ) -> Vec<Result<Record, WorldError>> {
        let mut made: Vec<_> = runs.iter().map(|_| Err(WorldError::Interrupted)).collect();
        let mut possible = Vec::new();
        for (number, (workload, options)) in runs.iter().enumerate() {
            let on_cpus = || options.cpus.map_or(Ok(()), |cpus| self.lab.options().check_cpus(cpus));
            let is_possible = self
                .check_here(workload)
                .and_then(|()| disks::check(workload, &options.files, &self.name()))
                .and_then(|()| on_cpus().map_err(WorldError::from));
            match is_possible {
                Ok(()) => possible.push((number, workload, options)),
                Err(error) => made[number] = Err(error),
            }
        }
        let recorded = Recorded { trace: observer.wants_events(), untraced: self.untraced };
        let (boots, refused) = boots(&possible, self.lab.options(), recorded);
        for (number, error) in refused {
            // What is asked for and cannot be is the asker's to mend, not the machine's.
            made[number] = Err(WorldError::Unsupported {
                world: self.name(),
                object: "--lab-device".to_owned(),
                why: match error.remedy() {
                    Some(remedy) => format!("{error}; {remedy}"),
                    None => error.to_string(),
                },
            });
        }
        for boot in boots {
            let mut observer = OfBoot { observer, numbers: &boot.numbers };
            let take =
                |product: Product, observer: &mut dyn Observer| self.recorded(&product, &boot.job, observer);
            let of_boot = self.lab.run_each(&boot.job, &boot.cancel, &mut observer, take);
            for (number, record) in boot.numbers.iter().zip(of_boot) {
                made[*number] = record;
            }
        }
        made
    }
}

/// Tells an observer of all runs about those of one boot, which has numbers of its own for them.
struct OfBoot<'a> {
    observer: &'a mut dyn Observer,
    numbers: &'a [usize],
}

impl Observer for OfBoot<'_> {
    fn progress(&mut self, done: Nanos, total: Nanos) {
        self.observer.progress(done, total);
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.observer.observes(window);
    }

    fn notice(&mut self, text: &str) {
        self.observer.notice(text);
    }

    fn wants_run(&mut self, number: usize) -> bool {
        self.numbers.get(number).is_some_and(|number| self.observer.wants_run(*number))
    }

    fn wants_events(&self) -> bool {
        self.observer.wants_events()
    }

    fn event(&mut self, event: &Event<'_>) {
        self.observer.event(event);
    }
}

/// The record of a product: the guest's, with the lab's part of what was in force, and a hash of every value in it.
///
/// # Errors
/// [`WorldError::Machine`] for a document that is no record.
pub fn record_of(product: &Product, lab: &Lab<'_>) -> Result<Record, WorldError> {
    let unreadable = |why: String| WorldError::Machine {
        what: format!("the record that the guest sent cannot be read: {why}"),
        remedy: "keep what the guest said with --lab-console FILE".to_owned(),
    };
    let file = record::read(&product.document).map_err(|e| unreadable(e.to_string()))?;
    let labelled = file.results.into_iter().next().ok_or_else(|| unreadable("it is empty".to_owned()))?;
    let mut record = labelled.record;
    record.world = format!("{LAB_PREFIX}{}", lab.stored().name());
    // Nothing is taken for equal that differs in anything the guest said.
    record.hash = Some(hash64(&[product.document.as_bytes(), &hash_of(&product.samples).to_le_bytes()]));
    let build = lab.build();
    let facts = [
        ("lab kernel", build.package.clone()),
        ("lab emulator", build.emulator.clone()),
        ("lab clock", lab.options().clock_in_words()),
        ("lab machine", lab.options().machine_in_words()),
        ("lab program", build.program[..16].to_owned()),
    ];
    let environment = &mut record.in_force.environment;
    environment.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    Ok(record)
}

struct ToObserver<'a>(&'a mut dyn Observer);

impl TraceSink for ToObserver<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.0.event(event);
    }
}

/// What no guest can run, said before one is booted.
fn check_supported(workload: &Workload, world: &str) -> Result<(), WorldError> {
    let refused = |object: String, why: &str| {
        Err(WorldError::Unsupported { world: world.to_owned(), object, why: why.to_owned() })
    };
    for task in &workload.tasks {
        let why = match &task.body {
            TaskBody::Command(_) => "the guest has no programs; give the task `work`",
            TaskBody::Match(_) => "a thread of this machine is not in the guest; give the task `work`",
            _ => continue,
        };
        return refused(format!("task.{}", task.name), why);
    }
    if let Some((object, why)) = disks::unsupported(workload) {
        return refused(object, why);
    }
    let say = |_: &LoadRow, why: &str| why.to_owned();
    if let Some(refused) = refused_loads(world, workload, |row| row.guest, say).into_iter().next() {
        return Err(refused);
    }
    if let Some(refused) = refused_kinds(world, workload, |row| row.guest).into_iter().next() {
        return Err(refused);
    }
    match workload.beyond_kernels() {
        Some((object, why)) => refused(object, why),
        None => Ok(()),
    }
}
