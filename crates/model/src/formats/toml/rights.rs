//! `user` and `keep_capabilities` of a command in a workload file.

use surety_units::Capabilities;

use super::table::{Reading, Table};
use crate::workload::Rights;

/// The key of the capabilities a command keeps.
pub(super) const KEEP: &str = "keep_capabilities";

/// `user` and `keep_capabilities` of a command.
pub(super) fn rights(reading: &mut Reading, table: &Table<'_>) -> Rights {
    let keep = table.field(reading, KEEP).and_then(|field| {
        let text = field.text(reading, "capabilities such as \"sys_nice\"")?;
        let set = text.parse::<Capabilities>();
        if let Err(error) = &set {
            reading.wrong(field.span.clone(), error.to_string(), "not known", None);
        }
        set.ok()
    });
    Rights { user: table.text(reading, "user"), keep }
}

/// The same of what may be something else than a command.
pub(super) fn rights_of_command(
    reading: &mut Reading,
    table: &Table<'_>,
    is_command: bool,
    what: &str,
) -> Rights {
    if is_command {
        return rights(reading, table);
    }
    for key in ["user", KEEP] {
        if let Some(field) = table.field(reading, key) {
            let message = format!("`{key}` belongs to a {what} with a `command`");
            reading.wrong(field.span, message, "has no effect", None);
        }
    }
    Rights::default()
}
