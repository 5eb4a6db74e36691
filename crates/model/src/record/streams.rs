//! [`stream_record`]: what the threads of a stream did, as its record; the same in every world.
//!
//! Access `k` is released at `k * access / rate` and is due when the play-out buffer runs empty. One that is due before it could
//! begin is dropped: a player shows the frame after it. Otherwise it is late when it completes after it was due, and is shown then.

use surety_units::Nanos;

use super::{
    Account, ActivityRecord, Basis, Caveat, Distribution, Figure, JobOutcome, Observed, Share, Total,
};
use crate::playout::Level;
use crate::workload::{Activity, ActivityKind, Direction, Stream};

/// Series of the time each access took.
const ACCESS_LATENCY: [&str; 2] = ["read latency", "write latency"];
/// Series of the times between frames shown.
const FRAME_DISTANCE: &str = "frame distance";

/// Series of the time from asking for a batch until it was there.
pub const BATCH_LATENCY: &str = "batch latency";

/// One access that was begun or dropped. Instants are since the beginning of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAccess {
    pub release: Nanos,
    /// Start and end; `None`: dropped.
    pub done: Option<(Nanos, Nanos)>,
}

/// What one thread of a stream did.
#[derive(Clone, Debug, Default)]
pub struct StreamThread {
    /// In the order of their releases.
    pub accesses: Vec<StreamAccess>,
    /// When each batch was asked of the disk, and when all of it was there, in the order of asking; empty where it fetches none. Instants
    /// as above.
    pub batches: Vec<(Nanos, Nanos)>,
    /// How long a batch had been asked for that was not there at the end: the longest.
    pub open: Option<Nanos>,
    /// Its CPU time while it was observed.
    pub run: Nanos,
    /// Time it wanted a CPU and had none, where that is known.
    pub waited: Option<Nanos>,
}

/// How much of a guarantee a stream had that has a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantee {
    pub level: Level,
    /// Whether a batch took longer than its bound, or was not there at the end and older: that ends it.
    pub is_broken: bool,
    /// The level, with the numbers.
    pub words: String,
}

/// How much of a guarantee a stream had in a run; `None` where it has no bound. One that its workload states, and nothing admitted, is none, whatever batches took.
pub fn guarantee_of(stream: &Stream, threads: &[StreamThread]) -> Option<Guarantee> {
    let bound = stream.bound?;
    let there = threads.iter().flat_map(|thread| &thread.batches).map(|(asked, done)| *done - *asked);
    // One that is not there yet, and for which there is time left, says nothing.
    let open = threads.iter().filter_map(|thread| thread.open).filter(|age| *age > bound);
    let took: Vec<Nanos> = there.chain(open.clone()).collect();
    let (count, beyond) = (took.len(), took.iter().filter(|took| **took > bound).count());
    let longest = took.into_iter().max();
    let level = match (stream.admitted && beyond == 0, longest) {
        (true, None) => Level::Admitted,
        (true, Some(_)) => Level::Verified,
        (false, _) => Level::Scheduled,
    };
    let words = match longest {
        None => format!("{level}: no batch was fetched"),
        Some(longest) if beyond > 0 => {
            let were = if beyond == 1 { "batch was" } else { "batches were" };
            let end = if open.count() > 0 { " or not at the end" } else { "" };
            format!(
                "{level}, not {}: {beyond} of {count} {were} there later than the bound{end}, the longest after {longest} and not within {bound}",
                Level::Verified
            )
        }
        Some(longest) if stream.admitted => {
            format!("{level}: {count} batches, the longest took {longest} of {bound} at most")
        }
        Some(longest) => format!(
            "{level}: {count} batches, the longest took {longest}, within the {bound} that its `bound` states and no plan admitted"
        ),
    };
    Some(Guarantee { level, is_broken: beyond > 0, words })
}

/// The record of a stream that was observed from one instant to another.
pub fn stream_record(
    stream: &Stream,
    threads: &[StreamThread],
    (observe, end): (Nanos, Nanos),
) -> ActivityRecord {
    let deadline = stream.deadline();
    let activity = Activity { kind: ActivityKind::Stream, name: &stream.name, promises: &stream.promises };
    let mut account = Account::new(activity, Some(deadline), Basis::Sample);
    let mut took = Observed::default();
    for access in in_order(threads).filter(|a| a.release >= observe) {
        let release = access.release;
        match access.done {
            None => account.add(JobOutcome::Skipped { release }),
            Some((_, until)) if until > end => account.add(JobOutcome::Unfinished { release, until: end }),
            Some((start, completion)) => {
                took.record(completion - start);
                let execution = Nanos::ZERO;
                account.add(JobOutcome::Completed { release, start, completion, execution });
            }
        }
    }
    let got = threads.iter().map(|thread| (thread.run, thread.waited)).collect();
    let observed = end - observe;
    // Of what is released later is told how it fared; a rate is of all that came meanwhile, as any load's is.
    let ended = |access: &&StreamAccess| access.done.is_some_and(|(_, at)| observe < at && at <= end);
    let completed = in_order(threads).filter(ended).count() as u64;
    let rate = (completed * stream.access_bytes()) as f64 / observed.as_secs_f64();
    account.add_total(Total::Bytes(rate));
    let mut record = account.finish(Some(Share { threads: got, span: observed }));
    // Nothing is known of the CPU time of one access.
    record.execution = None;
    let mut add = |name: &str, observed: Observed| {
        if observed.moments.count() > 0 {
            record.series.insert(name.to_owned(), Distribution::from(observed));
        }
    };
    add(ACCESS_LATENCY[usize::from(stream.direction == Direction::Write)], took);
    let mut fetched = Observed::default();
    let batches = threads.iter().flat_map(|thread| &thread.batches);
    for (asked, done) in batches.filter(|(asked, done)| *asked >= observe && *done <= end) {
        fetched.record(*done - *asked);
    }
    add(BATCH_LATENCY, fetched);
    add(FRAME_DISTANCE, frame_distances(threads, deadline, (observe, end)));
    if let Some(Guarantee { is_broken: true, words, .. }) = guarantee_of(stream, threads) {
        record.caveats.push(Caveat::withholds(format!("it was {words}")));
    }
    record.figures = vec![
        Figure::new("rate", rate, "B/s"),
        Figure::new("late", record.missed as f64, ""),
        Figure::new("dropped", record.skipped as f64, ""),
    ];
    record
}

/// Of a stream that writes from a buffer: an access that was given to it is over when all batches are up to its last byte. `batches` are the bytes of each and when it
/// was at the device, in the order of the stream.
pub fn over_with_batches(accesses: &mut [StreamAccess], bytes: u64, batches: &[(u64, Nanos)]) {
    let (mut given, mut written, mut done) = (0, 0, Nanos::ZERO);
    let mut batches = batches.iter();
    for access in accesses {
        let Some((_, over)) = access.done.as_mut().filter(|(_, over)| *over < Nanos::MAX) else { continue };
        given += bytes;
        while written < given {
            let Some((more, at)) = batches.next() else { break };
            (written, done) = (written + more, done.max(*at));
        }
        *over = if written < given { Nanos::MAX } else { done.max(*over) };
    }
}

/// The accesses of all threads by their release.
fn in_order(threads: &[StreamThread]) -> impl Iterator<Item = &StreamAccess> {
    let mut all: Vec<&StreamAccess> = threads.iter().flat_map(|thread| &thread.accesses).collect();
    all.sort_by_key(|access| access.release);
    all.into_iter()
}

/// The times between neighbouring frames of each thread: a frame is shown when it is due, or when it is there at last.
fn frame_distances(threads: &[StreamThread], deadline: Nanos, (observe, end): (Nanos, Nanos)) -> Observed {
    let mut distances: Vec<(Nanos, Nanos)> = Vec::new();
    for thread in threads {
        let shown = thread.accesses.iter().filter_map(|access| {
            let (_, completion) = access.done.filter(|(_, completion)| *completion <= end)?;
            (access.release >= observe).then(|| completion.max(access.release + deadline))
        });
        let shown: Vec<Nanos> = shown.collect();
        distances.extend(shown.windows(2).map(|pair| (pair[1], pair[1] - pair[0])));
    }
    distances.sort();
    let mut observed = Observed::default();
    distances.iter().for_each(|(_, distance)| observed.record(*distance));
    observed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::toml::read;

    /// Every access takes two seconds: what ends in the window was released before it, and is of the rate all the same.
    #[test]
    fn a_rate_is_of_what_came_in_the_window() {
        let text = "format = 1\n[[stream]]\nname = \"s\"\nfile = { make = \"1MB\" }\nrate = \"4kB/s\"\nread = \"4000B\"\n";
        let workload = read("s.toml", text).unwrap();
        let second = Nanos::from_secs;
        let at = |n| StreamAccess { release: second(n), done: Some((second(n), second(n + 4))) };
        let thread = StreamThread {
            accesses: (0..8).map(at).collect(),
            batches: vec![(second(4), second(6)), (second(6), second(7))],
            ..StreamThread::default()
        };
        let record = stream_record(&workload.streams[0], &[thread], (second(5), second(8)));
        let figure = |name: &str| record.figures.iter().find(|f| f.name == name).unwrap().value;
        // At 6, 7 and 8 s: those released at 2, 3 and 4 s, before the window.
        assert_eq!((figure("rate"), record.completed), (4000.0, 0));
        // The batch that was asked for in the window.
        let fetched = record.series[BATCH_LATENCY].observed().map(|o| (o.moments.count(), o.moments.max()));
        assert_eq!(fetched, Some((1, Some(1e9))));
    }

    /// A run ends with a batch under way: one that is older than its bound ends the guarantee as one that came late does, a younger one says nothing.
    #[test]
    fn a_batch_that_is_not_there_at_the_end_is_as_old_as_it_is() {
        let text = "format = 1\n[[stream]]\nname = \"s\"\nfile = { make = \"1MB\" }\nrate = \"4kB/s\"\nbatch = \"4KiB\"\nbound = \"1s\"\n";
        let stated = read("s.toml", text).unwrap().streams.remove(0);
        let stream = &Stream { admitted: true, ..stated.clone() };
        let ms = Nanos::from_millis;
        let level = |came: &[i64], open: Option<i64>| {
            let batches = came.iter().map(|took| (ms(100), ms(100 + took))).collect();
            let thread = StreamThread { batches, open: open.map(ms), ..StreamThread::default() };
            guarantee_of(stream, &[StreamThread::default(), thread]).unwrap()
        };
        for (came, open, is) in [
            (&[900, 1000][..], None, Level::Verified),
            (&[900, 1000], Some(1000), Level::Verified),
            (&[900, 1000], Some(1001), Level::Scheduled),
            (&[900, 1001], None, Level::Scheduled),
            (&[], Some(1000), Level::Admitted),
            (&[], Some(5000), Level::Scheduled),
        ] {
            assert_eq!(level(came, open).level, is, "{came:?}, {open:?}");
        }
        let words = level(&[900, 1200], Some(5000)).words;
        assert!(
            words.contains(
                "2 of 3 batches were there later than the bound or not at the end, the longest after 5.000 s"
            ),
            "{words}"
        );
        assert!(!level(&[1200], Some(10)).words.contains("at the end"));
        // What a file states is no guarantee.
        let thread = StreamThread { batches: vec![(ms(100), ms(1000))], ..StreamThread::default() };
        let found = guarantee_of(&stated, &[thread]).unwrap();
        assert_eq!((found.level, found.is_broken), (Level::Scheduled, false), "{}", found.words);
        let thread = StreamThread { open: Some(ms(5000)), ..StreamThread::default() };
        let record = stream_record(stream, &[thread], (Nanos::ZERO, ms(6000)));
        assert!(record.withheld().is_some(), "{:?}", record.caveats);
    }
}
