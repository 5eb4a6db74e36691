//! [`Server`]: the fair server of one CPU (`dl_server`), which keeps more important classes from starving the
//! fair one.
//!
//! It is a reservation, deferred: it takes part in the deadline class only when the fair class has not got the
//! server's runtime in time by itself. The states and their edges are those of the kernel:
//!
//! ```text
//! Off        no fair thread has joined since it stopped
//! Waiting    fair threads are there; the timer is set to the last instant at which the whole
//!            budget still fits before the deadline. Fair and idle time drain the budget: an empty one
//!            begins a new period, so a fair class that is not starved never lets the timer fire.
//! IdleWait   the budget was drained by idle time; the timer turns it off
//! Running    in the deadline queue: whatever the fair class would run, runs with its deadline
//! Throttled  its budget is used up; the timer replenishes it at the next period. Fair time outside it
//!            shows that nobody starves: back to Waiting
//! ```

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

/// The timer is set forward only by at least this much (`dl_server_min_res`).
const RESOLUTION: Nanos = Nanos::from_millis(1);

/// The fair server of one CPU.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) state: State,
    /// The scheduler it serves.
    pub(super) serves: Rank,
}

impl Server {
    pub(super) fn new(serves: Rank) -> Server {
        Server { state: State::Off, serves }
    }

    /// A thread of the served class joined.
    pub(super) fn start(&mut self, entity: &mut Entity, now: Nanos) -> Action {
        if self.state != State::Off {
            return Action::Nothing;
        }
        entity.wake(now);
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
    pub(super) fn ran(&mut self, entity: &mut Entity, idle: bool, ran: Nanos, now: Nanos) -> Action {
        if self.state == State::Off {
            return Action::Nothing;
        }
        if self.state == State::IdleWait && !idle {
            self.state = State::Waiting;
        }
        entity.budget -= ran;
        if entity.budget.is_positive() {
            return Action::Nothing;
        }
        if self.state == State::Running {
            self.state = State::Throttled;
            if entity.next_period() < now {
                entity.begin_period(now);
            }
            return Action::Throttle(entity.next_period());
        }
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
            State::IdleWait => self.stop(),
            State::Waiting => {
                let last = entity.deadline - entity.budget;
                if now < last - RESOLUTION {
                    return Action::Arm(last);
                }
                if entity.overflows(now) {
                    entity.begin_period(now);
                }
                entity.replenish(now);
                self.state = State::Running;
                Action::Enqueue
            }
            State::Throttled => {
                entity.replenish(now);
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
