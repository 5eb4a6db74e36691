//! [`Devices`]: the `[[irq]]` activities of a workload on this machine.
//!
//! Each gets a device of its own, made for the run: a virtual network cable whose far end is served by a thread of the
//! kernel's own ([`surety_kernel::net::threaded`]). That thread is what the activity is: it gets the reservation of the
//! workload, or the realtime priority that the kernel gives interrupt threads. A thread of ours at the near end sends a
//! packet for each arrival; every packet is a request.
//!
//! A packet costs what the kernel's network takes for it, and what a filter of the receiving socket adds: as many steps as bring
//! the sum to the `work` of the workload, found by trying before the run. The record says how much it was in the run.
//! The queue holds [`ROOM`] packets, which is the `buffer`; packets that find it full are lost, and both devices count what they
//! hand on and drop. They count and do not stamp, so there is no response of a single packet.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use surety_enforce::{attr_of_policy, attr_of_reservation};
use surety_kernel::net::threaded::{ROOM, ThreadedCable};
use surety_kernel::net::{Counts, Flow, PAYLOAD, STEPS_MAX};
use surety_kernel::{Kernel, KernelError, SchedAttr, clock};
use surety_model::record::{Account, ActivityRecord, Basis, Figure, Promised, Share, Total};
use surety_model::workload::{Activity, ActivityKind, Arrivals, Irq, PolicySpec, Workload};
use surety_model::world::{Cancel, WorldError};
use surety_units::{Nanos, Tid};

mod hardware;
mod sender;

use hardware::{Cards, DiskDevice};
pub use hardware::{Equipment, Hardware, at_place};
pub(crate) use hardware::{Sides, time_of_threads};
pub(crate) use sender::{Sender, Sent};

/// Of an interrupt's thread without a reservation (`sched_set_fifo` in `kernel/sched/syscalls.c`).
const PRIORITY: u32 = 50;
/// A device of a run.
pub(crate) struct Device {
    kind: Kind,
    /// Of the filter at its end.
    steps: usize,
}

/// What it is.
enum Kind {
    /// Made for the run.
    Cable(ThreadedCable),
    /// Two cards of the machine.
    Cards(Cards),
    /// A disk of the machine.
    Disk(DiskDevice),
}

impl Wire for Kind {
    fn flow(&self, steps: usize) -> Result<Flow, KernelError> {
        match self {
            Kind::Cable(cable) => cable.flow(steps),
            Kind::Cards(cards) => cards.pair.flow(steps),
            Kind::Disk(disk) => Err(disk.no_flow()),
        }
    }

    fn counts(&self) -> Result<Counts, KernelError> {
        match self {
            Kind::Cable(cable) => cable.counts(),
            Kind::Cards(cards) => cards.pair.counts(),
            Kind::Disk(disk) => disk.counts(),
        }
    }

    fn thread(&self) -> Tid {
        match self {
            Kind::Cable(cable) => cable.thread(),
            Kind::Cards(cards) => cards.thread.tid,
            Kind::Disk(disk) => disk.thread.tid,
        }
    }
}

/// Where packets go, and who takes them.
trait Wire {
    /// A flow whose packets cost so many steps.
    fn flow(&self, steps: usize) -> Result<Flow, KernelError>;
    /// What was handled and lost until now.
    fn counts(&self) -> Result<Counts, KernelError>;
    /// Who handles.
    fn thread(&self) -> Tid;
}

/// The devices of a run, in the order of the workload's sources; gone when dropped.
#[derive(Default)]
pub(crate) struct Devices {
    list: Vec<Device>,
}

/// What a device had counted at an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    at: Nanos,
    counts: Counts,
    /// Whether what was lost is the count of a card that begins again after 65,536.
    wraps: bool,
}

/// The role of a source's device.
pub(crate) fn role_of(irq: &Irq) -> &str {
    irq.device.as_deref().unwrap_or(&irq.name)
}

/// Why a source cannot be run here, in words.
pub(crate) fn objection(irq: &Irq, hardware: Option<&Hardware>) -> Option<String> {
    if let (Some(Hardware::Disk { .. }), Arrivals::Closed { outstanding: 1.., .. }) =
        (hardware, &irq.arrivals)
    {
        return None;
    }
    let distance = match irq.arrivals {
        Arrivals::Periodic { period } => period,
        Arrivals::Sporadic { gap } => gap,
        Arrivals::Poisson { rate } => Nanos::from_f64_rounded(1e9 / rate.per_second()),
        Arrivals::Closed { .. } if hardware.is_some() => {
            return Some("packets do not wait for each other; give `sporadic` arrivals".to_owned());
        }
        Arrivals::Closed { .. } => {
            let why = "a virtual cable takes no time for a request, so the host has no closed loops; give `sporadic` \
                       arrivals, or try `--on sim`";
            return Some(why.to_owned());
        }
    };
    if !distance.is_positive() {
        return Some("its interrupts come without time between them; give it a time above zero".to_owned());
    }
    match hardware {
        Some(Hardware::Disk { .. }) => {
            return Some("a disk is read by as many as wait for it; give `closed` arrivals".to_owned());
        }
        // The ring's size is the card's business; a hard handler it has.
        Some(Hardware::Cards { .. }) => return None,
        None => {}
    }
    if irq.hard.is_some_and(|hard| hard != Nanos::ZERO) {
        return Some("a virtual cable raises no hardware interrupt; leave out `hard`".to_owned());
    }
    match irq.buffer {
        Some(buffer) if buffer != ROOM => Some(format!(
            "the queue of a virtual cable holds {ROOM} packets; write `buffer = {ROOM}` or leave it out"
        )),
        _ => None,
    }
}

/// What the thread of a source is given.
pub(crate) fn attributes(irq: &Irq) -> SchedAttr {
    let fixed = PolicySpec::Fifo { priority: PRIORITY };
    irq.reservation.as_ref().map_or_else(|| attr_of_policy(fixed), attr_of_reservation)
}

impl Devices {
    /// Makes a device for each source, or takes that of the machine which stands for its role.
    pub fn prepare(
        workload: &Workload,
        equipment: &Equipment,
        kernel: &dyn Kernel,
        sides: Sides,
        cancel: &Cancel,
    ) -> Result<Devices, WorldError> {
        let mut list = Vec::new();
        for irq in &workload.irqs {
            if cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            let failed = |what: String, why: String| WorldError::Machine { what, remedy: why };
            let (kind, steps) = match equipment.get(role_of(irq)) {
                None => {
                    let cable = ThreadedCable::new(kernel).map_err(|error| {
                        failed(format!("no device can be made for irq.{}", irq.name), error.to_string())
                    })?;
                    let kind = Kind::Cable(cable);
                    let steps = steps_of(irq, &kind, kernel, sides.inside.len())?;
                    (kind, steps)
                }
                Some(hardware) => {
                    let what = format!("the device of irq.{} cannot be used", irq.name);
                    match hardware {
                        Hardware::Cards { near, far, softirqs, metronome } => {
                            let ends = (near.as_str(), far.as_str());
                            let cards =
                                Cards::open(kernel, ends, metronome.as_deref(), *softirqs, irq.buffer, sides)
                                    .map_err(|why| failed(what, why))?;
                            let kind = Kind::Cards(cards);
                            let steps = steps_of(irq, &kind, kernel, 0)?;
                            (kind, steps)
                        }
                        Hardware::Disk { name, block } => {
                            let disk = DiskDevice::open(kernel, name, *block, sides)
                                .map_err(|why| failed(what, why))?;
                            (Kind::Disk(disk), 0)
                        }
                    }
                }
            };
            list.push(Device { kind, steps });
        }
        Ok(Devices { list })
    }

    /// The thread that handles what arrives at a device.
    pub fn thread(&self, index: usize) -> Option<Tid> {
        Some(self.list.get(index)?.kind.thread())
    }

    /// Gives every device of the machine something to do, so that its thread runs where it may now.
    pub fn rouse(&self) {
        for device in &self.list {
            match &device.kind {
                Kind::Cable(_) => {}
                Kind::Cards(cards) => cards.rouse(),
                Kind::Disk(disk) => disk.rouse(),
            }
        }
    }

    /// Who keeps a device busy.
    pub fn senders(&self, index: usize, irq: &Irq, seed: u64) -> Result<Vec<Sender>, WorldError> {
        let Some(device) = self.list.get(index) else { return Ok(Vec::new()) };
        let failed = |why: String| WorldError::MachineFor {
            object: format!("irq.{}", irq.name),
            what: format!("irq.{} has no sender", irq.name),
            remedy: why,
        };
        let packets = |flow: Result<Flow, KernelError>| {
            let flow = flow.map_err(|error| failed(error.to_string()))?;
            Ok(vec![Sender::packets(flow, irq, seed)])
        };
        match &device.kind {
            Kind::Cards(cards) if cards.repeats() => {
                let beats = cards.metronome(device.steps).map_err(failed)?;
                Ok(vec![Sender::Beats(beats)])
            }
            Kind::Cable(_) | Kind::Cards(_) => packets(device.kind.flow(device.steps)),
            Kind::Disk(disk) => {
                let Arrivals::Closed { outstanding, .. } = irq.arrivals else { return Ok(Vec::new()) };
                let reader = |number| disk.reader(seed, number).map_err(|e| failed(e.to_string()));
                (0..outstanding).map(|number| Ok(Sender::Reads(reader(number)?))).collect()
            }
        }
    }

    /// What every device has counted until now; a device that cannot be read has counted nothing.
    pub fn read(&self) -> Vec<Option<Reading>> {
        let read = |device: &Device| {
            let counts = device.kind.counts().ok()?;
            let wraps = matches!(&device.kind, Kind::Cards(cards) if cards.repeats());
            Some(Reading { at: clock::monotonic(), counts, wraps })
        };
        self.list.iter().map(read).collect()
    }

    /// How each device is made, for the record.
    pub fn environment(&self, workload: &Workload) -> Vec<(String, String)> {
        let of = |(irq, device): (&Irq, &Device)| {
            let words = match &device.kind {
                Kind::Cable(cable) => format!(
                    "veth made for the run, threaded NAPI {}, thread {}, {ROOM} packets, UDP of {} bytes, a filter of {} \
                     steps",
                    cable.queue(),
                    cable.thread(),
                    PAYLOAD,
                    device.steps
                ),
                Kind::Cards(cards) => {
                    format!(
                        "{}, UDP of {PAYLOAD} bytes, a filter of {} steps",
                        cards.in_words(),
                        device.steps
                    )
                }
                Kind::Disk(disk) => disk.in_words(),
            };
            (format!("device {}", role_of(irq)), words)
        };
        workload.irqs.iter().zip(&self.list).map(of).collect()
    }
}

/// The steps of a source's filter.
fn steps_of(irq: &Irq, wire: &dyn Wire, kernel: &dyn Kernel, cpus: usize) -> Result<usize, WorldError> {
    let costs = Costs::of_machine(wire, kernel, cpus).map_err(|why| WorldError::MachineFor {
        object: format!("irq.{}", irq.name),
        what: format!("it cannot be tried how long a packet of irq.{} takes", irq.name),
        remedy: why,
    })?;
    costs.steps_for(irq.work.mean_ns()).ok_or_else(|| WorldError::Unsupported {
        world: "host".to_owned(),
        object: format!("irq.{}", irq.name),
        why: format!(
            "its work is {}, and a packet can be made to take {} at most here; give it less, or try `--on sim`",
            Nanos::from_f64_rounded(irq.work.mean_ns()),
            Nanos::from_f64_rounded(costs.most)
        ),
    })
}

/// CPU time of a packet on this machine, ns; in between it is a straight line.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Without a step.
    least: f64,
    /// With as many as there may be.
    most: f64,
}

impl Costs {
    /// Of this machine, tried once in a process: every run of it makes the same work by the same steps.
    fn of_machine(wire: &dyn Wire, kernel: &dyn Kernel, cpus: usize) -> Result<Costs, String> {
        static TRIED: Mutex<Option<Costs>> = Mutex::new(None);
        let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(costs) = *tried {
            return Ok(costs);
        }
        let costs = in_company(cpus, || {
            Ok::<Costs, String>(Costs { least: cost(wire, kernel, 0)?, most: cost(wire, kernel, STEPS_MAX)? })
        })?;
        *tried = Some(costs);
        Ok(costs)
    }

    /// The steps that bring a packet to some time: none where the kernel alone takes as long, `None` beyond the most.
    fn steps_for(self, wanted: f64) -> Option<usize> {
        if wanted <= self.least {
            return Some(0);
        }
        let part = (wanted - self.least) / (self.most - self.least);
        (part <= 1.0).then(|| (part * STEPS_MAX as f64).round() as usize)
    }
}

/// Does something while other threads of ours keep the CPUs busy: where two CPUs share a core, that is what work costs in company.
fn in_company<T>(threads: usize, body: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut value = 1_u64;
                while !is_over.load(Ordering::Relaxed) {
                    value = std::hint::black_box(value.wrapping_mul(3));
                }
            });
        }
        let result = body();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

/// CPU time that a device's thread takes for a packet through a filter of so many steps, ns: the median of some tries.
fn cost(wire: &dyn Wire, kernel: &dyn Kernel, steps: usize) -> Result<f64, String> {
    const TRIES: usize = 21;
    /// Fewer than the queue holds.
    const PACKETS: u64 = 100;
    /// Of all tries together: a fair thread moved to a busy CPU was seen to wait for 2 s (6.18), which does not change its CPU time.
    const WITHIN: Nanos = Nanos::from_secs(30);
    const PAUSE: Nanos = Nanos::MILLISECOND;
    let words = |error: KernelError| error.to_string();
    let pause = || clock::sleep_until(clock::monotonic() + PAUSE, None).map_err(words);
    let counts = || wire.counts().map_err(words);
    let flow = wire.flow(steps).map_err(words)?;
    let mut costs = Vec::with_capacity(TRIES);
    let until = clock::monotonic() + WITHIN;
    for _ in 0..TRIES {
        let (before, run) = (counts()?, run_time(kernel, wire.thread())?);
        // Packets that the socket refuses are not waited for.
        let sent = (0..PACKETS).filter(|_| flow.send()).count() as u64;
        let handled = loop {
            // The kernel adds up a thread's time when it leaves the CPU.
            pause()?;
            let now = counts()?;
            let handled = now.handled.saturating_sub(before.handled);
            let lost = now.lost.saturating_sub(before.lost);
            if handled + lost >= sent {
                break handled;
            }
            if clock::monotonic() >= until {
                return Err(format!(
                    "its tries took longer than {WITHIN}; of the last {sent} packets {handled} were handled and {lost} lost; \
                     end what else runs and try again"
                ));
            }
        };
        pause()?;
        // Of a few packets the cost is mostly that of waking the thread.
        if handled >= PACKETS / 2 {
            let used = run_time(kernel, wire.thread())? - run;
            costs.push(used.get() as f64 / handled as f64);
        }
    }
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().ok_or_else(|| "no packet came through".to_owned())
}

/// CPU time of a thread since its start.
fn run_time(kernel: &dyn Kernel, tid: Tid) -> Result<Nanos, String> {
    let path = format!("/proc/{tid}/schedstat");
    let text = kernel.read_text(Path::new(&path)).map_err(|error| error.to_string())?;
    let first = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    first
        .map(Nanos::new)
        .ok_or_else(|| format!("{path} holds no CPU time; the kernel needs CONFIG_SCHED_INFO"))
}

/// What became of a source's requests between two readings; `used`: CPU time and waiting time of its thread.
pub(crate) fn record(
    irq: &Irq,
    readings: Option<(Reading, Reading)>,
    used: Option<(Nanos, Nanos)>,
    sent: Sent,
) -> ActivityRecord {
    let Some((from, to)) = readings else {
        let mut record = ActivityRecord::new(&irq.name, ActivityKind::Irq, Basis::Sample);
        record.promised =
            Promised::not_observable(&irq.promises, "the counts of its device could not be read");
        return record;
    };
    let span = to.at - from.at;
    let completed = to.counts.handled.saturating_sub(from.counts.handled);
    let lost = match distance_of(irq).filter(|_| to.wraps) {
        None => to.counts.lost.saturating_sub(from.counts.lost),
        Some(gap) => {
            let came = u64::try_from(span.div_floor(gap)).unwrap_or(0);
            unwrapped(to.counts.lost.wrapping_sub(from.counts.lost), came.saturating_sub(completed))
        }
    };
    let per_second = |count: u64| if span.is_positive() { count as f64 / span.as_secs_f64() } else { 0.0 };
    let rate = per_second(completed);
    let activity = Activity { kind: ActivityKind::Irq, name: &irq.name, promises: &irq.promises };
    let mut account = Account::new(activity, None, Basis::Sample);
    // Those in the queue at either end are left out: their fate is not in the counts.
    account.add_counted(
        completed,
        lost,
        Some("the devices count packets and do not stamp them; run it in the simulator"),
    );
    account.add_total(Total::Requests(rate));
    let mut record =
        account.finish(used.map(|(run, waited)| Share { threads: vec![(run, Some(waited))], span }));
    record.figures = vec![
        Figure::new("rate", rate, "/s"),
        Figure::new("lost", record.skipped as f64, ""),
        Figure::new("arrivals", per_second(record.activations), "/s"),
    ];
    if let Some((run, _)) = used.filter(|_| record.completed > 0) {
        record.figures.push(Figure::new(
            "work of a request",
            run.get() as f64 / record.completed as f64,
            "ns",
        ));
    }
    if sent.left_out > 0 {
        record.figures.push(Figure::new("left out by the sender", sent.left_out as f64, ""));
    }
    record
}

/// The fixed distance of a source's arrivals.
fn distance_of(irq: &Irq) -> Option<Nanos> {
    match irq.arrivals {
        Arrivals::Periodic { period: every } | Arrivals::Sporadic { gap: every } => {
            Some(every).filter(|every| every.is_positive())
        }
        _ => None,
    }
}

/// What a counter of 16 bits has counted, which is near to what must have come.
fn unwrapped(difference: u64, near: u64) -> u64 {
    const ROUND: u64 = 1 << 16;
    let seen = difference % ROUND;
    seen + (near + ROUND / 2).saturating_sub(seen) / ROUND * ROUND
}

/// What speaks against a sender having kept its plan.
pub(crate) fn sender_objection(irq: &Irq, sent: Sent) -> Option<String> {
    let planned = sent.sent + sent.left_out;
    // A hundredth: what a preemption now and then costs.
    (sent.left_out * 100 > planned).then(|| {
        format!(
            "irq.{}: its sender left out {} of {planned} planned packets, for want of CPU time; fewer loads or another \
             CPU let it keep its plan",
            irq.name, sent.left_out
        )
    })
}

#[cfg(test)]
mod tests {
    use surety_model::distribution::TimeDistribution;

    use super::*;
    use surety_model::promise::Promise;
    use surety_model::record::Evidence;

    fn irq(arrivals: Arrivals) -> Irq {
        Irq::new("net", arrivals, TimeDistribution::Constant(Nanos::from_micros(3)))
    }

    #[test]
    fn what_a_cable_cannot_do_is_said_with_a_way_out() {
        let gap = Nanos::from_micros(100);
        let sporadic = irq(Arrivals::Sporadic { gap });
        assert_eq!(objection(&sporadic, None), None);
        assert_eq!(
            objection(&Irq { buffer: Some(256), hard: Some(Nanos::ZERO), ..sporadic.clone() }, None),
            None
        );
        for (irq, word) in [
            (irq(Arrivals::Closed { outstanding: 8, service: gap }), "sporadic"),
            (irq(Arrivals::Periodic { period: Nanos::ZERO }), "above zero"),
            (Irq { hard: Some(gap), ..sporadic.clone() }, "leave out `hard`"),
            (Irq { buffer: Some(64), ..sporadic }, "buffer = 256"),
        ] {
            let why = objection(&irq, None).unwrap();
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn a_counter_of_16_bits_is_read_by_what_must_have_come() {
        for (from, to, near, lost) in [
            (10_u64, 60_u64, 48, 50),
            (65_530, 4, 12, 10),
            (0, 0, 3, 0),
            (0, 100, 65_700, 65_636),
            (7, 7, 131_000, 131_072),
        ] {
            assert_eq!(unwrapped(to.wrapping_sub(from), near), lost, "{from} {to} {near}");
        }
    }

    #[test]
    fn steps_lie_on_a_line_between_the_least_and_the_most() {
        let costs = Costs { least: 2_000.0, most: 62_000.0 };
        for (wanted, steps) in [
            (500.0, Some(0)),
            (2_000.0, Some(0)),
            (32_000.0, Some(STEPS_MAX / 2)),
            (62_000.0, Some(STEPS_MAX)),
        ] {
            assert_eq!(costs.steps_for(wanted), steps, "{wanted}");
        }
        assert_eq!(costs.steps_for(62_001.0), None);
    }

    #[test]
    fn counts_become_rates_losses_and_the_work_of_a_request() {
        let mut irq = irq(Arrivals::Sporadic { gap: Nanos::from_micros(100) });
        let texts = ["lost == 0", "rate >= 50/s", "share >= 10%", "response <= 1ms", "rate >= 1MB/s"];
        irq.promises = texts.iter().map(|text| Promise::parse(text).unwrap()).collect();
        let reading = |at, handled, lost| Reading {
            at: Nanos::from_secs(at),
            counts: Counts { handled, lost },
            wraps: false,
        };
        let (run, waited) = (Nanos::from_millis(400), Nanos::from_millis(100));
        let record = super::record(
            &irq,
            Some((reading(1, 10, 1), reading(3, 210, 51))),
            Some((run, waited)),
            Sent { sent: 250, left_out: 0 },
        );
        assert_eq!((record.activations, record.completed, record.skipped, record.missed), (250, 200, 50, 50));
        let values: Vec<f64> = record.figures.iter().map(|figure| figure.value).collect();
        assert_eq!(values, [100.0, 50.0, 125.0, 2_000_000.0]);
        let value = |value, of_demand| Evidence::Value { value, of_demand };
        assert_eq!(record.evidence()[..3], [&value(50.0, None), &value(100.0, None), &value(0.2, Some(0.8))]);
        assert!(record.evidence()[3..].iter().all(|e| matches!(e, Evidence::NotObservable { .. })));
    }

    #[test]
    fn a_sender_that_left_out_more_than_a_hundredth_is_told_of() {
        let irq = irq(Arrivals::Periodic { period: Nanos::MILLISECOND });
        assert_eq!(sender_objection(&irq, Sent { sent: 990, left_out: 10 }), None);
        let why = sender_objection(&irq, Sent { sent: 900, left_out: 100 }).unwrap();
        assert!(why.contains("100 of 1000"), "{why}");
    }
}
