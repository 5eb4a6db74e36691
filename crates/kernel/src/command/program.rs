//! [`Command`]: what is to be started, and [`Stream`]: where its standard streams lead.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where programs are looked for when nothing says it.
const PATH: &str = "/bin:/usr/bin";

/// Where a standard stream of a program leads.
#[derive(Debug, Default)]
pub enum Stream {
    /// Where ours does.
    #[default]
    Inherit,
    /// To `/dev/null`.
    Null,
    /// To us: see [`super::Spawned::take_stdout`].
    Pipe,
    File(OwnedFd),
}

impl From<File> for Stream {
    fn from(file: File) -> Stream {
        Stream::File(file.into())
    }
}

/// A program with its arguments, as [`super::spawn`] starts it. The builder's methods are those of the standard
/// library's command.
#[derive(Debug)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    /// Variables it has beside ours, or in place of ours.
    variables: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    /// Input, output, messages.
    pub(super) streams: [Stream; 3],
}

impl Command {
    /// A program by its path, or by the name under which `PATH` has it.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
            directory: None,
            streams: Default::default(),
        }
    }

    /// One more argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Command {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// A variable of its environment, which is ours otherwise.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Command {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Where it works.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Command {
        self.directory = Some(directory.as_ref().to_owned());
        self
    }

    /// Where its input comes from.
    pub fn stdin(&mut self, stream: impl Into<Stream>) -> &mut Command {
        self.streams[0] = stream.into();
        self
    }

    /// Where its output goes.
    pub fn stdout(&mut self, stream: impl Into<Stream>) -> &mut Command {
        self.streams[1] = stream.into();
        self
    }

    /// Where its messages go.
    pub fn stderr(&mut self, stream: impl Into<Stream>) -> &mut Command {
        self.streams[2] = stream.into();
        self
    }

    /// The program as it was named.
    pub fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Its texts as the kernel takes them.
    ///
    /// # Errors
    /// A text with a zero byte in it.
    pub(super) fn texts(&self) -> io::Result<Texts> {
        let mut environment: Vec<(OsString, OsString)> =
            std::env::vars_os().filter(|(name, _)| !self.variables.iter().any(|(n, _)| n == name)).collect();
        // Of a variable that was named twice the last counts.
        for (place, (name, value)) in self.variables.iter().enumerate() {
            if !self.variables[place + 1..].iter().any(|(later, _)| later == name) {
                environment.push((name.clone(), value.clone()));
            }
        }
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let candidates: Vec<PathBuf> = if self.program.as_bytes().contains(&b'/') {
            vec![PathBuf::from(&self.program)]
        } else {
            let directories = std::env::split_paths(path.unwrap_or(OsStr::new(PATH)));
            directories.map(|directory| directory.join(&self.program)).collect()
        };
        let pair = |(name, value): (OsString, OsString)| {
            let mut text = name.into_vec();
            text.push(b'=');
            text.extend(value.into_vec());
            CString::new(text)
        };
        let words = std::iter::once(&self.program).chain(&self.arguments);
        Ok(Texts {
            candidates: candidates
                .iter()
                .map(|c| CString::new(c.as_os_str().as_bytes()))
                .collect::<Result<_, _>>()?,
            words: words.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?,
            environment: environment.into_iter().map(pair).collect::<Result<_, _>>()?,
            directory: self.directory.as_ref().map(|d| CString::new(d.as_os_str().as_bytes())).transpose()?,
        })
    }
}

/// What the kernel is told of a program.
pub(super) struct Texts {
    /// Paths to try, in turn.
    pub candidates: Vec<CString>,
    /// Its arguments, itself first.
    pub words: Vec<CString>,
    /// `NAME=value`.
    pub environment: Vec<CString>,
    pub directory: Option<CString>,
}

/// A descriptor above those of the standard streams, so that giving it to one of them overwrites no other.
pub(super) fn above_streams(file: OwnedFd) -> io::Result<OwnedFd> {
    // A clone is always above them.
    if file.as_raw_fd() > libc::STDERR_FILENO { Ok(file) } else { file.try_clone() }
}
