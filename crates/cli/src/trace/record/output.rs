//! [`Output`]: the file a recording is written to. It takes its place only when it is whole and was read back.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use surety_host::recorder::{PageFile, RawTrace};
use surety_model::event::Event;
use surety_trace::{ReadSummary, TraceDat, TraceReader};

use crate::exit::{Code, Failure};
use crate::files::NewFile;

/// The file to write.
pub struct Output<'a> {
    path: &'a Path,
    new: NewFile,
}

impl Output<'_> {
    /// Refuses a path that cannot be written.
    pub fn open(path: &Path) -> Result<Output<'_>, Failure> {
        Ok(Output { path, new: NewFile::ordinary(path)? })
    }

    /// Where pages may lie until the file is written.
    pub fn directory(&self) -> PathBuf {
        self.new.directory()
    }

    /// Writes the recording and returns its length in bytes.
    pub fn write(&mut self, raw: &RawTrace) -> Result<u64, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            let said = format!("{} could not be written: {why}", self.path.display());
            let help = "what was recorded is gone; make room, or choose another place with --output";
            Failure::new(Code::Machine, said).help(help)
        };
        let written = raw.write_trace_dat(&mut BufWriter::with_capacity(1 << 18, self.new.file()));
        written.map_err(|e| failed(&e))
    }

    /// What a reader finds in the file.
    pub fn read_back(&self) -> Result<ReadSummary, Failure> {
        let wrong = |why: String| {
            Failure::new(Code::Internal, format!("{} does not read back: {why}", self.path.display()))
        };
        let file = self.new.file().try_clone().and_then(PageFile::new).map_err(|e| wrong(e.to_string()))?;
        let mut read = TraceDat::open(file).map_err(|e| wrong(e.to_string()))?;
        read.read(&mut |_: &Event<'_>| {}).map_err(|e| wrong(e.to_string()))
    }

    /// Gives the file its place.
    pub fn keep(self) -> Result<(), Failure> {
        self.new.keep()
    }
}
