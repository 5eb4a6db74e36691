//! B-WF2Q+, the engine of BFQ: which queue is served next (`block/bfq-wf2q.c`; Valente and Checconi, IEEE Transactions on Computers 2010).
//!
//! An entity with budget `b` and weight `w` that is activated at virtual time `V` has
//!
//! ```text
//! S = max(V, F of its last service)      F = S + b / w
//! ```
//!
//! and of all entities of the most important class that are eligible (`S <= V`; `V` jumps to the least `S` where none is) the one
//! with the least `F` is served, or one that the kernel finds before it ([`Tree::first_eligible`]). Every sector served moves `V` on
//! by the inverse of the sum of weights. One that is served again without a pause has `S = F` by what it was really served, not by
//! its budget.
//!
//! The next one is chosen when something changes, not when it is needed: it stays the next when `V` has moved on meanwhile
//! (`bfq_update_next_in_service`).

use surety_units::Nanos;

use super::tree::{Node, Tree, is_after};
use super::waiting::Waiting;
use crate::request::{IoClass, IoGroup};

/// Virtual time has this many bits behind the point (`WFQ_SERVICE_SHIFT`).
const SHIFT: u32 = 22;
/// How much more a class counts than the one below it where tags are shared (`IOPRIO_BE_NR`).
const LEVELS: u64 = 8;
/// The idle class is served once in this, whoever else wants to be (`BFQ_CL_IDLE_TIMEOUT`).
const IDLE_CLASS: Nanos = Nanos::from_millis(200);

/// Where an entity stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Not known to its group.
    #[default]
    Out,
    /// Waits to be served; a group with several that do waits on while one of them is served.
    Active,
    /// In service, and in no tree.
    InService,
    /// Has nothing to do, and its last service ends in the virtual future.
    Idle,
}

/// What is scheduled: a queue, or a group.
#[derive(Clone, Debug)]
pub(super) struct Entity {
    pub class: IoClass,
    pub weight: u64,
    /// Sectors it may be served at a time, and has been this time. The budget of a group is that of the next inside it.
    pub budget: u64,
    pub service: u64,
    /// Requests that it has, in the queue or in the device; those of a group are those of all inside it.
    requests: u64,
    /// The group it is in; 0: the root.
    pub group: usize,
    standing: Standing,
}

impl Entity {
    pub(super) fn new(class: IoClass, weight: u64, group: usize) -> Entity {
        Entity { class, weight, budget: 0, service: 0, requests: 0, group, standing: Standing::Out }
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

/// The entities of one class in a group.
#[derive(Clone, Debug, Default)]
struct Class {
    virtual_time: u64,
    weights: u64,
    active: Tree,
    idle: Tree,
}

/// The entities of a group (`struct bfq_sched_data`).
#[derive(Clone, Debug, Default)]
struct Group {
    classes: [Class; IoClass::COUNT],
    in_service: Option<usize>,
    next: Option<usize>,
    idle_class_served: Nanos,
    /// Entities that are among those that wait, of all classes.
    active: usize,
}

/// All groups. The first of them is the root; the others are the entities before those of the queues.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    groups: Vec<Group>,
    entities: Vec<Entity>,
    /// The place of each entity in a tree.
    nodes: Vec<Node>,
    /// Queues that wait, of all groups.
    waiting: Waiting,
    /// Groups that have had something to do and, when they had not, waited for a request of theirs in the device (6.1's
    /// `num_groups_with_pending_reqs`).
    pending: Vec<bool>,
    pending_groups: usize,
}

impl Engine {
    /// With these groups below the root.
    pub(super) fn new(groups: &[IoGroup]) -> Engine {
        let entity = |group: &IoGroup| {
            let above = group.parent.map_or(0, |parent| parent + 1);
            Entity::new(IoClass::BestEffort, u64::from(group.weight), above)
        };
        Engine {
            groups: vec![Group::default(); groups.len() + 1],
            entities: groups.iter().map(entity).collect(),
            nodes: vec![Node::default(); groups.len()],
            waiting: Waiting::default(),
            pending: vec![false; groups.len()],
            pending_groups: 0,
        }
    }

    /// Adds a queue, behind all others.
    pub(super) fn add(&mut self, entity: Entity) {
        self.entities.push(entity);
        self.nodes.push(Node::default());
    }

    /// Where the entities of queues begin.
    fn first_queue(&self) -> usize {
        self.groups.len() - 1
    }

    /// The entity of a queue.
    pub(super) fn of(&self, queue: usize) -> &Entity {
        &self.entities[self.first_queue() + queue]
    }

    pub(super) fn of_mut(&mut self, queue: usize) -> &mut Entity {
        let first = self.first_queue();
        &mut self.entities[first + queue]
    }

    /// The weight by which a queue stands against one of another group: that of its own group, if it is in one.
    pub(super) fn weight_against(&self, queue: usize, other: usize) -> u64 {
        let (one, other) = (self.of(queue), self.of(other));
        if one.group == other.group || one.group == 0 {
            one.weight
        } else {
            self.entities[one.group - 1].weight
        }
    }

    /// Whether another than the one in service may be the next, as far as the root knows (`next_queue_may_preempt`).
    pub(super) fn may_be_another(&self) -> bool {
        self.groups[0].next != self.groups[0].in_service
    }

    fn class(&mut self, id: usize) -> &mut Class {
        let entity = &self.entities[id];
        &mut self.groups[entity.group].classes[entity.class.place()]
    }

    /// The entity of the group that an entity is in.
    fn above(&self, id: usize) -> Option<usize> {
        self.entities[id].group.checked_sub(1)
    }

    fn is_served(&self, id: usize) -> bool {
        self.groups[self.entities[id].group].in_service == Some(id)
    }

    fn sets_finish(&mut self, id: usize, service: u64) {
        let node = &mut self.nodes[id];
        node.finish = node.start.wrapping_add(share(service, self.entities[id].weight));
    }

    /// A queue becomes busy. `is_back`: it has come back in time from waiting for a request, and goes on where it was; what it is late by
    /// counts only in part where it is raised `coefficient`-fold.
    pub(super) fn activate(
        &mut self,
        queue: usize,
        is_back: bool,
        (weight, coefficient): (u64, u64),
        now: Nanos,
    ) {
        let id = self.first_queue() + queue;
        self.begins(id, is_back, (weight, coefficient));
        self.tells_above(id, is_back, false, now);
    }

    /// An entity has got busy or has another place: it may be the next of its group, which then may have another budget, and so on up to
    /// the root (`bfq_activate_requeue_entity`). `ends`: the one in service is not served any more.
    fn tells_above(&mut self, mut id: usize, is_back: bool, ends: bool, now: Nanos) {
        while self.chooses(self.entities[id].group, Some(id), ends, now) || ends {
            let Some(above) = self.above(id) else { break };
            id = above;
            let weight = self.entities[id].weight;
            if self.is_served(id) || self.entities[id].standing == Standing::Active {
                self.moves(id, weight);
            } else {
                self.pending_groups += usize::from(!std::mem::replace(&mut self.pending[id], true));
                self.begins(id, is_back, (weight, 1));
            }
        }
    }

    /// An entity that had nothing to do waits (`__bfq_activate_entity`).
    fn begins(&mut self, id: usize, is_back: bool, (weight, coefficient): (u64, u64)) {
        let virtual_time = self.class(id).virtual_time;
        let finish = self.nodes[id].finish;
        let is_late = is_back && is_after(virtual_time, finish);
        let floor = if is_late { finish } else { virtual_time };
        if self.entities[id].standing == Standing::Idle {
            let Entity { group, class, .. } = self.entities[id];
            self.groups[group].classes[class.place()].idle.remove(&mut self.nodes, id);
            self.nodes[id].start = if is_after(floor, finish) { floor } else { finish };
        } else {
            self.nodes[id].start = floor;
            let weight = self.entities[id].weight;
            self.class(id).weights += weight;
        }
        self.weighs(id, weight);
        let budget = self.entities[id].budget;
        self.sets_finish(id, budget);
        let node = &mut self.nodes[id];
        if is_late && is_after(virtual_time, node.finish) {
            let behind = virtual_time.wrapping_sub(node.finish) / coefficient.max(1);
            node.start = node.start.wrapping_add(behind);
            node.finish = node.finish.wrapping_add(behind);
        }
        self.enqueue(id);
    }

    /// One that is served, or waits already, waits anew with its budget and at a weight; what it was served is counted
    /// (`__bfq_requeue_entity`).
    fn moves(&mut self, id: usize, weight: u64) {
        if self.is_served(id) {
            let service = self.entities[id].service;
            self.sets_finish(id, service);
            self.nodes[id].start = self.nodes[id].finish;
        }
        if self.entities[id].standing == Standing::Active {
            self.dequeue(id);
        }
        self.weighs(id, weight);
        let budget = self.entities[id].budget;
        self.sets_finish(id, budget);
        self.enqueue(id);
    }

    /// An entity waits between its start and its finish.
    fn enqueue(&mut self, id: usize) {
        let first = self.first_queue();
        let entity = &mut self.entities[id];
        entity.standing = Standing::Active;
        let group = &mut self.groups[entity.group];
        group.classes[entity.class.place()].active.insert(&mut self.nodes, id);
        group.active += 1;
        if id >= first {
            self.waiting.push(id);
        }
    }

    fn dequeue(&mut self, id: usize) {
        let entity = &self.entities[id];
        let group = &mut self.groups[entity.group];
        group.classes[entity.class.place()].active.remove(&mut self.nodes, id);
        group.active -= 1;
        if id >= self.first_queue() {
            self.waiting.remove(id);
        }
    }

    /// The queue in service goes on waiting, with what it was served counted.
    pub(super) fn requeue(&mut self, queue: usize, weight: u64, now: Nanos) {
        let id = self.first_queue() + queue;
        self.moves(id, weight);
        self.tells_above(id, false, true, now);
        self.resets(id);
    }

    /// Nobody is in service on the way from an entity up (`__bfq_bfqd_reset_in_service`).
    fn resets(&mut self, id: usize) {
        let mut at = Some(id);
        while let Some(id) = at {
            self.groups[self.entities[id].group].in_service = None;
            at = self.above(id);
        }
    }

    /// The groups of a queue that was served have been served nothing from here on.
    pub(super) fn clears_service_above(&mut self, queue: usize) {
        let mut at = self.above(self.first_queue() + queue);
        while let Some(id) = at {
            self.entities[id].service = 0;
            at = self.above(id);
        }
    }

    /// A queue has nothing to do any more, and its group neither if it was the last there (`bfq_deactivate_entity`).
    pub(super) fn leave(&mut self, queue: usize, now: Nanos) {
        let queue = self.first_queue() + queue;
        let is_served = self.is_served(queue);
        let mut at = Some(queue);
        while let Some(id) = at {
            if !self.stops(id) {
                return;
            }
            let group = self.entities[id].group;
            if self.groups[group].next == Some(id) {
                self.chooses(group, None, is_served, now);
            }
            at = self.above(id);
            if self.groups[group].next.is_some() || self.groups[group].in_service.is_some() {
                break;
            }
        }
        while let Some(id) = at {
            let weight = self.entities[id].weight;
            self.moves(id, weight);
            if !self.chooses(self.entities[id].group, Some(id), is_served, now) && !is_served {
                break;
            }
            at = self.above(id);
        }
        if is_served {
            self.resets(queue);
        }
    }

    /// An entity has nothing to do any more; returns whether it had.
    fn stops(&mut self, id: usize) -> bool {
        let virtual_time = self.class(id).virtual_time;
        let is_served = self.is_served(id);
        if matches!(self.entities[id].standing, Standing::Idle | Standing::Out) {
            return false;
        }
        let service = self.entities[id].service;
        self.sets_finish(id, service);
        if is_served {
            self.groups[self.entities[id].group].in_service = None;
        } else {
            self.entities[id].service = 0;
        }
        if self.entities[id].standing == Standing::Active {
            self.dequeue(id);
        }
        let is_remembered = is_after(self.nodes[id].finish, virtual_time);
        let entity = &mut self.entities[id];
        entity.standing = if is_remembered { Standing::Idle } else { Standing::Out };
        let class = &mut self.groups[entity.group].classes[entity.class.place()];
        if is_remembered {
            class.idle.insert(&mut self.nodes, id);
        } else {
            class.weights -= entity.weight;
        }
        true
    }

    /// A queue that waits has another budget.
    pub(super) fn rebudget(&mut self, queue: usize, budget: u64, weight: u64, now: Nanos) {
        let id = self.first_queue() + queue;
        if self.entities[id].budget == budget {
            return;
        }
        self.entities[id].budget = budget;
        if self.entities[id].standing == Standing::Active {
            self.moves(id, weight);
            self.tells_above(id, false, false, now);
        }
    }

    /// A queue that is known to its group has another weight from here on.
    pub(super) fn reweigh(&mut self, queue: usize, weight: u64) {
        self.weighs(self.first_queue() + queue, weight);
    }

    fn weighs(&mut self, id: usize, weight: u64) {
        let before = std::mem::replace(&mut self.entities[id].weight, weight);
        let class = self.class(id);
        class.weights = class.weights - before + weight;
    }

    /// So many sectors are served to a queue, and to the groups it is in.
    pub(super) fn serve(&mut self, queue: usize, sectors: u64) {
        let mut at = Some(self.first_queue() + queue);
        while let Some(id) = at {
            self.entities[id].service += sectors;
            let class = self.class(id);
            class.virtual_time = class.virtual_time.wrapping_add(share(sectors, class.weights));
            let Entity { group, class, .. } = self.entities[id];
            self.forgets(group, class.place());
            at = self.above(id);
        }
    }

    /// The idle entity that ends first is forgotten once its end has passed; with nobody waiting virtual time goes back to the last end
    /// (`bfq_forget_idle`).
    fn forgets(&mut self, group: usize, place: usize) {
        let class = &mut self.groups[group].classes[place];
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

    /// Chooses the next of a group after a change: of `changed`, where only it has (`bfq_update_next_in_service`). `ends`: the one in
    /// service is not served any more. Returns whether the group may be the next of its own group for that.
    fn chooses(&mut self, group: usize, changed: Option<usize>, ends: bool, now: Nanos) -> bool {
        let before = self.groups[group].next;
        let next = match changed.filter(|new| self.is_better(*new, before)) {
            Some(new) => Some(new),
            None => self.looks_for_next(group, ends, now),
        };
        self.groups[group].next = next;
        let (Some(next), Some(own)) = (next, group.checked_sub(1)) else {
            return next.is_some() && before.is_none();
        };
        let budget = self.entities[next].budget;
        let old = std::mem::replace(&mut self.entities[own].budget, budget);
        before.is_none() || old > budget
    }

    /// Whether one of which only has changed something is to be the next instead of another, as far as can be seen without a search.
    fn is_better(&mut self, new: usize, next: Option<usize>) -> bool {
        let virtual_time = self.class(new).virtual_time;
        next != Some(new)
            && next.is_none_or(|next| {
                self.entities[new].class == self.entities[next].class
                    && !is_after(self.nodes[new].start, virtual_time)
                    && is_after(self.nodes[next].finish, self.nodes[new].finish)
            })
    }

    fn looks_for_next(&mut self, number: usize, ends: bool, now: Nanos) -> Option<usize> {
        let group = &mut self.groups[number];
        let mut skip = 0;
        if now > group.idle_class_served + IDLE_CLASS {
            if !group.classes[IoClass::COUNT - 1].active.is_empty() {
                skip = IoClass::COUNT - 1;
            }
            group.idle_class_served = now;
        }
        let is_free = group.in_service.is_none() || ends;
        (skip..IoClass::COUNT).find_map(|class| self.first(number, class, is_free))
    }

    /// The first of a class; `is_free`: nobody is in service, so virtual time jumps.
    fn first(&mut self, group: usize, place: usize, is_free: bool) -> Option<usize> {
        let class = &mut self.groups[group].classes[place];
        let least = class.active.least_start(&self.nodes)?;
        let now = if is_after(least, class.virtual_time) { least } else { class.virtual_time };
        if is_free && now != class.virtual_time {
            class.virtual_time = now;
            self.forgets(group, place);
        }
        self.groups[group].classes[place].active.first_eligible(&self.nodes, now)
    }

    /// Serves the next queue, and the groups it is in (`bfq_get_next_queue`).
    pub(super) fn take(&mut self, now: Nanos) -> Option<usize> {
        let first = self.first_queue();
        let mut group = 0;
        let queue = loop {
            let id = self.groups[group].next?;
            self.groups[group].in_service = Some(id);
            // A group with others that wait goes on waiting.
            if id >= first || self.groups[id + 1].active == 1 {
                self.dequeue(id);
                self.entities[id].standing = Standing::InService;
            }
            if id >= first {
                break id;
            }
            group = id + 1;
        };
        let mut at = Some(queue);
        while let Some(id) = at.filter(|id| self.chooses(self.entities[*id].group, None, false, now)) {
            at = self.above(id);
        }
        Some(queue - first)
    }

    /// Queues that wait, the last to come first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        let first = self.first_queue();
        self.waiting.iter().map(move |id| id - first)
    }

    /// A queue has a request more, or one less (`bfqq_request_allocated`, `bfqq_request_freed`).
    pub(super) fn counts(&mut self, queue: usize, is_more: bool) {
        let mut at = Some(self.first_queue() + queue);
        while let Some(id) = at {
            let requests = &mut self.entities[id].requests;
            *requests = if is_more { *requests + 1 } else { *requests - 1 };
            at = self.above(id);
        }
    }

    /// Whether a queue, or a group that it is in, has the part of `limit` requests that its weight gives it (`bfqq_request_over_limit`).
    /// Those that are not known to their group have no part, and may have any number.
    pub(super) fn has_its_part(&self, queue: usize, limit: u64) -> bool {
        let id = self.first_queue() + queue;
        let is_out = |id: &usize| self.entities[*id].standing == Standing::Out;
        !std::iter::successors(Some(id), |id| self.above(*id)).any(|id| is_out(&id)) && self.part(id, limit).0
    }

    /// Whether an entity, or a group that it is in, has its part of `limit` requests, and what that of the entity is.
    fn part(&self, id: usize, limit: u64) -> (bool, u64) {
        let (has_all, limit) = self.above(id).map_or((false, limit), |above| self.part(above, limit));
        let entity = &self.entities[id];
        let classes = &self.groups[entity.group].classes[..=entity.class.place()];
        let weights = match id < self.first_queue() {
            true => classes.last().map_or(0, |class| class.weights),
            false => classes.iter().fold(0, |above, class| above * LEVELS + class.weights),
        };
        if weights == 0 {
            return (has_all, limit);
        }
        let part = (limit * entity.weight + weights / 2) / weights;
        (has_all || entity.requests >= part, part)
    }

    /// A queue has nothing to do any more, and nothing in the device: so have the groups that have nothing to do either
    /// (`bfq_weights_tree_remove` of 6.1).
    pub(super) fn pends_no_more(&mut self, queue: usize) {
        let mut at = self.above(self.first_queue() + queue);
        while let Some(id) = at {
            let group = &self.groups[id + 1];
            if group.next.is_some() || group.in_service.is_some() {
                break;
            }
            self.pending_groups -= usize::from(std::mem::take(&mut self.pending[id]));
            at = self.above(id);
        }
    }

    /// Whether a group below the root has something to do.
    pub(super) fn has_pending_group(&self) -> bool {
        self.pending_groups > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entities always busy with a fixed budget: service by weight, and none further than a budget from its share of the fluid server.
    #[test]
    fn always_busy_entities_get_their_weights() {
        let (weights, now) = ([10_u64, 20, 70], Nanos::ZERO);
        let mut engine = Engine::new(&[]);
        for (id, weight) in weights.into_iter().enumerate() {
            engine.add(Entity { budget: 64, ..Entity::new(IoClass::BestEffort, weight, 0) });
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
