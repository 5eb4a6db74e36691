//! All requests at once: what each needs does not depend on the others, only whether it can be kept beside them.
//!
//! So every task's reservation is looked for first as if it were alone; then the longest part of the list that can be kept
//! together is found by halves, since a set of which everything holds has no part of which anything does not. Only what comes
//! right behind such a part is looked at in every frame, beside those kept. Where everything fits, the set is tested once.

use std::rc::Rc;

use surety_analysis::foundation::ReservedThread;
use surety_model::promise::Promise;

use super::{Kept, ReservedSet};
use crate::interrupt::{Source, Wish};
use crate::refusal::Refused;
use crate::reserved_set::placing::{Search, Wanted};

impl<'a> ReservedSet<'a> {
    /// The same with nothing kept and nothing that objects: what is sized here is sized as if alone.
    fn unobjecting(&self) -> ReservedSet<'a> {
        ReservedSet {
            options: self.options,
            alone: self.alone,
            obstacle: None,
            kept: Vec::new(),
            irqs: Vec::new(),
            handlers: self.handlers.clone(),
            fineness: self.fineness,
            searched: Rc::clone(&self.searched),
            fronts: None,
            implicit: self.implicit,
            objects: false,
            wanted: Vec::new(),
        }
    }

    /// Keeps what it can of the requests of each task, in their order, and says for each why not the rest.
    ///
    /// What needs least bandwidth alone may have short deadlines, which leave no room beside others. So where something was
    /// refused it is tried once more with deadlines at the ends of the periods, which are the easiest to keep together.
    pub(crate) fn place_all(&mut self, wanted: &[Wanted<'_>]) -> Vec<Vec<(Promise, Refused)>> {
        let mut other = ReservedSet {
            implicit: true,
            obstacle: self.obstacle.clone(),
            objects: self.objects,
            ..self.unobjecting()
        };
        let refused = self.place_in_order(wanted);
        let count = |all: &[Vec<(Promise, Refused)>]| all.iter().map(Vec::len).sum::<usize>();
        if count(&refused) == 0 || self.alone || self.fronts.is_some() || self.is_rough() {
            return refused;
        }
        let again = other.place_in_order(wanted);
        if count(&again) >= count(&refused) {
            return refused;
        }
        *self = other;
        again
    }

    fn place_in_order(&mut self, wanted: &[Wanted<'_>]) -> Vec<Vec<(Promise, Refused)>> {
        let alone = self.unobjecting();
        let hoped: Vec<Option<Kept>> = wanted
            .iter()
            .map(|wanted| {
                let found = Search::new(&alone, wanted).run(false);
                found.kept.filter(|_| found.refused.is_empty())
            })
            .collect();
        let mut refused = Vec::new();
        while let Some(rest) = hoped.get(refused.len()..).filter(|rest| !rest.is_empty()) {
            let sure = self.kept_together(rest);
            self.kept.extend(rest[..sure].iter().flatten().cloned());
            refused.extend((0..sure).map(|_| Vec::new()));
            if let (Some(wanted), Some(hoped)) = (wanted.get(refused.len()), hoped.get(refused.len())) {
                let why = self.place(wanted);
                if !why.is_empty() {
                    let threads: Vec<_> = hoped.iter().flat_map(|kept| self.named(kept)).collect();
                    self.wanted.extend(threads);
                }
                refused.push(why);
            }
        }
        refused
    }

    /// How many of the first can be kept beside those kept before, without another look at any of them.
    fn kept_together(&self, hoped: &[Option<Kept>]) -> usize {
        // Where all that was tried is asked for, every frame is looked at.
        if self.obstacle.is_some() || self.fronts.is_some() {
            return 0;
        }
        let is_possible = |kept: &Kept| kept.runtime <= kept.frame.deadline;
        let run: Vec<&Kept> =
            hoped.iter().map_while(|kept| kept.as_ref().filter(|k| is_possible(k))).collect();
        let holds = |count: usize| {
            let more = run[..count].iter().flat_map(|kept| self.named(kept)).map(|(_, thread)| thread);
            self.against(&more.collect::<Vec<_>>()).is_none()
        };
        if run.is_empty() || holds(run.len()) {
            return run.len();
        }
        let (mut low, mut high) = (0, run.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if holds(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// The threads of a task's reservation with its name.
    pub(super) fn named(&self, kept: &Kept) -> Vec<(String, ReservedThread)> {
        let platform = &self.options.platform;
        let threads = kept.threads(platform.cpus, platform.enforcement);
        threads.into_iter().map(|thread| (kept.task.name.clone(), thread)).collect()
    }

    /// What all wishes about an interrupt thread would take, where that is known.
    pub(super) fn wanted_irq(
        &self,
        source: &Source<'_>,
        wishes: &[(Promise, Wish)],
    ) -> Option<(String, ReservedThread)> {
        let hoped = self.unobjecting().cheapest_irq(source, wishes).ok()?;
        Some((source.irq.name.clone(), hoped.thread()))
    }

    /// Every reserved thread, those that are refused included: with what all requests need.
    ///
    /// Empty where nothing was refused whose need is known.
    pub(crate) fn threads_wanted(&self) -> Vec<(String, ReservedThread)> {
        if self.wanted.is_empty() {
            return Vec::new();
        }
        let is_wanted = |name: &String| self.wanted.iter().any(|(wanted, _)| wanted == name);
        let kept = self.named_threads().into_iter().filter(|(name, _)| !is_wanted(name));
        kept.chain(self.wanted.iter().cloned()).collect()
    }
}
