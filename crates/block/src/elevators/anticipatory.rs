//! `anticipatory` (`block/as-iosched.c` of 2.6.20).
//!
//! Reads and writes alternate in batches of time: a batch of the one direction ends when its time is over and the other has
//! requests; it drains before the next begins. Within a batch requests go upwards by sector, or up to 2^20 sectors back where that way
//! is less than half as long; what has expired goes first, looked at once per expiry.
//!
//! After a read the disk is kept idle for up to `antic_expire` where the process that made it is likely to read on nearby:
//! first until the read is complete (*wait for the request*), then from there on (*wait for the next*). It is not, where what it thinks
//! between two reads takes longer on average, it has requests already, or the next request is as near as its own usually are.

use surety_units::Nanos;

use super::habit::{Mean, Seeks};
use crate::elevator::{Context, Elevator, ElevatorRow, Front, Making, Outgoing, Rule, Side};
use crate::order::Lane;
use crate::request::{Bio, ProcessId, RequestId, Requests};
use crate::tunable::Tunable;

pub(super) const ROW: ElevatorRow = ElevatorRow {
    word: "anticipatory",
    source: "block/as-iosched.c of Linux 2.6.20",
    front: Front::Legacy,
    tunables: &[
        Tunable::number("read_expire", 125, "ms", "a read has expired after this"),
        Tunable::number("write_expire", 250, "ms", "a write has expired after this"),
        Tunable::number("read_batch_expire", 500, "ms", "reads are served for this long while writes wait"),
        Tunable::number("write_batch_expire", 125, "ms", "writes are served for this long while reads wait"),
        Tunable::number(
            "antic_expire",
            6,
            "ms",
            "the disk is kept idle for a process for this long; 0: never",
        ),
    ],
    make: |making| Box::new(Anticipatory::new(making)),
};

const BATCH: Rule = Rule("next in the batch");
const EXPIRED: Rule = Rule("expired");
const CHANGE: Rule = Rule("first of a batch of the other direction");

const ASYNC: usize = 0;
const SYNC: usize = 1;
/// How far back a request may lie, in sectors (`MAXBACK`).
const BACK: u64 = 1024 * 1024;
/// The longest thought that counts (`MAX_THINKTIME`, HZ/50).
const THOUGHT: Nanos = Nanos::from_millis(20);
/// A request is close within so many sectors, twice as many with each millisecond of waiting.
const CLOSE: u64 = 64;
/// One, as probabilities count it.
const ONE: u64 = 256;

/// What is known of a process (`struct as_io_context`).
#[derive(Clone, Copy, Debug, Default)]
struct Habit {
    queued: u32,
    /// When its last read was complete; `None`: it has had none.
    last_end: Option<Nanos>,
    /// In jiffies.
    thought: Mean,
    seeks: Seeks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Antic {
    Off,
    WaitRequest,
    /// Until then.
    WaitNext(Nanos),
    Finished,
}

#[derive(Debug)]
struct Anticipatory {
    lanes: [Lane; 2],
    last: [u64; 2],
    checked: [Nanos; 2],
    expire: [Nanos; 2],
    batch: [Nanos; 2],
    antic_expire: Nanos,
    jiffy: Nanos,
    direction: usize,
    batch_ends: Nanos,
    /// The other direction is chosen and what is in the device has to drain; the first read of a batch is not complete yet.
    is_changing: bool,
    is_new: bool,
    writes_left: u64,
    writes_of_batch: u64,
    in_device: u32,
    antic: Antic,
    /// Whose read was dispatched last, and whether and when it was complete.
    process: Option<ProcessId>,
    finished: Option<Nanos>,
    /// That process has exited since: nobody is going to read on.
    is_gone: bool,
    habits: Vec<Habit>,
    /// What is known of processes that are new: their thought in jiffies, and the probability that there is no next read.
    new_thought: Mean,
    no_next: u64,
}

impl Anticipatory {
    fn new(making: &Making) -> Anticipatory {
        let settings = &making.settings;
        let batch = [settings.millis("write_batch_expire"), settings.millis("read_batch_expire")];
        let jiffy = Nanos::new(1_000_000_000 / i64::from(making.hz.max(1)));
        Anticipatory {
            lanes: Default::default(),
            last: [0; 2],
            checked: [Nanos::ZERO; 2],
            expire: [settings.millis("write_expire"), settings.millis("read_expire")],
            antic_expire: settings.millis("antic_expire"),
            direction: SYNC,
            batch_ends: batch[SYNC],
            is_changing: false,
            is_new: false,
            writes_left: 0,
            writes_of_batch: ((batch[ASYNC].get_unsigned() / jiffy.get_unsigned()) / 10).max(2),
            batch,
            jiffy,
            in_device: 0,
            antic: Antic::Off,
            process: None,
            finished: None,
            is_gone: false,
            habits: Vec::new(),
            new_thought: Mean::default(),
            no_next: 0,
        }
    }

    fn habit(&mut self, process: ProcessId) -> &mut Habit {
        let count = self.habits.len().max(process.index() + 1);
        self.habits.resize(count, Habit::default());
        &mut self.habits[process.index()]
    }

    fn next(&self, requests: &Requests, direction: usize) -> Option<RequestId> {
        self.lanes[direction].nearest(requests, self.last[direction], BACK)
    }

    /// The oldest of a direction, where it has expired and that was not looked at for as long.
    fn expired_of(&mut self, now: Nanos, requests: &Requests, direction: usize) -> Option<RequestId> {
        if now < self.checked[direction] + self.expire[direction] {
            return None;
        }
        self.checked[direction] = now;
        self.lanes[direction].expired(requests, now)
    }

    fn batch_is_over(&self, now: Nanos) -> bool {
        if self.is_changing || self.is_new {
            return false;
        }
        now > self.batch_ends || (self.direction == ASYNC && self.writes_left == 0)
    }

    /// Whether a read of another process is near enough to go before the one waited for (`as_close_req`).
    fn is_close(&self, now: Nanos, sector: u64) -> bool {
        let waited = match (self.antic, self.finished) {
            (Antic::Off, _) | (_, None) => Nanos::ZERO,
            (_, Some(finished)) => now - finished,
        };
        let millis = waited.get_unsigned() / 1_000_000;
        if millis > 1 && waited > self.antic_expire {
            return true;
        }
        let reach = CLOSE << millis.saturating_sub(1).min(20);
        let last = self.last[self.direction];
        last.saturating_sub(reach / 2) <= sector && sector <= last + reach
    }

    /// Whether it is not worth to wait, or any more (`as_can_break_anticipation`); `candidate` could go instead.
    fn breaks(&mut self, now: Nanos, requests: &Requests, candidate: Option<RequestId>) -> bool {
        let Some(process) = self.process.filter(|_| !self.is_gone) else { return true };
        let habit = *self.habit(process);
        if candidate.is_some_and(|id| requests[id].process == process) || habit.queued > 0 {
            return true;
        }
        if self.finished.is_some_and(|finished| now - finished > self.antic_expire) {
            return true;
        }
        if let Some(id) = candidate.filter(|id| requests[*id].sync) {
            let sector = requests[id].sector;
            let distance = sector.abs_diff(self.last[SYNC]);
            if self.is_close(now, sector)
                || (habit.seeks.mean().weight() > 0 && distance < habit.seeks.mean().get())
            {
                return true;
            }
        }
        let most = self.antic_expire.get_unsigned() / self.jiffy.get_unsigned();
        if habit.thought.weight() == 0 {
            self.new_thought.get() > most || self.no_next > 128
        } else {
            habit.thought.get() > most
        }
    }

    /// Waits for what the last reader reads next, from when its read is complete.
    fn anticipate(&mut self) {
        self.antic = match self.finished {
            Some(finished) => Antic::WaitNext(finished + self.antic_expire),
            None => Antic::WaitRequest,
        };
    }

    fn is_waiting(&self) -> bool {
        matches!(self.antic, Antic::WaitRequest | Antic::WaitNext(_))
    }

    /// Which request goes, of the direction that has its turn.
    fn choose(&mut self, now: Nanos, requests: &Requests) -> Option<(RequestId, Rule)> {
        let (reads, writes) = (!self.lanes[SYNC].is_empty(), !self.lanes[ASYNC].is_empty());
        if !(reads || writes) || self.is_waiting() || self.is_changing {
            return None;
        }
        if !(reads && writes && self.batch_is_over(now)) {
            let next = self.next(requests, self.direction);
            if self.direction == SYNC && self.antic_expire > Nanos::ZERO {
                if let Some(id) = self.expired_of(now, requests, SYNC) {
                    return Some((id, EXPIRED));
                }
                if self.antic != Antic::Finished
                    && self.process.is_some()
                    && !self.breaks(now, requests, next)
                {
                    self.anticipate();
                    return None;
                }
            }
            if let Some(id) = next {
                if reads && !writes {
                    self.batch_ends = now + self.batch[SYNC];
                }
                let chosen =
                    self.expired_of(now, requests, self.direction).map_or((id, BATCH), |id| (id, EXPIRED));
                return self.drained(now, chosen);
            }
        }
        let is_read = reads && !(writes && self.direction == SYNC);
        let direction = if is_read { SYNC } else { ASYNC };
        self.is_changing |= self.direction != direction;
        self.direction = direction;
        let id = if is_read {
            self.checked[SYNC] = now;
            self.lanes[SYNC].oldest(requests)
        } else {
            self.is_new = false;
            self.writes_left = self.writes_of_batch;
            self.next(requests, ASYNC)
        };
        let chosen = id.map(|id| (id, CHANGE))?;
        self.drained(now, chosen)
    }

    /// What goes, unless requests of the batch before are still in the device.
    fn drained(&mut self, now: Nanos, chosen: (RequestId, Rule)) -> Option<(RequestId, Rule)> {
        if self.is_changing {
            if self.in_device > 0 {
                return None;
            }
            self.begin_batch(now);
        }
        Some(chosen)
    }

    fn begin_batch(&mut self, now: Nanos) {
        self.is_changing = false;
        if self.direction == ASYNC {
            self.batch_ends = now + self.batch[ASYNC];
        } else {
            self.is_new = true;
        }
    }

    /// How long the last batch of writes took says how many the next has (`update_write_batch`).
    fn learn_writes(&mut self, now: Nanos) {
        let batch = self.batch[ASYNC];
        let took = (now - self.batch_ends + batch).max(Nanos::ZERO);
        if took > batch {
            self.writes_of_batch =
                if took > batch * 3 { self.writes_of_batch / 2 } else { self.writes_of_batch - 1 };
        } else if self.writes_left == 0 {
            self.writes_of_batch =
                if batch > took * 3 { self.writes_of_batch * 2 } else { self.writes_of_batch + 1 };
        }
        self.writes_of_batch = self.writes_of_batch.max(1);
    }

    /// A read of a process comes: how long it thought and how far it went (`as_update_iohist`).
    fn learn_habit(&mut self, now: Nanos, process: ProcessId, sector: u64, end: u64) {
        let jiffy = self.jiffy.get_unsigned();
        let habit = self.habit(process);
        let mut first_thought = None;
        if habit.seeks.add(sector, end) {
            let thought = match habit.last_end {
                Some(last) if habit.queued == 0 => (now - last).clamp(Nanos::ZERO, THOUGHT),
                _ => Nanos::ZERO,
            };
            let thought = thought.get_unsigned() / jiffy;
            first_thought = (habit.thought.weight() == 0).then_some(thought);
            habit.thought.add(thought);
        }
        if let Some(thought) = first_thought {
            self.new_thought.add(thought);
        }
    }
}

impl Elevator for Anticipatory {
    fn front_merge(&mut self, _context: &mut Context<'_>, bio: &Bio) -> Option<RequestId> {
        self.lanes[usize::from(bio.sync)].sorted.at(bio.end())
    }

    fn neighbour(&self, requests: &Requests, id: RequestId, side: Side) -> Option<RequestId> {
        self.lanes[usize::from(requests[id].sync)].sorted.beside(requests, id, side)
    }

    fn merged(&mut self, context: &mut Context<'_>, id: RequestId, side: Side) {
        if side == Side::Front {
            let lane = usize::from(context.requests[id].sync);
            self.lanes[lane].sorted.grown_at_front(context.requests, id);
        }
    }

    fn may_merge(&mut self, context: &mut Context<'_>, into: RequestId, bio: &Bio) -> bool {
        context.requests[into].sync == bio.sync
    }

    fn exited(&mut self, _context: &mut Context<'_>, process: ProcessId) {
        let queued = self.habit(process).queued;
        *self.habit(process) = Habit { queued, ..Habit::default() };
        self.is_gone |= self.process == Some(process);
    }

    fn joining(&mut self, context: &mut Context<'_>, kept: RequestId, gone: RequestId) {
        let of = &context.requests[gone];
        let (lane, process) = (usize::from(of.sync), of.process);
        self.lanes[lane].join(context.requests, kept, gone);
        self.habit(process).queued -= 1;
    }

    fn insert(&mut self, context: &mut Context<'_>, id: RequestId) {
        let request = &context.requests[id];
        let (process, lane) = (request.process, usize::from(request.sync));
        if request.sync {
            self.learn_habit(context.now, process, request.sector, request.end());
        }
        self.habit(process).queued += 1;
        self.lanes[lane].insert(context.requests, id, context.now + self.expire[lane]);
        if self.is_waiting() && self.breaks(context.now, context.requests, Some(id)) {
            self.antic = Antic::Finished;
        }
    }

    fn dispatch(&mut self, context: &mut Context<'_>, out: &mut Outgoing) {
        let Some((id, rule)) = self.choose(context.now, context.requests) else { return };
        let request = &context.requests[id];
        let (process, lane) = (request.process, usize::from(request.sync));
        self.antic = Antic::Off;
        self.last[lane] = request.end();
        if request.sync {
            self.process = Some(process);
        } else {
            self.process = None;
            self.writes_left = self.writes_left.saturating_sub(1);
        }
        (self.finished, self.is_gone) = (None, false);
        self.lanes[lane].remove(context.requests, id);
        self.habit(process).queued -= 1;
        self.in_device += 1;
        out.append(id, rule);
    }

    fn completed(&mut self, context: &mut Context<'_>, id: RequestId) {
        let (now, request) = (context.now, &context.requests[id]);
        if self.is_changing && self.in_device == 1 {
            self.begin_batch(now);
        }
        self.in_device -= 1;
        if self.is_new && self.direction == usize::from(request.sync) {
            self.learn_writes(now);
            self.batch_ends = now + self.batch[SYNC];
            self.is_new = false;
        }
        if self.process == Some(request.process) {
            self.finished = Some(now);
            if self.antic == Antic::WaitRequest {
                self.anticipate();
            }
        }
        if request.sync {
            let process = request.process;
            self.habit(process).last_end = Some(now);
        }
    }

    fn timer(&self) -> Option<Nanos> {
        match self.antic {
            Antic::WaitNext(until) => Some(until),
            _ => None,
        }
    }

    fn expired(&mut self, _context: &mut Context<'_>) -> bool {
        self.antic = Antic::Finished;
        if let Some(process) = self.process.filter(|_| !self.is_gone)
            && self.habit(process).thought.weight() == 0
        {
            self.no_next = (7 * self.no_next + ONE) / 8;
        }
        true
    }

    fn queued(&self) -> usize {
        self.lanes.iter().map(Lane::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::script::Script;

    fn sectors(text: &str) -> Vec<u64> {
        Script::of(&super::ROW).text(text).run().sectors()
    }

    /// `a` reads on 1 ms after each of its reads is complete; `b` is far away and has to wait until `a` pauses for longer than 6 ms.
    #[test]
    fn the_disk_waits_for_a_process_that_reads_on() {
        let text = "0ms a r 100 8\n500us b r 900000 8\n2ms a r 108 8\n4ms a r 116 8";
        assert_eq!(sectors(text), [100, 108, 116, 900_000]);
    }

    /// It waits no longer than `antic_expire`, and not at all where that is 0.
    #[test]
    fn it_waits_no_longer_than_it_is_told() {
        let order = Script::of(&super::ROW).text("0ms a r 100 8\n500us b r 900000 8").run();
        assert_eq!(order.0[1].completed.get(), 1_000_000 + 6_000_000 + 1_000_000);
        let order =
            Script::of(&super::ROW).set("antic_expire", 0).text("0ms a r 100 8\n500us b r 900000 8").run();
        assert_eq!(order.0[1].completed.get(), 2_000_000);
    }

    /// A read of another process that lies within 64 sectors goes at once.
    #[test]
    fn a_close_read_ends_the_waiting() {
        let order = Script::of(&super::ROW).text("0ms a r 100 8\n500us b r 120 8").run();
        assert_eq!(order.0[1].completed.get(), 2_000_000);
    }

    /// Reads are served for `read_batch_expire` while writes wait; then writes for theirs.
    #[test]
    fn reads_and_writes_alternate_in_batches() {
        let mut text = String::from("0ms w w 5000 8\n");
        for number in 0..40 {
            text.push_str(&format!("0ms a r {} 8\n", 100 + 10 * number));
        }
        let order =
            Script::of(&super::ROW).set("read_batch_expire", 20).set("read_expire", 1000).text(&text).run();
        let place = order.sectors().iter().position(|sector| *sector == 5000);
        assert_eq!(place, Some(21), "{:?}", order.sectors());
    }
}
