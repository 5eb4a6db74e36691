//! B-WF2Q+, the engine of BFQ: which queue is served next (`block/bfq-wf2q.c`; Valente and Checconi, IEEE Transactions on Computers 2010).
//!
//! An entity with budget `b` and weight `w` that is activated at virtual time `V` has
//!
//! ```text
//! S = max(V, F of its last service)      F = S + b / w
//! ```
//!
//! and of all entities of the most important class that are eligible (`S <= V`; `V` jumps to the least `S` where none is) the one
//! with the least `F` is served. Every sector served moves `V` on by the inverse of the sum of weights. One that is served again
//! without a pause has `S = F` by what it was really served, not by its budget.
//!
//! The next one is chosen when something changes, not when it is needed: it stays the next when `V` has moved on meanwhile
//! (`bfq_update_next_in_service`).

use surety_units::Nanos;

use crate::request::IoClass;

/// Virtual time has this many bits behind the point (`WFQ_SERVICE_SHIFT`).
const SHIFT: u32 = 22;
/// The idle class is served once in this, whoever else wants to be (`BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS: Nanos = Nanos::from_millis(200);

/// Where an entity stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Not known to its tree.
    #[default]
    Out,
    /// Waits to be served.
    Active,
    InService,
    /// Has nothing to do, and its last service ends in the virtual future.
    Idle,
}

/// What is scheduled: a queue.
#[derive(Clone, Debug)]
pub(super) struct Entity {
    pub class: IoClass,
    pub weight: u64,
    /// Sectors it may be served at a time, and has been this time.
    pub budget: u64,
    pub service: u64,
    start: u64,
    finish: u64,
    standing: Standing,
}

impl Entity {
    pub(super) fn new(class: IoClass, weight: u64) -> Entity {
        Entity { class, weight, budget: 0, service: 0, start: 0, finish: 0, standing: Standing::Out }
    }

    pub(super) fn left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }

    fn sets_finish(&mut self, service: u64) {
        self.finish = self.start.wrapping_add(share(service, self.weight));
    }
}

/// Virtual time that service takes at a weight.
fn share(service: u64, weight: u64) -> u64 {
    let exact = (u128::from(service) << SHIFT) / u128::from(weight.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// Whether one virtual instant lies behind another.
fn is_after(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

/// The entities of one class.
#[derive(Clone, Debug, Default)]
struct Tree {
    virtual_time: u64,
    weights: u64,
    active: Vec<usize>,
    idle: Vec<usize>,
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    trees: [Tree; IoClass::COUNT],
    pub entities: Vec<Entity>,
    in_service: Option<usize>,
    next: Option<usize>,
    idle_class_served: Nanos,
    /// Those that wait, of all classes, in the order in which they began to.
    waiting: Vec<usize>,
}

impl Engine {
    fn tree(&mut self, id: usize) -> &mut Tree {
        &mut self.trees[self.entities[id].class.place()]
    }

    /// An entity becomes busy. `is_back`: it has come back in time from waiting for a request, and goes on where it was; what it is late
    /// by counts only in part where it is raised `coefficient`-fold.
    pub(super) fn activate(
        &mut self,
        id: usize,
        is_back: bool,
        (weight, coefficient): (u64, u64),
        now: Nanos,
    ) {
        let virtual_time = self.tree(id).virtual_time;
        let entity = &mut self.entities[id];
        let is_late = is_back && is_after(virtual_time, entity.finish);
        let floor = if is_late { entity.finish } else { virtual_time };
        if entity.standing == Standing::Idle {
            entity.start = if is_after(floor, entity.finish) { floor } else { entity.finish };
            self.tree(id).idle.retain(|other| *other != id);
        } else {
            entity.start = floor;
            let weight = entity.weight;
            self.tree(id).weights += weight;
        }
        self.enqueue(id, weight);
        let entity = &mut self.entities[id];
        if is_late && is_after(virtual_time, entity.finish) {
            let behind = virtual_time.wrapping_sub(entity.finish) / coefficient.max(1);
            entity.start = entity.start.wrapping_add(behind);
            entity.finish = entity.finish.wrapping_add(behind);
        }
        self.chooses(Some(id), false, now);
    }

    /// An entity waits with its budget, at a weight.
    fn enqueue(&mut self, id: usize, weight: u64) {
        self.reweigh(id, weight);
        let entity = &mut self.entities[id];
        entity.sets_finish(entity.budget);
        entity.standing = Standing::Active;
        self.tree(id).active.push(id);
        self.waiting.push(id);
    }

    fn dequeue(&mut self, id: usize) {
        self.tree(id).active.retain(|other| *other != id);
        self.waiting.retain(|other| *other != id);
    }

    /// The one in service goes on waiting, with what it was served counted.
    pub(super) fn requeue(&mut self, id: usize, weight: u64, now: Nanos) {
        let entity = &mut self.entities[id];
        entity.sets_finish(entity.service);
        entity.start = entity.finish;
        self.enqueue(id, weight);
        self.chooses(Some(id), true, now);
        self.in_service = None;
    }

    /// An entity has nothing to do any more.
    pub(super) fn leave(&mut self, id: usize, now: Nanos) {
        let virtual_time = self.tree(id).virtual_time;
        let is_served = self.in_service == Some(id);
        let entity = &mut self.entities[id];
        if matches!(entity.standing, Standing::Idle | Standing::Out) {
            return;
        }
        entity.sets_finish(entity.service);
        let is_remembered = is_after(entity.finish, virtual_time);
        entity.standing = if is_remembered { Standing::Idle } else { Standing::Out };
        let weight = entity.weight;
        if is_served {
            self.in_service = None;
        } else {
            entity.service = 0;
            self.dequeue(id);
        }
        if is_remembered {
            self.tree(id).idle.push(id);
        } else {
            self.tree(id).weights -= weight;
        }
        if self.next == Some(id) {
            self.chooses(None, is_served, now);
        }
    }

    /// An entity that waits has another budget.
    pub(super) fn rebudget(&mut self, id: usize, budget: u64, weight: u64, now: Nanos) {
        if self.entities[id].budget == budget {
            return;
        }
        self.entities[id].budget = budget;
        if self.entities[id].standing == Standing::Active {
            self.dequeue(id);
            self.enqueue(id, weight);
            self.chooses(Some(id), false, now);
        }
    }

    /// An entity that is known to its tree has another weight from here on.
    pub(super) fn reweigh(&mut self, id: usize, weight: u64) {
        let before = std::mem::replace(&mut self.entities[id].weight, weight);
        let tree = self.tree(id);
        tree.weights = tree.weights - before + weight;
    }

    /// So many sectors are served to an entity.
    pub(super) fn serve(&mut self, id: usize, sectors: u64) {
        self.entities[id].service += sectors;
        let tree = self.tree(id);
        tree.virtual_time = tree.virtual_time.wrapping_add(share(sectors, tree.weights));
        let class = self.entities[id].class.place();
        self.forgets(class);
    }

    /// The idle entity that ends first is forgotten once its end has passed; with nobody waiting virtual time goes back to the last end
    /// (`bfq_forget_idle`).
    fn forgets(&mut self, class: usize) {
        let (tree, entities) = (&mut self.trees[class], &mut self.entities);
        let finish = |id: &usize| entities[*id].finish;
        let first = tree
            .idle
            .iter()
            .copied()
            .reduce(|one, other| if is_after(finish(&one), finish(&other)) { other } else { one });
        let Some(first) = first else { return };
        if tree.active.is_empty() {
            let ends = tree.idle.iter().map(finish);
            let last = ends.reduce(|one, other| if is_after(other, one) { other } else { one });
            if let Some(last) = last.filter(|last| !is_after(*last, tree.virtual_time)) {
                tree.virtual_time = last;
            }
        }
        if !is_after(entities[first].finish, tree.virtual_time) {
            tree.idle.retain(|id| *id != first);
            tree.weights -= entities[first].weight;
            entities[first].standing = Standing::Out;
        }
    }

    /// Chooses the next after a change: of `changed`, where only it has (`bfq_update_next_in_service`). `ends`: the one in service is
    /// not served any more.
    fn chooses(&mut self, changed: Option<usize>, ends: bool, now: Nanos) {
        if let Some(new) = changed.filter(|new| self.next != Some(*new)) {
            let virtual_time = self.tree(new).virtual_time;
            let new_one = &self.entities[new];
            let is_better = self.next.is_none_or(|next| {
                let next = &self.entities[next];
                new_one.class == next.class
                    && !is_after(new_one.start, virtual_time)
                    && is_after(next.finish, new_one.finish)
            });
            if is_better {
                self.next = Some(new);
                return;
            }
        }
        let mut skip = 0;
        if now > self.idle_class_served + IDLE_CLASS {
            if !self.trees[IoClass::COUNT - 1].active.is_empty() {
                skip = IoClass::COUNT - 1;
            }
            self.idle_class_served = now;
        }
        let is_free = self.in_service.is_none() || ends;
        self.next = (skip..IoClass::COUNT).find_map(|class| self.first(class, is_free));
    }

    /// The first of a class; `is_free`: nobody is in service, so virtual time jumps.
    fn first(&mut self, class: usize, is_free: bool) -> Option<usize> {
        let (tree, entities) = (&self.trees[class], &self.entities);
        let starts = tree.active.iter().map(|id| entities[*id].start);
        let least = starts.reduce(|one, other| if is_after(one, other) { other } else { one })?;
        let now = if is_after(least, tree.virtual_time) { least } else { tree.virtual_time };
        if is_free && now != tree.virtual_time {
            self.trees[class].virtual_time = now;
            self.forgets(class);
        }
        let (tree, entities) = (&self.trees[class], &self.entities);
        let eligible = tree.active.iter().copied().filter(|id| !is_after(entities[*id].start, now));
        eligible.reduce(
            |one, other| if is_after(entities[one].finish, entities[other].finish) { other } else { one },
        )
    }

    /// Serves the next.
    pub(super) fn take(&mut self, now: Nanos) -> Option<usize> {
        let id = self.next?;
        self.in_service = Some(id);
        self.dequeue(id);
        self.entities[id].standing = Standing::InService;
        self.chooses(None, false, now);
        Some(id)
    }

    /// Those that wait, the last to come first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.waiting.iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entities always busy with a fixed budget: service by weight, and none further than a budget from its share of the fluid server.
    #[test]
    fn always_busy_entities_get_their_weights() {
        let (weights, now) = ([10_u64, 20, 70], Nanos::ZERO);
        let mut engine = Engine::default();
        for (id, weight) in weights.into_iter().enumerate() {
            engine.entities.push(Entity { budget: 64, ..Entity::new(IoClass::BestEffort, weight) });
            engine.activate(id, false, (weight, 1), now);
        }
        let mut got = [0_u64; 3];
        for total in 1..=20_000_u64 {
            let id = engine.take(now).expect("they are busy");
            engine.serve(id, 64);
            got[id] += 64;
            engine.requeue(id, weights[id], now);
            engine.entities[id].service = 0;
            for (got, weight) in got.iter().zip(weights) {
                let fluid = total * 64 * weight / 100;
                assert!(got.abs_diff(fluid) <= 3 * 64, "{got} of {fluid} after {total}");
            }
        }
    }
}
