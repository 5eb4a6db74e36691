//! Streams with scripted accesses; the real ones are in the tests of the program.

use surety_model::promise::Promise;
use surety_model::record::Evidence;
use surety_model::workload::ActivityKind;
use surety_units::Bytes;

use super::*;

const MS: fn(i64) -> Nanos = Nanos::from_millis;

/// A stream of 10 blocks a second of 1000 bytes each.
fn stream() -> Stream {
    Stream {
        io_priority: None,
        group: None,
        name: "s".to_owned(),
        count: 1,
        disk: None,
        file: StreamFile::Make(Bytes(100_000)),
        rate: Rate(10_000),
        direction: Direction::Read,
        access: Some(Bytes(1000)),
        jitter: None,
        buffer: None,
        batch: None,
        overlap: false,
        bound: None,
        admitted: false,
        mode: BatchMode::default(),
        promises: ["late == 0", "dropped == 0", "rate >= 9kB/s", "lost == 0"]
            .map(|text| Promise::parse(text).unwrap())
            .to_vec(),
    }
}

fn access(release: i64, start: i64, end: i64) -> StreamAccess {
    StreamAccess { release: MS(release), done: Some((MS(start), MS(end))) }
}

fn window() -> Window {
    Window::new(Nanos::ZERO, MS(100), MS(900))
}

#[test]
fn late_dropped_and_open_accesses_are_counted_once_and_warm_up_not() {
    let run = StreamRun {
        accesses: vec![
            access(0, 0, 99),
            access(100, 101, 111),
            access(200, 200, 420),
            StreamAccess { release: MS(300), done: None },
            access(400, 420, 425),
            access(800, 800, 900),
            access(900, 900, 1200),
        ],
        ..StreamRun::default()
    };
    let record = record(&stream(), &[&run], &window());
    assert_eq!((record.activations, record.completed), (6, 4));
    assert_eq!((record.skipped, record.unfinished, record.missed), (1, 1, 2));
    assert_eq!(record.deadline, Some(MS(100)));
    let value = |value: f64| Evidence::Value { value, of_demand: None };
    assert_eq!(record.evidence()[..2], [&value(2.0), &value(1.0)]);
    assert_eq!(record.promised[2].evidence, value(4000.0 / 0.9));
    assert!(
        matches!(&record.promised[3].evidence, Evidence::NotObservable { because } if because.contains("stream"))
    );
    let took = record.series["read latency"].observed().unwrap();
    assert_eq!(took.in_order().unwrap().values(), [10_000_000, 220_000_000, 5_000_000, 100_000_000]);
    // Shown at 200, 420, 500 and 900.
    let frames = record.series["frame distance"].observed().unwrap();
    assert_eq!(frames.in_order().unwrap().values(), [220_000_000, 80_000_000, 400_000_000]);
    assert_eq!(record.execution.is_none(), record.kind == ActivityKind::Stream);
}

#[test]
fn a_buffer_gives_time() {
    let with = Stream { buffer: Some(Bytes(5000)), ..stream() };
    assert_eq!(with.deadline(), MS(500));
    // A promise makes an access due before that, not later.
    for (limit, due) in [("response <= 20ms", 20), ("response <= 2s", 500)] {
        let promises = vec![Promise::parse(limit).expect("a promise")];
        assert_eq!(Stream { promises, ..with.clone() }.deadline(), MS(due), "{limit}");
    }
    let run =
        StreamRun { accesses: vec![access(200, 200, 620), access(300, 620, 801)], ..StreamRun::default() };
    assert_eq!(record(&with, &[&run], &window()).missed, 1);
}

#[test]
fn accesses_of_several_threads_are_in_the_order_of_time() {
    let one =
        StreamRun { accesses: vec![access(100, 100, 101), access(200, 200, 203)], ..StreamRun::default() };
    let two =
        StreamRun { accesses: vec![access(100, 100, 102), access(200, 200, 204)], ..StreamRun::default() };
    let record = record(&stream(), &[&one, &two], &window());
    let took = record.series["read latency"].observed().unwrap();
    assert_eq!(took.in_order().unwrap().values(), [1_000_000, 2_000_000, 3_000_000, 4_000_000]);
}

#[test]
fn what_cannot_be_done_is_refused_in_words() {
    for (wrong, part) in [
        (Stream { rate: Rate(0), ..stream() }, "`rate`"),
        (Stream { buffer: Some(Bytes(999)), ..stream() }, "`buffer`"),
        (Stream { jitter: Some(MS(1)), ..stream() }, "`jitter`"),
        (Stream { mode: BatchMode::Longest, ..stream() }, "`mode`"),
        (Stream { count: COUNT_MAX + 1, ..stream() }, "at most"),
        (
            Stream { file: StreamFile::Path("f".to_owned()), direction: Direction::Write, ..stream() },
            "made for the run",
        ),
    ] {
        let why = check(&wrong).unwrap_err().to_string();
        assert!(why.contains(part), "{why}");
    }
    assert!(check(&stream()).is_ok());
    assert!(found("/no/such/file", 1, false).unwrap_err().contains("No such file"));
    assert!(found("/", 1, false).unwrap_err().contains("no file"));
}

/// A real player over a real file, with a window long past: everything released is dropped or open, and nothing hangs.
#[test]
fn a_player_that_comes_too_late_drops_and_ends() {
    let cancel = surety_model::world::Cancel::default();
    let ground = Ground { disks: None, mark: None, cancel: &cancel };
    let mut player = Player::prepare(&stream(), 0, (&ground, &mut Stations::default())).unwrap();
    let release = |number| release_of(player.rate, player.block, number);
    assert_eq!((release(0), release(1), release(25)), (MS(0), MS(100), MS(2500)));
    let now = clock::monotonic();
    // Releases at -1 s, -0.9 s, ...: those due before now are dropped.
    let window = Window { begin: now - Nanos::SECOND, observe: now - Nanos::SECOND, end: now + MS(300) };
    let run = player.run(&Gate::default(), &window);
    assert!(run.trouble.is_none());
    assert_eq!(run.accesses.len(), 13);
    assert!(run.accesses.iter().filter(|a| a.done.is_none()).count() >= 9, "{:?}", run.accesses);
    let releases: Vec<Nanos> = run.accesses.iter().map(|a| a.release).collect();
    assert!(releases.is_sorted_by(|a, b| a < b), "{releases:?}");
    // One whose end has come when it begins leaves all that was released open.
    let over = Window { begin: now - Nanos::SECOND, observe: now - Nanos::SECOND, end: now };
    let run = player.run(&Gate::default(), &over);
    assert_eq!(run.accesses.len(), 10);
    assert!(run.accesses.iter().all(|a| a.done.is_some_and(|(_, until)| until == Nanos::MAX)));
}
