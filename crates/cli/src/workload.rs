//! `surety workload`: workload files of other programs as our own.

use surety_model::formats::toml::{Comments, write_commented};

use crate::args::{WorkloadArgs, WorkloadVerb};
use crate::exit::{Code, Failure};
use crate::files;
use crate::fills::measured;
use crate::input::{read_on, read_system};
use crate::session::Session;

/// Converts a workload file to our own format, into a file or onto standard output.
pub fn workload(args: &WorkloadArgs, session: &Session) -> Result<Code, Failure> {
    let WorkloadVerb::Convert { workload: path, platform_file, output } = &args.verb;
    files::check_outputs([output.as_ref()])?;
    let system = platform_file.as_deref().map(read_system).transpose()?;
    let mut workload = read_on(path, system.as_ref())?;
    measured(&mut workload)?;
    let from = path.file_name().map(|name| format!("Of {}.", name.to_string_lossy()));
    let text = write_commented(&workload, &Comments::from([(String::new(), from.into_iter().collect())]));
    match output {
        Some(output) => files::write(output, &text)?,
        None => session.print(&text)?,
    }
    Ok(Code::Kept)
}
