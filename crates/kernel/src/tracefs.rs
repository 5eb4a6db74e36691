//! [`Tracefs`]: the kernel's tracing files, found mounted or mounted for us alone.
//!
//! Where nothing is mounted, root gets a *detached* mount (`fsopen`, `fsconfig`, `fsmount`): it has no place in
//! the file system, is reached through `/proc/self/fd/N`, and vanishes with the descriptor, so nothing is left
//! behind. Instances made through it stay until they are removed: see [`TraceInstance`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{KernelError, Operation};
use crate::files::{list_dir, read_text};
use crate::mount::DetachedMount;

mod filter;
mod instance;
mod raw;
mod splice;

pub use filter::FilterError;
pub use instance::{Marker, TraceInstance};
pub use raw::{CpuStats, RawPages};
pub use splice::Splice;

/// Where distributions mount it.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// How the tracing files are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TracefsAccess {
    /// It was mounted already.
    Mounted,
    /// By a mount of our own that only this process can reach.
    Detached,
}

/// The tracing file system. Cheap to clone; clones share the mount.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
    mount: Option<Arc<DetachedMount>>,
}

impl Tracefs {
    /// Finds tracefs, or mounts it for this process alone.
    ///
    /// # Errors
    /// EPERM or EACCES when it is out of reach for this user, ENODEV when the kernel has none.
    pub fn open() -> Result<Tracefs, KernelError> {
        let mut refused = None;
        for point in MOUNT_POINTS {
            let root = PathBuf::from(point);
            match std::fs::metadata(root.join("events")) {
                Ok(_) if std::fs::read_dir(root.join("instances")).is_ok() => {
                    return Ok(Tracefs { root, mount: None });
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                _ => refused = Some(point),
            }
        }
        Tracefs::detached().map_err(|error| match refused {
            Some(point) => KernelError::new(Operation::OpenTracefs, point, libc::EACCES),
            None => error,
        })
    }

    /// A mount of our own.
    fn detached() -> Result<Tracefs, KernelError> {
        let failed = |errno| KernelError::new(Operation::OpenTracefs, "a mount of our own", errno);
        let mount = DetachedMount::of(c"tracefs").map_err(failed)?;
        Ok(Tracefs { root: mount.root(), mount: Some(Arc::new(mount)) })
    }

    /// The directory the tracing files are under; valid in this process while `self` lives.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it was mounted or is ours.
    pub fn access(&self) -> TracefsAccess {
        if self.mount.is_some() { TracefsAccess::Detached } else { TracefsAccess::Mounted }
    }

    /// Makes an instance: a set of buffers of its own, nothing enabled, recording nothing.
    ///
    /// Record its name in the journal first, so that a `kill -9` leaves nothing.
    ///
    /// # Errors
    /// EEXIST when the name is taken; EINVAL when it is not a plain file name.
    pub fn create_instance(&self, name: &str) -> Result<TraceInstance, KernelError> {
        TraceInstance::create(self.clone(), name)
    }

    /// The names of all instances, whoever made them.
    pub fn instances(&self) -> Result<Vec<String>, KernelError> {
        list_dir(&self.root.join("instances"))
    }

    /// The text that describes a page of the ring buffer.
    pub fn header_page(&self) -> Result<String, KernelError> {
        read_text(&self.root.join("events/header_page"))
    }

    /// The text that describes an event's header.
    pub fn header_event(&self) -> Result<String, KernelError> {
        read_text(&self.root.join("events/header_event"))
    }

    /// The format text of an event `system:event`.
    pub fn event_format(&self, event: &str) -> Result<String, KernelError> {
        let (system, name) = split_event(event)?;
        read_text(&self.root.join("events").join(system).join(name).join("format"))
    }

    /// Every event that can be enabled, as `system:event`, in ascending order.
    pub fn events(&self) -> Result<Vec<String>, KernelError> {
        let root = self.root.join("events");
        let mut events = Vec::new();
        for system in list_dir(&root)?.iter().filter(|system| root.join(system).is_dir()) {
            // Beside the events stand files that switch the whole system.
            for name in list_dir(&root.join(system))? {
                if root.join(system).join(&name).join("enable").exists() {
                    events.push(format!("{system}:{name}"));
                }
            }
        }
        Ok(events)
    }

    /// Addresses and texts of `trace_printk` formats, which a trace file carries along.
    pub fn printk_formats(&self) -> Result<String, KernelError> {
        read_text(&self.root.join("printk_formats"))
    }

    /// The names of threads seen lately, one `TID NAME` a line.
    pub fn saved_names(&self) -> Result<String, KernelError> {
        read_text(&self.root.join("saved_cmdlines"))
    }

    fn instance_path(&self, name: &str) -> Result<PathBuf, KernelError> {
        if !is_plain_name(name) {
            return Err(KernelError::new(
                Operation::MakeDir,
                format!("trace instance {name:?}"),
                libc::EINVAL,
            ));
        }
        Ok(self.root.join("instances").join(name))
    }
}

/// Whether a name is one part of a path that stays where it is put.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// `system:event` in its parts.
fn split_event(event: &str) -> Result<(&str, &str), KernelError> {
    match event.split_once(':') {
        Some((system, name)) if is_plain_name(system) && is_plain_name(name) => Ok((system, name)),
        _ => Err(KernelError::new(
            Operation::Read,
            format!("event {event:?} (not system:event)"),
            libc::EINVAL,
        )),
    }
}
