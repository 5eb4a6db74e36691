//! Any bytes as a workload file: read or refused with places, and what is read is written so that it reads back the same.

use surety_model::formats::toml;
use surety_model::formats::toml::vary::{combinations, with};

/// Variants tried of each workload.
const VARIANTS: usize = 4;

/// One input.
pub fn survives(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let workload = match toml::read("fuzz.toml", text) {
        Ok(workload) => workload,
        Err(mistakes) => {
            assert!(!mistakes.list.is_empty() && !mistakes.to_string().is_empty());
            return;
        }
    };
    let written = toml::write(&workload);
    match toml::read("written.toml", &written) {
        Ok(again) => assert_eq!(again, workload, "{written}"),
        Err(mistakes) => panic!("{mistakes}\n{written}"),
    }
    for settings in combinations(&workload).iter().flatten().take(VARIANTS) {
        let _ = with(&workload, settings);
    }
}
