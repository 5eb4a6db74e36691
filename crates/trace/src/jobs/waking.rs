//! Wake-ups: threads that want a CPU from now on, and who wakes them.

use surety_model::event::{Event, Woken};
use surety_units::{Nanos, Tid};

use super::Machine;
use super::sink::JobSink;
use super::thread::NOWHERE;
use super::watch::{Occupant, Waker, Watch};

impl<W: Watch> Machine<W> {
    pub(super) fn waking(&mut self, event: &Event<'_>, woken: &Woken) {
        if woken.tid == Tid::IDLE {
            return;
        }
        self.woke();
        let at = event.time;
        let slot = self.slot(woken.tid, at);
        self.tell_waker(slot, event);
        let gaps = self.anomalies.gaps;
        let thread = &mut self.threads.slots[slot];
        thread.name(woken.comm);
        thread.prio = woken.prio;
        if thread.last_cpu == NOWHERE {
            // The request names the CPU it slept on; the queue it is put in comes with the wake-up.
            thread.last_cpu = woken.target;
        }
        let reordered = thread.waking(at, gaps, self.watch.sink());
        self.anomalies.reordered += u64::from(reordered);
        self.tell_thread(slot, at);
    }

    pub(super) fn wakeup(&mut self, at: Nanos, woken: &Woken) {
        if woken.tid == Tid::IDLE {
            return;
        }
        self.woke();
        let slot = self.slot(woken.tid, at);
        let gaps = self.anomalies.gaps;
        let thread = &mut self.threads.slots[slot];
        thread.name(woken.comm);
        thread.prio = woken.prio;
        let reordered = thread.wakeup(at, woken.target, gaps);
        self.anomalies.reordered += u64::from(reordered);
        self.tell_thread(slot, at);
    }

    /// A wake-up was seen.
    #[inline]
    fn woke(&mut self) {
        if !self.woken {
            self.woken = true;
            self.watch.sink().wake_ups_are_told();
        }
    }

    /// Tells the watcher who wakes the thread of `slot`: the current one, or the interrupt on top of it.
    #[inline]
    fn tell_waker(&mut self, slot: usize, event: &Event<'_>) {
        if !W::WATCHES {
            return;
        }
        let cpu = &self.cpus[event.cpu.index()];
        match (cpu.interrupts.innermost(), cpu.occupant) {
            (Some(context), _) => self.watch.woken_in(slot, event.time, context),
            (None, Occupant::Thread(by)) => {
                let (waker, woken) = (&self.threads.slots[by], &self.threads.slots[slot]);
                let (tid, comm) = (waker.key.tid, waker.key.comm);
                let waker = Waker { slot: by, tid, comm, prio: waker.prio, lock: woken.wants_lock };
                self.watch.woken(slot, event.time, waker);
            }
            _ => {}
        }
    }
}
