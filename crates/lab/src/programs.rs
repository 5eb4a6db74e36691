//! Programs of this machine that a guest is given, each with the libraries it needs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::elf;
use crate::error::LabError;
use crate::initramfs::Archive;

/// Directories in which a program is looked for.
const PLACES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// A program of this machine, by its name.
pub fn program_in_path(name: &str) -> Option<PathBuf> {
    PLACES.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file())
}

/// Puts a program with its libraries into an archive, all of them without what only debuggers read.
pub(crate) fn add_program(archive: &mut Archive, place: &str, program: &Path) -> Result<(), LabError> {
    let read =
        |path: &Path| fs::read(path).map_err(|e| LabError::file(format!("reading {}", path.display()), &e));
    archive.file(place, 0o755, elf::without_sections(read(program)?));
    for (path, from) in elf::closure(program)? {
        if !archive.contains(&path) {
            archive.file(&path, 0o755, elf::without_sections(read(&from)?));
        }
    }
    Ok(())
}
