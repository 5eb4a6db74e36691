//! Any bytes as a file of results: read or refused, judged, shown, and written so that it reads back.

use surety_model::formats::record::read;
use surety_report::json::record_json;
use surety_report::{Report, Row, Style, html, summary_of_all, table};

/// One input.
pub fn survives(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(file) = read(text) else { return };
    let rows: Vec<Row<'_>> =
        file.results.iter().map(|result| Row::new(&result.label, &result.record)).collect();
    let _ = summary_of_all(&rows);
    let style = Style::plain(100);
    rows.iter().for_each(|row| assert!(!table::record(row, &style).is_empty()));
    let report = Report {
        title: file.title.as_deref(),
        file: file.workload.as_deref(),
        rows: &rows,
        all_rows: true,
        ..Report::default()
    };
    assert!(html::page(&report).ends_with("</html>\n"));
    let again = read(&record_json(&report).to_string()).expect("what is written is read");
    assert_eq!(again.results.len(), file.results.len());
}
