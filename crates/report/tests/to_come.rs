//! What a latency probe says of the next hour stands in its text and on the page: the time with its interval, or the reason.

use surety_model::record::{ActivityRecord, Basis, NextLargest, Record};
use surety_model::workload::ActivityKind;
use surety_report::{Report, Row, Style, html, table};
use surety_units::Nanos;

#[test]
fn the_next_hour_is_told_or_the_reason_why_not() {
    let mut told = ActivityRecord::new("cpu0", ActivityKind::Probe, Basis::Sample);
    told.next_largest = Some(NextLargest {
        peaks: Some(120),
        median_ns: Some(Nanos::from_micros(143)),
        low_ns: Some(Nanos::from_micros(120)),
        high_ns: Some(Nanos::from_micros(310)),
        because: None,
        ..NextLargest::untold(15_000, "")
    });
    let mut untold = ActivityRecord::new("cpu1", ActivityKind::Probe, Basis::Sample);
    untold.next_largest = Some(NextLargest::untold(90, "too few <values>"));
    let record = Record { activities: vec![told, untold], ..Record::default() };
    let rows = [Row::new("latency", &record)];
    let style = Style::plain(200);
    let sentence = "cpu0: median of the maximum of the next hour: 143.0 us (95 %: 120.0 us to 310.0 us), extrapolated from 15000 \
                    values; not a bound";
    let reason = "cpu1: the maximum of the next hour cannot be told: too few";
    let page = html::page(&Report { rows: &rows, ..Report::default() });
    for text in [table::latency(&rows[0], &style), table::record(&rows[0], &style), page.clone()] {
        assert!(text.contains(sentence) && text.contains(reason), "{text}");
    }
    assert!(page.contains("too few &lt;values&gt;"), "{page}");
}
