//! The table of `perf sched latency`: a row for each task, threads of one name together without `-p`.
//!
//! *Read*: of each task runtime, switches, average and largest delay as figures. There is no distribution: a quantile of
//! delays cannot be told. *Unit*: milliseconds, as the columns say. *Delay* is the time from being woken, or preempted, to
//! running. *Checked*: the rows against the line `TOTAL`. Lines `INFO`, about lost events and the like, are among the
//! caveats of the record.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX};
use crate::input::{Input, at_line, number, whole};
use crate::totals::Names;

pub(crate) const NAME: &str = "perf sched latency text";

/// What the sum of runtimes may differ by from their total for each row: both are rounded to 1 us.
const ROUNDED_MS: f64 = 0.001;

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| is_head(line))
}

fn is_head(line: &str) -> bool {
    let mut columns = line.split('|').map(str::trim);
    columns.next() == Some("Task")
        && columns.next() == Some("Runtime ms")
        && columns.next() == Some("Switches")
        && columns.next().is_some_and(|c| c.ends_with("delay ms"))
}

/// A number behind an optional word and before its unit: `avg: 12.2 ms`.
fn milliseconds(cell: &str, word: &str) -> Result<f64, String> {
    let text = cell.trim().strip_prefix(word).and_then(|t| t.trim().strip_suffix("ms"));
    let text = text.ok_or_else(|| format!("`{}` is not {word} milliseconds", cell.trim()))?;
    number(text.trim()).and_then(|ms| {
        let is_time = (0.0..9e12).contains(&ms);
        if is_time { Ok(ms) } else { Err(format!("`{}` is no time", cell.trim())) }
    })
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("perf sched");
    assembly.say("distributions", "not written: there are the average and the largest delay of each task");
    let (mut switches, mut runtime, mut rows) = (0u64, 0.0, 0u32);
    let mut names = Names::default();
    let mut is_whole = false;
    let mut last_line = 1;
    for (line, text) in input.lines().skip_while(|(_, text)| !is_head(text)).skip(1) {
        last_line = line;
        let wrong = at_line(NAME, line);
        if let Some(info) = text.strip_prefix("INFO:") {
            assembly.doubt(format!("perf says: {}", info.trim()));
            continue;
        }
        let cells: Vec<&str> = text.split('|').collect();
        if cells.len() < 3 {
            continue;
        }
        let ran = milliseconds(cells[1], "").map_err(&wrong)?;
        let switched = whole(cells[2].trim()).map_err(&wrong)?;
        if cells[0].trim() == "TOTAL:" {
            if switched != switches || (ran - runtime).abs() > ROUNDED_MS * f64::from(rows + 1) {
                return Err(wrong(format!(
                    "its rows hold {switches} switches and {runtime:.3} ms, `TOTAL` says otherwise"
                )));
            }
            is_whole = true;
            continue;
        }
        if is_whole || cells.len() < 5 {
            return Err(wrong(format!("{} columns are no row of a task", cells.len())));
        }
        if rows as usize == COLUMNS_MAX {
            return Err(wrong(format!("more than {COLUMNS_MAX} tasks")));
        }
        let average = milliseconds(cells[3], "avg:").map_err(&wrong)?;
        let largest = milliseconds(cells[4], "max:").map_err(&wrong)?;
        if average > largest {
            return Err(wrong("the average delay is above the largest".to_owned()));
        }
        rows += 1;
        runtime += ran;
        switches = switches.checked_add(switched).ok_or_else(|| wrong("too many switches".to_owned()))?;
        let name = names.unique(cells[0].trim());
        assembly.figure(&name, "CPU time", ran * 1e6, "ns");
        assembly.figure(&name, "switches", switched as f64, "");
        assembly.figure(&name, "average delay", average * 1e6, "ns");
        assembly.figure(&name, "largest delay", largest * 1e6, "ns");
    }
    if !is_whole {
        return Err(at_line(NAME, last_line)("the text ends before `TOTAL`: it is cut off".to_owned()));
    }
    Ok(assembly.record())
}
