//! Any bytes as a result of another program: read or refused, and what is read counts no value twice.
//!
//! Seeds: `fuzz/corpus/import`, and the examples in `crates/import/tests/data`.

use surety_model::record::Distribution;

/// One input.
pub fn survives(input: &[u8]) {
    let Ok(read) = surety_import::read("fuzz.log", input) else { return };
    for activity in &read.record.activities {
        if let Some(Distribution::Observed(latency)) = &activity.latency {
            assert_eq!(latency.histogram.count(), activity.activations);
            assert_eq!(latency.moments.count(), activity.activations);
        }
        if let Some(Distribution::Observed(response)) = &activity.response {
            assert_eq!(response.histogram.count(), activity.activations);
        }
        assert!(activity.figures.iter().all(|figure| figure.value.is_finite()));
    }
}
