//! Any bytes as a plan file: read or refused, what is read is written so that it reads back the same, and is shown.

use surety_report::plan_file::{claims_from_json, plan_from_json, plan_to_json};
use surety_report::{Style, table};

/// One input.
pub fn survives(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(plan) = plan_from_json(text) else { return };
    let _ = claims_from_json(text);
    let again = plan_from_json(&plan_to_json(&plan)).expect("what is written is read");
    assert_eq!(again, plan);
    let style = Style::plain(100);
    assert!(table::plan(&plan, &style).len() <= table::explain(&plan, &style).len());
}
