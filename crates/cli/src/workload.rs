//! `surety workload`: workload files of other programs as our own.

use surety_model::formats::toml::{Comments, write_commented};

use crate::args::{WorkloadArgs, WorkloadVerb};
use crate::exit::{Code, Failure};
use crate::files;
use crate::input::read_varied;
use crate::session::Session;

/// Converts a workload file to our own format, into a file or onto standard output.
pub fn workload(args: &WorkloadArgs, session: &Session) -> Result<Code, Failure> {
    let WorkloadVerb::Convert { workload: path, output } = &args.verb;
    files::check_outputs([output.as_ref()])?;
    let workload = read_varied(path)?;
    let from = path.file_name().map(|name| format!("Of {}.", name.to_string_lossy()));
    let text = write_commented(&workload, &Comments::from([(String::new(), from.into_iter().collect())]));
    match output {
        Some(output) => files::write(output, &text)?,
        None => session.print(&text)?,
    }
    Ok(Code::Kept)
}
