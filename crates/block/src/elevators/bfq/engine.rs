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

use crate::request::IoClass;

/// Virtual time has this many bits behind the point (`WFQ_SERVICE_SHIFT`).
const SHIFT: u32 = 22;
/// Where an entity stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
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
    pub start: u64,
    pub finish: u64,
    pub standing: Standing,
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
}

impl Engine {
    /// An entity becomes busy. `is_back`: it has come back in time from waiting for a request, and goes on where it was; what it is late
    /// by counts only in part where it is raised `coefficient`-fold.
    pub(super) fn activate(&mut self, id: usize, is_back: bool, coefficient: u64) {
        let tree = &mut self.trees[self.entities[id].class.place()];
        let entity = &mut self.entities[id];
        let now = tree.virtual_time;
        let late = is_back && is_after(now, entity.finish);
        let floor = if late { entity.finish } else { now };
        if entity.standing == Standing::Idle {
            tree.idle.retain(|other| *other != id);
            entity.start = if is_after(entity.finish, floor) { entity.finish } else { floor };
        } else {
            entity.start = floor;
            tree.weights += entity.weight;
        }
        entity.sets_finish(entity.budget);
        if is_back && is_after(now, entity.finish) {
            let behind = now.wrapping_sub(entity.finish) / coefficient.max(1);
            entity.start = entity.start.wrapping_add(behind);
            entity.finish = entity.finish.wrapping_add(behind);
        }
        entity.standing = Standing::Active;
        tree.active.push(id);
    }

    /// The one in service goes on waiting, with what it was served counted.
    pub(super) fn requeue(&mut self, id: usize) {
        let tree = &mut self.trees[self.entities[id].class.place()];
        let entity = &mut self.entities[id];
        if entity.standing == Standing::InService {
            entity.sets_finish(entity.service);
            entity.start = entity.finish;
            tree.active.push(id);
        }
        entity.sets_finish(entity.budget);
        entity.standing = Standing::Active;
    }

    /// An entity has nothing to do any more.
    pub(super) fn leave(&mut self, id: usize) {
        let tree = &mut self.trees[self.entities[id].class.place()];
        let entity = &mut self.entities[id];
        match entity.standing {
            Standing::InService => entity.sets_finish(entity.service),
            Standing::Active => tree.active.retain(|other| *other != id),
            Standing::Idle | Standing::Out => return,
        }
        if is_after(entity.finish, tree.virtual_time) {
            entity.standing = Standing::Idle;
            tree.idle.push(id);
        } else {
            entity.standing = Standing::Out;
            tree.weights -= entity.weight;
        }
    }

    /// An entity that waits has another budget.
    pub(super) fn rebudget(&mut self, id: usize, budget: u64) {
        let entity = &mut self.entities[id];
        entity.budget = budget;
        if entity.standing == Standing::Active {
            entity.sets_finish(budget);
        }
    }

    /// An entity has another weight or class from here on. It is not in service.
    pub(super) fn reweigh(&mut self, id: usize, weight: u64) {
        let tree = &mut self.trees[self.entities[id].class.place()];
        let entity = &mut self.entities[id];
        if entity.weight != weight {
            if entity.standing != Standing::Out {
                tree.weights = tree.weights - entity.weight + weight;
            }
            entity.weight = weight;
            if entity.standing == Standing::Active {
                entity.sets_finish(entity.budget);
            }
        }
    }

    /// So many sectors are served to an entity.
    pub(super) fn serve(&mut self, id: usize, sectors: u64) {
        let entity = &mut self.entities[id];
        entity.service += sectors;
        let tree = &mut self.trees[entity.class.place()];
        tree.virtual_time = tree.virtual_time.wrapping_add(share(sectors, tree.weights));
        let (now, entities) = (tree.virtual_time, &mut self.entities);
        let mut gone = 0;
        tree.idle.retain(|id| {
            let stays = is_after(entities[*id].finish, now);
            if !stays {
                entities[*id].standing = Standing::Out;
                gone += entities[*id].weight;
            }
            stays
        });
        tree.weights -= gone;
    }

    /// Which waits and would be served next, of the most important class that has one; `skip` classes above are passed over.
    pub(super) fn peek(&self, skip: usize) -> Option<usize> {
        let tree = self.trees.iter().skip(skip).find(|tree| !tree.active.is_empty())?;
        let starts = tree.active.iter().map(|id| self.entities[*id].start);
        let least = starts.reduce(|one, other| if is_after(one, other) { other } else { one })?;
        let now = if is_after(least, tree.virtual_time) { least } else { tree.virtual_time };
        let eligible = tree.active.iter().copied().filter(|id| !is_after(self.entities[*id].start, now));
        eligible.reduce(|one, other| {
            if is_after(self.entities[one].finish, self.entities[other].finish) { other } else { one }
        })
    }

    /// Serves the next.
    pub(super) fn take(&mut self, skip: usize) -> Option<usize> {
        let id = self.peek(skip)?;
        let tree = &mut self.trees[self.entities[id].class.place()];
        let start = tree.active.iter().map(|id| self.entities[*id].start);
        if let Some(least) = start.reduce(|one, other| if is_after(one, other) { other } else { one })
            && is_after(least, tree.virtual_time)
        {
            tree.virtual_time = least;
        }
        tree.active.retain(|other| *other != id);
        self.entities[id].standing = Standing::InService;
        Some(id)
    }

    /// Those that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.trees.iter().flat_map(|tree| tree.active.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entities always busy with a fixed budget: service by weight, and none further than a budget from its share of the fluid server.
    #[test]
    fn always_busy_entities_get_their_weights() {
        let weights = [10_u64, 20, 70];
        let mut engine = Engine::default();
        for weight in weights {
            engine.entities.push(Entity { budget: 64, ..Entity::new(IoClass::BestEffort, weight) });
        }
        (0..3).for_each(|id| engine.activate(id, false, 1));
        let mut got = [0_u64; 3];
        for total in 1..=20_000_u64 {
            let id = engine.take(0).expect("they are busy");
            engine.serve(id, 64);
            got[id] += 64;
            engine.entities[id].service = 64;
            engine.requeue(id);
            engine.entities[id].service = 0;
            for (got, weight) in got.iter().zip(weights) {
                let fluid = total * 64 * weight / 100;
                assert!(got.abs_diff(fluid) <= 3 * 64, "{got} of {fluid} after {total}");
            }
        }
    }
}
