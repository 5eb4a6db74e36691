//! [`Script`]: an elevator driven by hand, for its tests: arrivals in text, one device that takes a fixed time.
//!
//! A line is `TIME PROCESS OP SECTOR SECTORS`, `TIME` with its unit; `OP` is `r`, `w` (nobody waits) or `s` (a synchronous
//! write), `PROCESS` a letter, in capitals of the class real time and with a digit after it of this level (`A0`, `b7`), or
//! `i` for the class idle (`zi`), and with `@` and the place of its control group (`a@0`). `by TIME` at its end is its deadline. `#` begins a comment. Requests are not merged.

use std::collections::BTreeMap;
use std::rc::Rc;

use surety_units::Nanos;

use crate::elevator::{Context, Elevator, ElevatorRow, Making, Outgoing, Positioning, Rule};
use crate::kernels::{Rules, UNNAMED};
use crate::request::{Bio, BioId, IoClass, IoGroup, Op, Priority, Process, ProcessId, RequestId, Requests};
use crate::tunable::Settings;

/// A script and the device it is run on.
pub(crate) struct Script {
    row: &'static ElevatorRow,
    settings: Settings,
    arrivals: Vec<(Nanos, Bio)>,
    processes: Vec<Process>,
    device: Option<Rc<dyn Positioning>>,
    groups: Vec<IoGroup>,
    rules: &'static Rules,
    /// Of each request in the device.
    takes: Nanos,
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

impl Script {
    /// On a disk that turns and takes 1 ms for each request, one at a time, with 1000 ticks per second.
    pub(crate) fn of(row: &'static ElevatorRow) -> Script {
        let settings = Settings::new(row.tunables);
        let (arrivals, processes, groups) = (Vec::new(), Vec::new(), Vec::new());
        Script {
            row,
            settings,
            arrivals,
            processes,
            device: None,
            groups,
            rules: &UNNAMED,
            takes: Nanos::MILLISECOND,
        }
    }

    /// Sets a tunable.
    pub(crate) fn set(mut self, name: &str, value: u64) -> Script {
        self.settings.set(name, value).expect("a tunable of this elevator");
        self
    }

    /// On a disk that takes this time for each request.
    pub(crate) fn takes(mut self, time: Nanos) -> Script {
        self.takes = time;
        self
    }

    /// On a kernel with a name.
    pub(crate) fn kernel(mut self, name: &str) -> Script {
        self.rules = Rules::named(name).expect("it has a row");
        self
    }

    /// Has control groups with these weights, each in the one with this place.
    pub(crate) fn groups(mut self, groups: &[(u32, Option<usize>)]) -> Script {
        self.groups =
            groups.iter().map(|(weight, parent)| IoGroup { weight: *weight, parent: *parent }).collect();
        self
    }

    /// Has a device that can be asked.
    pub(crate) fn device(mut self, device: impl Positioning + 'static) -> Script {
        self.device = Some(Rc::new(device));
        self
    }

    /// Adds arrivals.
    pub(crate) fn text(mut self, text: &str) -> Script {
        let mut names: BTreeMap<String, ProcessId> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let (words, deadline) = match &words[..] {
                [words @ .., "by", deadline] => (words, Some(deadline.parse().expect("a time"))),
                words => (words, None),
            };
            let [time, name, op, sector, sectors] = words[..] else {
                assert!(words.is_empty(), "{line}");
                continue;
            };
            let process = *names.entry(name.to_owned()).or_insert_with(|| {
                let (who, group) = name.split_once('@').unwrap_or((name, ""));
                self.processes.push(Process { priority: priority_of(who), group: group.parse().ok() });
                ProcessId(u32::try_from(self.processes.len()).expect("few") - 1)
            });
            let bio = Bio {
                op: if op == "r" { Op::Read } else { Op::Write },
                sync: op != "w",
                meta: false,
                cached: false,
                sector: sector.parse().expect("a sector"),
                sectors: sectors.parse().expect("a count"),
                process,
                deadline,
            };
            self.arrivals.push((time.parse().expect("a time"), bio));
        }
        self.arrivals.sort_by_key(|(time, _)| *time);
        self
    }

    /// Runs it until nothing is left.
    pub(crate) fn run(self) -> Order {
        let making = Making {
            device: self.device.clone(),
            groups: self.groups.clone(),
            rules: self.rules,
            ..Making::new(128, 1, self.settings.clone())
        };
        let mut bench = Bench {
            elevator: (self.row.make)(&making),
            script: &self,
            requests: Requests::default(),
            in_device: None,
            out: Outgoing::default(),
            order: Vec::new(),
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
                bench.with(|elevator, context| {
                    elevator.expired(context);
                });
            }
            bench.issue();
            let ends = bench.in_device.map(|(end, _)| end);
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
    requests: Requests,
    in_device: Option<(Nanos, RequestId)>,
    out: Outgoing,
    order: Vec<Taken>,
    now: Nanos,
}

impl Bench<'_> {
    fn with(&mut self, what: impl FnOnce(&mut dyn Elevator, &mut Context<'_>)) {
        let processes = &self.script.processes;
        let mut context = Context { now: self.now, requests: &mut self.requests, processes };
        what(self.elevator.as_mut(), &mut context);
    }

    fn arrive(&mut self, number: usize, bio: &Bio) {
        let priority = self.script.processes[bio.process.index()].priority;
        let number = BioId(u32::try_from(number).expect("few"));
        let id = self.requests.make(bio, number, priority, self.now);
        self.with(|elevator, context| elevator.insert(context, id));
    }

    fn complete(&mut self) {
        if let Some((_, id)) = self.in_device.take_if(|(end, _)| *end <= self.now) {
            self.with(|elevator, context| elevator.completed(context, id));
            self.requests.release(id);
        }
    }

    fn issue(&mut self) {
        if self.in_device.is_some() {
            return;
        }
        let mut out = std::mem::take(&mut self.out);
        if out.is_empty() && self.elevator.queued() > 0 {
            self.with(|elevator, context| elevator.dispatch(context, &mut out));
        }
        let taken = out.take();
        self.out = out;
        let Some((id, rule)) = taken else { return };
        self.out.set_boundary(self.requests[id].end());
        let completed = self.now + self.script.takes;
        self.in_device = Some((completed, id));
        self.requests[id].issued = self.now;
        self.order.push(Taken { sector: self.requests[id].sector, completed, rule });
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
