//! Expectations: what they read, what they refuse and where, and what records say of them.

use super::*;
use crate::record::{ActivityRecord, Basis, Caveat, Distribution, Figure, InForce, Observed, Record, Share};
use crate::workload::ActivityKind;

fn times(values: impl Iterator<Item = u64>) -> Distribution {
    let mut observed = Observed::default();
    values.for_each(|v| observed.record(Nanos::new(v as i64)));
    Distribution::from(observed)
}

/// A task whose response is 1 to `n` microseconds, with one miss, and a probe with two series.
fn record(n: u64) -> Record {
    let mut player = ActivityRecord::new("player", ActivityKind::Task, Basis::Sample);
    player.activations = n;
    player.completed = n - 1;
    player.skipped = 1;
    player.missed = 1;
    player.deadline = Some(Nanos::from_millis(40));
    // In no order: large values that stood together would count as one burst.
    player.response = Some(times((1..=n).map(|v| (v * 389 % n + 1) * 1_000)));
    player.share = Some(Share { threads: vec![(Nanos::new(25), None)], span: Nanos::new(100) });
    let mut disk = ActivityRecord::new("disk a", ActivityKind::Probe, Basis::Sample);
    disk.series.insert("read clat".to_owned(), times([70u64, 80].into_iter()));
    disk.series.insert("write clat".to_owned(), times([90u64].into_iter()));
    disk.figures.push(Figure { name: "read rate".to_owned(), value: 2e6, unit: "B/s".into() });
    Record {
        world: "host".to_owned(),
        reserved: false,
        seed: Some(1),
        duration: Some(Nanos::SECOND),
        in_force: InForce::default(),
        degraded: Vec::new(),
        activities: vec![player, disk],
        trace: None,
        hash: None,
    }
}

fn standing(text: &str, record: &Record) -> Standing {
    Expectation::parse(text).unwrap_or_else(|e| panic!("{e}")).check(record).standing
}

#[test]
fn records_hold_fail_or_cannot_tell() {
    use Standing::{CannotTell, Failed, Held};
    let record = record(1_000);
    for (text, expected) in [
        ("max == 1ms", Held),
        ("max < 1ms", Failed),
        ("min >= 1us", Held),
        ("median < 502us", Held),
        ("player.p99.9<1100us", Held),
        ("player.response.p99 < 900us", Failed),
        // 990 us lies in the bucket from 987.1 to 991.2 us: the histogram does not hold which side.
        ("p99 < 989us", CannotTell),
        ("mean <= 500.5us", Held),
        ("stddev < 1us", Failed),
        ("count == 1000", Held),
        ("missed == 0", Failed),
        ("missed <= 0.1%", Held),
        ("missed < 0.1%", Failed),
        ("upper(missed) < 1%", Held),
        ("upper(missed) < 0.2%", Failed),
        ("skipped <= 1", Held),
        ("completed == 999", Held),
        ("share >= 25%", Held),
        ("share > 25%", Failed),
        ("upper(p99) < 1ms", Held),
        ("lower(p99) > 970us", Held),
        // 2 995 values are needed.
        ("upper(p99.9) < 1s", Failed),
        ("'read rate' >= 2MB/s", Held),
        ("\"disk a\".'read rate' > 2MB/s", Failed),
        ("'read rate' > 1ms", CannotTell),
        ("'no rate' > 1ms", CannotTell),
        ("'read clat'.max == 80ns", Held),
        ("'disk a'.'write clat'.max < 90ns", Failed),
        ("latency.p99 < 1s", CannotTell),
        ("nobody.p99 < 1s", CannotTell),
        ("nobody.response.p99 < 1s", CannotTell),
        ("nobody.missed == 1", CannotTell),
    ] {
        assert_eq!(standing(text, &record), expected, "{text}");
    }
    let short = Expectation::parse("upper(p99.9) < 1s").unwrap().check(&record);
    assert!(short.findings[0].because.ends_with("more samples"), "{short:?}");
    let missing = Expectation::parse("nobody.response.p99 < 1s").unwrap().check(&record);
    assert!(missing.findings[0].because.contains("player, disk a"), "{missing:?}");
    // Whoever asks for an activity that is not there is told which are, whatever is asked of it.
    for (text, said) in [
        ("nobody.missed == 0", "no activity `nobody`: there is player, disk a"),
        ("nobody.share > 1%", "no activity `nobody`: there is player, disk a"),
        ("nobody.p99 < 1s", "no activity or time `nobody`: there is player, disk a, response"),
        ("player.clat.p99 < 1s", "no time `clat` of `player`: there is response"),
        ("'disk a'.missed == 0", "`disk a` counts no misses"),
        (
            "'disk a'.p99 < 1s",
            "it does not say which time of `disk a` is meant: there is read clat, write clat",
        ),
    ] {
        let checked = Expectation::parse(text).unwrap_or_else(|e| panic!("{e}")).check(&record);
        assert!(checked.findings[0].because.starts_with(said), "{text}: {checked:?}");
    }
}

/// 346 of 625 activations skipped: no quantile of the others holds what is expected of all.
#[test]
fn skipped_activations_stand_above_every_value() {
    let mut record = record(10);
    record.activities.truncate(1);
    let mut seen = Observed::default();
    for i in 0..625u64 {
        match (i + 1) * 346 / 625 > i * 346 / 625 {
            true => seen.record_never(),
            false => seen.record(Nanos::from_millis(120)),
        }
    }
    record.activities[0].response = Some(Distribution::from(seen));
    for (text, expected) in [
        ("p40 < 130ms", Standing::Held),
        ("p99 < 130ms", Standing::Failed),
        ("upper(p99) < 130ms", Standing::Failed),
        ("upper(p40) < 130ms", Standing::Held),
        ("max < 130ms", Standing::Failed),
        ("mean < 130ms", Standing::CannotTell),
    ] {
        assert_eq!(standing(text, &record), expected, "{text}");
    }
    let said = Expectation::parse("p99 < 130ms").unwrap().check(&record);
    assert!(
        said.findings[0].because.starts_with("never of 625 activations, 346 of them skipped"),
        "{said:?}"
    );
}

/// Late values that stand together are one piece of evidence for a bound, and many for a quantile.
#[test]
fn late_values_in_a_burst_do_not_bound_a_quantile() {
    let mut record = record(10);
    record.activities.truncate(1);
    let values = |late: fn(u64) -> bool| times((0..3_000).map(move |i| if late(i) { 50_000 } else { 1_000 }));
    record.activities[0].response = Some(values(|i| i % 200 == 0));
    assert_eq!(standing("upper(p99) < 2us", &record), Standing::Held);
    record.activities[0].response = Some(values(|i| (500..515).contains(&i)));
    assert_eq!(standing("p99 < 2us", &record), Standing::Held);
    assert_eq!(standing("upper(p99) < 2us", &record), Standing::Failed);
}

/// Every activity that has the term must meet it.
#[test]
fn all_activities_are_held_to_it() {
    let mut record = record(10);
    record.activities[1].response = Some(times([50_000_000u64].into_iter()));
    let checked = Expectation::parse("p50 < 1ms").unwrap().check(&record);
    let found: Vec<_> = checked.findings.iter().map(|f| (f.about.as_str(), f.standing)).collect();
    assert_eq!(found, [("player response", Standing::Held), ("disk a response", Standing::Failed)]);
    assert_eq!(checked.standing, Standing::Failed);
}

/// What is withheld from a verdict is withheld from an expectation.
#[test]
fn a_withheld_activity_meets_no_expectation() {
    let mut record = record(10);
    let before = [standing("player.p50 < 1s", &record), standing("player.p50 < 1ns", &record)];
    assert_eq!(before, [Standing::Held, Standing::Failed]);
    record.activities[0].caveats = vec![Caveat::withholds("its CPU was taken offline")];
    for text in ["player.p50 < 1s", "player.p50 < 1ns", "player.missed <= 10"] {
        let checked = Expectation::parse(text).unwrap().check(&record);
        assert_eq!(checked.standing, Standing::CannotTell, "{checked:?}");
        assert!(checked.findings[0].because.ends_with("but its CPU was taken offline"), "{checked:?}");
    }
}

/// A proof bounds from above: it can hold an expectation and never fail one.
#[test]
fn proofs_hold_and_never_fail() {
    let mut record = record(10);
    record.activities.truncate(1);
    record.activities[0].response = Some(Distribution::Limits(vec![(0.99, Nanos::from_millis(40))]));
    assert_eq!(standing("p99 <= 40ms", &record), Standing::Held);
    assert_eq!(standing("upper(p99) <= 40ms", &record), Standing::Held);
    assert_eq!(standing("p99 < 40ms", &record), Standing::CannotTell);
    assert_eq!(standing("upper(p99) < 40ms", &record), Standing::CannotTell);
    assert_eq!(standing("p99.9 < 1s", &record), Standing::CannotTell);
    assert_eq!(standing("max < 1s", &record), Standing::CannotTell);
}

#[test]
fn slips_are_refused_with_their_place() {
    for (text, span, word) in [
        ("", 0..0, "here stands what is measured"),
        ("< 3", 0..1, "here stands"),
        ("p99.9 < 50", 8..10, "unit"),
        ("p101 < 50us", 0..4, "p100"),
        ("meen < 50us", 0..4, "mean"),
        ("p99 = 50us", 4..5, "<="),
        ("p99 != 50us", 4..6, "<="),
        ("p99", 3..3, "<="),
        ("missed == none", 10..14, "count"),
        ("missed == 5us", 10..13, "count"),
        ("share >= 20", 9..11, "unit"),
        ("response.missed == 0", 0..8, "activity"),
        ("a.b.c.p99 < 1s", 4..5, "quotes"),
        ("upper(mean) < 1s", 0..11, "upper(pN)"),
        ("upper(p99 < 1s", 0..14, "not closed"),
        ("'read rate > 1", 0..14, "no end"),
        ("'read rate' > fast", 14..18, "no value"),
        ("p99 <", 5..5, "time"),
        ("player. < 1s", 8..9, "here stands"),
    ] {
        let error = Expectation::parse(text).unwrap_err();
        assert_eq!(error.span, span, "{text}: {error}");
        assert!(error.message.contains(word), "{text}: {error}");
    }
    let shown = Expectation::parse("é.meen < 50us").unwrap_err().to_string();
    assert!(shown.ends_with("\n    é.meen < 50us\n      ^^^^"), "{shown}");
}

proptest::proptest! {
    /// Whatever is written, reading it ends, and what it points at lies in the text.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        if let Err(error) = Expectation::parse(&text) {
            proptest::prop_assert!(error.text.get(error.span.clone()).is_some());
        }
    }

    /// The words of the grammar in any order.
    #[test]
    fn any_words_are_read_or_refused(
        words in proptest::collection::vec(
            proptest::sample::select(vec!["p99", ".", "9", "upper(", ")", "'", "missed", "<", "=", " ", "5us", "%", "é"]),
            0..10,
        ),
    ) {
        let text = words.concat();
        if let Ok(read) = Expectation::parse(&text) {
            let again = Expectation::parse(&read.to_string());
            proptest::prop_assert_eq!(again, Ok(read));
        }
    }
}
