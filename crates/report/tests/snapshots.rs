//! What people read, letter by letter. `SURETY_UPDATE_SNAPSHOTS=1 cargo test -p surety-report` rewrites the files.

mod shared;

use shared::{plan, records, rows, snapshot};
use surety_report::table::{self, Check, CheckVerdict};
use surety_report::{Report, Style, html};

#[test]
fn the_loop_in_one_table() {
    let records = records();
    let rows = rows(&records);
    for width in [80, 120] {
        snapshot(&format!("comparison-{width}.txt"), &table::comparison(&rows, &Style::plain(width)));
    }
    snapshot(
        "comparison-colour.txt",
        &table::comparison(&rows, &Style { colour: true, ..Style::plain(100) }),
    );
}

#[test]
fn one_world_in_full() {
    let records = records();
    let rows = rows(&records);
    snapshot("record-host.txt", &table::record(&rows[0], &Style::plain(100)));
    snapshot("record-analysis.txt", &table::record(&rows[1], &Style::plain(100)));
}

#[test]
fn plans_and_their_proofs() {
    for width in [80, 120] {
        snapshot(&format!("plan-{width}.txt"), &table::plan(&plan(), &Style::plain(width)));
    }
    snapshot("explain.txt", &table::explain(&plan(), &Style::plain(100)));
}

#[test]
fn before_and_after_as_bars() {
    let records = records();
    let response = |index: usize| {
        let (label, record): &(&str, _) = &records[index];
        (*label, record.activity("player").unwrap().response.as_ref().unwrap())
    };
    let deadline = records[0].1.activity("player").unwrap().deadline;
    let series = [response(0), response(1), response(4)];
    let text = table::distributions("player: response time", &series, deadline, &Style::plain(100));
    snapshot("bars.txt", &text);
}

#[test]
fn checks_and_statistics() {
    let check = |name: &str, verdict, found: &str, remedy: Option<&str>| Check {
        name: name.to_owned(),
        verdict,
        found: found.to_owned(),
        remedy: remedy.map(str::to_owned),
    };
    let list = [
        check("SCHED_DEADLINE", CheckVerdict::Good, "a thread may have a reservation", None),
        check(
            "budget enforcement",
            CheckVerdict::Limited,
            "on the tick: a task may overrun its budget by up to 4 ms, and every bound is wider by that",
            Some("echo HRTICK_DL > /sys/kernel/debug/sched/features"),
        ),
        check(
            "tracefs",
            CheckVerdict::Bad,
            "not mounted",
            Some("mount -t tracefs tracefs /sys/kernel/tracing"),
        ),
    ];
    snapshot("checks.txt", &table::checks(&list, &Style::plain(80)));
    let header =
        ["thread", "jobs", "mean", "p50", "p90", "p95", "p99", "p99.9", "max", "run", "waited", "how"];
    let line = |name: &str| {
        let mut cells = vec![name.to_owned()];
        cells.extend((1..=10).map(|i| format!("{i}2.34 ms")));
        cells.push("markers".to_owned());
        cells
    };
    snapshot("statistics.txt", &table::cells(&header, &[line("player"), line("audio")], &Style::plain(80)));
}

#[test]
fn the_page() {
    let records = records();
    let rows = rows(&records);
    let plan = plan();
    let report = Report {
        title: Some("A video player beside a busy network"),
        file: Some("player.toml"),
        rows: &rows,
        plan: Some(&plan),
        exit: Some(1),
        made: Some("surety guarantee, 2026-01-02 03:04 UTC"),
        ..Report::default()
    };
    snapshot("page.html", &html::page(&report));
}
