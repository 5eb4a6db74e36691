//! [`Places`], a set of CPUs, `Sets` of a machine, and [`Ranking`], CPUs in order of a figure: so that nobody has to look at every CPU.

/// A set of CPUs by their places, for any number of them.
#[derive(Clone, Debug, Default)]
pub struct Places {
    words: Vec<u64>,
}

impl Places {
    /// The empty set, with room for `cpus` CPUs.
    pub fn none(cpus: usize) -> Places {
        Places { words: vec![0; cpus.div_ceil(64)] }
    }

    /// Adds a CPU, or takes it out.
    #[inline]
    pub fn set(&mut self, cpu: usize, is_in: bool) {
        let bit = 1 << (cpu % 64);
        let word = &mut self.words[cpu / 64];
        *word = if is_in { *word | bit } else { *word & !bit };
    }

    /// Whether a CPU is in.
    #[inline]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words[cpu / 64] & (1 << (cpu % 64)) != 0
    }

    /// Whether none is.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The lowest that fits.
    #[inline]
    pub fn find(&self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        for (place, word) in self.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let cpu = place * 64 + left.trailing_zeros() as usize;
                if fits(cpu) {
                    return Some(cpu);
                }
                left &= left - 1;
            }
        }
        None
    }

    /// The first behind a place that fits, those up to it last.
    pub fn next_behind(&self, place: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        Places::next_of(std::slice::from_ref(self), place, fits)
    }

    /// The same of those that are in any of some sets.
    #[inline]
    pub fn next_of(sets: &[Places], place: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let count = sets.first().map_or(0, |set| set.words.len());
        let all = |word: usize| sets.iter().fold(0, |all, set| all | set.words[word]);
        let (begin, above) = ((place + 1) / 64, !0 << ((place + 1) % 64));
        let mut wanted = above;
        for word in begin..count {
            if let Some(cpu) = members(word, all(word) & wanted).find(|cpu| fits(*cpu)) {
                return Some(cpu);
            }
            wanted = !0;
        }
        // The word that was begun within is looked at again, for what is before that.
        for word in 0..count.min(begin + 1) {
            let wanted = if word == begin { !above } else { !0 };
            if let Some(cpu) = members(word, all(word) & wanted).find(|cpu| fits(*cpu)) {
                return Some(cpu);
            }
        }
        None
    }

    /// All, the lowest place first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.words.iter().enumerate().flat_map(|(place, word)| members(place, *word))
    }

    /// Whether one is in this set, or in `either` and in none of `others`.
    pub fn is_any(&self, either: &Places, others: [&Places; 2]) -> bool {
        let is_any = |(place, word): (usize, &u64)| {
            let other = either.words[place];
            *word != 0 || other != 0 && other & !(others[0].words[place] | others[1].words[place]) != 0
        };
        self.words.iter().enumerate().any(is_any)
    }

    /// Adds the CPUs of another set.
    pub fn add(&mut self, other: &Places) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Takes the lowest out.
    pub fn pop(&mut self) -> Option<usize> {
        let lowest = self.find(|_| true)?;
        self.set(lowest, false);
        Some(lowest)
    }
}

/// CPUs by what they do; kept where there are several.
#[derive(Clone, Debug)]
pub(crate) struct Sets {
    /// Those that must choose again, and how many they are.
    pub(super) due: (Places, usize),
    /// Those that run a thread of each scheduler, by rank, and those without a thread.
    pub(super) running: Vec<Places>,
    /// Those that run another thread, or one by other means, since somebody last took them out.
    pub(crate) changed: Places,
    /// Which other one each last chose out of several that are alike (`distribute_cpu_mask_prev`).
    pub(crate) chosen: Vec<usize>,
}

impl Sets {
    pub(crate) fn new(cpus: usize, ranks: usize) -> Sets {
        let none = Places::none(cpus);
        let mut all = none.clone();
        (0..cpus).for_each(|cpu| all.set(cpu, true));
        let mut running = vec![none.clone(); ranks];
        running.push(all.clone());
        Sets { due: (none, 0), changed: all, running, chosen: vec![0; cpus] }
    }

    /// CPUs without a thread.
    pub(crate) fn idle(&self) -> &Places {
        self.running.last().expect("a set for each scheduler, and this one")
    }

    /// CPUs that run a thread of each scheduler, by rank.
    pub(crate) fn by_rank(&self) -> &[Places] {
        &self.running[..self.running.len() - 1]
    }

    /// CPUs that run a thread of a less important scheduler than that of a rank, by theirs, and those without a thread.
    pub(crate) fn below(&self, rank: usize) -> &[Places] {
        &self.running[rank + 1..]
    }
}

/// The CPUs of a word.
#[derive(Clone)]
struct Members {
    first: usize,
    left: u64,
}

fn members(place: usize, word: u64) -> Members {
    Members { first: place * 64, left: word }
}

impl Iterator for Members {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let lowest = (self.left != 0).then(|| self.left.trailing_zeros() as usize)?;
        self.left &= self.left - 1;
        Some(self.first + lowest)
    }
}

/// CPUs by a figure each: the one with the greatest, of equal ones the lowest place.
///
/// A tree of matches: each node has the greater figure of the two below.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// Node 1 is the whole, `2 k` and `2 k + 1` are below `k`, the CPUs are the last half.
    nodes: Vec<i64>,
}

impl Ranking {
    /// `cpus` CPUs, each with this figure.
    pub fn new(cpus: usize, figure: i64) -> Ranking {
        let width = cpus.next_power_of_two();
        let mut ranking = Ranking { nodes: vec![i64::MIN; 2 * width] };
        (0..cpus).for_each(|cpu| ranking.set(cpu, figure));
        ranking
    }

    /// A CPU's figure.
    pub fn get(&self, cpu: usize) -> i64 {
        self.nodes[self.nodes.len() / 2 + cpu]
    }

    /// Gives a CPU a figure above the least there is.
    #[inline]
    pub fn set(&mut self, cpu: usize, figure: i64) {
        let mut node = self.nodes.len() / 2 + cpu;
        if self.nodes[node] == figure {
            return;
        }
        self.nodes[node] = figure;
        while node > 1 {
            let greater = self.nodes[node].max(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == greater {
                return;
            }
            self.nodes[node] = greater;
        }
    }

    /// The greatest figure.
    #[inline]
    pub fn greatest(&self) -> i64 {
        self.nodes[1]
    }

    /// The CPU with the greatest figure above `bound` of those that fit.
    #[inline]
    pub fn best(&self, bound: i64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        if self.nodes[1] <= bound {
            return None;
        }
        let mut best = (bound, None);
        self.search(1, (0, self.nodes.len() / 2), &mut best, &fits);
        best.1
    }

    /// The first CPU behind a place whose figure is as great as this one and that fits, those up to it last.
    pub fn next_behind(&self, place: usize, figure: i64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.nodes.len() / 2;
        let within = |range| self.first(1, (0, count), range, figure, &fits);
        within((place + 1, count)).or_else(|| within((0, place + 1)))
    }

    /// The first of a range that has a figure and fits, below a node that stands for these places.
    fn first(
        &self,
        node: usize,
        (first, count): (usize, usize),
        range: (usize, usize),
        figure: i64,
        fits: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if self.nodes[node] < figure || first + count <= range.0 || range.1 <= first {
            return None;
        }
        if count == 1 {
            return (self.nodes[node] == figure && fits(first)).then_some(first);
        }
        let half = count / 2;
        let lower = self.first(2 * node, (first, half), range, figure, fits);
        lower.or_else(|| self.first(2 * node + 1, (first + half, half), range, figure, fits))
    }

    /// Shows CPUs whose figures are above a bound, which whoever is shown one may raise: the greater ones early, in no order that is told.
    #[inline]
    pub fn visit_above(&self, mut bound: i64, mut show: impl FnMut(usize, &mut i64)) {
        if self.nodes[1] > bound {
            self.visit(1, &mut bound, &mut show);
        }
    }

    fn visit(&self, node: usize, bound: &mut i64, show: &mut impl FnMut(usize, &mut i64)) {
        if let Some(cpu) = node.checked_sub(self.nodes.len() / 2) {
            return show(cpu, bound);
        }
        let below = 2 * node;
        let first = below + usize::from(self.nodes[below + 1] > self.nodes[below]);
        for child in [first, first ^ 1] {
            if self.nodes[child] > *bound {
                self.visit(child, bound, show);
            }
        }
    }

    /// The CPU with the greatest exact figure above `bound`, of equal ones the first behind a place, those up to it last, with what `exact`
    /// says of it beside its figure, which is no greater than that in here; nothing of a CPU that does not fit.
    #[inline]
    pub fn most<T>(
        &self,
        bound: i64,
        place: usize,
        exact: impl FnMut(usize) -> Option<(i64, T)>,
    ) -> Option<(usize, T)> {
        if self.nodes[1] <= bound {
            return None;
        }
        let mut most = Most { place, exact, figure: bound, found_turn: 0, found: None };
        let leaves = self.nodes.len() / 2;
        // What was passed on the way down, to be looked at later.
        let (mut passed, mut count, mut node) = ([0_u32; 32], 0, 1);
        loop {
            while node < leaves {
                let [lower, upper] = [self.nodes[2 * node], self.nodes[2 * node + 1]];
                node = 2 * node + usize::from(upper > lower);
                // Of equal halves the one that begins behind the place has the first one there.
                node += usize::from(upper == lower && most.begins(self.places(node + 1)));
                let other = node ^ 1;
                passed[count] = other as u32;
                count += usize::from(most.may_be(self.nodes[other], || self.places(other)));
            }
            most.look_at(node - leaves);
            loop {
                if count == 0 {
                    return most.found;
                }
                count -= 1;
                node = passed[count] as usize;
                if most.may_be(self.nodes[node], || self.places(node)) {
                    break;
                }
            }
        }
    }

    /// The places that a node stands for: the first, and how many.
    fn places(&self, node: usize) -> (usize, usize) {
        let leaves = self.nodes.len() / 2;
        let below = leaves.ilog2() - node.ilog2();
        ((node << below) - leaves, 1 << below)
    }

    /// Looks below a node, which stands for these places, for something better.
    fn search(
        &self,
        node: usize,
        (first, count): (usize, usize),
        best: &mut (i64, Option<usize>),
        fits: &impl Fn(usize) -> bool,
    ) {
        let (figure, known) = (self.nodes[node], *best);
        if figure < known.0 || figure == known.0 && known.1.is_none_or(|cpu| cpu < first) {
            return;
        }
        if count == 1 {
            if fits(first) {
                *best = (figure, Some(first));
            }
            return;
        }
        let half = count / 2;
        let (lower, upper) = ((2 * node, (first, half)), (2 * node + 1, (first + half, half)));
        let ordered =
            if self.nodes[lower.0] >= self.nodes[upper.0] { [lower, upper] } else { [upper, lower] };
        for (child, places) in ordered {
            self.search(child, places, best, fits);
        }
    }
}

/// What [`Ranking::most`] has found.
struct Most<T, E> {
    place: usize,
    exact: E,
    figure: i64,
    /// How far what was found is behind the place.
    found_turn: usize,
    found: Option<(usize, T)>,
}

impl<T, E: FnMut(usize) -> Option<(i64, T)>> Most<T, E> {
    /// How far a CPU is behind the place, those up to it farther than any other.
    #[inline]
    fn turn(&self, cpu: usize) -> usize {
        cpu.wrapping_sub(self.place + 1)
    }

    /// Whether the CPU right behind the place is one of these: the first, and how many there are.
    #[inline]
    fn begins(&self, (first, count): (usize, usize)) -> bool {
        (first..first + count).contains(&(self.place + 1))
    }

    /// Whether one of some CPUs whose figures are at most this may be better; `places` tells the first of them and how many there are.
    #[inline]
    fn may_be(&self, figure: i64, places: impl FnOnce() -> (usize, usize)) -> bool {
        let may_be_next = || {
            let places = places();
            self.begins(places) || self.turn(places.0) < self.found_turn
        };
        figure > self.figure || figure == self.figure && may_be_next()
    }

    #[inline]
    fn look_at(&mut self, cpu: usize) {
        let turn = self.turn(cpu);
        if let Some((figure, with)) = (self.exact)(cpu)
            && (figure > self.figure || figure == self.figure && turn < self.found_turn)
        {
            (self.figure, self.found_turn, self.found) = (figure, turn, Some((cpu, with)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_ranking_is_that_of_a_searched_list(
            figures in proptest::collection::vec(-5i64..5, 1..70),
            changes in proptest::collection::vec((0usize..70, -5i64..5), 0..60),
            fits in proptest::collection::vec(any::<bool>(), 70),
            bound in -6i64..4,
        ) {
            let mut ranking = Ranking::new(figures.len(), -9);
            let mut list = figures.clone();
            list.iter().enumerate().for_each(|(cpu, figure)| ranking.set(cpu, *figure));
            for (cpu, figure) in changes {
                let cpu = cpu % list.len();
                list[cpu] = figure;
                ranking.set(cpu, figure);
                let best = (0..list.len())
                    .filter(|cpu| fits[*cpu] && list[*cpu] > bound)
                    .max_by_key(|cpu| (list[*cpu], std::cmp::Reverse(*cpu)));
                prop_assert_eq!(ranking.best(bound, |cpu| fits[cpu]), best);
                prop_assert_eq!(ranking.get(cpu), figure);
                // All of them where nobody raises the bound; the greatest that fits where it is raised to each that does.
                let (mut shown, mut most) = (Vec::new(), None);
                ranking.visit_above(bound, |cpu, _| shown.push(cpu));
                shown.sort_unstable();
                let above: Vec<usize> = (0..list.len()).filter(|cpu| list[*cpu] > bound).collect();
                prop_assert_eq!(shown, above);
                ranking.visit_above(bound, |cpu, bound| {
                    if fits[cpu] {
                        (most, *bound) = (Some(list[cpu]), list[cpu]);
                    }
                });
                prop_assert_eq!(most, best.map(|cpu| list[cpu]));
                // What is in here is a bound: the exact figures are below it where CPUs have odd numbers.
                let exact = |cpu: usize| list[cpu] - (cpu % 2) as i64;
                let turn = |other: usize| std::cmp::Reverse((other <= cpu, other));
                let all = (0..list.len()).filter(|cpu| fits[*cpu] && exact(*cpu) > bound);
                let next = all.max_by_key(|cpu| (exact(*cpu), turn(*cpu))).map(|cpu| (cpu, ()));
                prop_assert_eq!(ranking.most(bound, cpu, |cpu| fits[cpu].then_some((exact(cpu), ()))), next);
                let mut behind = (cpu + 1..list.len()).chain(0..=cpu);
                let next = behind.find(|other| fits[*other] && list[*other] == bound);
                prop_assert_eq!(ranking.next_behind(cpu, bound, |cpu| fits[cpu]), next);
            }
        }

        #[test]
        fn places_are_a_set(members in proptest::collection::btree_set(0usize..200, 0..50)) {
            let mut places = Places::none(200);
            members.iter().for_each(|cpu| places.set(*cpu, true));
            prop_assert_eq!(places.iter().collect::<Vec<_>>(), members.iter().copied().collect::<Vec<_>>());
            prop_assert!((0..200).all(|cpu| places.contains(cpu) == members.contains(&cpu)));
            let odd = |cpu: &usize| cpu % 2 == 1;
            prop_assert_eq!(places.find(|cpu| odd(&cpu)), members.iter().copied().find(odd));
            let behind = members.iter().copied().filter(|cpu| *cpu > 90).chain(members.iter().copied().filter(|cpu| *cpu <= 90));
            prop_assert_eq!(places.next_behind(90, |cpu| odd(&cpu)), behind.into_iter().find(odd));
            let popped: Vec<usize> = std::iter::from_fn(|| places.pop()).collect();
            prop_assert!(popped.len() == members.len() && places.is_empty());
        }
    }
}
