//! The file system of a disk that has none.

use std::path::Path;

use surety_kernel::clock;
use surety_kernel::command::{ChildSetup, Command, Stream, spawn};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::{LOOK, Workshop, failed};
use crate::said::last_words;

/// The program that makes the file system.
const MAKE: &str = "mkfs.ext4";
/// Making one that takes longer is given up.
const MAKE_MAX: Nanos = Nanos::from_secs(120);

/// Runs `mkfs.ext4`, with everything written now that the kernel would else write in the background later.
pub(super) fn make_file_system(
    (name, has_journal): (&str, bool),
    device: &Path,
    workshop: &Workshop<'_>,
) -> Result<(), WorldError> {
    let in_words = |why: &str| failed(name, "has no file system and gets none", why);
    let mut errors = tempfile::tempfile().map_err(|e| in_words(&e.to_string()))?;
    let mut command = Command::new(MAKE);
    command
        .args(["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"])
        .args(["-O", if has_journal { "has_journal" } else { "^has_journal" }])
        .arg(device);
    command.stdin(Stream::Null).stdout(Stream::Null);
    command.stderr(errors.try_clone().map_err(|e| in_words(&e.to_string()))?);
    let setup = ChildSetup { mark: workshop.mark.clone(), ..ChildSetup::default() };
    let mut child = spawn(&mut command, &setup).map_err(|error| match error.is_gone() {
        true => in_words(&format!("`{MAKE}` is not installed; it comes with the package `e2fsprogs`")),
        false => in_words(&error.to_string()),
    })?;
    let until = clock::monotonic() + MAKE_MAX;
    loop {
        let now = clock::monotonic();
        if workshop.cancel.is_cancelled() {
            return Err(WorldError::Interrupted);
        }
        if now >= until {
            return Err(in_words(&format!("`{MAKE}` was not done after {MAKE_MAX}")));
        }
        let ended = child.wait_until(now + LOOK).map_err(|e| in_words(&e.to_string()))?;
        let Some(ended) = ended else { continue };
        if ended.status.success() {
            return Ok(());
        }
        let words = last_words(&mut errors).unwrap_or_default();
        return Err(in_words(&format!("`{MAKE}` ended with {}; it said: {words}", ended.status)));
    }
}
