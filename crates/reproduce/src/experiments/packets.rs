//! Can what an I/O scheduler does for start-up times be had for packets? One interactive flow beside ten bulk flows on a link, under FIFO,
//! DRR, QFQ+ and BFQ's raising of weights.
//!
//! Nothing of it was published: it was asked. Held against each other are the schedulers; and a response against what the
//! flow's share alone gives, which is that of the fluid server with all eleven backlogged.

use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::{Bench, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow, cell_of, one_cpu};

/// Bulk flows, and the packets of 1500 bytes that each keeps in flight, over 10 ms beyond the link.
const BULK: u32 = 10;
const IN_FLIGHT: u32 = 256;
/// The link's rate in bytes a second: 100 Mbit/s.
const RATE: f64 = 12.5e6;
/// What the interactive flow weighs beside the ten under raising.
const RAISED: f64 = 30.0;

/// An interactive flow.
struct Interactive {
    name: &'static str,
    keys: &'static str,
    /// Bytes of a message.
    message: f64,
}

/// The page comes after pauses of nearly 4 s; the voice never pauses.
const FLOWS: [Interactive; 2] = [
    Interactive {
        name: "page, 150 kB",
        keys: "size = '150kB'\narrivals = { kind = 'periodic', period = '4s' }",
        message: 150e3,
    },
    Interactive {
        name: "voice, 200 B",
        keys: "packet = '200B'\narrivals = { kind = 'periodic', period = '20ms' }",
        message: 200.0,
    },
];

/// A scheduler, and the share of the link that it gives one flow with as much to send as it likes.
const SCHEDULERS: [(&str, Option<f64>); 4] = [
    ("fifo", None),
    ("drr", Some(1.0 / (1.0 + BULK as f64))),
    ("qfq", Some(1.0 / (1.0 + BULK as f64))),
    ("bfq-raising", Some(RAISED / (RAISED + BULK as f64))),
];

fn workload(flow: &Interactive, scheduler: &str) -> Workload {
    let text = format!(
        "format = 1\n[link.l]\nrate = '100Mbit/s'\nscheduler = '{scheduler}'\n\
         [[flow]]\nname = 'interactive'\nlink = 'l'\nstart = '1s'\n{}\n\
         [[flow]]\nname = 'bulk'\nlink = 'l'\ncount = {BULK}\n\
         arrivals = {{ kind = 'closed', outstanding = {IN_FLIGHT}, service = '10ms' }}\n",
        flow.keys
    );
    toml::read("packets", &text).expect("an embedded workload is read by a test")
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "packets",
    title: "one interactive flow beside ten bulk flows on a link, under FIFO, DRR, QFQ+ and BFQ's raising",
    source: "the question asked of P. Valente at ELC North America 2018; no numbers were published",
    worlds: &["sim"],
    duration: Nanos::from_secs(120),
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let options = one_cpu(&request.options);
    let worlds = bench.worlds();
    let mut columns = vec![Column { title: "by share".to_owned(), unit: "ns", origin: Origin::Theory }];
    for world in &worlds {
        for (what, unit) in [("median", "ns"), ("longest", "ns"), ("bulk", "bit/s")] {
            columns.push(Column { title: format!("{world} {what}"), unit, origin: Origin::World });
        }
    }
    let mut rows = Vec::new();
    for flow in &FLOWS {
        for (scheduler, share) in SCHEDULERS {
            // A flow that never sends as much as its share has no such time.
            let by_share =
                share.filter(|_| flow.message > 1e4).map(|share| flow.message / (RATE * share) * 1e9);
            let mut cells = vec![by_share.map_or(Cell::Empty, Cell::plain)];
            let workload = workload(flow, scheduler);
            for (index, world) in worlds.iter().enumerate() {
                let label = format!("{world}: {} under {scheduler}", flow.name);
                let result = bench.run(index, &workload, &options, &label);
                let refused = cell_of(result.clone(), |_| Cell::Empty)?;
                match result {
                    Ok(record) => cells.extend(cells_of(&record, by_share)),
                    Err(_) => cells.extend([refused, Cell::Empty, Cell::Empty]),
                }
            }
            rows.push(SheetRow::new(vec![flow.name.to_owned(), scheduler.to_owned()], cells));
        }
    }
    let notes = vec![
        format!(
            "100 Mbit/s; {BULK} bulk flows with {IN_FLIGHT} packets of 1500 bytes in flight each, 10 ms beyond the link; the \
             interactive flow begins at 1 s; every packet waits, none is dropped"
        ),
        "median and longest: from when a message of the interactive flow comes until its last packet is off the link".to_owned(),
        "by share: its bytes at the share of the link that its weight gives, 1 of 11, or 30 of 40 raised".to_owned(),
        "raised by BFQ's rule for interactive work: after a pause of more than 2 s, for 25 s at this rate; the ten bulk flows come \
         at once, a large burst, and are not. The voice is raised for its first 25 s alone"
            .to_owned(),
    ];
    Ok(Sheet { keys: vec!["interactive flow", "scheduler"], columns, rows, notes, drawn: Vec::new() })
}

fn cells_of(record: &Record, by_share: Option<f64>) -> [Cell; 3] {
    let interactive = record.activity("interactive");
    let seen = interactive.and_then(|activity| activity.response.as_ref()?.observed());
    let time = |of: f64| seen.and_then(|seen| Some(seen.histogram.quantile(of)? as f64));
    let figures = record.activity("bulk").map(|bulk| bulk.figures.as_slice()).unwrap_or_default();
    let bulk = figures.iter().find(|figure| figure.name == "rate").map(|figure| figure.value * 8.0);
    let plain = |value: Option<f64>| value.map_or(Cell::Empty, Cell::plain);
    let median = time(0.5).map_or(Cell::Empty, |median| Cell::against(median, by_share));
    [median, plain(time(1.0)), plain(bulk)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_reads() {
        for (scheduler, _) in SCHEDULERS {
            for flow in &FLOWS {
                assert_eq!(workload(flow, scheduler).flows.len(), 2);
            }
        }
    }
}
