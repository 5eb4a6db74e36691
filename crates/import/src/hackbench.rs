//! The text of hackbench: its configuration, and the time that all messages took.
//!
//! *Read*: a time for each run. One run is a figure, `total time`; several in one file, one behind the other, are
//! responses in their order. Runs of another configuration are another activity. *Unit*: seconds. *Missing*: the
//! latency of a message, which hackbench does not measure.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::Assembly;
use crate::input::{Input, at_line, number, seconds};
use crate::totals::Totals;

pub(crate) const NAME: &str = "hackbench text";

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| is_head(line))
}

/// `Running in process mode with 2 groups using 40 file descriptors each (== 80 tasks)`, and as it was before.
fn is_head(line: &str) -> bool {
    line.strip_prefix("Running ").is_some_and(|rest| {
        let is_mode = ["in process mode with ", "in threaded mode with ", "with "];
        is_mode.iter().any(|mode| rest.starts_with(mode)) && rest.contains("(== ") && rest.contains(" tasks)")
    })
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("hackbench");
    assembly.say("not measured", "the latency of a message: a time is that of all messages of a run");
    let mut totals = Totals::default();
    let mut open: Option<(usize, String)> = None;
    for (line, text) in input.lines() {
        let wrong = at_line(NAME, line);
        if is_head(text) {
            if let Some((head, _)) = open {
                return Err(at_line(NAME, head)("no `Time:` follows: this run did not end".to_owned()));
            }
            open = Some((line, text.trim_start_matches("Running ").to_owned()));
        } else if let Some(time) = text.strip_prefix("Time:") {
            let time = number(time.trim()).and_then(seconds).map_err(&wrong)?;
            let (_, configuration) =
                open.take().ok_or_else(|| wrong("no `Running ...` stands above".to_owned()))?;
            totals.run(&configuration, time, Vec::new()).map_err(&wrong)?;
        } else if let Some((_, configuration)) = open.as_mut().filter(|_| text.starts_with("Each sender ")) {
            configuration.push_str("; ");
            configuration.push_str(text.trim_start_matches("Each sender "));
        }
    }
    if let Some((head, _)) = open {
        return Err(at_line(NAME, head)("no `Time:` follows: the text is cut off".to_owned()));
    }
    totals.into_activities("hackbench", &mut assembly);
    Ok(assembly.record())
}
