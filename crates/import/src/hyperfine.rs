//! hyperfine's `--export-json`: the time of every run of every command.
//!
//! *Read*: `times` in their order as responses, of each command one activity; `user` and `system`, which are means, as
//! figures; a run that ended with another code than 0 is said. *Unit*: seconds, whatever `--time-unit` says. *Left out*:
//! mean, deviation and median, which are computed from the times. *Missing*: runs of `--warmup`; what was
//! taken off for the shell, which hyperfine does without `-N` and does not write.

use serde_json::Value;
use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::{Assembly, COLUMNS_MAX};
use crate::input::{Input, seconds};
use crate::json::{Node, document};
use crate::totals::Names;

pub(crate) const NAME: &str = "hyperfine JSON";

pub(crate) fn detect(input: &Input<'_>) -> bool {
    ["\"results\"", "\"command\"", "\"stddev\""].iter().all(|key| input.text.contains(key))
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let document = document(NAME, input.text)?;
    let root = Node::root(NAME, &document);
    let mut assembly = Assembly::new("hyperfine");
    assembly.say("start of the shell", "taken off by hyperfine without -N; the file does not say");
    let results = root.objects("results")?;
    if results.len() > COLUMNS_MAX {
        return Err(root.error(format!("more than {COLUMNS_MAX} commands")));
    }
    let mut names = Names::default();
    for result in results {
        let name = names.unique(result.text("command").unwrap_or("command"));
        command(&name, &result, &mut assembly)?;
    }
    Ok(assembly.record())
}

fn command(name: &str, result: &Node<'_>, assembly: &mut Assembly) -> Result<(), ImportError> {
    let times = match result.map().get("times") {
        Some(Value::Array(times)) => times,
        _ => return Err(result.error("there is no array `times`".to_owned())),
    };
    let mut values = Vec::with_capacity(times.len());
    for (index, time) in times.iter().enumerate() {
        let told = time.as_f64().ok_or("it is no number".to_owned()).and_then(seconds);
        values.push(told.map_err(|why| result.error(format!("`times[{index}]`: {why}")))?);
    }
    assembly.responses(name, &values);
    for (key, figure) in [("user", "user time, mean"), ("system", "system time, mean")] {
        if let Some(value) = result.number(key)? {
            assembly.figure(name, figure, value * 1e9, "ns");
        }
    }
    if let Some(Value::Array(codes)) = result.map().get("exit_codes") {
        let failed = codes.iter().filter(|code| code.as_i64() != Some(0)).count();
        if failed > 0 {
            assembly.doubt(format!("{name}: {failed} of {} runs did not end with code 0", codes.len()));
        }
    }
    Ok(())
}
