//! The offline optimum of a few requests that are all known in advance, and what an I/O scheduler makes of the same ones.
//!
//! Best is the order of the least sum of completion times, which is the least mean response time. The device serves one request at a time and is
//! never kept idle. The search is exact: each order is played on copies of the device's own model, so that rotation, buffer
//! and read-ahead count as they do in a run; an order is given up once it cannot become the best any more, since nothing that is left is complete before
//! what has just been served.
//!
//! A scheduler that keeps the device idle can do better than this optimum where the disk reads ahead: what is waited for may then come from the buffer.

use std::rc::Rc;

use surety_block::queue;
use surety_block::{Bio, BioId, ElevatorRow, Making, Process, ProcessId, Settings};
use surety_device::model::{Model, Request, serve};
use surety_units::Nanos;

use super::unit::{Device, of_block};

/// The most requests whose orders are searched.
pub const REQUESTS_MAX: usize = 10;

/// The best order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// The requests by their places.
    pub order: Vec<usize>,
    /// The sum of the times from the beginning until each is complete.
    pub total: Nanos,
}

/// A device with the requests that are left, while orders are searched.
struct Search<'a> {
    requests: &'a [Request],
    begin: Nanos,
    path: Vec<usize>,
    best: Option<Optimum>,
}

impl Search<'_> {
    /// Goes on from where the device is, at an instant, after requests whose times sum to `total`.
    fn go_on(&mut self, device: &dyn Model, now: Nanos, total: Nanos) {
        let left = self.requests.len() - self.path.len();
        if left == 0 {
            self.best = Some(Optimum { order: self.path.clone(), total });
            return;
        }
        let waiting = (0..self.requests.len()).filter(|place| !self.path.contains(place));
        let mut nexts: Vec<(Nanos, usize, Box<dyn Model + Send>)> = waiting
            .map(|place| {
                let mut device = device.fork();
                (serve(device.as_mut(), now, 0, &self.requests[place]).completed, place, device)
            })
            .collect();
        nexts.sort_by_key(|(completed, place, _)| (*completed, *place));
        for (completed, place, device) in nexts {
            let time = completed - self.begin;
            let least = total + time * i64::try_from(left).expect("few requests");
            if self.best.as_ref().is_some_and(|best| least >= best.total) {
                return;
            }
            self.path.push(place);
            self.go_on(device.as_ref(), completed, total + time);
            self.path.pop();
        }
    }
}

/// The best order of requests that all come at an instant to a device that has nothing else to do.
///
/// # Panics
/// Without requests, or with more than [`REQUESTS_MAX`].
pub fn optimum(device: &dyn Model, now: Nanos, requests: &[Request]) -> Optimum {
    assert!(!requests.is_empty() && requests.len() <= REQUESTS_MAX, "{} requests", requests.len());
    let mut search = Search { requests, begin: now, path: Vec::new(), best: None };
    search.go_on(device, now, Nanos::ZERO);
    search.best.expect("there is an order")
}

/// The sum of the times of the same requests under an I/O scheduler with its defaults, each of a process of its own that waits for it.
///
/// # Panics
/// With requests that touch, which a queue would merge, and for which there is no order.
pub fn scheduled(row: &'static ElevatorRow, device: &dyn Model, now: Nanos, requests: &[Request]) -> Nanos {
    let device = Device::new(device.fork());
    let count = u32::try_from(requests.len()).expect("few requests");
    let settings = Settings::new(row.tunables);
    let asked = Some(Rc::new(device.clone()) as Rc<dyn surety_block::Positioning>);
    let making = Making { asks_first: true, device: asked, ..Making::new(128, 1, settings) };
    let mut queue = queue::make(row, &making);
    for (number, request) in (0..count).zip(requests) {
        let process = ProcessId(number);
        queue.add_process(Process::default());
        let (op, sector, sectors) = (of_block(request.op), request.sector, request.sectors);
        let bio =
            Bio { op, sync: true, meta: false, cached: false, sector, sectors, process, deadline: None };
        queue.submit(now, bio, BioId(number));
        queue.blocks();
    }
    let (mut at, mut total, mut left) = (now, Nanos::ZERO, requests.len());
    let (mut done, mut woken) = (Vec::new(), Vec::new());
    while left > 0 {
        if device.is_idle()
            && let Some((id, _rule)) = queue.next(at)
        {
            device.accept(at, id.0, queue.request(id));
        }
        at = device.next().into_iter().chain(queue.timer()).min().expect("somebody is served").max(at);
        while let Some(completion) = device.advance(at) {
            queue.complete(at, surety_block::RequestId(completion.tag), &mut done, &mut woken);
            assert_eq!(done.len(), 1, "requests that touch");
            total += at - now;
            left -= 1;
            done.clear();
        }
        if queue.timer().is_some_and(|timer| timer <= at) {
            queue.expired(at);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use surety_block::elevators::ELEVATORS;
    use surety_device::profile::{PROFILES, Profile};
    use surety_stats::random::Pcg;

    use super::*;

    /// Schedulers that keep the device idle on purpose.
    const IDLING: [&str; 3] = ["anticipatory", "cfq", "bfq"];

    /// The disk of 2004, which reads ahead or does not.
    fn disk(reads_ahead: bool) -> Profile {
        let (name, text) = PROFILES.iter().find(|row| row.0 == "hdd-2004").unwrap();
        let none = text.replace("read_ahead = \"128KiB\"", "read_ahead = \"none\"");
        assert_ne!(*text, none);
        Profile::read(name, "hdd-2004.toml", if reads_ahead { text } else { &none }).unwrap()
    }

    /// Requests that do not touch, anywhere or in a region of so many sectors, and a disk whose arm and platters are anywhere.
    fn case(profile: &Profile, number: u64, count: u64) -> (Box<dyn Model + Send>, Nanos, Vec<Request>) {
        let mut chance = Pcg::for_job(7, number, count);
        let mut device = profile.build(number);
        let region = [device.sectors() - 1000, 20_000, 800][chance.below(3) as usize];
        let ops = [
            surety_device::Op::Read,
            [surety_device::Op::Read, surety_device::Op::Write][chance.below(2) as usize],
        ];
        let now = Nanos::new(chance.below(10_000_000) as i64);
        let now = serve(device.as_mut(), now, 0, &Request::new(ops[0], chance.below(region), 8)).completed;
        let mut requests: Vec<Request> = Vec::new();
        while requests.len() < count as usize {
            let op = ops[chance.below(2) as usize];
            let one = Request::new(op, chance.below(region), 1 + chance.below(64) as u32);
            if requests.iter().all(|other| other.end() < one.sector || one.end() < other.sector) {
                requests.push(one);
            }
        }
        (device, now, requests)
    }

    /// Against every order there is.
    #[test]
    fn nothing_is_given_up_that_would_be_best() {
        fn least(device: &dyn Model, now: Nanos, begin: Nanos, left: &[Request]) -> Nanos {
            let each = (0..left.len()).map(|place| {
                let (mut device, mut left) = (device.fork(), left.to_vec());
                let completed = serve(device.as_mut(), now, 0, &left.remove(place)).completed;
                completed - begin + least(device.as_ref(), completed, begin, &left)
            });
            each.min().unwrap_or(Nanos::ZERO)
        }
        let profile = Profile::named("hdd-2004").unwrap();
        for number in 0..60 {
            let (device, now, requests) = case(&profile, number, 5);
            let best = optimum(device.as_ref(), now, &requests);
            assert_eq!(best.total, least(device.as_ref(), now, now, &requests), "{number}");
            let mut order = best.order.clone();
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4]);
        }
    }

    /// The optimum bounds every scheduler on a disk that does not read ahead, and on others every one that does not keep it idle; and none of
    /// them is the optimum: each loses somewhere.
    #[test]
    fn no_scheduler_beats_the_optimum() {
        let mut lost = vec![false; ELEVATORS.len()];
        let disks = [(disk(false), false), (disk(true), true), (Profile::named("hdd-7200").unwrap(), true)];
        for (profile, reads_ahead) in &disks {
            for number in 0..200 {
                let (device, now, requests) = case(profile, number, 2 + number % 5);
                let best = optimum(device.as_ref(), now, &requests).total;
                for (row, lost) in ELEVATORS.iter().zip(&mut lost) {
                    let total = scheduled(row, device.as_ref(), now, &requests);
                    let is_bound = !reads_ahead || !IDLING.contains(&row.word);
                    assert!(total >= best || !is_bound, "{} {}: {total} {best}", profile.name, row.word);
                    *lost |= total > best;
                }
            }
        }
        assert!(!lost.contains(&false), "{lost:?}");
    }

    /// Five reads within 800 sectors: `anticipatory` waits for a process that does not come back, and meanwhile the disk has read ahead what others want.
    #[test]
    fn keeping_a_disk_idle_that_reads_ahead_can_beat_every_order() {
        let profile = disk(true);
        let anticipatory = surety_block::elevators::by_word("anticipatory").unwrap();
        let beats = (0..60000).any(|number| {
            let (device, now, requests) = case(&profile, number, 5);
            let best = optimum(device.as_ref(), now, &requests).total;
            scheduled(anticipatory, device.as_ref(), now, &requests) < best
        });
        assert!(beats);
    }
}
