//! Any bytes as a workload file of rt-app: read or refused with places in it, and what is read is written as one of ours that reads
//! back the same.

use surety_model::formats::foreign::DIALECTS;
use surety_model::formats::toml;

/// One input.
pub fn survives(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
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
