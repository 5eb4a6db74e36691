//! DiskSim's descriptions of drives (`.diskspecs`, `.model`, `.seek`), read unchanged into [`hdd::Parameters`].
//!
//! Format and meaning follow "The DiskSim Simulation Environment Version 4.0 Reference Manual" (CMU-PDL-08-101). What this
//! model has nothing for is refused in words, unless it says that the drive does without it; what is of no effect on a single drive (statistics,
//! how long it holds the bus) is passed over.

mod convert;
mod specs;
mod syntax;

use crate::hdd;
use surety_model::source::{Diagnostic, Diagnostics};
use syntax::{Kind, Named};

/// A drive as DiskSim describes it.
#[derive(Clone, Debug)]
pub struct Drive {
    /// The name of its block.
    pub name: String,
    pub parameters: hdd::Parameters,
}

/// Gives the text of a file that another names, by that name; or says why not.
pub type Open<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// Reads a `.diskspecs` file: one `disksim_disk` block. `open` gives the files it names.
pub fn read(name: &str, text: &str, open: &mut Open<'_>) -> Result<Drive, Diagnostics> {
    let fail = |diagnostic| Diagnostics::one(name, text, diagnostic);
    let Named { name: drive, block } = only(text, "disksim_disk").map_err(fail)?;
    let model = block.fields.iter().find(|field| field.key == "Model").ok_or_else(|| {
        fail(Diagnostic::new(block.span.clone(), format!("the drive {drive} has no `Model`")))
    })?;
    let (file, body, mechanics) = match &model.value.kind {
        Kind::Source(file) => {
            let body = open(file).map_err(|why| {
                fail(Diagnostic::new(model.value.span.clone(), format!("{file} cannot be read: {why}")))
            })?;
            let mechanics =
                only(&body, "dm_disk").map_err(|wrong| Diagnostics::one(file, &body, wrong))?.block;
            (file.clone(), body, mechanics)
        }
        Kind::Block(inside) => (name.to_owned(), text.to_owned(), inside.clone()),
        _ => {
            let message = "`Model` is `source FILE`, or a block dm_disk";
            return Err(fail(Diagnostic::new(model.value.span.clone(), message)));
        }
    };
    let mechanics = convert::disk(&mechanics, &file, &body, open)?;
    let parameters = specs::drive(&block, mechanics).map_err(fail)?;
    Ok(Drive { name: drive, parameters })
}

/// The one block of a type in a file.
fn only(text: &str, kind: &str) -> Result<Named, Diagnostic> {
    let mut blocks = syntax::read(text)?.into_iter().filter(|named| named.block.kind == kind);
    let Some(first) = blocks.next() else {
        return Err(Diagnostic::new(0..0, format!("there is no block {kind} in this file")));
    };
    match blocks.next() {
        None => Ok(first),
        Some(second) => {
            let message = format!("{} and {} are two blocks {kind}, one is read", first.name, second.name);
            Err(Diagnostic::new(second.block.span, message).help("put each in a file of its own"))
        }
    }
}

#[cfg(test)]
mod tests;
