//! [`Script`]: an elevator driven by hand, for its tests: arrivals in text, one device that takes a fixed time.
//!
//! A line is `TIME PROCESS OP SECTOR SECTORS`, `TIME` with its unit; `OP` is `r`, `w` (nobody waits) or `s` (a synchronous
//! write), `PROCESS` a letter, in capitals of the class real time and with a digit after it of this level (`A0`, `b7`), or
//! `i` for the class idle (`zi`). `#` begins a comment. Requests are not merged.

use std::collections::BTreeMap;

use surety_units::Nanos;

use crate::elevator::{AccessTime, Context, DeviceView, Elevator, ElevatorRow, Making, Outgoing, Rule};
use crate::request::{Bio, BioId, IoClass, Op, Priority, Process, ProcessId, Request, RequestId, Requests};
use crate::tunable::Settings;

/// A script and the device it is run on.
pub(crate) struct Script {
    row: &'static ElevatorRow,
    settings: Settings,
    hz: u32,
    depth: u32,
    sectors: u64,
    rotational: bool,
    service: fn(u64, &Request) -> Nanos,
    arrivals: Vec<(Nanos, Bio)>,
    processes: Vec<Process>,
}

/// What the driver took.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) sector: u64,
    pub(crate) completed: Nanos,
    pub(crate) rule: Rule,
}

pub(crate) struct Order(pub(crate) Vec<Taken>);

impl Order {
    pub(crate) fn sectors(&self) -> Vec<u64> {
        self.0.iter().map(|taken| taken.sector).collect()
    }
}

struct Fixed(fn(u64, &Request) -> Nanos, u64);

impl AccessTime for Fixed {
    fn access_time(&self, _now: Nanos, request: &Request) -> Nanos {
        self.0(self.1, request)
    }
}

impl Script {
    /// 1 ms for each request, one at a time, HZ = 1000.
    pub(crate) fn of(row: &'static ElevatorRow) -> Script {
        Script {
            row,
            settings: Settings::new(row.tunables),
            hz: 1000,
            depth: 1,
            sectors: 1 << 30,
            rotational: true,
            service: |_, _| Nanos::from_millis(1),
            arrivals: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Time of a request, by the sector after the one before and by itself.
    pub(crate) fn set(mut self, name: &str, value: u64) -> Script {
        self.settings.set(name, value).expect("a tunable of this elevator");
        self
    }

    /// Adds arrivals.
    pub(crate) fn text(mut self, text: &str) -> Script {
        let mut names: BTreeMap<String, ProcessId> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let [time, name, op, sector, sectors] = words[..] else {
                assert!(words.is_empty(), "{line}");
                continue;
            };
            let process = *names.entry(name.to_owned()).or_insert_with(|| {
                self.processes.push(Process { priority: priority_of(name), group: 0 });
                ProcessId(u32::try_from(self.processes.len()).expect("few") - 1)
            });
            let bio = Bio {
                op: if op == "r" { Op::Read } else { Op::Write },
                sync: op != "w",
                meta: false,
                sector: sector.parse().expect("a sector"),
                sectors: sectors.parse().expect("a count"),
                process,
            };
            self.arrivals.push((time.parse().expect("a time"), bio));
        }
        self.arrivals.sort_by_key(|(time, _)| *time);
        self
    }

    /// Runs it until nothing is left.
    pub(crate) fn run(self) -> Order {
        let making = Making {
            hz: self.hz,
            requests: 128,
            tags: self.depth,
            sectors: self.sectors,
            rotational: self.rotational,
            group_weights: vec![100],
            settings: self.settings.clone(),
        };
        let device = DeviceView {
            sectors: self.sectors,
            depth: self.depth,
            rotational: self.rotational,
            in_flight: 0,
            position: 0,
        };
        let mut bench = Bench {
            elevator: (self.row.make)(&making),
            script: &self,
            device,
            requests: Requests::default(),
            out: Outgoing::default(),
            in_device: Vec::new(),
            order: Vec::new(),
            places: BTreeMap::new(),
            now: Nanos::ZERO,
        };
        let mut arrivals = self.arrivals.iter().enumerate().peekable();
        loop {
            let now = bench.now;
            while let Some((number, (_, bio))) = arrivals.next_if(|(_, (time, _))| *time <= now) {
                bench.arrive(number, bio);
            }
            bench.complete();
            if bench.elevator.timer().is_some_and(|at| at <= now) {
                bench.with(|elevator, context| elevator.expired(context));
            }
            bench.issue();
            let ends = bench.in_device.iter().map(|(end, _)| *end).min();
            let next = [arrivals.peek().map(|(_, (time, _))| *time), ends, bench.elevator.timer()];
            let Some(next) = next.into_iter().flatten().min() else { break };
            bench.now = next.max(now + Nanos::new(1));
            let kept = bench.elevator.queued();
            assert!(bench.now < Nanos::from_secs(3600), "the elevator keeps {kept} requests");
        }
        assert_eq!(bench.elevator.queued(), 0, "the elevator keeps requests for ever");
        assert_eq!(bench.order.len(), self.arrivals.len(), "every request is served once");
        Order(bench.order)
    }
}

/// An elevator with its device while a script runs.
struct Bench<'a> {
    elevator: Box<dyn Elevator>,
    script: &'a Script,
    device: DeviceView,
    requests: Requests,
    out: Outgoing,
    in_device: Vec<(Nanos, RequestId)>,
    order: Vec<Taken>,
    places: BTreeMap<RequestId, usize>,
    now: Nanos,
}

impl Bench<'_> {
    fn with(&mut self, what: impl FnOnce(&mut dyn Elevator, &mut Context<'_>)) {
        let access = Fixed(self.script.service, self.device.position);
        let mut context = Context {
            now: self.now,
            hz: self.script.hz,
            requests: &mut self.requests,
            processes: &self.script.processes,
            device: &self.device,
            access: Some(&access),
        };
        what(self.elevator.as_mut(), &mut context);
    }

    fn arrive(&mut self, number: usize, bio: &Bio) {
        let priority = self.script.processes[bio.process.index()].priority;
        let number = BioId(u32::try_from(number).expect("few"));
        let id = self.requests.make(bio, number, priority, self.now);
        self.with(|elevator, context| elevator.insert(context, id, false));
    }

    fn complete(&mut self) {
        while let Some(place) = self.in_device.iter().position(|(end, _)| *end <= self.now) {
            let (end, id) = self.in_device.remove(place);
            self.device.in_flight -= 1;
            self.order[self.places[&id]].completed = end;
            self.with(|elevator, context| elevator.completed(context, id));
            self.requests.release(id);
        }
    }

    fn issue(&mut self) {
        while self.device.in_flight < self.script.depth {
            if self.out.is_empty() {
                let mut out = std::mem::take(&mut self.out);
                self.with(|elevator, context| elevator.dispatch(context, &mut out, false));
                self.out = out;
            }
            let Some((id, rule)) = self.out.take() else { break };
            self.with(|elevator, context| elevator.issued(context, id));
            let begin = self.in_device.iter().map(|(end, _)| *end).max().unwrap_or(self.now);
            let end = begin + (self.script.service)(self.device.position, &self.requests[id]);
            self.in_device.push((end, id));
            self.device.in_flight += 1;
            self.device.position = self.requests[id].end();
            self.requests[id].issued = Some(self.now);
            self.places.insert(id, self.order.len());
            let sector = self.requests[id].sector;
            self.order.push(Taken { sector, completed: end, rule });
        }
    }
}

fn priority_of(name: &str) -> Priority {
    let class = match name.as_bytes() {
        [_, b'i'] => IoClass::Idle,
        [first, ..] if first.is_ascii_uppercase() => IoClass::Realtime,
        _ => IoClass::BestEffort,
    };
    let level = name.chars().nth(1).and_then(|c| c.to_digit(10)).unwrap_or(4);
    Priority { class, level: u8::try_from(level).expect("a digit") }
}
