//! Workloads to start from, as texts that run as they are.

use crate::args::Template;

/// What stands for the file's own name in them.
const FILE: &str = "FILE";

/// The text of one, for a file of this name.
pub fn text(template: Template, file: &str) -> String {
    let text = match template {
        Template::Player => include_str!("templates/player.toml"),
        Template::ControlLoop => include_str!("templates/control-loop.toml"),
        Template::Audio => include_str!("templates/audio.toml"),
        Template::Server => include_str!("templates/server.toml"),
        Template::Disk => include_str!("templates/disk.toml"),
        Template::Irq => include_str!("templates/irq.toml"),
    };
    text.replace(FILE, file)
}
