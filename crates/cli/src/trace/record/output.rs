//! [`Output`]: the file a recording is written to.
//!
//! It has no name until it is whole and was read back, so a program that is killed leaves no half file and a file that was
//! there keeps what it holds until it is replaced. Where the file system has no files without names it is written in place.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use surety_kernel::files::{give_name, nameless_in};
use surety_model::event::Event;
use surety_probe::recorder::{PageFile, RawTrace};
use surety_trace::{ReadSummary, TraceDat, TraceReader};

use crate::exit::{Code, Failure};

/// The file to write.
pub struct Output<'a> {
    path: &'a Path,
    file: File,
    way: Way,
}

/// How the file comes to its name.
enum Way {
    /// At the end.
    Nameless {
        /// The directory it is in.
        directory: PathBuf,
    },
    /// It has it from the beginning.
    InPlace {
        /// Unless it is kept.
        remove: bool,
    },
}

impl Output<'_> {
    /// Refuses a path that cannot be written.
    pub fn open(path: &Path) -> Result<Output<'_>, Failure> {
        let refused = |why: String| {
            Failure::new(Code::BadInput, format!("{} cannot be written: {why}", path.display()))
                .help("choose a place you can write to with --output")
        };
        let known = std::fs::metadata(path).ok();
        if known.as_ref().is_some_and(|m| !m.is_file()) {
            return Err(refused("it is no ordinary file".to_owned()));
        }
        if known.is_some() {
            OpenOptions::new().write(true).open(path).map_err(|e| refused(e.to_string()))?;
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if let Ok(file) = nameless_in(&directory) {
            return Ok(Output { path, file, way: Way::Nameless { directory } });
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| refused(e.to_string()))?;
        Ok(Output { path, file, way: Way::InPlace { remove: known.is_none() } })
    }

    /// Where pages may lie until the file is written; `None`: where temporary files are.
    pub fn directory(&self) -> Option<&Path> {
        match &self.way {
            Way::Nameless { directory } => Some(directory),
            Way::InPlace { .. } => None,
        }
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::new(Code::Machine, format!("{} could not be written: {why}", self.path.display()))
            .help("what was recorded is gone; make room, or choose another place with --output")
    }

    /// Writes the recording and returns its length in bytes.
    pub fn write(&mut self, raw: &RawTrace) -> Result<u64, Failure> {
        self.file.set_len(0).map_err(|e| self.failed(&e.to_string()))?;
        let written = raw.write_trace_dat(&mut BufWriter::with_capacity(1 << 18, &self.file));
        written.map_err(|e| {
            if let Way::InPlace { remove } = &mut self.way {
                // Half a file is worse than none.
                *remove = true;
            }
            self.failed(&e.to_string())
        })
    }

    /// What a reader finds in the file.
    pub fn read_back(&self) -> Result<ReadSummary, Failure> {
        let wrong = |why: String| {
            Failure::new(Code::Internal, format!("{} does not read back: {why}", self.path.display()))
        };
        let file = match self.way {
            Way::Nameless { .. } => self.file.try_clone(),
            Way::InPlace { .. } => File::open(self.path),
        };
        let file = file.and_then(PageFile::new).map_err(|e| wrong(e.to_string()))?;
        let mut read = TraceDat::open(file).map_err(|e| wrong(e.to_string()))?;
        read.read(&mut |_: &Event<'_>| {}).map_err(|e| wrong(e.to_string()))
    }

    /// Gives the file its name.
    pub fn keep(&mut self) -> Result<(), Failure> {
        match &mut self.way {
            Way::InPlace { remove } => *remove = false,
            Way::Nameless { .. } => self.name().map_err(|e| self.failed(&e.to_string()))?,
        }
        Ok(())
    }

    fn name(&self) -> io::Result<()> {
        match give_name(&self.file, self.path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return self.copy(),
        }
        // A name leads to the file it stands for, and that one keeps its permissions.
        let target = self.path.canonicalize()?;
        self.file.set_permissions(std::fs::metadata(&target)?.permissions())?;
        let mut beside = target.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        give_name(&self.file, Path::new(&beside))?;
        std::fs::rename(&beside, &target).inspect_err(|_| {
            let _ = std::fs::remove_file(&beside);
        })
    }
}

impl Output<'_> {
    /// For file systems that let no such file have a name.
    fn copy(&self) -> io::Result<()> {
        let mut from = &self.file;
        from.seek(SeekFrom::Start(0))?;
        let copied = File::create(self.path).and_then(|mut to| io::copy(&mut from, &mut to));
        copied.map(drop).inspect_err(|_| {
            let _ = std::fs::remove_file(self.path);
        })
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if let Way::InPlace { remove: true } = self.way {
            let _ = std::fs::remove_file(self.path);
        }
    }
}
