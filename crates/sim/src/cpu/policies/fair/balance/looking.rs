//! What a CPU finds when it looks at the others, where all are alike and each is a group of its own (`sched_balance_rq`,
//! `sched_balance_find_src_rq` in `kernel/sched/fair.c`). Where it is said what CPUs share, [`super::levels`] looks.

use super::bounds::{NOTHING, figure};
use super::imbalance::{Amount, CAPACITY, Looks, Seen, amount, is_reduced};
use super::{Balance, Found, Taken};
use crate::cpu::hardware::{Hardware, ThreadId};
use crate::cpu::policies::fair::average::Instant;

impl Balance {
    fn seen(&self, hardware: &Hardware, cpu: usize) -> Seen {
        let at = Instant::new(hardware.now());
        let load = self.load(cpu, at, &self.totals(at));
        Seen { load, ..self.seen_without_load(hardware, cpu, at) }
    }

    /// A CPU whose load was not looked at.
    #[inline]
    fn seen_without_load(&self, hardware: &Hardware, cpu: usize, at: Instant) -> Seen {
        let state = &self.cpus[cpu];
        let fair = self.fair(cpu);
        let all = state.wanting.len() + usize::from(self.runs_other(hardware, cpu));
        if all == 0 {
            // Its averages say nothing then.
            return Seen::empty(state.capacity);
        }
        let used = || state.used.at(at, CAPACITY);
        Seen::without_load(state.runnable.at(at, CAPACITY), used, (fair, all), state.capacity)
    }

    /// The busiest CPU with a fair thread but one; of equal ones the next in turn. If there is nothing to take from it, nothing is taken.
    fn busiest(
        &self,
        hardware: &Hardware,
        (cpu, looks): (usize, Looks),
        left_out: &[usize],
    ) -> Option<(Seen, usize)> {
        let at = Instant::new(hardware.now());
        let totals = self.totals(at);
        let exact = |other: usize| {
            if other == cpu || left_out.contains(&other) || self.fair(other) == 0 {
                return None;
            }
            let seen = self.seen_without_load(hardware, other, at);
            let seen = seen.with_load(looks, || self.load(other, at, &totals));
            let exact = figure(seen.rank(looks));
            debug_assert!(exact <= self.bounds.ranking.get(other), "a bound holds");
            Some((exact, seen))
        };
        let (from, seen) = self.bounds.ranking.most(NOTHING, cpu, exact)?;
        if looks == Looks::NewlyIdle {
            // What has a load that decides something has it already.
            return Some((seen, from));
        }
        Some((Seen { load: self.load(from, at, &totals), ..seen }, from))
    }

    /// What a CPU finds when it looks at the others; one after the other where none of the threads there may come (`LBF_ALL_PINNED`).
    pub(super) fn look(
        &self,
        hardware: &Hardware,
        cpu: usize,
        looks: Looks,
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> Found {
        let mut left_out = Vec::new();
        loop {
            match self.look_beside(hardware, (cpu, looks), &left_out, &load_of) {
                Ok(Found::Even) if !left_out.is_empty() => return Found::Bound,
                Ok(found) => return found,
                Err(bound) => left_out.push(bound),
            }
        }
    }

    /// The same without CPUs that were left out, or the next one to leave out.
    fn look_beside(
        &self,
        hardware: &Hardware,
        (cpu, looks): (usize, Looks),
        left_out: &[usize],
        load_of: impl Fn(ThreadId) -> Option<i64>,
    ) -> Result<Found, usize> {
        let Some((busiest, from)) = self.busiest(hardware, (cpu, looks), left_out) else {
            return Ok(Found::Even);
        };
        let (local, mean) = match looks {
            // What ran there has left its queue (`nr_running`), and where there is room no load decides anything.
            Looks::NewlyIdle => (Seen::empty(self.cpus[cpu].capacity), 0),
            _ => (self.seen(hardware, cpu), self.mean(hardware, left_out)),
        };
        let Some(amount) = amount(looks, &local, &busiest, mean) else { return Ok(Found::Even) };
        if let Amount::Load(load) = amount
            && busiest.fair == 1
            && busiest.load > load
            && !is_reduced(busiest.capacity)
        {
            return Ok(Found::Even);
        }
        let threads = self.fitting(hardware, (from, cpu, 0), looks, (&busiest, amount), load_of);
        if threads.is_empty() && self.are_bound(hardware, (from, cpu), &busiest) {
            return Err(from);
        }
        let stops = threads.is_empty() && self.stops(hardware, (from, cpu, 0), looks, (&busiest, amount));
        Ok(Found::Uneven(Taken { from, threads, stops, level: 0 }))
    }

    /// Load to capacity of all CPUs, times 1024. Of CPUs that are left out the capacity counts alone, as where the kernel looks again
    /// without them (`update_sg_lb_stats`).
    fn mean(&self, hardware: &Hardware, left_out: &[usize]) -> u64 {
        let at = Instant::new(hardware.now());
        let totals = self.totals(at);
        let cpus = (0..self.cpus.len()).filter(|cpu| !left_out.contains(cpu));
        let load: u64 = cpus.map(|cpu| self.load(cpu, at, &totals)).sum();
        let capacity: u64 = self.cpus.iter().map(|cpu| cpu.capacity).sum();
        load * CAPACITY / capacity
    }
}
