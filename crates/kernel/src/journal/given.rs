//! Taking a controller from the children of a control group of version 2 again.

use std::path::{Path, PathBuf};

use super::Undone;
use crate::cpu_group::GIVEN;
use crate::error::{KernelError, Operation};
use crate::kernel::Kernel;

/// What the controllers of a new group say; a file that says something else was written to.
const NEW: [(&str, &str); 6] = [
    ("cpu.weight", "100"),
    ("cpu.max", "max 100000"),
    ("cpu.max.burst", "0"),
    ("cpu.idle", "0"),
    ("cpuset.cpus", ""),
    ("cpuset.mems", ""),
];

/// Takes a controller from the children of a group, where they did not have it before. The file lists what is given, and what is
/// written to it adds or takes one away. Groups lose with the controller what was set of it, for good.
///
/// # Errors
/// EBUSY while another group uses the controller: it is taken away later.
pub(super) fn undo_given(
    kernel: &dyn Kernel,
    path: &Path,
    (now, old): (&str, &str),
    controller: &str,
) -> Result<Undone, KernelError> {
    if lists(old, controller) || !lists(now, controller) {
        return Ok(Undone::AsBefore);
    }
    if let Some(user) = user_below(kernel, path.parent().unwrap_or(path), controller)? {
        let object = format!("{} while {} uses `{controller}`", path.display(), user.display());
        return Err(KernelError::new(Operation::Write, object, libc::EBUSY));
    }
    kernel.write_text(path, &format!("-{controller}"))?;
    Ok(Undone::Restored)
}

/// A child that another run made, that has other settings than a new group, or that gives the controller to its children.
fn user_below(kernel: &dyn Kernel, group: &Path, controller: &str) -> Result<Option<PathBuf>, KernelError> {
    let text = |path: &Path| kernel.read_text(path).unwrap_or_default();
    let is_set = |child: &Path| {
        let mut files = NEW.iter().filter(|(file, _)| file.split('.').next() == Some(controller));
        files.any(|(file, new)| {
            let path = child.join(file);
            kernel.exists(&path) && text(&path).trim() != *new
        })
    };
    let uses = |child: &PathBuf| {
        let is_run = child.file_name().is_some_and(|name| name.to_string_lossy().starts_with("surety"));
        kernel.exists(&child.join("cgroup.procs"))
            && (is_run || is_set(child) || lists(&text(&child.join(GIVEN)), controller))
    };
    Ok(kernel.list_dir(group)?.into_iter().map(|name| group.join(name)).find(uses))
}

fn lists(text: &str, controller: &str) -> bool {
    text.split_ascii_whitespace().any(|word| word == controller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedKernel;

    const GROUP: &str = "/sys/fs/cgroup/a";

    #[test]
    fn a_controller_is_taken_from_children_that_did_not_have_it() {
        let path = Path::new(GROUP).join(GIVEN);
        for (old, now, undone, written) in [
            ("memory", "cpu memory\n", Undone::Restored, "memory"),
            ("", "cpu", Undone::Restored, ""),
            ("cpu", "cpu", Undone::AsBefore, "cpu"),
            ("", "cpuset memory", Undone::AsBefore, "cpuset memory"),
        ] {
            let kernel = ScriptedKernel::new(1);
            kernel.add_file(&path, now);
            assert_eq!(undo_given(&kernel, &path, (now, old), "cpu").unwrap(), undone, "{old}, {now}");
            assert_eq!(kernel.read_text(&path).unwrap().trim(), written);
        }
    }

    #[test]
    fn a_controller_that_another_group_uses_is_taken_away_when_that_one_is_gone() {
        let path = Path::new(GROUP).join(GIVEN);
        for (child, file, text, is_used) in [
            ("surety-7-8-ui", "cpu.weight", "100\n", true),
            ("theirs", "cpu.weight", "100\n", false),
            ("theirs", "cpu.weight", "300\n", true),
            ("theirs", "cpu.max", "20000 50000\n", true),
            ("theirs", "cpu.idle", "1\n", true),
            ("theirs", GIVEN, "cpu\n", true),
            ("theirs", GIVEN, "memory\n", false),
        ] {
            let kernel = ScriptedKernel::new(1);
            kernel.add_file(&path, "cpu");
            let child = Path::new(GROUP).join(child);
            kernel.add_file(child.join("cgroup.procs"), "");
            kernel.add_file(child.join(file), text);
            let undo = || undo_given(&kernel, &path, ("cpu", ""), "cpu");
            if is_used {
                let error = undo().unwrap_err();
                assert_eq!(error.errno, libc::EBUSY);
                assert!(error.to_string().contains(&*child.to_string_lossy()), "{error}");
                assert_eq!(kernel.read_text(&path).unwrap(), "cpu");
                kernel.remove_dir(&child).unwrap();
            }
            assert_eq!(undo().unwrap(), Undone::Restored, "{file} {text}");
            assert_eq!(kernel.read_text(&path).unwrap(), "");
        }
    }
}
