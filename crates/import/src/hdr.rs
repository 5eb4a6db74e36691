//! The percentile table of HdrHistogram (`.hgrm`), as its log processor prints it.
//!
//! `Value Percentile TotalCount 1/(1-Percentile)`, then `#[Mean = ..., StdDeviation = ...]` and so on. *Read*: the
//! cumulative counts. *Unit*: not written; milliseconds are taken, which is what is printed by default, and the record
//! says so. *Left out*: mean and deviation, which are computed from the counts.

use surety_model::record::Record;

use crate::ImportError;
use crate::assemble::Assembly;
use crate::hdr_table::{Table, is_head};
use crate::input::{Input, at_line};

pub(crate) const NAME: &str = "HdrHistogram percentiles";

pub(crate) fn detect(input: &Input<'_>) -> bool {
    input.lines().any(|(_, line)| is_head(line))
}

pub(crate) fn read(input: &Input<'_>) -> Result<Record, ImportError> {
    let mut assembly = Assembly::new("HdrHistogram");
    assembly.doubt("the file does not say its unit: its values are taken as milliseconds");
    let mut lines = input.lines().skip_while(|(_, text)| !is_head(text)).skip(1);
    let (last_line, counts) = Table { format: NAME, unit: 1e6 }.read(&mut lines)?;
    assembly.latency(input.stem(), counts).map_err(at_line(NAME, last_line))?;
    Ok(assembly.record())
}
