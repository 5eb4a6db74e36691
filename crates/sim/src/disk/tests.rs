//! Processes on one disk with a fixed time for each request, without CPUs.

use std::collections::VecDeque;

use surety_block::{
    Bio, BioId, Priority, Process, ProcessId, Queue, Request, RequestId, Requests, Rule, Submitted,
};
use surety_device::model::{Completion, Hit, Model, Service};
use surety_units::Nanos;

use super::*;

const MS: fn(i64) -> Nanos = Nanos::from_millis;

/// Requests in the order in which they came, at most `room` of them.
struct Fifo {
    requests: Requests,
    waiting: VecDeque<RequestId>,
    room: usize,
    asleep: Vec<ProcessId>,
}

impl Queue for Fifo {
    fn add_process(&mut self, _process: Process) {}

    fn submit(&mut self, now: Nanos, bio: Bio, id: BioId) -> Submitted {
        if self.requests.len() >= self.room {
            if !self.asleep.contains(&bio.process) {
                self.asleep.push(bio.process);
            }
            return Submitted::Wait;
        }
        self.waiting.push_back(self.requests.make(&bio, id, Priority::default(), now));
        Submitted::Accepted
    }

    fn plug(&mut self, _now: Nanos, _process: ProcessId) {}

    fn unplug(&mut self, _now: Nanos, _process: ProcessId) {}

    fn max_sectors(&self) -> u32 {
        2560
    }

    fn next(&mut self, _now: Nanos) -> Option<(RequestId, Rule)> {
        self.waiting.pop_front().map(|id| (id, Rule("order of arrival")))
    }

    fn complete(&mut self, _now: Nanos, id: RequestId, done: &mut Vec<BioId>, woken: &mut Vec<ProcessId>) {
        done.extend_from_slice(self.requests.bios(id));
        self.requests.release(id);
        woken.append(&mut self.asleep);
    }

    fn timer(&self) -> Option<Nanos> {
        None
    }

    fn expired(&mut self, _now: Nanos) {}

    fn request(&self, id: RequestId) -> &Request {
        &self.requests[id]
    }
}

/// The same time for each request, one at a time.
struct Steady {
    each: Nanos,
    inside: Option<(u32, Nanos)>,
    log: Vec<(u64, u32)>,
}

impl Model for Steady {
    fn depth(&self) -> usize {
        1
    }

    fn sectors(&self) -> u64 {
        1 << 24
    }

    fn queued(&self) -> usize {
        usize::from(self.inside.is_some())
    }

    fn accept(&mut self, now: Nanos, tag: u32, request: &surety_device::model::Request) {
        self.inside = Some((tag, now));
        self.log.push((request.sector, request.sectors));
    }

    fn next(&self) -> Option<Nanos> {
        self.inside.map(|(_, at)| at + self.each)
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        let (tag, accepted) = self.inside.take_if(|(_, at)| *at + self.each <= now)?;
        let service = Service { transfer: self.each, ..Service::default() };
        Some(Completion { tag, accepted, completed: now, hit: Hit::Miss, service })
    }

    fn estimate(&self, _now: Nanos, _request: &surety_device::model::Request) -> Option<Nanos> {
        None
    }

    fn fork(&self) -> Box<dyn Model + Send> {
        Box::new(Steady { log: self.log.clone(), ..*self })
    }

    fn digest(&self) -> u64 {
        self.log.len() as u64
    }
}

/// A disk, and processes each of which does its operations one after another, whenever it is woken.
struct Scene {
    engine: Engine,
    storage: Storage,
    /// What each process has left to do, and when each operation ended.
    left: Vec<VecDeque<Operation>>,
    ended: Vec<Vec<Nanos>>,
    /// Who exits when it is woken.
    exits: Option<ProcessId>,
}

impl Scene {
    fn new(room: usize) -> Scene {
        let (engine, storage) = (Engine::default(), Storage::default());
        let mut scene = Scene { engine, storage, left: Vec::new(), ended: Vec::new(), exits: None };
        scene.add_disk(room, MS(1));
        scene
    }

    fn add_disk(&mut self, room: usize, each: Nanos) -> usize {
        let fifo = Fifo { requests: Requests::default(), waiting: VecDeque::new(), room, asleep: Vec::new() };
        let model = Steady { each, inside: None, log: Vec::new() };
        self.storage.add_disk(&mut self.engine, |device, timer| {
            Unit::new(Box::new(fifo), Device::new(Box::new(model)), (device, timer))
        })
    }

    fn process(&mut self, operations: &[Operation]) -> ProcessId {
        self.left.push(operations.iter().cloned().collect());
        self.ended.push(Vec::new());
        self.storage.add_process(Process::default())
    }

    /// The process runs until it waits.
    fn go(&mut self, process: ProcessId) {
        let now = self.engine.now();
        while self.storage.poll(now, process) {
            let index = process.index();
            self.ended[index].push(now);
            let Some(next) = self.left[index].pop_front() else { return };
            self.storage.begin(process, next, None);
        }
    }

    fn run(&mut self, end: Nanos) {
        for index in 0..self.left.len() {
            self.go(ProcessId(u32::try_from(index).unwrap()));
        }
        loop {
            let now = self.engine.now();
            for (slot, at) in self.storage.settle(now) {
                match at {
                    Some(at) => self.engine.arm(slot, at),
                    None => self.engine.cancel(slot),
                }
            }
            let Some(event) = self.engine.next(end) else { return };
            let now = self.engine.now();
            for woken in self.storage.occur(now, event).to_vec() {
                if self.exits == Some(woken.process) {
                    self.storage.exit(now, woken.process);
                    continue;
                }
                self.go(woken.process);
            }
        }
    }

    fn ended(&self, process: ProcessId) -> &[Nanos] {
        &self.ended[process.index()][1..]
    }
}

#[test]
fn a_reader_waits_for_its_pages_and_finds_those_read_ahead() {
    let mut scene = Scene::new(128);
    let file = scene.storage.add_file(0, 100 * PAGE).unwrap();
    let read = |first, end| Operation::Read { file, first, end };
    let reader = scene.process(&[read(0, 16), read(16, 32), read(32, 48), read(48, 64), read(0, 64)]);
    scene.run(MS(100));
    // 0 to 32 with the first; the page marked at 16 has 32 to 64 read: there when it comes to 32.
    assert_eq!(scene.ended(reader), [MS(1), MS(1), MS(2), MS(2), MS(2)]);
    assert_eq!(scene.storage.unit(0).served().0, 3);
}

#[test]
fn what_is_written_costs_nothing_until_it_is_to_be_on_the_disk() {
    let mut scene = Scene::new(128);
    let file = scene.storage.add_file(0, 1000 * PAGE).unwrap();
    let writer = scene.process(&[
        Operation::Write { file, first: 0, end: 600 },
        Operation::sync(file),
        Operation::sync(file),
    ]);
    scene.run(MS(100));
    // Three bios of up to 256 pages, and the device's cache; then that alone.
    assert_eq!(scene.ended(writer), [MS(0), MS(4), MS(5)]);
}

#[test]
fn direct_accesses_pass_the_cache_in_pieces_of_a_mebibyte() {
    let mut scene = Scene::new(128);
    let file = scene.storage.add_file(0, 1000 * PAGE).unwrap();
    let direct = || Operation::direct(file, false, 0, 300);
    let process = scene.process(&[direct(), direct()]);
    scene.run(MS(100));
    assert_eq!(scene.ended(process), [MS(2), MS(4)]);
}

#[test]
fn who_finds_no_request_waits_for_one_and_loses_nothing() {
    let mut scene = Scene::new(2);
    let file = scene.storage.add_file(0, 10_000 * PAGE).unwrap();
    let processes: Vec<ProcessId> =
        (0..3).map(|i| scene.process(&[Operation::direct(file, true, i * 1024, i * 1024 + 1024)])).collect();
    scene.run(MS(100));
    let mut ends: Vec<Nanos> = processes.iter().flat_map(|process| scene.ended(*process).to_vec()).collect();
    ends.sort_unstable();
    assert_eq!(ends.len(), 3);
    assert_eq!(ends[2], MS(12));
    assert_eq!(scene.storage.unit(0).served(), (12, 3 * 1024 * PAGE));
}

#[test]
fn writers_wait_above_the_limit_and_the_flusher_writes_for_them() {
    let mut scene = Scene::new(128);
    let pages = 300 * 256;
    let file = scene.storage.add_file(0, pages * PAGE).unwrap();
    let writer = scene.process(&[Operation::Write { file, first: 0, end: pages }]);
    scene.run(Nanos::from_secs(10));
    // 3/20 of 1 GiB may be dirty: 153.6 of the 300 MiB. What is above the tenth is being written then.
    let ended = scene.ended(writer)[0];
    assert!(ended > MS(100) && ended < MS(300), "{ended}");
    // What is left below the background limit is written when it is old.
    let before = scene.storage.unit(0).served().1;
    scene.run(Nanos::from_secs(60));
    assert!(before < pages * PAGE);
    assert_eq!(scene.storage.unit(0).served().1, pages * PAGE);
}

/// Every second page of two files is dirty: a turn is pages of one, wherever they are, and the next turn goes on behind them. A page takes
/// 1 ms. The first turn is an eighth of the limit and up to 4 MiB more, seven times 4 MiB: by 100 MiB/s, which a disk is reckoned with at
/// first, half a second would be more.
#[test]
fn a_file_has_its_turn_page_after_page() {
    let mut scene = Scene::new(128);
    let files = [0, 1].map(|_| scene.storage.add_file(0, 60_000 * PAGE).unwrap());
    let writes =
        |file| (0..18_000).map(move |page| Operation::Write { file, first: 2 * page, end: 2 * page + 1 });
    scene.process(&files.into_iter().flat_map(writes).collect::<Vec<_>>());
    let dirty = |scene: &Scene| files.map(|file| scene.storage.files[file.0].dirty());
    scene.run(Nanos::from_secs(7));
    let [first, second] = dirty(&scene);
    assert!(second == 18_000 && first < 18_000 - 7_000, "{first} {second}");
    scene.run(Nanos::from_millis(7_500));
    let [first, second] = dirty(&scene);
    assert!(first == 18_000 - 7 * 1_024 && second < 18_000, "{first} {second}");
}

#[test]
fn a_sync_has_all_files_of_its_disk_written_and_waits_for_them() {
    let mut scene = Scene::new(2);
    let files = [600, 300].map(|pages| scene.storage.add_file(0, pages * PAGE).unwrap());
    let write = |file: usize, end| Operation::Write { file: files[file], first: 0, end };
    scene.process(&[write(0, 600), write(1, 300)]);
    let syncer = scene.process(&[Operation::sync_disk(0), Operation::sync_disk(0)]);
    scene.run(MS(100));
    // Three bios of the first file and two of the second, of which two at a time have a request, then the device's cache; then that alone.
    assert_eq!(scene.ended(syncer), [MS(6), MS(7)]);
    assert_eq!(scene.storage.unit(0).served().1, 900 * PAGE);
}

/// Two that write without end: the sync ends when what was under way at its time is written.
#[test]
fn a_sync_ends_beside_writers() {
    let mut scene = Scene::new(2);
    for _ in 0..2 {
        let file = scene.storage.add_file(0, 1024 * PAGE).unwrap();
        let laps = (0..200).map(|_| Operation::Write { file, first: 0, end: 1024 });
        scene.process(&laps.collect::<Vec<_>>());
    }
    let syncer = scene.process(&[Operation::sync_disk(0), Operation::sync_disk(0), Operation::sync_disk(0)]);
    scene.run(MS(400));
    assert_eq!(scene.ended(syncer).len(), 3, "{:?}", scene.ended(syncer));
}

/// Pages dirtied ahead of the sweep of a sync do not make it longer: it writes as many as were dirty when the turn of their file came.
#[test]
fn a_sync_writes_as_much_as_was_dirty() {
    let mut scene = Scene::new(1);
    let file = scene.storage.add_file(0, 20_000 * PAGE).unwrap();
    let write = |page| Operation::Write { file, first: page, end: page + 1 };
    scene.process(&[write(0), write(10)]);
    let syncer = scene.process(&[Operation::sync_disk(0)]);
    scene.process(&(10..5_000).map(|place| write(2 * place)).collect::<Vec<_>>());
    scene.run(MS(1_000));
    assert_eq!(scene.ended(syncer), [MS(3)], "two pages, then the device's cache");
}

/// Pages dirtied again while they are written are written for `fdatasync` behind that.
#[test]
fn a_file_sync_writes_what_was_dirtied_meanwhile() {
    let mut scene = Scene::new(128);
    let file = scene.storage.add_file(0, 10 * PAGE).unwrap();
    let write = Operation::Write { file, first: 0, end: 10 };
    scene.process(&[write.clone(), Operation::sync(file)]);
    let other = scene.process(&[write, Operation::sync(file)]);
    scene.run(MS(100));
    assert_eq!(scene.ended(other).len(), 2);
    assert_eq!(scene.storage.files[file.0].dirty(), 0);
}

/// What one disk has to write back goes to that disk, and a slow one holds up those of a fast one no longer than its share is full.
#[test]
fn each_disk_writes_its_own_files_back() {
    let mut scene = Scene::new(2);
    let slow = scene.add_disk(2, MS(20));
    let files = [0, slow].map(|disk| scene.storage.add_file(disk, 40_000 * PAGE).unwrap());
    let writers = files.map(|file| {
        let laps = (0..400).map(|_| Operation::Write { file, first: 0, end: 40_000 });
        scene.process(&laps.collect::<Vec<_>>())
    });
    scene.run(Nanos::from_secs(5));
    let served = |disk: usize| scene.storage.unit(disk).served();
    // A bio of 256 pages takes 1 or 20 ms; each disk has had all the time something to write but at the start.
    assert!((4_500..=5_001).contains(&served(0).0), "{:?}", served(0));
    assert!((200..=251).contains(&served(slow).0), "{:?}", served(slow));
    for (writer, disk) in writers.into_iter().zip([0, slow]) {
        let written = scene.ended(writer).len() as u64 * 40_000;
        let room = 3 * (1 << 30) / 20 / PAGE;
        assert!(served(disk).1 / PAGE + room + 40_000 > written, "{disk}: {written} {:?}", served(disk));
    }
}

/// A window that lies behind the end of the file, or over pages that are there, does not bring the page that is wanted: it is read alone.
#[test]
fn reads_at_random_always_go_on() {
    let mut chance = surety_stats::random::Pcg::new(3, 1);
    for pages in [4, 16, 33, 64, 200] {
        let mut scene = Scene::new(128);
        let file = scene.storage.add_file(0, pages * PAGE).unwrap();
        let reads: Vec<_> = (0..1000)
            .map(|_| {
                let first = chance.below(pages);
                Operation::Read { file, first, end: (first + 1 + chance.below(3)).min(pages) }
            })
            .collect();
        let reader = scene.process(&reads);
        scene.run(Nanos::from_secs(5));
        assert_eq!(scene.ended(reader).len(), 1000, "{pages} pages");
    }
}

#[test]
fn a_chained_read_follows_where_the_one_before_is_complete() {
    let mut scene = Scene::new(128);
    let file = scene.storage.add_file(0, 100 * PAGE).unwrap();
    let reader = scene.process(&[Operation::direct(file, false, 0, 1)]);
    scene.storage.chain(reader, Operation::direct(file, false, 1, 2), None);
    scene.run(MS(100));
    assert_eq!(scene.ended(reader), [MS(2)]);
    assert_eq!(scene.storage.take_passed(reader), 1);
    assert_eq!(scene.storage.unit(0).served(), (2, 2 * PAGE));
}

/// One request at a time: a reader has it, another waits for it, and behind that the flusher, for a writer's sync. The readers and the writer.
fn two_readers_and_a_sync() -> (Scene, [ProcessId; 2], ProcessId) {
    let mut scene = Scene::new(1);
    let file = scene.storage.add_file(0, 1000 * PAGE).unwrap();
    let write = Operation::Write { file, first: 500, end: 600 };
    let readers = [0, 1].map(|page| scene.process(&[Operation::direct(file, false, page, page + 1)]));
    let writer = scene.process(&[write, Operation::sync_disk(0)]);
    (scene, readers, writer)
}

#[test]
fn the_flusher_takes_its_request_behind_who_was_woken_before_it() {
    let (mut scene, readers, writer) = two_readers_and_a_sync();
    scene.run(MS(100));
    assert_eq!(readers.map(|reader| scene.ended(reader)[0]), [MS(1), MS(2)]);
    // Its write, and the flush of the device's cache.
    assert_eq!(scene.ended(writer), [Nanos::ZERO, MS(4)]);
}

#[test]
fn the_flusher_does_not_wait_for_who_exits() {
    let (mut scene, readers, writer) = two_readers_and_a_sync();
    scene.exits = Some(readers[1]);
    scene.run(MS(100));
    assert_eq!(scene.ended(writer), [Nanos::ZERO, MS(3)]);
}
