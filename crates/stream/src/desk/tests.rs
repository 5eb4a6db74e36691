//! The desk against the ledgers that the simulator's stations are made of: for the same events the same batches in the same order, and the same times to wait for.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use proptest::prelude::*;
use surety_model::playout::Ledger;
use surety_model::workload::{BatchMode, Direction, Stream as Section, StreamFile};
use surety_units::{Bytes, Rate};

use super::*;
use crate::contract::Contract;
use crate::source::Source;
use crate::track::Ready;

const PAGE: u64 = 4096;
const IN_DEVICE: usize = 2;

/// A stream: its rate, pages of a batch, milliseconds of jitter, pages of the buffer beyond.
type Drawn = (u64, u64, i64, u64);

#[derive(Clone, Debug)]
enum Event {
    /// Time that passes, us.
    Passes(i64),
    /// The program of a stream takes bytes, where they are there.
    Takes(usize, u64),
    /// The batch under way at this place of all is there.
    Comes(usize),
}

/// One stream on both sides; what the program has of it.
struct Both {
    section: Section,
    ledger: Ledger,
    moved: u64,
    played: u64,
    current: Option<Ready>,
}

fn section(&(rate, batch, jitter, more): &Drawn) -> Section {
    Section {
        name: "drawn".to_owned(),
        count: 1,
        disk: None,
        io_priority: None,
        group: None,
        file: StreamFile::Make(Bytes(1 << 20)),
        rate: Rate(rate),
        direction: Direction::Read,
        access: Some(Bytes(PAGE)),
        jitter: Some(Nanos::from_millis(jitter)),
        buffer: Some(Bytes((1 + batch + more) * PAGE)),
        batch: Some(Bytes(batch * PAGE)),
        overlap: false,
        bound: None,
        admitted: false,
        mode: BatchMode::Steady,
        promises: Vec::new(),
    }
}

fn contract(section: &Section) -> Contract {
    let batch = section.batch.unwrap().0;
    Contract::new(section.rate)
        .with_access(PAGE)
        .with_batch(batch)
        .with_jitter(section.jitter.unwrap())
        .with_buffer(section.buffer.unwrap().0)
}

/// A file of this length, which is over before nothing of it.
fn source(bytes: u64) -> (tempfile::NamedTempFile, Source) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&vec![7; usize::try_from(bytes).unwrap()]).unwrap();
    let source = Source::open(file.path()).unwrap();
    (file, source)
}

/// What the ledgers say is next: the same as [`Desk::next`].
fn next_of(pace: &mut Pace, all: &mut [Both], under_way: &mut Vec<(usize, u64)>, now: Nanos) -> Turn {
    // Batches that overlap are two of each stream.
    let overlaps = all.iter().any(|both| both.section.overlap);
    if !overlaps && under_way.len() >= IN_DEVICE {
        return Turn::Nothing;
    }
    let at_once = |stream| under_way.iter().filter(|(other, _)| *other == stream).count();
    let mut ledgers: Vec<&mut Ledger> = all.iter_mut().map(|both| &mut both.ledger).collect();
    let turn = pace.turn(&mut ledgers, now, |stream| overlaps && at_once(stream) >= 2);
    if let Turn::Of(first) = turn {
        pace.works(now);
        under_way.push((first.stream, all[first.stream].ledger.ask(first.since)));
    } else if under_way.is_empty() {
        pace.rests(now);
    }
    turn
}

/// What the program of a stream takes from its buffer.
fn take(desk: &mut Desk, stream: usize, both: &mut Both, most: u64, now: Nanos) {
    if both.current.is_none() {
        both.current = desk.track(stream).take();
    }
    let Some(ready) = &mut both.current else { return };
    let bytes = most.min((ready.end - ready.from) as u64);
    ready.from += usize::try_from(bytes).unwrap();
    both.played += bytes;
    if ready.from == ready.end {
        let done = both.current.take().unwrap();
        desk.track(stream).give_back(done.pages, now);
    }
    both.ledger.look((both.moved, both.played), now);
}

fn agree(streams: &[Drawn], (mode, overlap): (BatchMode, bool), events: Vec<Event>) {
    let (mut desk, mut now, mut pace) = (Desk::default(), Nanos::ZERO, Pace::default());
    pace.change(mode);
    desk.change_mode(mode, now);
    let mut files = Vec::new();
    let mut all = Vec::new();
    for drawn in streams {
        let section = Section { overlap, ..section(drawn) };
        let batch = section.batch.unwrap().0;
        // It repeats at a whole batch.
        let (file, source) = source(batch * 8);
        files.push(file);
        let contract = Contract { repeats: true, notes_batches: true, overlap, ..contract(&section) };
        desk.attach(Way::In(Track::new(&contract, source, now).unwrap()), now);
        let ledger = Ledger::new(&section, batch, mode, now);
        all.push(Both { section, ledger, moved: 0, played: 0, current: None });
    }
    let (mut transfers, mut under_way): (Vec<Transfer>, Vec<(usize, u64)>) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Passes(micros) => now += Nanos::from_micros(micros),
            Event::Takes(stream, bytes) => {
                let stream = stream % all.len();
                take(&mut desk, stream, &mut all[stream], bytes, now);
            }
            Event::Comes(place) if !transfers.is_empty() => {
                let place = place % transfers.len();
                let transfer = transfers.remove(place);
                let result = Ok(transfer.length);
                desk.complete(Completed { transfer, result }, now);
                let (stream, from) = under_way.remove(place);
                let both = &mut all[stream];
                let batch = both.section.batch.unwrap().0;
                let moved = &mut both.moved;
                let since = both.ledger.complete(from, now, |from| *moved = from + batch);
                let noted = desk.account(stream).notes.last().unwrap();
                assert_eq!((Some(noted.wanted), noted.done), (since, now));
                both.ledger.look((both.moved, both.played), now);
            }
            Event::Comes(_) => {}
        }
        loop {
            let (transfer, within) = desk.next(now, IN_DEVICE);
            let turn = next_of(&mut pace, &mut all, &mut under_way, now);
            match (transfer, turn) {
                (Some(transfer), Turn::Of(first)) => {
                    let (stream, from) = *under_way.last().unwrap();
                    let batch = all[stream].section.batch.unwrap().0;
                    assert_eq!(desk.under_way.last().unwrap().stream, Some(first.stream));
                    assert_eq!((transfer.offset, transfer.length as u64), (from % (batch * 8), batch));
                    transfers.push(transfer);
                }
                (None, Turn::From(at)) => break assert_eq!(within, Some(at - now)),
                (None, Turn::Nothing) => break assert_eq!(within, None),
                (transfer, turn) => panic!("the desk has {transfer:?}, the ledgers {turn:?}"),
            }
        }
    }
    assert_eq!(desk.rest(now), pace.rest(now));
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1_i64..60_000).prop_map(Event::Passes),
        (0_usize..4, 1_u64..4 * PAGE).prop_map(|(stream, bytes)| Event::Takes(stream, bytes)),
        (0_usize..8).prop_map(Event::Comes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_simulated_station_asks_for_the_same_batches(
        streams in prop::collection::vec((10_000_u64..2_000_000, 1_u64..5, 0_i64..200, 0_u64..20), 1..4),
        (is_longest, overlap) in prop_oneof![Just((true, false)), Just((false, false)), Just((false, true))],
        events in prop::collection::vec(event(), 1..300),
    ) {
        let mode = if is_longest { BatchMode::Longest } else { BatchMode::Steady };
        agree(&streams, (mode, overlap), events);
    }
}
