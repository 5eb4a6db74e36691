//! Traces of simulated disks: what the events of the block layer say, and the account of waits that is made of them.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use proptest::prelude::*;
use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, Event, EventKind, LeaveState, RequestServed, TraceSink as _,
};
use surety_model::record::Record;
use surety_model::world::{Observer, RunOptions, Unobserved, World};
use surety_trace::blame::{Blames, Cause, DiskCause, Worst};
use surety_trace::{BlameBuilder, Wanted};
use surety_units::{CpuSet, Nanos, Tid};

use common::{workload, world};

/// Follows a run: the account, and what tests hold it against.
struct Follower {
    waits: BlameBuilder,
    blocks: Vec<(Nanos, BlockEvent)>,
    /// Where the time of a completed request went, by the marker before its completion.
    served: Vec<(Nanos, Nanos)>,
    asleep: BTreeMap<Tid, Nanos>,
    /// Sleeps that no signal ends, up to the thread's being on a CPU again.
    slept: BTreeMap<Tid, Vec<Nanos>>,
}

impl Follower {
    fn new(wanted: Wanted) -> Follower {
        let (waits, blocks) = (BlameBuilder::of_waits(wanted, 1 << 16), Vec::new());
        Follower { waits, blocks, served: Vec::new(), asleep: BTreeMap::new(), slept: BTreeMap::new() }
    }
}

impl Observer for Follower {
    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        self.waits.event(event);
        match event.kind {
            EventKind::Block(block) => self.blocks.push((event.time, block)),
            EventKind::Marker { text } => {
                if let Some(served) = RequestServed::parse(text) {
                    self.served.push((event.time, served.parts.into_iter().sum()));
                }
            }
            EventKind::Switch { prev, prev_state, next, .. } => {
                if prev_state == LeaveState::Uninterruptible {
                    self.asleep.insert(prev, event.time);
                }
                if let Some(since) = self.asleep.remove(&next) {
                    self.slept.entry(next).or_default().push(event.time - since);
                }
            }
            _ => {}
        }
    }
}

fn options() -> RunOptions {
    RunOptions { duration: Nanos::from_secs(2), cpus: Some(CpuSet::first(2)), ..RunOptions::default() }
}

fn traced(text: &str, wanted: Wanted) -> (Record, Follower) {
    let mut follower = Follower::new(wanted);
    let record = world().run(&workload(text), &options(), &mut follower).unwrap_or_else(|e| panic!("{e}"));
    (record, follower)
}

fn blames(follower: Follower) -> Blames {
    follower.waits.finish()
}

/// Any mix of loads on one disk, or on that of a guest there.
fn any_workload() -> impl Strategy<Value = String> {
    let models = prop::sample::select(vec!["hdd-2004", "hdd-7200", "ssd-sata", "emmc", "virtio-hdd"]);
    let schedulers = prop::sample::select(vec![
        "none",
        "mq-deadline",
        "kyber",
        "bfq",
        "noop",
        "deadline",
        "anticipatory",
        "cfq-v2",
        "cfq",
        "abiss",
    ]);
    let load = (
        prop::sample::select(vec!["readers", "writers", "file-copy"]),
        1u32..4,
        prop::sample::select(vec!["64KiB", "1MiB"]),
        any::<bool>(),
        any::<bool>(),
    );
    let loads = prop::collection::vec(load, 1..4);
    (models, schedulers, loads, any::<bool>()).prop_map(|(model, scheduler, loads, in_guest)| {
        let mut text = format!("[disk.d]\nmodel = \"{model}\"\nscheduler = \"{scheduler}\"\n");
        let disk = if in_guest { "g" } else { "d" };
        if in_guest {
            text += &format!("[disk.g]\non = \"d\"\nmake = \"1GB\"\nscheduler = \"{scheduler}\"\n");
        }
        for (at, (kind, count, block, random, limited)) in loads.into_iter().enumerate() {
            text += &format!(
                "[[load]]\nname = \"{kind}{at}\"\nkind = \"{kind}\"\ncount = {count}\ndisk = \"{disk}\"\nsize = \"8MiB\"\nblock = \"{block}\"\n"
            );
            if random && kind != "file-copy" {
                text += "random = true\ndirect = true\n";
            }
            if limited {
                text += "rate = \"5MB/s\"\n";
            }
        }
        text
    })
}

/// Every request is given to the disk once and comes back once, its sectors as they were; the marker's parts sum to its time in the device.
fn check_requests(follower: &Follower) {
    let mut open: BTreeMap<(DiskNumber, u64, &str), (Nanos, u64)> = BTreeMap::new();
    let mut served = follower.served.iter();
    let mut completed = 0;
    for (time, block) in &follower.blocks {
        let key = (block.disk, block.sector, block.rwbs.text());
        match block.step {
            BlockStep::Issued => {
                let before = open.insert(key, (*time, block.end()));
                assert!(before.is_none(), "{block:?} is in the device twice");
            }
            BlockStep::Completed => {
                let (issued, end) = open.remove(&key).unwrap_or_else(|| panic!("{block:?} was not issued"));
                assert_eq!(end, block.end());
                if block.rwbs.text() != "FF" {
                    let (at, sum) = served.next().unwrap();
                    assert_eq!((*at, *sum), (*time, *time - issued), "{block:?}");
                }
                completed += 1;
            }
            _ => {}
        }
    }
    assert!(completed > 0, "no request");
}

/// The account of each wait has every nanosecond of it once, and there is one for each sleep that a disk ended.
fn check_waits(slept: &BTreeMap<Tid, Vec<Nanos>>, worst: &[Worst]) {
    let mut told: BTreeMap<Tid, Vec<Nanos>> = BTreeMap::new();
    for Worst { tid, chain, .. } in worst {
        let mut at = chain.job.release;
        for piece in &chain.pieces {
            assert_eq!(piece.from, at);
            at = piece.until;
        }
        assert_eq!(at, chain.job.completion, "{chain:?}");
        let sum: Nanos = chain.parts().iter().map(|part| part.time).sum();
        assert_eq!(sum, chain.job.response());
        told.entry(*tid).or_default().push(chain.job.response());
    }
    for (tid, waits) in slept {
        // What took no time has no piece, and need not be told.
        let sorted = |waits: &[Nanos]| {
            let mut waits: Vec<Nanos> = waits.iter().copied().filter(|wait| wait.is_positive()).collect();
            waits.sort_unstable();
            waits
        };
        let found = told.get(tid).map_or(&[][..], Vec::as_slice);
        assert_eq!(sorted(found), sorted(waits), "{tid}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_of_every_wait_sum_to_it(text in any_workload()) {
        let (record, follower) = traced(&text, Wanted::default());
        let untraced = world().run(&workload(&text), &options(), &mut Unobserved).unwrap();
        prop_assert_eq!(record.hash, untraced.hash, "tracing changes nothing");
        check_requests(&follower);
        let slept = follower.slept.clone();
        let blames = blames(follower);
        check_waits(&slept, &blames.worst);
        prop_assert_eq!(blames.all.causes.values().copied().sum::<Nanos>(), blames.all.response);
        prop_assert_eq!(blames.all.causes.get(&Cause::Unknown), None);
        // A simulated disk's interrupt takes no time: who is woken later than its request was complete waited for something else.
        let completed = blames.all.causes.get(&Cause::Disk(DiskCause::Completed)).copied();
        prop_assert_eq!(completed.unwrap_or_default(), Nanos::ZERO);
        // A sleep is told as far as a request explains it; the rest is not blamed on anybody. Where all processes write, those above the dirty
        // limit wait for requests that the flusher makes meanwhile: what lies before them is a tenth, and more.
        let unexplained = blames.all.causes.get(&Cause::Blocked).copied().unwrap_or_default();
        let part = if text.contains("readers") { 10 } else { 6 };
        prop_assert!(unexplained * part <= blames.all.response, "{} of {}", unexplained, blames.all.response);
    }
}

const BURST: &str = "[disk.d]\nmodel = \"hdd-2004\"\nscheduler = \"SCHEDULER\"\n\
    [[load]]\nname = \"reader\"\nkind = \"readers\"\ncount = 1\ndisk = \"d\"\nsize = \"8MiB\"\nblock = \"64KiB\"\nrandom = true\ndirect = true\nrate = \"500kB/s\"\n\
    [[load]]\nname = \"writer\"\nkind = \"writers\"\ncount = 1\ndisk = \"d\"\nsize = \"64MiB\"\nblock = \"1MiB\"\n";

/// A reader behind another's burst of writes: where it waits longest, that one is named, and the rule of the scheduler that let it
/// go first.
#[test]
fn a_reader_behind_a_burst_of_writes_names_the_writer_and_the_rule() {
    for (scheduler, rules) in [
        ("none", &["order of arrival"][..]),
        ("mq-deadline", &["first above the last position of its direction", "next in the batch", "expired"]),
    ] {
        let wanted = Wanted { names: vec![Comm::new("reader")], ..Wanted::default() };
        let (_, follower) = traced(&BURST.replace("SCHEDULER", scheduler), wanted);
        let blames = blames(follower);
        let worst = &blames.worst[0];
        assert_eq!(worst.comm, Comm::new("reader"));
        let (mut behind, mut own, mut rule_of) = (Nanos::ZERO, Nanos::ZERO, Vec::new());
        let (writer, device) = (Comm::new("writer"), Comm::default());
        for part in worst.chain.parts() {
            match part.cause {
                Cause::Disk(DiskCause::Scheduler(by, rule)) => {
                    rule_of.push(blames.rules[usize::from(rule.0)].clone());
                    assert_eq!(by.comm, writer, "{scheduler}");
                    behind += part.time;
                }
                // What a disk has in its cache is its own to write.
                Cause::Disk(DiskCause::Device(by)) if by.comm == device => {}
                Cause::Disk(DiskCause::Device(by)) => {
                    assert_eq!(by.comm, writer, "{scheduler}");
                    behind += part.time;
                }
                Cause::Disk(DiskCause::Seek | DiskCause::Rotation | DiskCause::Transfer) => own += part.time,
                _ => {}
            }
        }
        let whole = worst.chain.job.response();
        assert!(behind * 5 > whole * 2, "{scheduler}: {behind} of {whole}: {:?}", worst.chain.parts());
        assert!(own.is_positive() && own < behind, "{scheduler}: {own}");
        for rule in &rule_of {
            assert!(rule.is_empty() || rules.contains(&rule.as_str()), "{scheduler}: {rule}");
        }
    }
}

/// Alone, nobody is in its way: its waits are the disk's own.
#[test]
fn a_reader_alone_waits_for_the_disk_only() {
    let text = BURST.split("[[load]]\nname = \"writer\"").next().unwrap().replace("SCHEDULER", "bfq");
    let (_, follower) = traced(&text, Wanted::default());
    let blames = blames(follower);
    assert!(blames.all.jobs > 5, "{}", blames.all.jobs);
    for (cause, time) in &blames.all.causes {
        let is_own = matches!(
            cause,
            Cause::Disk(
                DiskCause::Overhead
                    | DiskCause::Seek
                    | DiskCause::Rotation
                    | DiskCause::Transfer
                    | DiskCause::Completed
            )
        );
        assert!(is_own || time.get() == 0, "{cause:?} {time}");
    }
}

/// Beside a thread that computes on the only CPU requests leave the I/O scheduler when one is complete: the kernel's worker has nice -20 and
/// takes the CPU. It has to wait for one of realtime priority, and the disk with it.
#[test]
fn the_worker_of_a_queue_waits_for_realtime_threads() {
    for (policy, preempts) in [("fair", true), ("fifo:10", false)] {
        let text = format!(
            "[disk.d]\nmodel = \"hdd-2004\"\nscheduler = \"mq-deadline\"\n\
             [[load]]\nname = \"readers\"\nkind = \"readers\"\ncount = 4\nsize = \"8MiB\"\ndisk = \"d\"\n\
             [[task]]\nname = \"spins\"\nperiod = \"100ms\"\nwork = \"50ms\"\npolicy = \"{policy}\"\n"
        );
        let mut follower = Follower::new(Wanted::default());
        let options = RunOptions { cpus: Some(CpuSet::first(1)), ..options() };
        world().run(&workload(&text), &options, &mut follower).unwrap();
        let issued = || follower.blocks.iter().filter(|(_, block)| block.step == BlockStep::Issued);
        let beside_it = issued().filter(|(_, block)| block.comm == Comm::new("spins")).count();
        assert!(issued().count() > 50, "{policy}");
        assert_eq!(beside_it > 10, preempts, "{policy}: {beside_it}");
        assert!(preempts || beside_it == 0, "{policy}: {beside_it}");
    }
}

/// What the host's process makes again for a virtual disk is told in the order of its steps on the host's disk, flushes too, and is of that process,
/// whatever thread is on the CPU.
#[test]
fn requests_of_a_virtual_disk_are_told_of_the_hosts_process() {
    let text = "[disk.d]\nmodel = \"ssd-sata\"\nscheduler = \"bfq\"\n[disk.a]\non = \"d\"\nmake = \"1GB\"\nscheduler = \"mq-deadline\"\n\
        [[load]]\nname = \"writers\"\nkind = \"writers\"\ncount = 2\nsize = \"16MB\"\ndisk = \"a\"\n\
        [[task]]\nname = \"spins\"\nperiod = \"10ms\"\nwork = \"6ms\"\n";
    let (_, follower) = traced(text, Wanted::default());
    let (host, vm) = (follower.blocks[0].1.disk.major, Comm::new("vm/a"));
    let of_host = || follower.blocks.iter().map(|(_, block)| block).filter(|block| block.disk.minor == 0);
    let (mut queued, mut inserted) = (BTreeMap::new(), BTreeMap::new());
    for block in of_host() {
        assert_eq!(block.disk.major, host);
        assert!(block.step == BlockStep::Issued || !block.step.has_name() || block.comm == vm, "{block:?}");
        let key = (block.sector, block.rwbs.text());
        match block.step {
            BlockStep::BioQueued => *queued.entry(key).or_insert(0) += 1,
            BlockStep::Inserted => *inserted.entry(key).or_insert(0) += 1,
            BlockStep::Issued if block.sectors == 0 => assert!(queued.contains_key(&key), "{block:?}"),
            BlockStep::Issued => {
                assert!(queued.contains_key(&key), "{block:?} was not submitted");
                let left: Option<&mut i32> = inserted.get_mut(&key);
                *left.filter(|left| **left > 0).unwrap_or_else(|| panic!("{block:?} was not inserted")) -= 1;
            }
            _ => {}
        }
    }
    let steps = |step| of_host().filter(|block| block.step == step).count();
    assert!(steps(BlockStep::Issued) > 10 && of_host().any(|block| block.rwbs.text() == "FF"));
}

const TWO_GUESTS: &str = "[disk.d]\nmodel = \"hdd-2004\"\nscheduler = \"none\"\n\
    [disk.a]\non = \"d\"\nmake = \"10GB\"\nscheduler = \"none\"\n[disk.b]\non = \"d\"\nmake = \"10GB\"\nscheduler = \"none\"\n\
    [[stream]]\nname = \"film\"\ndisk = \"a\"\nfile = { make = \"100MB\" }\nrate = \"1MB/s\"\nread = \"64KiB\"\n\
    [[load]]\nname = \"flood\"\nkind = \"readers\"\ncount = 10\nrandom = true\ndirect = true\nblock = \"64KiB\"\nsize = \"64MiB\"\ndisk = \"b\"\n";

/// A film in one guest beside ten readers in another: it waits behind the other's process in the host's queue, then for the host's disk. The record
/// says of the guest's requests what the host's disk did with them.
#[test]
fn a_film_in_a_guest_waits_behind_the_other_guest_and_for_the_hosts_disk() {
    let wanted = Wanted { names: vec![Comm::new("film")], ..Wanted::default() };
    let (record, follower) = traced(TWO_GUESTS, wanted);
    check_requests(&follower);
    let blames = blames(follower);
    let of = |is: &dyn Fn(&DiskCause) -> bool| -> Nanos {
        let disks = blames.all.causes.iter();
        disks.filter_map(|(cause, time)| matches!(cause, Cause::Disk(c) if is(c)).then_some(*time)).sum()
    };
    let other = Comm::new("vm/b");
    let behind = of(&|cause| matches!(cause, DiskCause::Scheduler(by, _) if by.comm == other));
    let moves = of(&|cause| matches!(cause, DiskCause::Seek | DiskCause::Rotation));
    let (transfer, whole) = (of(&|cause| *cause == DiskCause::Transfer), blames.all.response);
    assert!(behind * 2 > whole && behind < whole, "{behind} of {whole}: {:?}", blames.all.causes);
    assert!(moves.is_positive() && transfer.is_positive(), "{:?}", blames.all.causes);
    assert_eq!(of(&|cause| matches!(cause, DiskCause::Device(_) | DiskCause::Service)), Nanos::ZERO);

    let film = record.activity("film").unwrap();
    let mean = |part: &str| film.series[part].observed().unwrap().moments.mean().unwrap();
    assert!(mean("request seek") > 1e6 && mean("request transfer") > 1e6 && mean("request rotation") > 1e6);
}
