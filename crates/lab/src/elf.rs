//! Programs and modules as ELF files (64-bit, little-endian; the System V ABI, `elf(5)`): which libraries a program needs,
//! a copy without what only debuggers read, and what a module says of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::LabError;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Where libraries are looked for last, as the dynamic linkers of distributions do.
const LIBRARY_DIRECTORIES: &[&str] =
    &["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// What a program asks for before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The dynamic linker; a static program has none.
    pub interpreter: Option<String>,
    /// Names of libraries.
    pub libraries: Vec<String>,
    /// Directories in which they are looked for first; `$ORIGIN` is the program's own.
    pub search: Vec<String>,
}

/// A part of the file that is laid into memory.
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    in_file: u64,
}

/// A file as fields at places; `None` wherever one lies outside.
#[derive(Clone, Copy)]
struct Elf<'a>(&'a [u8]);

impl<'a> Elf<'a> {
    fn of(bytes: &'a [u8]) -> Option<Elf<'a>> {
        // Magic, 64 bits, little-endian.
        bytes.starts_with(b"\x7fELF\x02\x01").then_some(Elf(bytes))
    }

    fn bytes(&self, at: u64, length: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(at).ok()?;
        self.0.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    fn u16(&self, at: u64) -> Option<u64> {
        Some(u16::from_le_bytes(self.bytes(at, 2)?.try_into().ok()?).into())
    }

    fn u32(&self, at: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(at, 4)?.try_into().ok()?))
    }

    fn u64(&self, at: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(at, 8)?.try_into().ok()?))
    }

    fn text(&self, at: u64) -> Option<String> {
        let rest = self.0.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|b| *b == 0)?;
        String::from_utf8(rest[..end].to_vec()).ok()
    }

    fn segments(&self) -> Option<Vec<Segment>> {
        let (table, size, count) = (self.u64(32)?, self.u16(54)?, self.u16(56)?);
        (0..count)
            .map(|index| {
                let at = table.checked_add(index * size)?;
                Some(Segment {
                    kind: self.u32(at)?,
                    offset: self.u64(at + 8)?,
                    address: self.u64(at + 16)?,
                    in_file: self.u64(at + 32)?,
                })
            })
            .collect()
    }

    fn needs(&self) -> Option<Needs> {
        let segments = self.segments()?;
        let of_kind = |kind| segments.iter().find(|s| s.kind == kind);
        let mut needs = Needs::default();
        if let Some(segment) = of_kind(PT_INTERP) {
            needs.interpreter = Some(self.text(segment.offset)?);
        }
        let Some(dynamic) = of_kind(PT_DYNAMIC) else { return Some(needs) };
        let mut entries = Vec::new();
        for at in (0..dynamic.in_file / 16).map(|i| dynamic.offset + i * 16) {
            match self.u64(at)? {
                0 => break,
                tag => entries.push((tag, self.u64(at + 8)?)),
            }
        }
        let value = |wanted| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
        let Some(strings) = value(DT_STRTAB) else { return Some(needs) };
        let holder = segments
            .iter()
            .find(|s| s.kind == PT_LOAD && s.address <= strings && strings - s.address < s.in_file)?;
        let strings = holder.offset + (strings - holder.address);
        let texts = |wanted| {
            entries
                .iter()
                .filter(move |(tag, _)| *tag == wanted)
                .map(|(_, at)| self.text(strings.checked_add(*at)?))
        };
        needs.libraries = texts(DT_NEEDED).collect::<Option<_>>()?;
        // The newer tag makes the older one void.
        let tag = if value(DT_RUNPATH).is_some() { DT_RUNPATH } else { DT_RPATH };
        let paths: Vec<String> = texts(tag).collect::<Option<_>>()?;
        needs.search = paths.iter().flat_map(|p| p.split(':')).map(str::to_owned).collect();
        Some(needs)
    }

    /// The content of a section.
    fn section(&self, wanted: &str) -> Option<&'a [u8]> {
        let (table, size, count, names) = (self.u64(40)?, self.u16(58)?, self.u16(60)?, self.u16(62)?);
        let names = self.u64(table.checked_add(names * size)? + 24)?;
        (0..count).find_map(|index| {
            let at = table.checked_add(index * size)?;
            let name = self.text(names.checked_add(self.u32(at)?.into())?)?;
            if name == wanted { self.bytes(self.u64(at + 24)?, self.u64(at + 32)?) } else { None }
        })
    }
}

/// What a program needs; `None` for what is no 64-bit ELF file.
pub fn needs(bytes: &[u8]) -> Option<Needs> {
    Elf::of(bytes)?.needs()
}

/// The program without sections and whatever lies behind its segments: what runs is the same.
pub fn without_sections(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(segments) = Elf::of(&bytes).and_then(|elf| elf.segments()) else { return bytes };
    let ends = segments.iter().map(|s| s.offset.saturating_add(s.in_file));
    let Some(end) = ends.max().and_then(|end| usize::try_from(end).ok()) else { return bytes };
    if end < 64 || end > bytes.len() {
        return bytes;
    }
    bytes.truncate(end);
    // Where the table of sections is; how many, and which holds their names.
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    bytes
}

/// The values a module gives for a key, such as `depends`.
pub fn module_info(bytes: &[u8], key: &str) -> Option<Vec<String>> {
    let info = Elf::of(bytes)?.section(".modinfo")?;
    let values = info.split(|b| *b == 0).filter_map(|entry| {
        let (found, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        (found == key).then(|| value.to_owned())
    });
    Some(values.collect())
}

/// A program with everything it needs to start: paths on this machine, each by the path it is looked for at.
///
/// # Errors
/// A file that cannot be read, is no 64-bit program, or a library that is nowhere.
pub fn closure(program: &Path) -> Result<BTreeMap<String, PathBuf>, LabError> {
    let configured = configured_directories();
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut waiting = vec![program.to_owned()];
    while let Some(path) = waiting.pop() {
        let shown = path.display();
        let bytes = std::fs::read(&path).map_err(|e| LabError::file(format!("reading {shown}"), &e))?;
        let needs = needs(&bytes)
            .ok_or_else(|| LabError::file(format!("reading {shown}"), &"it is no 64-bit ELF program"))?;
        if let Some(interpreter) = needs.interpreter {
            let real = PathBuf::from(&interpreter);
            if found.insert(interpreter.clone(), real.clone()).is_none() {
                seen.insert(interpreter.rsplit('/').next().unwrap_or_default().to_owned());
            }
        }
        let origin = path.parent().map(|p| p.display().to_string()).unwrap_or_default();
        let own = needs.search.iter().map(|d| d.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin));
        let mut directories: Vec<String> = own.collect();
        directories.extend(configured.iter().cloned());
        directories.extend(LIBRARY_DIRECTORIES.iter().map(|d| (*d).to_owned()));
        for library in needs.libraries {
            if !seen.insert(library.clone()) {
                continue;
            }
            let place = directories.iter().map(|d| format!("{d}/{library}")).find(|p| Path::new(p).is_file());
            let place = place.ok_or_else(|| {
                LabError::file(
                    format!("looking for {library}, which {shown} needs"),
                    &"it is in no library directory",
                )
            })?;
            waiting.push(PathBuf::from(&place));
            found.insert(place.clone(), PathBuf::from(place));
        }
    }
    Ok(found)
}

/// Directories of `/etc/ld.so.conf.d`.
fn configured_directories() -> Vec<String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir("/etc/ld.so.conf.d")
        .map(|entries| entries.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    files.sort();
    let lines = files.iter().filter_map(|f| std::fs::read_to_string(f).ok());
    lines
        .flat_map(|t| t.lines().map(|l| l.trim().to_owned()).collect::<Vec<_>>())
        .filter(|l| l.starts_with('/'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn the_closure_is_what_the_dynamic_linker_loads() {
        let program = std::env::current_exe().unwrap();
        let Ok(output) = Command::new("ldd").arg(&program).output() else {
            eprintln!("SKIPPED: ldd is not installed");
            return;
        };
        let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
        let listed = String::from_utf8(output.stdout).unwrap();
        let expected: BTreeSet<String> = listed
            .lines()
            .map(|l| l.split_whitespace().next().unwrap_or_default())
            .filter(|w| !w.contains("vdso"))
            .map(name)
            .collect();
        let found: BTreeSet<String> = closure(&program).unwrap().keys().map(|p| name(p)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_program_without_sections_runs() {
        use std::os::unix::fs::PermissionsExt;
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let cut = without_sections(whole.clone());
        assert!(cut.len() < whole.len() / 2, "{} of {}", cut.len(), whole.len());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, cut).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&path).arg("--list").output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("a_program_without_sections_runs"));
    }

    #[test]
    fn a_text_is_no_program() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(closure(file.path()).unwrap_err().to_string().contains("no 64-bit ELF program"));
    }

    proptest! {
        #[test]
        fn damaged_files_are_no_programs_and_no_panics(
            at in any::<prop::sample::Index>(), value in any::<u8>(), length in any::<prop::sample::Index>(),
        ) {
            let mut bytes = std::fs::read("/bin/true").unwrap();
            bytes.truncate(length.index(bytes.len()) + 1);
            let at = at.index(bytes.len().min(1024));
            bytes[at] = value;
            let _ = needs(&bytes);
            let _ = module_info(&bytes, "depends");
            let _ = without_sections(bytes);
        }
    }
}
