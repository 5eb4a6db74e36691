//! [`Golden`]: a scenario with what came of it, to be run again: `surety lab record` writes it, `surety lab check` reads
//! it.
//!
//! Samples are the same bit for bit only where kernel, emulator, and the program with its libraries are the same. The file
//! names them. Where the emulator or the program differ, stored samples say nothing about a kernel any more; two kernels
//! are then compared in one sitting.

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::job::Job;
use crate::lab::{Build, Lab};
use crate::machine::GuestMachine;
use crate::samples::{Series, hash_of};
use crate::vm::{LabOptions, Mode};

/// The schema's name and version.
pub const GOLDEN_SCHEMA: &str = "surety.lab/3";

/// A scenario and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Golden {
    /// [`GOLDEN_SCHEMA`].
    pub schema: String,
    /// The kernel's name in the catalogue.
    pub kernel: String,
    /// What the result stands on.
    pub build: Build,
    /// What was done.
    pub job: Job,
    /// Virtual CPUs of the guest.
    pub cpus: u32,
    pub memory_mib: u64,
    /// What its CPUs share, and how its timers expire.
    #[serde(default, skip_serializing_if = "GuestMachine::is_as_ever")]
    pub machine: GuestMachine,
    /// The logarithm of an instruction's ns.
    pub shift: u32,
    /// What the emulator drew from.
    pub seed: u64,
    /// Modules that were loaded.
    pub modules: Vec<String>,
    /// The hash of the samples, 16 hexadecimal digits.
    pub hash: String,
    pub samples: Vec<Series>,
}

impl Golden {
    /// Of a deterministic run.
    ///
    /// # Errors
    /// [`LabError::Options`] for a run in another mode, or whose console is kept.
    pub fn of(lab: &Lab<'_>, job: &Job, samples: Vec<Series>) -> Result<Golden, LabError> {
        let options = lab.options();
        if options.console.is_some() {
            return Err(LabError::Options {
                what: "a kernel that talks does other things than one that is to be quiet".to_owned(),
                help: "leave --lab-console away".to_owned(),
            });
        }
        let Mode::Deterministic { shift } = options.mode else {
            return Err(LabError::Options {
                what: "a run in the fast mode is different every time".to_owned(),
                help: "leave --lab-fast away".to_owned(),
            });
        };
        Ok(Golden {
            schema: GOLDEN_SCHEMA.to_owned(),
            kernel: lab.stored().name().to_owned(),
            build: lab.build().clone(),
            job: job.clone(),
            cpus: options.cpus,
            memory_mib: options.memory_mib,
            machine: options.machine.clone(),
            shift,
            seed: options.seed,
            modules: options.modules.clone(),
            hash: format!("{:016x}", hash_of(&samples)),
            samples,
        })
    }

    /// From a file's text.
    ///
    /// # Errors
    /// In words: no JSON, another document, samples that are not what the hash says.
    pub fn read(text: &str) -> Result<Golden, String> {
        let golden: Golden = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if golden.schema != GOLDEN_SCHEMA {
            return Err(format!("its schema is `{}`, expected `{GOLDEN_SCHEMA}`", golden.schema));
        }
        if let Job::Workload { runs, .. } = &golden.job {
            let [run] = &runs[..] else {
                return Err(format!("its job has {} runs, expected one", runs.len()));
            };
            if !run.duration.is_positive() || run.warm_up.is_negative() {
                return Err("its job takes no time".to_owned());
            }
        }
        if format!("{:016x}", hash_of(&golden.samples)) != golden.hash {
            return Err("its samples are not those of its hash: it was changed".to_owned());
        }
        Ok(golden)
    }

    /// As a file's text.
    pub fn write(&self) -> String {
        // A structure of texts and numbers has a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// What a guest is given to do the same again.
    pub fn options(&self) -> LabOptions {
        LabOptions {
            cpus: self.cpus,
            memory_mib: self.memory_mib,
            machine: self.machine.clone(),
            mode: Mode::Deterministic { shift: self.shift },
            seed: self.seed,
            modules: self.modules.clone(),
            ..LabOptions::default()
        }
    }

    /// Why stored samples cannot be compared with those of another build; nothing where they can. A different kernel is
    /// what is to be compared, and no reason.
    pub fn objections(&self, build: &Build) -> Vec<String> {
        let mut objections = Vec::new();
        if self.build.emulator != build.emulator {
            objections.push(format!("it was made by {}, here is {}", self.build.emulator, build.emulator));
        }
        if self.build.program != build.program {
            objections.push("it was made by another build of surety, or of its libraries".to_owned());
        }
        objections
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Probe;
    use surety_units::Nanos;

    fn golden() -> Golden {
        let samples = vec![Series { name: "cpu0".to_owned(), latency_ns: vec![1, 2, 3] }];
        let build = Build {
            kernel: "k".to_owned(),
            package: "p 1".to_owned(),
            emulator: "e 1".to_owned(),
            program: "s".to_owned(),
        };
        Golden {
            schema: GOLDEN_SCHEMA.to_owned(),
            kernel: "6.12".to_owned(),
            build,
            job: Job::Latency {
                probe: Probe {
                    cpus: None,
                    period: Nanos::MILLISECOND,
                    relative: false,
                    policy: "fifo:80".to_owned(),
                    jobs: 3,
                    warm_up: Nanos::ZERO,
                    seed: 1,
                    loads: String::new(),
                },
            },
            cpus: 1,
            memory_mib: 512,
            machine: GuestMachine::default(),
            shift: 0,
            seed: 1,
            modules: Vec::new(),
            hash: format!("{:016x}", hash_of(&samples)),
            samples,
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_not_when_changed() {
        let golden = golden();
        assert_eq!(Golden::read(&golden.write()).unwrap(), golden);
        let changed = golden.write().replacen("3\n", "4\n", 1);
        assert_ne!(changed, golden.write());
        assert!(Golden::read(&changed).unwrap_err().contains("it was changed"));
        let other = golden.write().replace("surety.lab/3", "surety.lab/9");
        assert!(Golden::read(&other).unwrap_err().contains("expected"));
    }

    #[test]
    fn another_emulator_or_program_is_an_objection_and_another_kernel_is_none() {
        let golden = golden();
        assert!(golden.objections(&Build { kernel: "other".to_owned(), ..golden.build.clone() }).is_empty());
        assert_eq!(golden.objections(&Build { emulator: "e 2".to_owned(), ..golden.build.clone() }).len(), 1);
        assert_eq!(golden.objections(&Build { program: "t".to_owned(), ..golden.build.clone() }).len(), 1);
    }
}
