//! [`Sorted`]: a queue in order of a key, for many members: what is first, and what is first of those whose other figures
//! are small enough.
//!
//! Members stand in blocks of at most 32. Where there are several, each block's head has its first key and the least of every other
//! figure; a few members are one block, a sorted list of which nothing else is kept. Joining and leaving touch one block and a search among
//! the heads: some hundred of them for ten thousand members, side by side in memory, where a tree of pointers
//! would wait for memory on every level. Blocks that are empty are kept for later: in the long run nothing is allocated.

/// Members of a block at most.
const BLOCK: usize = 32;

/// A member: its key, the order in which it came, and `N` other figures.
#[derive(Clone, Copy, Debug)]
pub struct Member<const N: usize> {
    /// What the queue is ordered by.
    pub key: i64,
    /// Among equal keys who came first is first.
    pub order: u64,
    /// Who it is.
    pub item: u32,
    /// What [`Sorted::first_within`] and [`Sorted::least`] ask for, by number.
    pub figures: [i64; N],
}

impl<const N: usize> Member<N> {
    fn place(&self) -> (i64, u64) {
        (self.key, self.order)
    }
}

/// A block as its queue sees it. What is in it beside its length is kept where there are several.
#[derive(Clone, Copy, Debug)]
struct Head<const N: usize> {
    first: (i64, u64),
    least: [i64; N],
    block: u32,
    len: u32,
}

/// A queue in order of its members' keys and then of their coming.
#[derive(Clone, Debug)]
pub struct Sorted<const N: usize> {
    heads: Vec<Head<N>>,
    blocks: Vec<[Member<N>; BLOCK]>,
    free: Vec<u32>,
    len: usize,
    came: u64,
}

impl<const N: usize> Default for Sorted<N> {
    fn default() -> Self {
        Sorted { heads: Vec::new(), blocks: Vec::new(), free: Vec::new(), len: 0, came: 0 }
    }
}

impl<const N: usize> Sorted<N> {
    /// How many members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All in order.
    pub fn iter(&self) -> impl Iterator<Item = &Member<N>> {
        self.heads.iter().flat_map(|head| self.members(head))
    }

    /// The member with the least key, of equal ones who came first; `None`: the queue is empty.
    #[inline]
    pub fn first(&self) -> Option<&Member<N>> {
        let head = self.heads.first().filter(|head| head.len > 0)?;
        Some(&self.blocks[head.block as usize][0])
    }

    /// The one behind the first.
    pub fn second(&self) -> Option<&Member<N>> {
        let head = self.heads.first()?;
        if head.len > 1 {
            return self.blocks[head.block as usize].get(1);
        }
        self.heads.get(1).map(|head| &self.blocks[head.block as usize][0])
    }

    /// The first whose figure is not above a bound.
    #[inline]
    pub fn first_within(&self, figure: usize, bound: i64) -> Option<&Member<N>> {
        let head = match &self.heads[..] {
            [head] => head,
            heads => heads.iter().find(|head| head.least[figure] <= bound)?,
        };
        self.members(head).iter().find(|member| member.figures[figure] <= bound)
    }

    /// The least of a figure.
    pub fn least(&self, figure: usize) -> Option<i64> {
        match &self.heads[..] {
            [head] => self.members(head).iter().map(|member| member.figures[figure]).min(),
            heads => heads.iter().map(|head| head.least[figure]).min(),
        }
    }

    /// A member joins behind those with its key: the order it has from now on.
    #[inline(always)]
    pub fn insert(&mut self, key: i64, item: u32, figures: [i64; N]) -> u64 {
        self.came += 1;
        self.len += 1;
        let member = Member { key, order: self.came, item, figures };
        if let [head] = &mut self.heads[..]
            && (head.len as usize) < BLOCK
        {
            let len = head.len as usize;
            put(&mut self.blocks[head.block as usize], len, member);
            head.len += 1;
            return self.came;
        }
        self.insert_among(member);
        self.came
    }

    /// A member joins where there are several blocks, or is none, or the only one is full.
    #[inline(never)]
    fn insert_among(&mut self, member: Member<N>) {
        if self.heads.is_empty() {
            self.add_head(0, &[member]);
            return;
        }
        let Member { key, figures, .. } = member;
        let mut at = match self.heads.len() {
            1 => 0,
            _ => self.heads.partition_point(|head| head.first.0 <= key).saturating_sub(1),
        };
        if self.heads[at].len as usize == BLOCK {
            self.split(at);
            at += usize::from(self.heads[at + 1].first.0 <= key);
        }
        let head = &mut self.heads[at];
        let len = head.len as usize;
        let block = &mut self.blocks[head.block as usize];
        put(block, len, member);
        head.len += 1;
        head.first = block[0].place();
        for (least, figure) in head.least.iter_mut().zip(figures) {
            *least = (*least).min(figure);
        }
    }

    /// The member with a key and an order leaves.
    ///
    /// # Panics
    /// Where there is none.
    #[inline(always)]
    pub fn remove(&mut self, key: i64, order: u64) {
        self.len -= 1;
        let [head] = &mut self.heads[..] else { return self.remove_among(key, order) };
        let members = &mut self.blocks[head.block as usize][..head.len as usize];
        let place = members.iter().position(|member| member.order == order);
        // A few at most, of which the first is who leaves mostly.
        for place in place.expect("it is in the queue") + 1..members.len() {
            members[place - 1] = members[place];
        }
        head.len -= 1;
    }

    /// A member leaves where there are several blocks.
    #[inline(never)]
    fn remove_among(&mut self, key: i64, order: u64) {
        let (at, place) = self.find(key, order);
        let head = &mut self.heads[at];
        let len = head.len as usize;
        let block = &mut self.blocks[head.block as usize];
        if len == 1 {
            self.free.push(head.block);
            self.heads.remove(at);
            return;
        }
        let figures = block[place].figures;
        if place + 1 < len {
            block.copy_within(place + 1..len, place);
        }
        head.len -= 1;
        head.first = block[0].place();
        if figures.iter().zip(&head.least).any(|(figure, least)| figure == least) {
            head.least = least_of(&block[..len - 1]);
        }
        self.join(at);
    }

    /// A member's figure changes.
    ///
    /// # Panics
    /// Where there is no such member.
    pub fn change(&mut self, key: i64, order: u64, figure: usize, value: i64) {
        let (at, place) = self.find(key, order);
        let head = &mut self.heads[at];
        let block = &mut self.blocks[head.block as usize];
        block[place].figures[figure] = value;
        head.least = least_of(&block[..head.len as usize]);
    }

    fn members(&self, head: &Head<N>) -> &[Member<N>] {
        &self.blocks[head.block as usize][..head.len as usize]
    }

    fn find(&self, key: i64, order: u64) -> (usize, usize) {
        let at = match self.heads.len() {
            1 => 0,
            _ => self.heads.partition_point(|head| head.first <= (key, order)).saturating_sub(1),
        };
        let place = self.members(&self.heads[at]).iter().position(|member| member.order == order);
        let place = place.expect("it is in the queue");
        (at, place)
    }

    /// A new block with these members, before the head of a number.
    fn add_head(&mut self, at: usize, members: &[Member<N>]) {
        let block = self.take_block();
        self.blocks[block as usize][..members.len()].copy_from_slice(members);
        let first = members.first().map_or((i64::MIN, 0), Member::place);
        let len = u32::try_from(members.len()).expect("a block is small");
        self.heads.insert(at, Head { first, least: least_of(members), block, len });
    }

    /// A free block, or a new one.
    #[inline]
    fn take_block(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let nobody = Member { key: 0, order: 0, item: 0, figures: [0; N] };
            self.blocks.push([nobody; BLOCK]);
            // Giving a block back allocates nothing.
            self.free.reserve(self.blocks.len());
            u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 blocks")
        })
    }

    /// The upper half of a full block becomes one of its own.
    fn split(&mut self, at: usize) {
        let whole = self.blocks[self.heads[at].block as usize];
        let (lower, upper) = whole.split_at(BLOCK / 2);
        let head = &mut self.heads[at];
        head.len = u32::try_from(lower.len()).expect("a block is small");
        (head.first, head.least) = (lower[0].place(), least_of(lower));
        self.add_head(at + 1, upper);
    }

    /// A block that has become small goes into the one behind it if both are half a block at most.
    fn join(&mut self, at: usize) {
        let Some(next) = self.heads.get(at + 1).copied() else { return };
        let (own, len) = (self.heads[at], self.heads[at].len as usize);
        if len + next.len as usize > BLOCK / 2 {
            return;
        }
        let members = self.blocks[next.block as usize];
        self.blocks[own.block as usize][len..len + next.len as usize]
            .copy_from_slice(&members[..next.len as usize]);
        let head = &mut self.heads[at];
        head.len += next.len;
        for (least, other) in head.least.iter_mut().zip(next.least) {
            *least = (*least).min(other);
        }
        self.free.push(next.block);
        self.heads.remove(at + 1);
    }
}

/// A member joins the first `len` of a block, behind those with its key.
#[inline]
fn put<const N: usize>(block: &mut [Member<N>; BLOCK], len: usize, member: Member<N>) {
    // From behind: who comes last mostly has the last key.
    let mut place = len;
    while place > 0 && block[place - 1].key > member.key {
        block[place] = block[place - 1];
        place -= 1;
    }
    block[place] = member;
}

fn least_of<const N: usize>(members: &[Member<N>]) -> [i64; N] {
    let mut least = [i64::MAX; N];
    for member in members {
        for (least, figure) in least.iter_mut().zip(member.figures) {
            *least = (*least).min(figure);
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the obvious model: a list sorted by (key, order of coming).
        #[test]
        fn agrees_with_a_sorted_list(
            steps in proptest::collection::vec((0u8..8, 0i64..12, -50i64..50), 0..900),
            spread in 1i64..40,
        ) {
            let mut queue: Sorted<2> = Sorted::default();
            let mut list: Vec<(i64, u64, u32, [i64; 2])> = Vec::new();
            for (number, (step, key, figure)) in steps.into_iter().enumerate() {
                let key = key * spread % 13;
                match step {
                    0..=4 => {
                        let figures = [figure, -figure * 3];
                        let order = queue.insert(key, number as u32, figures);
                        list.push((key, order, number as u32, figures));
                        list.sort_unstable();
                    }
                    5..=6 if !list.is_empty() => {
                        let (key, order, ..) = list.remove((figure + 50) as usize * list.len() / 100);
                        queue.remove(key, order);
                    }
                    7 if !list.is_empty() => {
                        let place = (figure + 50) as usize * list.len() / 100;
                        list[place].3[1] = figure;
                        queue.change(list[place].0, list[place].1, 1, figure);
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.len(), list.len());
                let first = list.iter().find(|member| member.3[0] <= figure).map(|member| member.2);
                prop_assert_eq!(queue.first_within(0, figure).map(|member| member.item), first);
                prop_assert_eq!(queue.least(1), list.iter().map(|member| member.3[1]).min());
                prop_assert_eq!(queue.second().map(|member| member.item), list.get(1).map(|member| member.2));
            }
            let items: Vec<u32> = queue.iter().map(|member| member.item).collect();
            prop_assert_eq!(items, list.iter().map(|member| member.2).collect::<Vec<_>>());
        }
    }
}
