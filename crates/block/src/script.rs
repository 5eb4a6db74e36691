//! [`Script`]: an elevator driven by hand, for its tests: arrivals in text, one device that takes a fixed time.
//!
//! A line is `TIME PROCESS OP SECTOR SECTORS`, `TIME` with its unit; `OP` is `r`, `w` (nobody waits) or `s` (a synchronous
//! write), `PROCESS` a letter, in capitals of the class real time and with a digit after it of this level (`A0`, `b7`), or
//! `i` for the class idle (`zi`). `#` begins a comment. Requests are not merged.

use std::collections::BTreeMap;

use surety_units::Nanos;

use crate::elevator::{AccessTime, Context, DeviceView, ElevatorRow, Making, Outgoing, Rule};
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
    pub(crate) process: ProcessId,
    pub(crate) issued: Nanos,
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

    pub(crate) fn hz(self, hz: u32) -> Script {
        Script { hz, ..self }
    }

    pub(crate) fn depth(self, depth: u32) -> Script {
        Script { depth, ..self }
    }

    pub(crate) fn rotational(self, rotational: bool) -> Script {
        Script { rotational, ..self }
    }

    /// Time of a request, by the sector after the one before and by itself.
    pub(crate) fn service(self, service: fn(u64, &Request) -> Nanos) -> Script {
        Script { service, ..self }
    }

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
        let mut elevator = (self.row.make)(&making);
        let mut device = DeviceView {
            sectors: self.sectors,
            depth: self.depth,
            rotational: self.rotational,
            in_flight: 0,
            position: 0,
        };
        let mut requests = Requests::default();
        let mut out = Outgoing::default();
        let mut arrivals = self.arrivals.iter().enumerate().peekable();
        let mut in_device: Vec<(Nanos, RequestId)> = Vec::new();
        let mut order: Vec<Taken> = Vec::new();
        let mut places: BTreeMap<RequestId, usize> = BTreeMap::new();
        let mut now = Nanos::ZERO;
        loop {
            macro_rules! with {
                ($context:ident => $what:expr) => {{
                    let access = Fixed(self.service, device.position);
                    let mut context = Context {
                        now,
                        hz: self.hz,
                        requests: &mut requests,
                        processes: &self.processes,
                        device: &device,
                        access: Some(&access),
                    };
                    let $context = &mut context;
                    $what
                }};
            }
            while let Some((number, (_, bio))) = arrivals.next_if(|(_, (time, _))| *time <= now) {
                let priority = self.processes[bio.process.index()].priority;
                let number = BioId(u32::try_from(number).expect("few"));
                let id = requests.make(bio, number, priority, now);
                with!(context => elevator.insert(context, id, false));
            }
            while let Some(place) = in_device.iter().position(|(end, _)| *end <= now) {
                let (end, id) = in_device.remove(place);
                device.in_flight -= 1;
                order[places[&id]].completed = end;
                with!(context => elevator.completed(context, id));
                requests.release(id);
            }
            if elevator.timer().is_some_and(|at| at <= now) {
                with!(context => elevator.expired(context));
            }
            while device.in_flight < self.depth {
                if out.is_empty() {
                    with!(context => elevator.dispatch(context, &mut out, false));
                }
                let Some((id, rule)) = out.take() else { break };
                with!(context => elevator.issued(context, id));
                let begin = in_device.iter().map(|(end, _)| *end).max().unwrap_or(now);
                let end = begin + (self.service)(device.position, &requests[id]);
                in_device.push((end, id));
                device.in_flight += 1;
                device.position = requests[id].end();
                requests[id].issued = Some(now);
                places.insert(id, order.len());
                let Request { sector, process, .. } = requests[id];
                order.push(Taken { sector, process, issued: now, completed: end, rule });
            }
            let next = [
                arrivals.peek().map(|(_, (time, _))| *time),
                in_device.iter().map(|(end, _)| *end).min(),
                elevator.timer(),
            ];
            match next.into_iter().flatten().min() {
                Some(next) => now = next.max(now + Nanos::new(1)),
                None => break,
            }
            assert!(now < Nanos::from_secs(3600), "the elevator keeps {} requests", elevator.queued());
        }
        assert_eq!(elevator.queued(), 0, "the elevator keeps requests for ever");
        assert_eq!(order.len(), self.arrivals.len(), "every request is served once");
        Order(order)
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
