//! Modules of a stored kernel: what a name needs, in the order in which it is loaded.
//!
//! Packages hold no list of dependencies (it is made when they are installed), so each module is asked: its `.modinfo`
//! names them. `-` and `_` are the same in names of modules.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::elf::module_info;
use crate::error::LabError;
use crate::store::StoredKernel;

/// The list of what is built into a kernel, by the names of modules.
pub const BUILT_IN: &str = "modules.builtin";

/// A module ready to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub name: String,
    /// Its parameters, `name=value` words.
    pub parameters: String,
    /// The file, uncompressed.
    pub content: Vec<u8>,
}

/// The module of a file name, as the kernel calls it.
pub fn module_name(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let stem = file.strip_suffix(".ko.xz").or(file.strip_suffix(".ko"))?;
    Some(stem.replace('-', "_"))
}

/// Whether a module is among the stored ones, or the kernel has it built in.
pub fn is_there(kernel: &StoredKernel, name: &str) -> bool {
    kernel.files().filter_map(module_name).any(|stored| stored == name) || is_built_in(kernel, name)
}

/// Whether a kernel has a module built in, as far as it was kept what it has so.
fn is_built_in(kernel: &StoredKernel, name: &str) -> bool {
    let list = kernel.files().any(|file| file == BUILT_IN).then(|| kernel.read(BUILT_IN));
    let text = list.and_then(Result::ok).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text.is_some_and(|text| text.lines().filter_map(module_name).any(|built_in| built_in == name))
}

/// Modules as they were asked for (`null_blk` or `null_blk:queue_mode=2,irqmode=2`), each after those it depends on.
///
/// # Errors
/// A module that the store does not hold.
pub fn in_order(kernel: &StoredKernel, wanted: &[String]) -> Result<Vec<Module>, LabError> {
    let mut order = Vec::new();
    for word in wanted {
        let (name, parameters) = word.split_once(':').unwrap_or((word, ""));
        load(kernel, name, &parameters.replace(',', " "), &mut order, 0)?;
    }
    Ok(order)
}

/// Modules that were asked for, and those that a job needs.
///
/// # Errors
/// As [`in_order`]; one that is needed was not kept.
pub fn with_needed(
    kernel: &StoredKernel,
    asked: &[String],
    needed: Vec<String>,
) -> Result<Vec<Module>, LabError> {
    let mut names = needed.iter().map(|word| word.split(':').next().unwrap_or(word));
    if let Some(missing) = names.find(|name| !is_there(kernel, name)) {
        let name = kernel.name();
        return Err(LabError::Options {
            what: format!(
                "the workload needs the module `{missing}`, which was not kept of the kernel `{name}`"
            ),
            help: format!("fetch it anew with `surety lab fetch {name}`"),
        });
    }
    // One that was asked for with parameters keeps them: it comes first.
    in_order(kernel, &[asked.to_vec(), needed].concat())
}

fn load(
    kernel: &StoredKernel,
    name: &str,
    parameters: &str,
    order: &mut Vec<Module>,
    depth: usize,
) -> Result<(), LabError> {
    let name = name.replace('-', "_");
    if order.iter().any(|m| m.name == name) {
        return Ok(());
    }
    let known: BTreeMap<String, &str> =
        kernel.files().filter_map(|path| Some((module_name(path)?, path))).collect();
    if !known.contains_key(&name) && is_built_in(kernel, &name) {
        return Ok(());
    }
    let path = known.get(&name).ok_or_else(|| {
        let near = surety_model::source::nearest(&name, known.keys().map(String::as_str));
        LabError::Options {
            what: format!("the stored kernel `{}` has no module `{name}`", kernel.name()),
            help: near.map_or_else(
                || {
                    format!(
                        "leave it out, or fetch the kernel anew with `surety lab fetch {}`",
                        kernel.name()
                    )
                },
                |near| format!("did you mean {near}?"),
            ),
        }
    })?;
    let mut content = kernel.read(path)?;
    if path.ends_with(".xz") {
        content = uncompressed(&kernel.path(path))?;
    }
    let depends = depends_of(&content).ok_or_else(|| LabError::Corrupt {
        name: kernel.name().to_owned(),
        why: format!("{path} is no module"),
    })?;
    // A circle cannot be: the kernel could not load it either.
    if depth < 16 {
        for other in &depends {
            load(kernel, other, "", order, depth + 1)?;
        }
        for other in wished_by(&content) {
            // A wish may be for what several modules offer, such as `crypto-crc32c`; the portable one is `crc32c_generic`.
            let algorithm = other.strip_prefix("crypto_").unwrap_or(&other);
            let offered = [other.clone(), format!("{algorithm}_generic")];
            if let Some(other) = offered.iter().find(|name| known.contains_key(*name)) {
                load(kernel, other, "", order, depth + 1)?;
            }
        }
    }
    order.push(Module { name, parameters: parameters.to_owned(), content });
    Ok(())
}

/// Modules that a module's own `.modinfo` names.
fn depends_of(content: &[u8]) -> Option<Vec<String>> {
    let lines = module_info(content, "depends")?;
    let names = lines.iter().flat_map(|line| line.split(',')).filter(|name| !name.is_empty());
    Some(names.map(|name| name.replace('-', "_")).collect())
}

/// Modules that a module wants to be loaded before it (`softdep`): it asks for them while it works, and in a guest nothing loads them then.
fn wished_by(content: &[u8]) -> Vec<String> {
    let lines = module_info(content, "softdep").unwrap_or_default();
    let before = lines.iter().filter_map(|line| line.split("pre:").nth(1)?.split("post:").next());
    before.flat_map(str::split_whitespace).map(|name| name.replace('-', "_")).collect()
}

/// Modules that a module in a file depends on. A file that is no module depends on none.
///
/// # Errors
/// When the file cannot be read or unpacked.
pub fn depends(file: &Path) -> Result<Vec<String>, LabError> {
    let content = if file.extension().is_some_and(|end| end == "xz") {
        uncompressed(file)?
    } else {
        std::fs::read(file).map_err(|e| LabError::file(format!("reading {}", file.display()), &e))?
    };
    Ok(depends_of(&content).unwrap_or_default())
}

fn uncompressed(file: &Path) -> Result<Vec<u8>, LabError> {
    let output = Command::new("xz").args(["--decompress", "--stdout"]).arg(file).output();
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(LabError::file(format!("unpacking {}", file.display()), &why.trim()))
        }
        Err(_) => Err(LabError::NoProgram { program: "xz".to_owned(), package: "xz-utils".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{KERNEL, Store};

    #[test]
    fn names_are_the_kernels() {
        assert_eq!(module_name("modules/drivers/block/null_blk/null_blk.ko.xz").as_deref(), Some("null_blk"));
        assert_eq!(module_name("modules/net/sched/sch-netem.ko").as_deref(), Some("sch_netem"));
        assert_eq!(module_name("vmlinuz"), None);
    }

    #[test]
    fn what_is_built_in_is_there_and_what_was_not_kept_is_to_be_fetched_anew() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            (name.to_owned(), path)
        };
        let list = "kernel/fs/fuse/fuse.ko\nkernel/block/mq-deadline.ko\n";
        let files = [place(KERNEL, "a kernel"), place(BUILT_IN, list)].into();
        let store = Store::at(&directory.path().join("lab"));
        let kernel = store.put("6.12", "linux-image-6.12", "6.12.1-1", 0, &files).unwrap();
        let needed =
            |names: &[&str]| with_needed(&kernel, &[], names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(needed(&["fuse", "mq_deadline"]).unwrap(), []);
        let refused = needed(&["fuse", "loop:hw_queue_depth=1"]).unwrap_err();
        assert!(refused.to_string().contains("module `loop`, which was not kept"), "{refused}");
        assert_eq!(refused.remedy().unwrap(), "fetch it anew with `surety lab fetch 6.12`");
    }
}
