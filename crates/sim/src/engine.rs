//! [`Engine`]: simulated time, and what is to come on the components of a simulation.
//!
//! A component is whatever makes things happen in time: the CPUs of a machine, a disk. It gets slots from the engine, one for
//! each thing that can happen to it (the tick of a CPU, the end of a request), each with a number of its own, and arms
//! them; arming an armed slot moves it. The engine says whose slot comes next and by which number, and only the
//! component knows what that means: a new one changes no other. A [`Simulation`] holds the components of a run
//! and gives each event to the one it is of.

mod agenda;

use surety_model::world::Observer;
use surety_units::Nanos;

use agenda::Agenda;
pub use agenda::Slot;

/// A component of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentId(u8);

/// What happens: the component, and the number it gave to the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose.
    pub component: ComponentId,
    /// Which of its own.
    pub number: u32,
}

/// Time and events of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    now: Nanos,
    components: u8,
    agenda: Agenda,
}

impl Engine {
    /// Adds a component.
    ///
    /// # Panics
    /// Beyond 255.
    pub fn add_component(&mut self) -> ComponentId {
        self.components = self.components.checked_add(1).expect("fewer than 256 components");
        ComponentId(self.components - 1)
    }

    /// Adds a slot, not armed, for a component that knows it by a number.
    ///
    /// # Panics
    /// Beyond 2^32 - 1 slots.
    pub fn add_slot(&mut self, component: ComponentId, number: u32) -> Slot {
        self.agenda.add_slot(Event { component, number })
    }

    /// Simulated time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Lets a slot happen at an instant, or now when that has passed, and at no other time.
    #[inline]
    pub fn arm(&mut self, slot: Slot, at: Nanos) {
        self.agenda.arm(slot, at.max(self.now));
    }

    /// Keeps a slot from happening.
    #[inline]
    pub fn cancel(&mut self, slot: Slot) {
        self.agenda.cancel(slot);
    }

    /// Whether a slot will happen.
    #[inline]
    pub fn is_armed(&self, slot: Slot) -> bool {
        self.agenda.is_armed(slot)
    }

    /// What comes next, when that is now.
    #[inline]
    pub fn at_once(&self) -> Option<Event> {
        self.agenda.next_at(self.now)
    }

    /// Moves time to the next event up to and including `end`, and takes it; `None`: there is none, and it is `end`.
    #[inline]
    pub fn next(&mut self, end: Nanos) -> Option<Event> {
        let next = self.agenda.pop(end);
        self.now = next.map_or(end, |(time, _)| time);
        next.map(|(_, event)| event)
    }
}

/// Components on one engine.
pub trait Simulation {
    /// Their engine.
    fn engine(&mut self) -> &mut Engine;

    /// Has the component an event is of work it off, at the engine's time, and hands on what it recorded.
    fn occur(&mut self, event: Event, observer: &mut dyn Observer);

    /// Works off everything up to and including `end`. Where a run is cut into pieces changes nothing.
    fn run_until(&mut self, end: Nanos, observer: &mut dyn Observer) {
        while let Some(event) = self.engine().next(end) {
            self.occur(event, observer);
        }
    }
}
