//! Links in the world `sim`: when packets are off them, who gets how much, and what is refused.

mod common;

use common::{simulate, try_simulate};
use surety_block::fairq;
use surety_model::record::{ActivityRecord, Record};
use surety_model::verdict::{Outcome, judge};
use surety_model::workload::LINK_SCHEDULERS;
use surety_model::world::WorldError;
use surety_units::Nanos;

/// A link on which a byte takes a microsecond, and flows.
fn on_link(scheduler: &str, flows: &str) -> String {
    format!("[link.l]\nrate = \"8Mbit/s\"\nscheduler = \"{scheduler}\"\n{flows}")
}

/// `count` flows that keep `outstanding` packets of 1000 bytes in flight.
fn bulk(name: &str, count: u32, outstanding: u32, weight: u32) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nlink = \"l\"\ncount = {count}\nweight = {weight}\npacket = \"1000B\"\n\
         arrivals = {{ kind = \"closed\", outstanding = {outstanding}, service = \"1us\" }}\n"
    )
}

const VOICE: &str = "[[flow]]\nname = \"voice\"\nlink = \"l\"\npacket = \"200B\"\nstart = \"1s\"\n\
                     arrivals = { kind = \"periodic\", period = \"20ms\" }\n\
                     promise = [\"latency <= 13ms @ 99%\", \"rate >= 9kB/s\", \"share >= 1%\"]\n";

fn activity<'a>(record: &'a Record, name: &str) -> &'a ActivityRecord {
    record.activity(name).unwrap_or_else(|| panic!("{name} has a record"))
}

fn worst(distribution: &Option<surety_model::record::Distribution>) -> Nanos {
    let seen = distribution.as_ref().and_then(|d| d.observed()).expect("observed");
    Nanos::new(seen.histogram.max().expect("something was seen").cast_signed())
}

fn rate(record: &Record, name: &str) -> f64 {
    activity(record, name).figures.iter().find(|figure| figure.name == "rate").expect("a rate").value
}

/// 2500 bytes are three packets, and 2.5 ms with nobody beside.
#[test]
fn a_message_goes_in_packets_and_takes_its_length_by_the_rate() {
    let flow = "[[flow]]\nname = \"f\"\nlink = \"l\"\npacket = \"1000B\"\nsize = \"2500B\"\n\
                arrivals = { kind = \"periodic\", period = \"10ms\" }\n";
    for row in LINK_SCHEDULERS {
        let record = simulate(&on_link(row.word, flow), 1, 1);
        let flow = activity(&record, "f");
        assert_eq!((flow.activations, flow.completed, flow.unfinished), (100, 100, 0), "{}", row.word);
        assert_eq!((worst(&flow.latency), worst(&flow.response)), (Nanos::ZERO, Nanos::from_micros(2500)));
        assert_eq!(rate(&record, "f"), 250_000.0, "{}", row.word);
    }
}

/// A packet of 1 ms and a pause of 1 ms: one in 2 ms.
#[test]
fn a_closed_flow_sends_again_so_long_after_its_message_is_off_the_link() {
    let flow = "[[flow]]\nname = \"f\"\nlink = \"l\"\npacket = \"1000B\"\n\
                arrivals = { kind = \"closed\", outstanding = 1, service = \"1ms\" }\n";
    let record = simulate(&on_link("fifo", flow), 2, 1);
    assert_eq!(activity(&record, "f").completed, 1_000);
}

/// Weights 2 and 6 beside each other; FIFO alone divides by what each has in flight. A flow of weight 1 would be raised.
#[test]
fn bulk_flows_share_the_link_by_their_weights() {
    for row in LINK_SCHEDULERS {
        let flows = format!("{}{}", bulk("light", 1, 20, 2), bulk("heavy", 1, 20, 6));
        let record = simulate(&on_link(row.word, &flows), 20, 1);
        let (light, heavy) = (rate(&record, "light"), rate(&record, "heavy"));
        assert!((light + heavy - 1e6).abs() < 1e3, "{}: {light} and {heavy}", row.word);
        let expected = if row.word == "fifo" { 1.0 } else { 3.0 };
        let ratio = heavy / light;
        assert!((ratio / expected - 1.0).abs() < 0.01, "{}: {ratio}", row.word);
    }
}

/// Forty packets of 1 ms stand before a packet of the voice in one queue; one of each flow by turns.
#[test]
fn a_sparse_flow_waits_for_a_round_and_not_for_all_that_is_queued() {
    for (scheduler, outcome) in [("fifo", Outcome::Broken), ("drr", Outcome::Kept), ("qfq", Outcome::Kept)] {
        let text = on_link(scheduler, &format!("{}{VOICE}", bulk("bulk", 10, 4, 1)));
        let record = simulate(&text, 20, 1);
        let judged = judge(activity(&record, "voice"));
        let judged: Vec<Outcome> = judged.iter().map(|verdict| verdict.outcome).collect();
        assert_eq!(judged, [outcome, Outcome::Undecided, Outcome::NotObservable], "{scheduler}");
    }
}

#[test]
fn a_run_repeats_itself() {
    let flows = "[[flow]]\nname = \"f\"\nlink = \"l\"\npacket = \"500B\"\ncount = 3\n\
                 arrivals = { kind = \"poisson\", rate = \"300/s\" }\n";
    let text = on_link("wf2q+", flows);
    let record = simulate(&text, 5, 1);
    assert_eq!(format!("{record:?}"), format!("{:?}", simulate(&text, 5, 1)));
    let completed = activity(&record, "f").completed;
    assert!((4_200..4_800).contains(&completed), "{completed}");
}

#[test]
fn packets_take_no_time_of_tasks() {
    let task = "[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"3ms\"\n";
    let alone = simulate(task, 2, 1);
    let beside = simulate(&format!("{task}{}", on_link("qfq", &bulk("bulk", 10, 4, 1))), 2, 1);
    assert_eq!(format!("{:?}", activity(&alone, "t")), format!("{:?}", activity(&beside, "t")));
    assert!(beside.in_force.environment["link l"].contains("qfq"));
}

#[test]
fn what_a_link_cannot_carry_is_refused_by_name() {
    let flow = |keys: &str| format!("[[flow]]\nname = \"f\"\nlink = \"l\"\n{keys}\n");
    for (rate, keys, why) in [
        ("8Mbit/s", "arrivals = { kind = \"poisson\", rate = \"0/s\" }", "none of its messages"),
        ("8Mbit/s", "arrivals = { kind = \"periodic\", period = \"10ns\" }", "faster than one every"),
        (
            "100Gbit/s",
            "packet = \"64B\"\narrivals = { kind = \"periodic\", period = \"1ms\" }",
            "is off the link in",
        ),
    ] {
        let text = format!("[link.l]\nrate = \"{rate}\"\n{}", flow(keys));
        match try_simulate(&text, 1, 1) {
            Err(WorldError::Unsupported { object, why: said, .. }) => {
                assert_eq!(object, "flow.f");
                assert!(said.contains(why) && said.contains(';'), "{said}");
            }
            other => panic!("{keys}: {other:?}"),
        }
    }
}

/// HFSC: beside six flows with 12.5 ms of deadline for a packet, a voice is due in 20 ms by its rate alone, and in 5 ms by a concave
/// curve. Curves that together are above the link are refused.
#[test]
fn a_service_curve_says_when_packets_are_due() {
    let worst_of = |first: &str| {
        let others = bulk("bulk", 6, 4, 1).replace(
            "arrivals",
            "curve = { first = \"640kbit/s\", bend = \"0s\", then = \"640kbit/s\" }\narrivals",
        );
        let curve =
            format!("curve = {{ first = \"{first}\", bend = \"5ms\", then = \"80kbit/s\" }}\narrivals");
        let text = on_link("hfsc", &format!("{others}{}", VOICE.replace("arrivals", &curve)));
        try_simulate(&text, 20, 1).map(|record| worst(&activity(&record, "voice").response))
    };
    let (linear, concave) = (worst_of("80kbit/s").unwrap(), worst_of("320kbit/s").unwrap());
    // The deadline, and a packet of another flow that is on the link.
    assert!(concave <= Nanos::from_millis(6), "{concave}");
    assert!(linear > concave && linear <= Nanos::from_millis(21), "{linear}");
    let refused = worst_of("5Mbit/s").unwrap_err().to_string();
    assert!(refused.contains("link.l: the curves of its flows together"), "{refused}");
}

/// The model names the schedulers, and the simulator has them.
#[test]
fn every_word_of_a_scheduler_is_one_of_the_simulator() {
    let words: Vec<(&str, Option<&str>)> = fairq::SCHEDULERS.iter().map(|row| (row.word, row.tc)).collect();
    let known: Vec<(&str, Option<&str>)> = LINK_SCHEDULERS.iter().map(|row| (row.word, row.tc)).collect();
    assert_eq!(words, known);
}
