//! Devices of a [`Machine`] interrupt: a hard handler on their CPU, then the thread is woken.
//!
//! While a hard handler runs its CPU changes hands for nobody, as the kernel preempts on the way out of an interrupt.
//! Its time is the running thread's: without `CONFIG_IRQ_TIME_ACCOUNTING` the kernel charges it there, so it is added
//! to what that thread has left to do and uses up its budget. Nobody's budget is looked at because of an interrupt.
//! Interrupts that come meanwhile wait, each device's once, as the interrupt controller keeps one bit for each.

use surety_model::world::Observer;
use surety_units::Nanos;

use super::Machine;
use crate::cpu::at_disk::AtDisk;
use crate::cpu::device::{Device, DeviceSpec};
use crate::cpu::hardware::{Occasion, ThreadId};
use crate::cpu::policy::Departure;
use crate::cpu::program::Programs;
use crate::cpu::recorder::Kept;

impl<P: Programs> Machine<P> {
    /// Adds a device and says by which number steps name it. Its thread is the one that serves it.
    pub fn add_device(&mut self, spec: DeviceSpec) -> usize {
        let number = self.devices.len();
        let slot = Occasion::Interrupt(u32::try_from(number).expect("fewer than 2^32 devices"));
        let slot = self.hardware.add_slot(slot);
        let name = self.hardware.recorder.add_name(&spec.name);
        debug_assert_eq!(name, number, "devices alone have names");
        let device = Device::new(spec, slot);
        if let Some(first) = device.first_interrupt() {
            self.hardware.engine.arm(slot, first);
        }
        self.devices.push(device);
        number
    }

    /// A device.
    pub fn device(&self, number: usize) -> &Device {
        &self.devices[number]
    }

    /// A device, to take from it what it has to say.
    pub fn device_mut(&mut self, number: usize) -> &mut Device {
        &mut self.devices[number]
    }

    /// Another component of the simulation interrupts through a device, once: when the hard handler is over, the events of these numbers
    /// ([`Machine::add_signal`]) are raised, and threads that wait for them go on.
    pub fn raise(
        &mut self,
        number: usize,
        signals: impl IntoIterator<Item = usize>,
        observer: &mut dyn Observer,
    ) {
        for signal in signals {
            self.hardware.recorder.mix(self.hardware.now().get_unsigned());
            self.hardware.recorder.mix((number as u64) << 48 ^ signal as u64);
            self.devices[number].raises.push_back(signal);
        }
        self.pend(number);
        self.come_to_rest(observer);
    }

    /// Whether a thread above all normal ones has a device's CPU, or had it last and waits for one of these events, which are about to
    /// be raised: the kernel's workers there, of nice -20, then wait for it.
    pub fn holds_workers(&self, device: usize, mut signals: impl Iterator<Item = usize>) -> bool {
        let cpu = self.devices[device].spec().cpu;
        let is_above = |thread: ThreadId| self.hardware.thread(thread).scheduling.prio() < 100;
        let comes = |thread: &ThreadId| self.hardware.thread(*thread).cpu == cpu && is_above(*thread);
        self.hardware.current(cpu).is_some_and(is_above)
            || signals.any(|signal| self.resources.waiters(signal).iter().any(comes))
    }

    /// Records what happened at a disk, and hands it on: on the last of the CPUs whose threads used disks since this was last called, as
    /// events of one instant are told in the order of CPUs and theirs have to stand before; else on that of a device.
    pub fn at_disk(
        &mut self,
        device: usize,
        told: impl IntoIterator<Item = AtDisk>,
        observer: &mut dyn Observer,
    ) {
        let cpu = self.hardware.submits.unwrap_or(self.devices[device].spec().cpu);
        told.into_iter().for_each(|at_disk| self.hardware.keep_at_disk(cpu, at_disk));
        self.hardware.submits = None;
        self.hardware.recorder.hand_on(observer);
    }

    pub(super) fn interrupt(&mut self, number: usize) {
        let now = self.hardware.now();
        let device = &mut self.devices[number];
        let (next, had_room) = device.interrupt(now);
        let (slot, arrived) = (device.slot, device.counts().arrived);
        if let Some(next) = next {
            self.hardware.engine.arm(slot, next);
        }
        self.hardware.recorder.mix(now.get_unsigned());
        self.hardware.recorder.mix((number as u64) << 48 ^ arrived << 1 ^ u64::from(had_room));
        self.pend(number);
    }

    /// A device's handler runs on its CPU, now or after those before it.
    fn pend(&mut self, number: usize) {
        let cpu = self.devices[number].spec().cpu;
        let cpu_state = &mut self.hardware.cpus[cpu];
        if cpu_state.handling.is_none() {
            self.begin_handler(cpu, number);
        } else if !cpu_state.handlers.contains(&number) {
            cpu_state.handlers.push_back(number);
        }
    }

    fn begin_handler(&mut self, cpu: usize, number: usize) {
        let (irq, hard) = (self.devices[number].spec().irq, self.devices[number].spec().hard);
        self.hardware.keep(cpu, Kept::Handler { irq, name: number, entry: true });
        let state = &mut self.hardware.cpus[cpu];
        state.handling = Some(u32::try_from(number).expect("fewer than 2^32 devices"));
        if !hard.is_positive() {
            return self.handler_ends(cpu);
        }
        let (current, accounted) = (state.current, state.accounted);
        let (end, completion) = (state.handler_end, state.completion);
        self.hardware.engine.arm(end, self.hardware.now() + hard);
        let Some(thread) = current else { return };
        let remaining = &mut self.hardware.threads[thread.index()].remaining;
        if *remaining != Nanos::MAX {
            // What is left counts from when its time was last booked.
            *remaining = remaining.saturating_add(hard);
            let ends = accounted + *remaining;
            self.hardware.engine.arm(completion, ends);
        }
    }

    /// The hard handler on a CPU is over: who waits for it is woken, and the next handler begins.
    pub(super) fn handler_ends(&mut self, cpu: usize) {
        let Some(number) = self.hardware.cpus[cpu].handling.take() else { return };
        let number = number as usize;
        let here = self.hardware.here(cpu);
        let irq = self.devices[number].spec().irq;
        self.hardware.recorder.keep(here, Kept::Handler { irq, name: number, entry: false });
        let device = &mut self.devices[number];
        if device.pending() > 0
            && let Some(thread) = device.waiting.take()
        {
            self.interrupted_for(cpu, self.hardware.platform.overheads.wakeup);
            self.wake(thread, cpu);
        }
        while let Some(signal) = self.devices[number].raises.pop_front() {
            self.signal(signal, cpu);
        }
        if let Some(next) = self.hardware.cpus[cpu].handlers.pop_front() {
            self.begin_handler(cpu, next);
        }
    }

    /// The current thread of a CPU takes a raising of an event, or sleeps until there is one; where it waits for a disk no signal wakes it.
    pub(super) fn wait_for(&mut self, cpu: usize, thread: ThreadId, signal: usize, is_blocked: bool) {
        if !self.resources.wait(signal, thread) {
            self.leave(cpu, thread, Departure::Sleeps);
            self.hardware.threads[thread.index()].is_blocked = is_blocked;
        }
    }

    /// The same until an instant, at which its alarm ends the wait.
    pub(super) fn wait_until(&mut self, cpu: usize, thread: ThreadId, (signal, until): (usize, Nanos)) {
        if until <= self.hardware.now() || self.resources.wait_for_now(signal, thread) {
            return;
        }
        if until != Nanos::MAX {
            self.arm_alarm(cpu, thread, until);
        }
        self.leave(cpu, thread, Departure::Sleeps);
    }

    /// Records what the current thread of a CPU has just done with disks, where somebody wants it.
    pub(super) fn tell_at_disk(&mut self, cpu: usize) {
        if self.hardware.recorder.is_wanted() {
            let hardware = &mut self.hardware;
            self.programs.tell(&mut |at_disk| hardware.keep_at_disk(cpu, at_disk));
        }
    }

    /// An interrupt of a CPU raises an event.
    fn signal(&mut self, signal: usize, cpu: usize) {
        if let Some(next) = self.resources.signal(&self.hardware, signal) {
            self.interrupted_for(cpu, self.hardware.platform.overheads.wakeup);
            self.wake(next, cpu);
        }
    }

    /// A thread is done with a device's request and takes the next; false when it must wait for one.
    pub(super) fn serve(&mut self, number: usize, thread: ThreadId) -> bool {
        let (now, run) = (self.hardware.now(), self.hardware.thread(thread).run);
        let device = &mut self.devices[number];
        let is_idle = !self.hardware.engine.is_armed(device.slot);
        if device.is_in_service() {
            self.hardware.recorder.mix(now.get_unsigned());
            self.hardware.recorder.mix((number as u64) << 48 ^ device.counts().handled << 1 ^ 1 << 47);
        }
        if let Some(next) = device.finish(now, run, is_idle) {
            self.hardware.engine.arm(device.slot, next);
        }
        match device.take(now, run) {
            Some(work) => self.hardware.threads[thread.index()].remaining = work,
            None => {
                device.waiting = Some(thread);
                return false;
            }
        }
        true
    }
}
