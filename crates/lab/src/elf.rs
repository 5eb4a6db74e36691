//! Programs and modules as ELF files (64-bit, little-endian; the System V ABI, `elf(5)`): which libraries a program needs,
//! a copy without what only debuggers read, and what a module says of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use object::elf::{DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, StringTable};

use crate::error::LabError;

type Header = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

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

/// The file's first structure; `None` for what is no 64-bit little-endian ELF file.
fn header(bytes: &[u8]) -> Option<&Header> {
    Header::parse(bytes).ok().filter(|header| header.endian().is_ok())
}

/// What a program needs; `None` for what is no 64-bit ELF file.
pub fn needs(bytes: &[u8]) -> Option<Needs> {
    let segments = header(bytes)?.program_headers(LE, bytes).ok()?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let mut needs = Needs::default();
    if let Some(path) = segments.iter().find_map(|s| s.interpreter(LE, bytes).transpose()) {
        needs.interpreter = Some(text(path.ok()?)?);
    }
    // Found through the segments: a program without sections is a program.
    let Some(dynamic) = segments.iter().find_map(|s| s.dynamic(LE, bytes).transpose()) else {
        return Some(needs);
    };
    let entries: Vec<_> = dynamic.ok()?.iter().take_while(|entry| entry.d_tag(LE) != DT_NULL).collect();
    let values = |tag| entries.iter().filter(move |e| e.d_tag(LE) == tag).map(|e| e.d_val(LE));
    let Some(strings) = values(DT_STRTAB).next() else { return Some(needs) };
    let size = values(DT_STRSZ).next()?;
    let mut loaded = segments.iter().filter(|s| s.p_type(LE) == PT_LOAD);
    let strings = loaded.find_map(|s| s.data_range(LE, bytes, strings, size).ok()?)?;
    let strings = StringTable::new(strings, 0, size);
    let texts = |tag| values(tag).map(|at| text(strings.get(u32::try_from(at).ok()?).ok()?));
    needs.libraries = texts(DT_NEEDED).collect::<Option<_>>()?;
    // The newer tag makes the older one void.
    let tag = if values(DT_RUNPATH).next().is_some() { DT_RUNPATH } else { DT_RPATH };
    let paths: Vec<String> = texts(tag).collect::<Option<_>>()?;
    needs.search = paths.iter().flat_map(|p| p.split(':')).map(str::to_owned).collect();
    Some(needs)
}

/// The program without sections and whatever lies behind its segments: what runs is the same.
pub fn without_sections(mut bytes: Vec<u8>) -> Vec<u8> {
    let segments = header(&bytes).and_then(|header| header.program_headers(LE, bytes.as_slice()).ok());
    let ends = segments.unwrap_or_default().iter().map(|s| {
        let (offset, size) = s.file_range(LE);
        offset.saturating_add(size)
    });
    let end = ends.max().and_then(|end| usize::try_from(end).ok());
    let Some(end) = end.filter(|end| (size_of::<Header>()..=bytes.len()).contains(end)) else { return bytes };
    bytes.truncate(end);
    if let Ok((header, _)) = object::pod::from_bytes_mut::<Header>(&mut bytes) {
        header.e_shoff = Default::default();
        header.e_shnum = Default::default();
        header.e_shstrndx = Default::default();
    }
    bytes
}

/// The values a module gives for a key, such as `depends`.
pub fn module_info(bytes: &[u8], key: &str) -> Option<Vec<String>> {
    let sections = header(bytes)?.sections(LE, bytes).ok()?;
    let (_, section) = sections.section_by_name(LE, b".modinfo")?;
    let values = section.data(LE, bytes).ok()?.split(|b| *b == 0).filter_map(|entry| {
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
        // A test beside this one that forks meanwhile holds the file open for writing until its child is another program.
        let busy = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy;
        let mut tried = Command::new(&path).arg("--list").output();
        while tried.as_ref().is_err_and(busy) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            tried = Command::new(&path).arg("--list").output();
        }
        let output = tried.unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("a_program_without_sections_runs"));
    }

    /// A relocatable file with nothing but `.modinfo` and the names of sections.
    fn module(info: &[u8]) -> Vec<u8> {
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(64, 0);
        let info_at = file.len();
        file.extend(info);
        let names_at = file.len();
        file.extend(names);
        file.resize(file.len().next_multiple_of(8), 0);
        let table = file.len();
        file[40..48].copy_from_slice(&(table as u64).to_le_bytes());
        // Size of the header and of a section's; there are three sections, and the last holds their names.
        for (at, half) in [(52, 64_u16), (58, 64), (60, 3), (62, 2)] {
            file[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        for (name, kind, at, size) in
            [(0_u32, 0_u32, 0, 0), (1, 1, info_at, info.len()), (10, 3, names_at, names.len())]
        {
            let words = [0, 0, at as u64, size as u64, 0, 1, 0];
            file.extend([name, kind].into_iter().flat_map(u32::to_le_bytes));
            file.extend(words[..].iter().flat_map(|word| word.to_le_bytes()));
        }
        file
    }

    #[test]
    fn a_module_says_what_it_depends_on() {
        let module = module(b"name=sch_netem\0depends=a,b-c\0alias=x\0alias=y\0");
        assert_eq!(module_info(&module, "depends").unwrap(), ["a,b-c"]);
        assert_eq!(module_info(&module, "alias").unwrap(), ["x", "y"]);
        assert!(module_info(&module, "license").unwrap().is_empty());
        assert_eq!(module_info(&std::fs::read("/bin/true").unwrap(), "depends"), None);
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
