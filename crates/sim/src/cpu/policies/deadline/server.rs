//! [`Server`]: a reservation on one CPU for all that a scheduler runs there (`dl_server`).
//!
//! *The fair server* keeps more important classes from starving the fair one. It is a reservation, deferred: it takes part in the deadline class only when the fair class has not got the
//! server's runtime in time by itself. The states and their edges are those of the kernel:
//!
//! ```text
//! Off        no fair thread has joined since it stopped; when it stopped while it was Running, it is
//!            Running again as soon as one joins, as long as what is left of its budget fits its deadline
//! Waiting    fair threads are there; the timer is set to the last instant at which the whole
//!            budget still fits before the deadline. Fair and idle time drain the budget: an empty one
//!            begins a new period, so a fair class that is not starved never lets the timer fire.
//! IdleWait   the budget was drained by idle time; the timer turns it off, a fair thread that joins or runs
//!            makes it wait again
//! Running    in the deadline queue: whatever the fair class would run, runs with its deadline, until the budget is used
//!            up; then a period begins there, and it waits
//! ```
//!
//! *The server of a group* is not deferred: it is the Constant Bandwidth Server of a thread that wants the CPU whenever a realtime thread of the
//! group does. It is Running while its budget lasts, and Throttled until the next period when that is used up: what is in the group does
//! not run then, whoever else does (L. Abeni, A. Balsini, T. Cucinotta, "Container-based real-time scheduling in the Linux kernel", SIGBED Review 16, 2019; in no kernel).

use surety_units::Nanos;

use super::entity::Entity;
use crate::cpu::hardware::Rank;

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Off,
    Waiting,
    IdleWait,
    Running,
    Throttled,
}

/// What the class has to do about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Set the timer to this instant.
    Arm(Nanos),
    /// Put it into the deadline queue.
    Enqueue,
    /// Take it out of the queue and set the timer to this instant.
    Throttle(Nanos),
    /// Take it out of everything.
    Stop,
}

/// The server of a scheduler on one CPU.
#[derive(Clone, Debug)]
pub(super) struct Server {
    state: State,
    /// Whether its timer found the served class starved, and that has not run without it since (`dl_defer_running`).
    starved: bool,
    /// The scheduler it serves.
    pub(super) serves: Rank,
    /// Where it is deferred: its timer is set forward only by at least this much.
    resolution: Option<Nanos>,
}

impl Server {
    /// The fair server.
    pub(super) fn deferred(serves: Rank, resolution: Nanos) -> Server {
        Server { state: State::Off, starved: false, serves, resolution: Some(resolution) }
    }

    /// That of a group.
    pub(super) fn immediate(serves: Rank) -> Server {
        Server { state: State::Off, starved: false, serves, resolution: None }
    }

    pub(super) fn is_deferred(&self) -> bool {
        self.resolution.is_some()
    }

    /// Whether it takes no part in anything.
    pub(super) fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// A thread of the served class joined (`dl_server_start`).
    pub(super) fn start(&mut self, entity: &mut Entity, now: Nanos) -> Action {
        match self.state {
            State::Off => {}
            State::IdleWait => {
                self.state = State::Waiting;
                return Action::Nothing;
            }
            _ => return Action::Nothing,
        }
        self.starved &= !entity.wakes_afresh(now);
        entity.wake(now);
        if self.starved || !self.is_deferred() {
            self.state = State::Running;
            return Action::Enqueue;
        }
        self.defer(entity, now)
    }

    /// Waits for the last instant at which the budget fits before the deadline, or runs when that has passed.
    fn defer(&mut self, entity: &Entity, now: Nanos) -> Action {
        let last = entity.deadline - entity.budget;
        if last < now {
            self.state = State::Running;
            return Action::Enqueue;
        }
        self.state = State::Waiting;
        Action::Arm(last)
    }

    /// The served class, or nothing (`idle`), ran for `ran`.
    #[inline]
    pub(super) fn ran(&mut self, entity: &mut Entity, idle: bool, ran: Nanos, now: Nanos) -> Action {
        if self.state == State::Off || idle && !self.is_deferred() {
            return Action::Nothing;
        }
        if self.state == State::IdleWait && !idle {
            self.state = State::Waiting;
        }
        entity.budget -= ran;
        if entity.budget.is_positive() { Action::Nothing } else { self.used_up(entity, idle, now) }
    }

    /// Its budget is used up.
    #[inline(never)]
    fn used_up(&mut self, entity: &mut Entity, idle: bool, now: Nanos) -> Action {
        if self.state == State::Throttled {
            return Action::Nothing;
        }
        if !self.is_deferred() {
            self.state = State::Throttled;
            return Action::Throttle(entity.next_period().max(now));
        }
        if self.state == State::Running {
            // The thread that used it up still runs when it is throttled, and what it runs until the CPU has changed hands
            // is time of the served class outside of the server: it need not wait for its next period (`update_curr_dl_se`).
            self.starved = false;
            entity.begin_period(now);
            self.state = State::Waiting;
            return Action::Throttle(entity.deadline - entity.budget);
        }
        if self.state == State::IdleWait {
            entity.budget = Nanos::ZERO;
            return Action::Nothing;
        }
        self.starved = false;
        entity.begin_period(now);
        let action = self.defer(entity, now);
        if idle {
            self.state = State::IdleWait;
        }
        action
    }

    /// Its timer fires.
    pub(super) fn timer(&mut self, entity: &mut Entity, now: Nanos) -> Action {
        match self.state {
            State::Off | State::Running => Action::Nothing,
            State::Throttled => {
                entity.replenish(now);
                self.state = State::Running;
                Action::Enqueue
            }
            State::IdleWait => self.stop(),
            State::Waiting => {
                let last = entity.deadline - entity.budget;
                if now < last - self.resolution.unwrap_or_default() {
                    return Action::Arm(last);
                }
                if entity.overflows(now) {
                    entity.begin_period(now);
                }
                entity.replenish(now);
                self.starved = true;
                self.state = State::Running;
                Action::Enqueue
            }
        }
    }

    /// The served class has nothing to run.
    pub(super) fn stop(&mut self) -> Action {
        self.state = State::Off;
        Action::Stop
    }
}

#[cfg(test)]
mod tests {
    use surety_model::reservation::Reservation;

    use super::*;
    use crate::engine::Engine;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn started() -> (Server, Entity) {
        let mut engine = Engine::default();
        let component = engine.add_component();
        let timers = (engine.add_slot(component, 0), engine.add_slot(component, 1));
        let mut entity = Entity::new(Reservation::implicit(ms(50), ms(1000)), 0, timers);
        let mut server = Server::deferred(Rank(2), ms(1));
        assert_eq!(server.start(&mut entity, ms(0)), Action::Arm(ms(950)));
        (server, entity)
    }

    #[test]
    fn one_that_stopped_while_it_ran_goes_on_with_its_budget() {
        let (mut server, mut entity) = started();
        assert_eq!(server.timer(&mut entity, ms(950)), Action::Enqueue);
        assert_eq!(server.ran(&mut entity, false, ms(20), ms(970)), Action::Nothing);
        server.stop();
        assert_eq!(server.start(&mut entity, ms(1500)), Action::Arm(ms(2450)), "30 of 50 ms no longer fit");
        server.stop();
        assert_eq!(server.timer(&mut entity, ms(2450)), Action::Nothing, "it is off");
        let (mut server, mut entity) = started();
        server.timer(&mut entity, ms(950));
        server.ran(&mut entity, false, ms(20), ms(970));
        server.stop();
        assert_eq!(server.start(&mut entity, ms(1000)), Action::Enqueue);
        assert_eq!(server.ran(&mut entity, false, ms(30), ms(1030)), Action::Throttle(ms(1980)));
    }

    #[test]
    fn a_thread_that_joins_keeps_an_idle_one_from_stopping() {
        let (mut server, mut entity) = started();
        assert_eq!(server.ran(&mut entity, true, ms(50), ms(50)), Action::Arm(ms(1000)));
        assert_eq!(server.start(&mut entity, ms(100)), Action::Nothing);
        assert_eq!(server.timer(&mut entity, ms(1000)), Action::Enqueue);
        let (mut server, mut entity) = started();
        server.ran(&mut entity, true, ms(50), ms(50));
        assert_eq!(server.ran(&mut entity, true, ms(500), ms(550)), Action::Nothing, "its timer stays");
        assert_eq!(server.timer(&mut entity, ms(1000)), Action::Stop);
    }
}
