//! Any bytes as a workload file of another program, or a system file of PARTSim: read or refused with places in it, and what is read is written as one of ours that reads
//! back the same. Behind a line [`SET`] stands a workload that is played on the system before it.

use surety_model::formats::foreign::DIALECTS;
use surety_model::formats::foreign::partsim::System;
use surety_model::formats::toml;
use surety_model::source::Diagnostics;
use surety_model::workload::Workload;

/// Ends a system file.
const SET: &str = "\n# taskset\n";

/// One input.
pub fn survives(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (system, set) = text.split_once(SET).unwrap_or((text, text));
    let on = System::read("fuzz", system, &mut |table| Ok(format!("{table}\n{system}")));
    if let Err(mistakes) = &on {
        are_places(mistakes, system);
    }
    for dialect in DIALECTS {
        holds(dialect.read("fuzz", set), set);
        if let Ok(system) = &on {
            holds(dialect.read_on("fuzz", set, Some(system)), set);
        }
    }
}

fn holds(read: Result<Workload, Diagnostics>, text: &str) {
    match read {
        Ok(workload) => {
            let written = toml::write(&workload);
            match toml::read("written.toml", &written) {
                Ok(again) => assert_eq!(again, workload, "{written}"),
                Err(mistakes) => panic!("{mistakes}\n{written}"),
            }
        }
        Err(mistakes) => are_places(&mistakes, text),
    }
}

fn are_places(mistakes: &Diagnostics, text: &str) {
    assert!(!mistakes.list.is_empty() && mistakes.list.iter().all(|one| one.span.end <= text.len()));
}
