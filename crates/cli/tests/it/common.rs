//! Running the program under test, as root and as an ordinary user.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An ordinary user every machine has.
pub const NOBODY: &str = "65534";

/// One measurement at a time: they share the machine's CPUs. Guests of the lab, whose clock is virtual, run beside each other.
static CPUS: RwLock<()> = RwLock::new(());

/// Waits until nothing else uses the CPUs.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    CPUS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until nobody measures this machine.
pub fn beside_guests() -> RwLockReadGuard<'static, ()> {
    CPUS.read().unwrap_or_else(PoisonError::into_inner)
}

/// The program, built for the tests.
pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_surety"))
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    use surety_kernel::Kernel;
    surety_kernel::RealKernel::new().effective_user() == 0
}

/// Runs the program and waits for it.
pub fn surety(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).current_dir(root()).output().expect("the program is built")
}

/// Runs a copy of the program as an ordinary user; `None` where that cannot be done.
pub fn surety_as_nobody(directory: &Path, arguments: &[&str]) -> Option<Output> {
    use std::os::unix::fs::PermissionsExt;
    if !is_root() {
        return Some(surety(arguments));
    }
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory, open.clone()).ok()?;
    let copy = directory.join("surety");
    if !copy.exists() {
        std::fs::copy(program(), &copy).ok()?;
        std::fs::set_permissions(&copy, open).ok()?;
    }
    let output = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(&copy)
        .args(arguments)
        .env("TMPDIR", directory)
        .env("SURETY_RUNTIME_DIR", directory.join("run"))
        .current_dir(directory)
        .output();
    output.ok()
}

/// Standard error as text.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output as text.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
