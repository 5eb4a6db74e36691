//! [`command`]: the emulator's command line, in the two modes of the lab.
//!
//! *Deterministic*: one host thread runs all virtual CPUs in turns; every instruction takes `2^shift` ns of the virtual
//! clock, which jumps to the next timer when all CPUs are idle (`sleep=off`); the clock of the day is on it too; the
//! addresses of the kernel are not drawn, no random numbers come from the processor, and the emulator's own come from a
//! seed. The guest has a console, whose output goes to a file, and one port that takes the protocol's bytes: the byte is
//! out when the instruction is, without an interrupt. Disks and network cards only where a workload has interrupt sources
//! ([`crate::devices`]).
//!
//! *Fast*: a host thread for each virtual CPU, and the clock of the host. Different every time; to see that something
//! runs at all.

use std::path::Path;
use std::process::Stdio;

use surety_kernel::command::Command;
use surety_model::platform::PlatformChanges;
use surety_units::{CpuId, CpuSet, Nanos};

use crate::devices::Device;
use crate::error::LabError;
use crate::machine::{GuestMachine, SHARING};
use crate::packages::Packages;
use crate::store::{KERNEL, StoredKernel};
use crate::turns::Turns;

/// The emulator.
pub const EMULATOR: &str = "qemu-system-x86_64";
/// The package that brings it.
pub const EMULATOR_PACKAGE: &str = "qemu-system-x86";
/// The port that takes the protocol.
pub const PORT: u16 = 0xe9;
/// The processor: the emulator's own, without `cmpxchg16b`. QEMU 7.2 leaves flags behind it that were never set; when an
/// interrupt comes at just the next instruction, the kernel cannot return from it and dies of a double fault. Which boots meet
/// that depends on every instruction before; the kernel has another way where the processor has none.
const PROCESSOR: &str = "qemu64";
const WITHOUT: &str = "-cx16";
/// The most virtual CPUs.
pub const CPUS_MAX: u32 = 8;
/// With less memory than this no kernel of the catalogue says anything at all.
pub const MEMORY_MIN_MIB: u64 = 48;
/// With more the emulator's machine would need another layout.
pub const MEMORY_MAX_MIB: u64 = 3072;
/// With instructions of more than `2^6` ns a guest is busy with its own ticks alone.
pub const SHIFT_MAX: u32 = 6;

/// Which clock the guest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An instruction takes `2^shift` ns.
    Deterministic {
        /// Its logarithm.
        shift: u32,
    },
    /// The clock of the host.
    Fast,
}

impl Default for Mode {
    /// One instruction a nanosecond: the guest is as fast as it can be, so that interrupts take microseconds of it.
    fn default() -> Mode {
        Mode::Deterministic { shift: 0 }
    }
}

/// What a guest is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabOptions {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Whether each of them is a root domain of its own, so that the kernel admits reservations for threads bound to one.
    pub partitioned: bool,
    pub memory_mib: u64,
    /// What its CPUs share, and how its timers expire.
    pub machine: GuestMachine,
    /// Its clock.
    pub mode: Mode,
    /// What the emulator draws from.
    pub seed: u64,
    /// How long it may take on the host's clock; `None`: by how long the job is.
    pub within: Option<Nanos>,
    /// Devices for interrupt sources of the workload, where they are not those it has by itself.
    pub devices: Vec<Device>,
    /// Modules to load, `null_blk:queue_mode=2`.
    pub modules: Vec<String>,
    /// Where the console's output is kept.
    pub console: Option<std::path::PathBuf>,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            cpus: 1,
            partitioned: false,
            memory_mib: 512,
            machine: GuestMachine::default(),
            mode: Mode::default(),
            seed: 1,
            within: None,
            devices: Vec::new(),
            modules: Vec::new(),
            console: None,
        }
    }
}

impl LabOptions {
    /// Whether such a machine can be.
    ///
    /// # Errors
    /// [`LabError::Options`].
    pub fn check(&self) -> Result<(), LabError> {
        let wrong = |what: String, help: String| Err(LabError::Options { what, help });
        if !(1..=CPUS_MAX).contains(&self.cpus) {
            return wrong(format!("{} virtual CPUs", self.cpus), format!("1 to {CPUS_MAX} are possible"));
        }
        if !(MEMORY_MIN_MIB..=MEMORY_MAX_MIB).contains(&self.memory_mib) {
            let help = format!("{MEMORY_MIN_MIB} MiB to {MEMORY_MAX_MIB} MiB are possible");
            return wrong(format!("a guest with {} MiB of memory", self.memory_mib), help);
        }
        match self.mode {
            Mode::Deterministic { shift } if shift > SHIFT_MAX => {
                wrong(format!("a shift of {shift}"), format!("0 to {SHIFT_MAX} are possible"))
            }
            _ => self.machine.check(self.cpus, self.memory_mib, self.partitioned),
        }
    }

    /// A guest with what `--platform` says.
    ///
    /// # Errors
    /// A key, or a value, that no guest can be given, and what it can.
    pub fn with(&self, changes: &PlatformChanges) -> Result<LabOptions, String> {
        let mut guest = self.clone();
        for (word, value) in changes.said() {
            if word != "cpus" {
                guest.machine.take(word, value)?;
                continue;
            }
            let cpus = value.parse().ok().filter(|cpus| (1..=CPUS_MAX).contains(cpus));
            let cpus = cpus.ok_or_else(|| format!("a guest has 1 to {CPUS_MAX} CPUs"))?;
            if self.cpus != 1 && self.cpus != cpus {
                return Err(format!("--lab-cpus {} and cpus={cpus} are two machines", self.cpus));
            }
            guest.cpus = cpus;
        }
        Ok(guest)
    }

    /// Whether a run can be on these CPUs.
    ///
    /// # Errors
    /// [`LabError::Options`].
    pub fn check_cpus(&self, cpus: CpuSet) -> Result<(), LabError> {
        let all = CpuSet::first(self.cpus);
        if cpus.is_subset(&all) {
            return Ok(());
        }
        Err(LabError::Options {
            what: format!("CPUs {cpus} are not all there: the guest has {}", all.in_words()),
            help: format!("choose among those with --cpus, or give it up to {CPUS_MAX} with --lab-cpus"),
        })
    }

    /// Whether its memory can hold what it starts with, `archive` bytes, and what its loads work on. Both are there at once: the
    /// archive and what is unpacked of it while it boots, that and the loads' bytes in a run. The kernel needs more.
    ///
    /// # Errors
    /// [`LabError::Options`] where that cannot be; where it can the guest may still run out of memory.
    pub fn check_memory(&self, archive: u64, loads: u128) -> Result<(), LabError> {
        let archive = u128::from(archive);
        let needed = (archive + loads.max(archive)).div_ceil(1 << 20);
        if needed <= u128::from(self.memory_mib) {
            return Ok(());
        }
        let mib = |bytes: u128| bytes.div_ceil(1 << 20);
        let what = format!(
            "the guest has {} MiB of memory and needs more than {needed} MiB: {} MiB for its programs, {} MiB for what loads work on",
            self.memory_mib,
            mib(archive),
            mib(loads)
        );
        let help = if needed < u128::from(MEMORY_MAX_MIB) {
            format!(
                "give it more with --lab-memory, up to {MEMORY_MAX_MIB}MiB, or make `size` or `count` of its loads smaller"
            )
        } else {
            format!("make `size` or `count` of its loads smaller: {MEMORY_MAX_MIB}MiB are possible")
        };
        Err(LabError::Options { what, help })
    }

    /// Its CPUs, its memory and its modules, in words.
    pub fn machine_in_words(&self) -> String {
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let cpus = cpus + if self.partitioned { ", a root domain each" } else { "" };
        let modules: String = self.modules.iter().map(|module| format!(", {module}")).collect();
        let devices: String =
            self.devices.iter().map(|d| format!(", {}={}", d.role, d.model.word())).collect();
        let console = if self.console.is_some() { ", its console kept" } else { "" };
        format!("{cpus}{}, {} MiB{modules}{devices}{console}", self.machine.in_words(), self.memory_mib)
    }

    /// The clock, in words.
    pub fn clock_in_words(&self) -> String {
        match self.mode {
            Mode::Deterministic { shift } => {
                format!(
                    "virtual: an instruction takes {} ns; these are no times of any hardware",
                    1u32 << shift
                )
            }
            Mode::Fast => "the host's, as the emulator keeps up with it".to_owned(),
        }
    }
}

/// Who talks to the guest's console.
#[derive(Clone, Copy, Debug)]
pub enum Console<'a> {
    /// Nobody: it goes to a file.
    File(&'a Path),
    /// The user, on the terminal.
    Terminal,
}

/// The command that boots a kernel with an initramfs, beside which the files of its disks are, and what its job asks for: devices, and words for the kernel. The protocol comes on its standard output.
pub fn command(
    kernel: &StoredKernel,
    initramfs: &Path,
    options: &LabOptions,
    (devices, asked): (&[Device], Option<&str>),
    console: Console<'_>,
) -> Command {
    let mut command = Command::new(EMULATOR);
    let mut arg = |words: &[&str]| {
        command.args(words);
    };
    match options.mode {
        Mode::Deterministic { shift } => {
            arg(&["-accel", "tcg", "-icount", &format!("shift={shift},sleep=off")]);
            arg(&["-rtc", "clock=vm,base=2020-01-01"]);
        }
        Mode::Fast => arg(&["-accel", "tcg,thread=multi", "-rtc", "base=2020-01-01"]),
    }
    let topology = options.machine.topology;
    let sharing = topology.map_or_else(String::new, |_| format!(",{SHARING}"));
    arg(&["-cpu", &format!("{PROCESSOR},{WITHOUT}{sharing}")]);
    arg(&["-seed", &options.seed.to_string()]);
    let packages = Packages::of(topology, options.cpus);
    let mut processors = match turns(options) {
        None => packages.arguments(),
        Some(turns) => turns.arguments(PROCESSOR, &packages),
    };
    processors.extend(packages.memory(options.memory_mib));
    arg(&["-m", &options.memory_mib.to_string()]);
    arg(&processors.iter().map(String::as_str).collect::<Vec<_>>());
    arg(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    let said = match console {
        Console::File(path) => {
            // A comma would begin the next option.
            let path = path.display().to_string().replace(',', ",,");
            arg(&["-chardev", "stdio,id=said,signal=off"]);
            arg(&["-device", &format!("isa-debugcon,iobase={PORT:#x},chardev=said")]);
            arg(&["-chardev", &format!("file,id=console,path={path}"), "-serial", "chardev:console"]);
            // Who keeps the console wants to read it.
            if options.console.is_some() { "" } else { "quiet" }
        }
        Console::Terminal => {
            arg(&[
                "-chardev",
                "null,id=said",
                "-device",
                &format!("isa-debugcon,iobase={PORT:#x},chardev=said"),
            ]);
            arg(&["-serial", "mon:stdio"]);
            "quiet"
        }
    };
    let room = initramfs.parent().unwrap_or(Path::new("."));
    for (number, device) in devices.iter().enumerate() {
        let words = device.arguments(number, room);
        arg(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let words = words_of_kernel(options, devices, said, asked);
    arg(&["-append", &words]);
    command.arg("-kernel").arg(kernel.path(KERNEL)).arg("-initrd").arg(initramfs);
    command
}

/// How several virtual CPUs take turns.
fn turns(options: &LabOptions) -> Option<Turns> {
    Turns::of(options.cpus, options.mode != Mode::Fast)
}

/// The kernel's command line: what it says on its console, and what its job asks for.
fn words_of_kernel(options: &LabOptions, devices: &[Device], said: &str, asked: Option<&str>) -> String {
    // Without PREEMPT_RT there are threads for interrupts only when they are asked for.
    let threads = if devices.is_empty() { "" } else { " threadirqs" };
    // What a card says by itself would be repeated for ever.
    let only_four = if devices.iter().any(|d| d.every.is_some()) { " ipv6.disable=1" } else { "" };
    // A root domain without the CPU that packets are sent from.
    let alone = outside(devices, options).map_or_else(String::new, |cpu| format!(" isolcpus=domain,{cpu}"));
    let asked = asked.map_or_else(String::new, |words| format!(" {words}"));
    let counted = turns(options).map(Turns::words_of_kernel).unwrap_or_default();
    // Its ciphers would be tested in a thread beside what is measured, for many seconds of a slow clock.
    format!(
        "console=ttyS0 {said} panic=-1 oops=panic random.trust_cpu=off nokaslr rdinit=/init \
         sysctl.vm.panic_on_oom=1 cryptomgr.notests{asked}{threads}{only_four}{alone}{counted}{}",
        options.machine.words_of_kernel()
    )
}

/// The version of the emulator, as it names itself.
///
/// # Errors
/// [`LabError::NoProgram`] without it.
pub fn version() -> Result<String, LabError> {
    let missing =
        || LabError::NoProgram { program: EMULATOR.to_owned(), package: EMULATOR_PACKAGE.to_owned() };
    let output = std::process::Command::new(EMULATOR).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|_| missing())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().unwrap_or_default().trim();
    if !output.status.success() || line.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LabError::Emulator { why });
    }
    Ok(line.to_owned())
}

/// The CPU of a guest that is for those who send: with cards the last, where there are several and they are not partitions.
pub fn outside(devices: &[Device], options: &LabOptions) -> Option<CpuId> {
    let has_cards = devices.iter().any(|device| !device.model.is_disk());
    (options.cpus > 1 && !options.partitioned && has_cards).then(|| CpuId(options.cpus - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_cannot_be_are_refused() {
        let good = LabOptions::default();
        assert!(good.check().is_ok());
        for bad in [
            LabOptions { cpus: 0, ..good.clone() },
            LabOptions { cpus: 9, ..good.clone() },
            LabOptions { memory_mib: 32, ..good.clone() },
            LabOptions { memory_mib: 1 << 20, ..good.clone() },
            LabOptions { mode: Mode::Deterministic { shift: 7 }, ..good.clone() },
        ] {
            let error = bad.check().unwrap_err();
            assert!(error.remedy().unwrap().contains("are possible"), "{error}");
        }
        let cpus = |text: &str| good.check_cpus(text.parse().unwrap());
        assert!(cpus("0").is_ok());
        assert!(cpus("0-1").unwrap_err().to_string().contains("the guest has CPU 0"));
    }

    #[test]
    fn a_guest_has_the_cpus_that_a_platform_says() {
        let with = |guest: &LabOptions, text: &str| guest.with(&text.parse().unwrap());
        let guest = with(&LabOptions::default(), "cpus=8,smt=2,hrtimers=off").unwrap();
        assert_eq!((guest.cpus, guest.machine.hrtimers), (8, Some(false)));
        assert!(guest.check().is_ok());
        let two = LabOptions { cpus: 2, ..LabOptions::default() };
        assert!(with(&two, "cpus=4").unwrap_err().contains("two machines"));
        assert!(with(&two, "cpus=2,hz=100").unwrap_err().contains("as it was built"));
        assert!(with(&two, "cpus=16").unwrap_err().contains("1 to 8 CPUs"));
        assert!(with(&LabOptions::default(), "smt=2").unwrap().check().is_err());
    }

    #[test]
    fn memory_that_cannot_be_enough_is_refused_before_the_boot() {
        let mib = |mib: u64| mib << 20;
        let guest = LabOptions { memory_mib: 100, ..LabOptions::default() };
        assert!(guest.check_memory(mib(50), 0).is_ok());
        assert!(guest.check_memory(mib(50) + 1, 0).is_err());
        assert!(guest.check_memory(mib(20), u128::from(mib(80))).is_ok());
        let error = guest.check_memory(mib(20), u128::from(mib(90))).unwrap_err();
        assert!(error.to_string().contains("needs more than 110 MiB"), "{error}");
        assert!(error.remedy().unwrap().contains("--lab-memory"));
        let error = guest.check_memory(mib(20), u128::from(mib(4000))).unwrap_err();
        assert!(!error.remedy().unwrap().contains("--lab-memory"));
        assert!(guest.check_memory(u64::MAX, u128::from(u64::MAX)).is_err());
    }
}
