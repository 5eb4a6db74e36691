//! Scripted start-ups and accesses with the account that each must have, and the law that every one is shared out exactly.

use proptest::prelude::*;
use surety_model::event::{Event, EventKind, TraceSink};
use surety_units::{CpuId, Tid};

use super::super::disks::tests::feed;
use super::*;
use crate::blame::{BlameBuilder, Blames, DiskCause, SpansWanted};
use crate::jobs::tests::{any_script, feed as feed_any};
use crate::wanted::Wanted;

fn wanted(are_startups: bool, name: &str) -> SpansWanted {
    SpansWanted { are_startups, name: name.to_owned() }
}

fn spans(script: &str, are_startups: bool) -> Blames {
    let mut builder = BlameBuilder::of_spans(Wanted::default(), wanted(are_startups, "x"));
    feed(script, &mut builder);
    builder.finish()
}

/// `CAUSE MICROSECONDS` of each cause of the only span, in alphabetical order.
fn account(script: &str, are_startups: bool) -> String {
    let blames = spans(script, are_startups);
    let [blame] = blames.spans.told.as_slice() else { panic!("{:?}", blames.spans) };
    let word = |cause: Cause| match cause {
        Cause::Disk(DiskCause::Scheduler(by, rule)) => {
            format!("scheduler:{}:{}", by.comm, blames.rules[usize::from(rule.0)])
        }
        Cause::Disk(DiskCause::Device(by)) => format!("device:{}", by.comm),
        Cause::Disk(other) => format!("{other:?}").to_lowercase(),
        Cause::Ran(culprit) => format!("ran:{}", culprit.comm),
        Cause::Thread(culprit) => format!("behind:{}", culprit.comm),
        Cause::Awaited(culprit) => format!("awaited:{}", culprit.comm),
        Cause::Irq(irq) => format!("irq{irq}"),
        other => format!("{other:?}").to_lowercase(),
    };
    let causes = blame.average.causes.iter();
    let mut told: Vec<String> =
        causes.map(|(cause, time)| format!("{} {}", word(*cause), time.get() / 1000)).collect();
    told.sort();
    assert_eq!(blame.average.causes.values().copied().sum::<Nanos>(), blame.time());
    told.join("; ")
}

#[test]
fn the_path_goes_through_all_threads_and_the_disk() {
    for (what, script, expected) in [
        (
            "thread 7 waits for 8, which waits for the disk, which is at a request of 9 by some rule",
            "1 0@0 sw 0 9
             2 0@9 Q R 100 8
             3 0@9 I R 100 8
             4 0@9 D R 100 8
             5 0@9 sw 9:D 7
             6 0@7 says surety:begun:x
             10 0@7 waking 8
             12 0@7 sw 7:S 8
             14 0@8 Q R 500 8
             15 0@8 I R 500 8
             17 0@8 sw 8:D 0
             40 0@0 irq
             40 0@0 says surety:d:8:0:100:0:36000:0:0:0:in order
             40 0@0 C R 100 8
             40 0@0 waking 9
             41 0@0 irqx
             42 0@0 D R 500 8
             43 0@0 sw 0 9
             50 0@9 sw 9:S 0
             70 0@0 irq
             70 0@0 says surety:d:8:0:500:0:1000:9000:11000:7000:in order
             70 0@0 C R 500 8
             71 0@0 waking 8
             72 0@0 irqx
             74 0@0 sw 0 8
             80 0@8 waking 7
             83 0@8 sw 8:S 7
             90 0@7 says surety:over:ready:0:6000:90000:0:x",
            "behind:t8 3; completed 1; held(ruleid(1)) 2; idle 2; irq9 1; overhead 1; ran:t7 13; ran:t8 11; rotation 11; \
             scheduler:t9:in order 23; seek 9; transfer 7",
        ),
        (
            "of a thread of a replay it is think time where it says so: asleep and awake, and not without a CPU",
            "1 0@0 sw 0 7
             2 0@7 says surety:begun:x
             3 0@7 sw 7:S 8
             20 0@8 vec
             20 0@8 waking 7
             21 0@8 vecx
             25 0@8 sw 8:R+ 7
             35 0@7 says surety:thought:2000:30000
             40 0@7 sw 7:S 0
             60 0@0 vec
             60 0@0 waking 7
             61 0@0 vecx
             62 0@0 sw 0 7
             65 0@7 says surety:over:ready:0:2000:65000:0:x",
            "behind:t8 4; clock 20; idle 1; ran:t7 13; think 23; vector(\"local_timer\") 2",
        ),
        (
            "a thread that was not there yet is what its maker did; one that wakes before it was waited for is no matter",
            "1 0@0 sw 0 7
             2 0@7 says surety:begun:x
             10 0@7 new 8
             12 0@7 sw 7:S 8
             31 0@8 waking 7
             32 0@8 sw 8:X 7
             40 0@7 says surety:over:ready:0:2000:40000:0:x",
            "behind:t8 1; ran:t7 18; ran:t8 19",
        ),
        (
            "who only looks now and then names the thread that it waits for",
            "1 0@0 sw 0 7
             2 0@7 says surety:begun:x
             10 0@7 new 8
             12 0@7 sw 7:S 8
             20 0@8 vec
             20 0@8 waking 7
             21 0@8 vecx
             22 0@8 sw 8:R+ 7
             24 0@7 sw 7:S 8
             30 0@8 waking 7
             32 0@8 sw 8:X 7
             40 0@7 says surety:over:ready:0:2000:40000:8:x",
            "behind:t7 4; ran:t7 16; ran:t8 17; vector(\"local_timer\") 1",
        ),
        (
            "given up: what its first thread waits for is not known yet",
            "1 0@0 sw 0 7
             2 0@7 says surety:begun:x
             10 0@7 new 8
             12 0@7 sw 7:S 8
             20 0@8 sw 8:S 0
             30 0@0 vec
             30 0@0 waking 7
             31 0@0 vecx
             32 0@0 sw 0 7
             40 0@7 says surety:over:given-up:0:2000:40000:8:x",
            "behind:t7 2; ran:t7 8; ran:t8 8; unknown 20",
        ),
        (
            "threads nobody saw before are unknown until they were seen to be woken",
            "1 0@0 says surety:begun:x
             20 0@5 sw 5:S 7
             30 0@7 says surety:over:ready:0:2000:30000:0:x",
            "ran:t7 10; unknown 18",
        ),
    ] {
        assert_eq!(account(script, true), expected, "{what}");
    }
}

#[test]
fn an_access_is_told_from_its_release_whatever_its_thread_was_at() {
    // Access 1 is released at 20, while its thread waits for the disk for access 0, and dropped when the thread comes to it.
    let script = "1 0@0 sw 0 7
         2 0@7 Q R 100 8
         3 0@7 I R 100 8
         4 0@7 D R 100 8
         5 0@7 sw 7:D 0
         50 0@0 irq
         50 0@0 C R 100 8
         51 0@0 waking 7
         52 0@0 irqx
         53 0@0 sw 0 7
         60 0@7 says surety:over:dropped:1:20000:58000:0:x
         61 0@7 says surety:over:late:0:1000:59000:0:y";
    assert_eq!(account(script, false), "completed 1; idle 1; irq9 1; ran:t7 5; service 30");
    let names = &spans(script, false).spans.names;
    assert_eq!(
        names.iter().map(|(is, name)| (*is, name.as_str())).collect::<Vec<_>>(),
        [(false, "x"), (false, "y")]
    );
    assert_eq!(spans(script, true).spans.told, [], "no start-up is called so");
}

#[test]
fn what_begins_and_does_not_end_is_counted() {
    let script = "1 0@0 sw 0 7
         2 0@7 says surety:begun:x
         3 0@7 says surety:begun:x
         4 0@7 says surety:over:ready:1:3000:4000:0:x
         5 0@7 says surety:begun:x";
    let blames = spans(script, true);
    assert_eq!((blames.spans.told.len(), blames.spans.unended), (1, 2));
}

proptest! {
    /// However contradictory the events: the parts of a span sum to its time, whoever ends it.
    #[test]
    fn every_span_is_shared_out_exactly(
        script in any_script(),
        (begin, length) in (0..2_000_000i64, 0..3_000_000i64),
        (writer, worker) in (1..6i32, 0..7i32),
        (from, until) in (0..2_000_000i64, 0..1_000_000i64),
        fate in prop_oneof![Just("ready"), Just("given-up")],
    ) {
        let mut builder = BlameBuilder::of_spans(Wanted::default(), wanted(true, "x"));
        let mut say = |text: &str, time| {
            let (cpu, current, kind) = (CpuId(0), Tid(writer), EventKind::Marker { text });
            builder.event(&Event { time, cpu, current, kind });
        };
        say("surety:begun:x", Nanos::ZERO);
        feed_any(&script, &mut builder);
        let mut say = |text: &str| {
            let (cpu, current, kind) = (CpuId(0), Tid(writer), EventKind::Marker { text });
            builder.event(&Event { time: Nanos::SECOND, cpu, current, kind });
        };
        say(&format!("surety:thought:{from}:{}", from + until));
        say(&format!("surety:over:{fate}:0:{begin}:{}:{worker}:x", begin + length));
        let blames = builder.finish();
        prop_assert_eq!(blames.spans.told.len(), 1);
        let blame = &blames.spans.told[0];
        prop_assert_eq!(blame.time(), Nanos::new(length));
        prop_assert_eq!(blame.average.causes.values().copied().sum::<Nanos>(), Nanos::new(length));
        prop_assert!(blame.average.causes.values().all(|time| time.is_positive()), "{:?}", blame);
    }
}
