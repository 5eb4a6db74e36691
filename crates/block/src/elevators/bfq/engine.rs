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

use super::tree::{Node, Tree, is_after};
use super::waiting::Waiting;
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
    standing: Standing,
}

impl Entity {
    pub(super) fn new(class: IoClass, weight: u64) -> Entity {
        Entity { class, weight, budget: 0, service: 0, standing: Standing::Out }
    }

    pub(super) fn left(&self) -> u64 {
        self.budget.saturating_sub(self.service)
    }
}

/// Virtual time that service takes at a weight.
fn share(service: u64, weight: u64) -> u64 {
    let exact = (u128::from(service) << SHIFT) / u128::from(weight.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

/// The entities of one class.
#[derive(Clone, Debug, Default)]
struct Class {
    virtual_time: u64,
    weights: u64,
    active: Tree,
    idle: Tree,
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    classes: [Class; IoClass::COUNT],
    pub entities: Vec<Entity>,
    /// The place of each entity in a tree.
    nodes: Vec<Node>,
    in_service: Option<usize>,
    next: Option<usize>,
    idle_class_served: Nanos,
    /// Those that wait, of all classes.
    waiting: Waiting,
}

impl Engine {
    /// Adds an entity, behind all others.
    pub(super) fn add(&mut self, entity: Entity) {
        self.entities.push(entity);
        self.nodes.push(Node::default());
    }

    fn class(&mut self, id: usize) -> &mut Class {
        &mut self.classes[self.entities[id].class.place()]
    }

    fn sets_finish(&mut self, id: usize, service: u64) {
        let node = &mut self.nodes[id];
        node.finish = node.start.wrapping_add(share(service, self.entities[id].weight));
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
        let virtual_time = self.class(id).virtual_time;
        let finish = self.nodes[id].finish;
        let is_late = is_back && is_after(virtual_time, finish);
        let floor = if is_late { finish } else { virtual_time };
        if self.entities[id].standing == Standing::Idle {
            let place = self.entities[id].class.place();
            self.classes[place].idle.remove(&mut self.nodes, id);
            self.nodes[id].start = if is_after(floor, finish) { floor } else { finish };
        } else {
            self.nodes[id].start = floor;
            let weight = self.entities[id].weight;
            self.class(id).weights += weight;
        }
        self.reweigh(id, weight);
        let budget = self.entities[id].budget;
        self.sets_finish(id, budget);
        let node = &mut self.nodes[id];
        if is_late && is_after(virtual_time, node.finish) {
            let behind = virtual_time.wrapping_sub(node.finish) / coefficient.max(1);
            node.start = node.start.wrapping_add(behind);
            node.finish = node.finish.wrapping_add(behind);
        }
        self.enqueue(id);
        self.chooses(Some(id), false, now);
    }

    /// An entity waits between its start and its finish.
    fn enqueue(&mut self, id: usize) {
        let entity = &mut self.entities[id];
        entity.standing = Standing::Active;
        self.classes[entity.class.place()].active.insert(&mut self.nodes, id);
        self.waiting.push(id);
    }

    /// An entity waits anew, with its budget and at a weight.
    fn enqueue_anew(&mut self, id: usize, weight: u64) {
        self.reweigh(id, weight);
        let budget = self.entities[id].budget;
        self.sets_finish(id, budget);
        self.enqueue(id);
    }

    fn dequeue(&mut self, id: usize) {
        self.classes[self.entities[id].class.place()].active.remove(&mut self.nodes, id);
        self.waiting.remove(id);
    }

    /// The one in service goes on waiting, with what it was served counted.
    pub(super) fn requeue(&mut self, id: usize, weight: u64, now: Nanos) {
        let service = self.entities[id].service;
        self.sets_finish(id, service);
        self.nodes[id].start = self.nodes[id].finish;
        self.enqueue_anew(id, weight);
        self.chooses(Some(id), true, now);
        self.in_service = None;
    }

    /// An entity has nothing to do any more.
    pub(super) fn leave(&mut self, id: usize, now: Nanos) {
        let virtual_time = self.class(id).virtual_time;
        let is_served = self.in_service == Some(id);
        if matches!(self.entities[id].standing, Standing::Idle | Standing::Out) {
            return;
        }
        let service = self.entities[id].service;
        self.sets_finish(id, service);
        if is_served {
            self.in_service = None;
        } else {
            self.entities[id].service = 0;
            self.dequeue(id);
        }
        let is_remembered = is_after(self.nodes[id].finish, virtual_time);
        let entity = &mut self.entities[id];
        entity.standing = if is_remembered { Standing::Idle } else { Standing::Out };
        let class = &mut self.classes[entity.class.place()];
        if is_remembered {
            class.idle.insert(&mut self.nodes, id);
        } else {
            class.weights -= entity.weight;
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
            self.enqueue_anew(id, weight);
            self.chooses(Some(id), false, now);
        }
    }

    /// An entity that is known to its class has another weight from here on.
    pub(super) fn reweigh(&mut self, id: usize, weight: u64) {
        let before = std::mem::replace(&mut self.entities[id].weight, weight);
        let class = self.class(id);
        class.weights = class.weights - before + weight;
    }

    /// So many sectors are served to an entity.
    pub(super) fn serve(&mut self, id: usize, sectors: u64) {
        self.entities[id].service += sectors;
        let class = self.class(id);
        class.virtual_time = class.virtual_time.wrapping_add(share(sectors, class.weights));
        let place = self.entities[id].class.place();
        self.forgets(place);
    }

    /// The idle entity that ends first is forgotten once its end has passed; with nobody waiting virtual time goes back to the last end
    /// (`bfq_forget_idle`).
    fn forgets(&mut self, place: usize) {
        let class = &mut self.classes[place];
        let Some(first) = class.idle.first(&self.nodes) else { return };
        if class.active.is_empty()
            && let Some(last) = class.idle.last(&self.nodes).map(|last| self.nodes[last].finish)
            && !is_after(last, class.virtual_time)
        {
            class.virtual_time = last;
        }
        if !is_after(self.nodes[first].finish, class.virtual_time) {
            class.idle.remove(&mut self.nodes, first);
            class.weights -= self.entities[first].weight;
            self.entities[first].standing = Standing::Out;
        }
    }

    /// Chooses the next after a change: of `changed`, where only it has (`bfq_update_next_in_service`). `ends`: the one in service is
    /// not served any more.
    fn chooses(&mut self, changed: Option<usize>, ends: bool, now: Nanos) {
        if let Some(new) = changed.filter(|new| self.next != Some(*new)) {
            let virtual_time = self.class(new).virtual_time;
            let is_better = self.next.is_none_or(|next| {
                self.entities[new].class == self.entities[next].class
                    && !is_after(self.nodes[new].start, virtual_time)
                    && is_after(self.nodes[next].finish, self.nodes[new].finish)
            });
            if is_better {
                self.next = Some(new);
                return;
            }
        }
        let mut skip = 0;
        if now > self.idle_class_served + IDLE_CLASS {
            if !self.classes[IoClass::COUNT - 1].active.is_empty() {
                skip = IoClass::COUNT - 1;
            }
            self.idle_class_served = now;
        }
        let is_free = self.in_service.is_none() || ends;
        self.next = (skip..IoClass::COUNT).find_map(|class| self.first(class, is_free));
    }

    /// The first of a class; `is_free`: nobody is in service, so virtual time jumps. The least finish of those eligible: the kernel's
    /// search ends at an eligible entity above one that finishes earlier where that one is reached by turning right below the left
    /// (`bfq_first_active_entity`), so that it takes another now and then.
    fn first(&mut self, place: usize, is_free: bool) -> Option<usize> {
        let class = &mut self.classes[place];
        let least = class.active.least_start(&self.nodes)?;
        let now = if is_after(least, class.virtual_time) { least } else { class.virtual_time };
        if is_free && now != class.virtual_time {
            class.virtual_time = now;
            self.forgets(place);
        }
        self.classes[place].active.first_eligible(&self.nodes, now)
    }

    /// Serves the next.
    pub(super) fn take(&mut self, now: Nanos) -> Option<usize> {
        let id = self.next?;
        self.in_service = Some(id);
        self.dequeue(id);
        let entity = &mut self.entities[id];
        (entity.service, entity.standing) = (0, Standing::InService);
        self.chooses(None, false, now);
        Some(id)
    }

    /// Those that wait, the last to come first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.waiting.iter()
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
            engine.add(Entity { budget: 64, ..Entity::new(IoClass::BestEffort, weight) });
            engine.activate(id, false, (weight, 1), now);
        }
        let mut got = [0_u64; 3];
        for total in 1..=20_000_u64 {
            let id = engine.take(now).expect("they are busy");
            engine.serve(id, 64);
            got[id] += 64;
            engine.requeue(id, weights[id], now);
            for (got, weight) in got.iter().zip(weights) {
                let fluid = total * 64 * weight / 100;
                assert!(got.abs_diff(fluid) <= 3 * 64, "{got} of {fluid} after {total}");
            }
        }
    }
}
