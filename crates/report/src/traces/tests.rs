//! What is said of traces that are not whole.

use super::*;

#[test]
fn only_what_is_missing_is_named() {
    let found = |summary: ReadSummary| {
        let read = ReadTrace { summary, ..ReadTrace::default() };
        read.incomplete(&Anomalies::default(), "").into_iter().next().map(|check| check.found)
    };
    assert_eq!(found(ReadSummary::default()), None);
    let damaged = ReadSummary { damaged_pages: 1, ..ReadSummary::default() };
    assert_eq!(found(damaged).unwrap(), "1 damaged page");
    let gap = ReadSummary { gaps: 2, truncated: 1, ..ReadSummary::default() };
    assert_eq!(found(gap).unwrap(), "an unknown number of events lost at 2 places, 1 CPU cut");
    let lost = ReadSummary { lost: 7, gaps: 1, malformed: 3, ..ReadSummary::default() };
    let words = "at least 7 events lost at 1 place, 3 records too short for their event";
    assert_eq!(found(lost).unwrap(), words);
    let counted = ReadSummary { counted_lost: Some(1), ..ReadSummary::default() };
    assert_eq!(found(counted).unwrap(), "at least 1 event lost");
}
