//! Any bytes as a workload file of another program, or a system file of PARTSim: read or refused with places in it, and what is read is written as one of ours that reads
//! back the same.

use surety_model::formats::foreign::DIALECTS;
use surety_model::formats::foreign::partsim::System;
use surety_model::formats::toml;

/// One input.
pub fn survives(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(mistakes) = System::read("fuzz", text, &mut |table| Ok(format!("{table}\n{text}"))) {
        assert!(!mistakes.list.is_empty() && mistakes.list.iter().all(|one| one.span.end <= text.len()));
    }
    for dialect in DIALECTS {
        let workload = match dialect.read("fuzz", text) {
            Ok(workload) => workload,
            Err(mistakes) => {
                assert!(
                    !mistakes.list.is_empty() && mistakes.list.iter().all(|one| one.span.end <= text.len())
                );
                continue;
            }
        };
        let written = toml::write(&workload);
        match toml::read("written.toml", &written) {
            Ok(again) => assert_eq!(again, workload, "{written}"),
            Err(mistakes) => panic!("{mistakes}\n{written}"),
        }
    }
}
