//! [`Links`]: packets of flows on links, a component of a simulation.
//!
//! A flow's messages come as its arrivals say, each cut into packets, the last one shorter. A link takes one packet at a time, in the
//! order of its scheduler ([`surety_block::fairq`]), and needs length / rate for it, rounded up to a whole nanosecond. Every packet that
//! comes waits: none is dropped. Of a closed flow a message comes so long after one is off the link. Packets take no CPU time.
//!
//! Two things happen: a message of a flow comes, and the packet on a link is off it. What happens at one instant happens in the order in
//! which it was planned.

use std::collections::VecDeque;

use surety_block::fairq::{self, FlowId, Item, Making, Scheduler};
use surety_model::distribution::TimeDistribution;
use surety_model::record::JobOutcome;
use surety_model::workload::{Arrivals, Flow, Workload};
use surety_model::world::Observer;
use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use crate::engine::{ComponentId, Engine, Event, Simulation, Slot};

/// What has become known of a flow's messages and packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// A packet is off the link.
    Packet { at: Nanos, bytes: u64 },
    /// A whole message is.
    Message(JobOutcome),
}

/// A packet takes at least so long: each is simulated by itself.
const SHORTEST: Nanos = Nanos::new(100);

/// Links and their flows.
pub struct Links {
    engine: Engine,
    component: ComponentId,
    links: Vec<Link>,
    flows: Vec<Source>,
    /// Of which flow of the workload, and what.
    news: Vec<(usize, News)>,
    seed: u64,
    packets: u64,
}

struct Link {
    rate: u64,
    scheduler: Box<dyn Scheduler>,
    /// On the link, and since when.
    sending: Option<Item>,
    end: Slot,
    /// The flows of its scheduler, by their place among all.
    flows: Vec<usize>,
}

/// One flow.
struct Source {
    /// The place in the workload.
    activity: usize,
    link: usize,
    /// Among the flows of the link.
    id: FlowId,
    packet: u32,
    message: u64,
    arrivals: Arrivals,
    key: u64,
    /// Messages that came.
    arrived: u64,
    slot: Slot,
    /// When messages come that are known of; the slot is armed for the first.
    due: VecDeque<Nanos>,
    /// Messages that are not off the link, the oldest first.
    open: VecDeque<Message>,
    waiting: u64,
    longest: u64,
}

#[derive(Clone, Copy)]
struct Message {
    release: Nanos,
    start: Option<Nanos>,
    left: u64,
    on_link: Nanos,
}

/// Time that a link needs for so many bytes.
fn time_of(bytes: u64, rate: u64) -> Nanos {
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
    Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// Why a flow cannot be simulated, and what to do.
fn check(flow: &Flow, rate: u64) -> Result<(), String> {
    let shortest = time_of(flow.packet.0.min(flow.message().0), rate);
    if shortest < SHORTEST {
        return Err(format!(
            "a packet of it is off the link in {shortest}, and {SHORTEST} is the least that is simulated; make its packets longer or \
             the link slower"
        ));
    }
    match flow.arrivals {
        Arrivals::Poisson { rate } if rate.0 == 0 => {
            Err("none of its messages ever comes; give it a rate".to_owned())
        }
        _ => Ok(()),
    }
}

impl Links {
    /// The links of a workload, at time 0.
    ///
    /// # Errors
    /// The object that a scheduler cannot take, by its path, and why.
    pub fn new(workload: &Workload, seed: u64) -> Result<Links, (String, String)> {
        let mut engine = Engine::default();
        let component = engine.add_component();
        let mut links = Links {
            engine,
            component,
            links: Vec::new(),
            flows: Vec::new(),
            news: Vec::new(),
            seed,
            packets: 0,
        };
        for link in &workload.links {
            links.add(workload, link)?;
        }
        for source in &links.flows {
            source.due.front().into_iter().for_each(|first| links.engine.arm(source.slot, *first));
        }
        Ok(links)
    }

    fn add(
        &mut self,
        workload: &Workload,
        link: &surety_model::workload::Link,
    ) -> Result<(), (String, String)> {
        let object = || format!("link.{}", link.name);
        let number = u32::try_from(self.links.len()).expect("few links");
        let mut of_link = Vec::new();
        let mut made = Vec::new();
        for (activity, flow) in workload.flows.iter().enumerate().filter(|(_, flow)| flow.link == link.name) {
            check(flow, link.rate.0).map_err(|why| (format!("flow.{}", flow.name), why))?;
            for instance in 0..flow.count {
                let curve = flow.curve.map(|curve| fairq::Curve {
                    first: curve.first,
                    bend: curve.bend,
                    then: curve.then,
                });
                let largest = u32::try_from(flow.packet.0).unwrap_or(u32::MAX);
                made.push(fairq::Flow { curve, ..fairq::Flow::new(flow.weight, largest) });
                of_link.push(self.flows.len());
                let id = FlowId(u32::try_from(made.len() - 1).expect("few flows"));
                self.add_flow(flow, activity, instance, id);
            }
        }
        let curves: Vec<fairq::Curve> = made.iter().filter_map(|flow| flow.curve).collect();
        if !fairq::curves_fit(&curves, link.rate) {
            let why = "the curves of its flows together are above its rate at some time; make them smaller";
            return Err((object(), why.to_owned()));
        }
        let largest = made.iter().map(|flow| flow.largest).max().unwrap_or(1);
        let quantum = link.quantum.map_or(largest, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
        let making = Making { rate: link.rate, flows: made, quantum };
        let row = fairq::by_word(&link.scheduler)
            .ok_or_else(|| (object(), format!("there is no scheduler `{}`; name another", link.scheduler)))?;
        let scheduler = row.make(&making).map_err(|error| (object(), format!("{error}; change it")))?;
        let end = self.engine.add_slot(self.component, number * 2);
        self.links.push(Link { rate: link.rate.0, scheduler, sending: None, end, flows: of_link });
        Ok(())
    }

    fn add_flow(&mut self, flow: &Flow, activity: usize, instance: u32, id: FlowId) {
        let number = u32::try_from(self.flows.len()).expect("few flows");
        let slot = self.engine.add_slot(self.component, number * 2 + 1);
        let outstanding = match flow.arrivals {
            Arrivals::Closed { outstanding, .. } => outstanding as usize,
            _ => 0,
        };
        let key = surety_model::activation::draw_key(&flow.name, instance);
        self.flows.push(Source {
            activity,
            link: self.links.len(),
            id,
            packet: u32::try_from(flow.packet.0).unwrap_or(u32::MAX),
            message: flow.message().0,
            arrivals: flow.arrivals.clone(),
            key: stream_of(&key),
            arrived: 0,
            slot,
            due: std::iter::repeat_n(flow.start, outstanding).collect(),
            open: VecDeque::new(),
            waiting: 0,
            longest: 0,
        });
        let first = match flow.arrivals {
            Arrivals::Closed { .. } => return,
            Arrivals::Poisson { .. } => flow.start + self.distance(self.flows.len() - 1),
            _ => flow.start,
        };
        self.flows.last_mut().expect("one was added").due.push_back(first);
    }

    /// Time to the next message of an open flow.
    fn distance(&self, place: usize) -> Nanos {
        let source = &self.flows[place];
        match source.arrivals {
            Arrivals::Periodic { period } => period,
            Arrivals::Sporadic { gap } => gap,
            Arrivals::Poisson { rate } => {
                let mean = Nanos::from_f64_rounded(1e9 / rate.per_second());
                let mut chance = Pcg::for_job(self.seed, source.key, source.arrived);
                TimeDistribution::Exponential { mean }.draw_from(&mut chance)
            }
            Arrivals::Closed { service, .. } => service,
        }
    }

    /// A message of a flow comes.
    fn arrive(&mut self, place: usize) {
        let now = self.engine.now();
        self.flows[place].arrived += 1;
        let distance = self.distance(place);
        let source = &mut self.flows[place];
        source.due.pop_front();
        if !matches!(source.arrivals, Arrivals::Closed { .. }) {
            source.due.push_back(now + distance);
        }
        if let Some(next) = source.due.front() {
            self.engine.arm(source.slot, *next);
        }
        let mut left = source.message;
        source.open.push_back(Message { release: now, start: None, left, on_link: Nanos::ZERO });
        while left > 0 {
            let length = left.min(u64::from(source.packet));
            left -= length;
            source.waiting += 1;
            let length = u32::try_from(length).expect("no longer than a packet");
            self.packets += 1;
            let item = Item { flow: source.id, length, number: self.packets };
            self.links[source.link].scheduler.enqueue(now, item);
        }
        source.longest = source.longest.max(source.waiting);
        let link = source.link;
        self.send(link);
    }

    /// A link that is idle takes the next packet.
    fn send(&mut self, number: usize) {
        let now = self.engine.now();
        let link = &mut self.links[number];
        if link.sending.is_some() {
            return;
        }
        let Some((item, _)) = link.scheduler.dequeue(now) else { return };
        link.sending = Some(item);
        self.engine.arm(link.end, now + time_of(u64::from(item.length), link.rate));
        let source = &mut self.flows[link.flows[item.flow.index()]];
        source.waiting -= 1;
        if let Some(message) = source.open.front_mut() {
            message.start.get_or_insert(now);
        }
    }

    /// The packet on a link is off it.
    fn sent(&mut self, number: usize) {
        let now = self.engine.now();
        let link = &mut self.links[number];
        let Some(item) = link.sending.take() else { return };
        let place = link.flows[item.flow.index()];
        let source = &mut self.flows[place];
        let bytes = u64::from(item.length);
        self.news.push((source.activity, News::Packet { at: now, bytes }));
        if let Some(message) = source.open.front_mut() {
            message.left -= bytes;
            message.on_link += time_of(bytes, link.rate);
            let Message { release, start, left, on_link } = *message;
            if left == 0 {
                source.open.pop_front();
                let start = start.unwrap_or(now);
                let outcome = JobOutcome::Completed { release, start, completion: now, execution: on_link };
                self.news.push((source.activity, News::Message(outcome)));
                if let Arrivals::Closed { service, .. } = source.arrivals {
                    source.due.push_back(now + service);
                    if !self.engine.is_armed(source.slot) {
                        self.engine.arm(source.slot, now + service);
                    }
                }
            }
        }
        self.send(number);
    }

    /// What has become known since the last time, in its order, with the flow's place in the workload.
    pub fn take_news(&mut self) -> Vec<(usize, News)> {
        std::mem::take(&mut self.news)
    }

    /// Messages that are not off their link at an instant.
    pub fn open(&self, until: Nanos) -> impl Iterator<Item = (usize, JobOutcome)> {
        self.flows.iter().flat_map(move |source| {
            let open = source.open.iter();
            open.map(move |message| {
                (source.activity, JobOutcome::Unfinished { release: message.release, until })
            })
        })
    }

    /// The most packets that waited at a time in a flow of the workload, of the one with the most.
    pub fn longest_queue(&self, activity: usize) -> u64 {
        let of = self.flows.iter().filter(|source| source.activity == activity);
        of.map(|source| source.longest).max().unwrap_or(0)
    }
}

impl Simulation for Links {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn occur(&mut self, event: Event, _observer: &mut dyn Observer) {
        let place = (event.number / 2) as usize;
        if event.number.is_multiple_of(2) {
            self.sent(place);
        } else {
            self.arrive(place);
        }
    }
}
