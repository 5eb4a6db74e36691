//! [`Tree`]: those that wait in the order of their finish, each knowing the least start below it, so that one with a small finish of
//! those that are eligible is found in a time that grows with the logarithm of their number (`struct bfq_service_tree`).
//!
//! A red-black tree that turns as the kernel's (`lib/rbtree.c`): the same insertions and removals make the same tree, root and all, on which
//! it depends what is found.

/// Stands for no node.
const NONE: u32 = u32::MAX;

/// Whether one virtual instant lies behind another.
pub(super) fn is_after(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

/// A place for one that is in one tree at most.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub start: u64,
    pub finish: u64,
    /// The least start of it and those below it.
    least: u64,
    parent: u32,
    /// Before it, and behind it.
    children: [u32; 2],
    is_red: bool,
}

impl Default for Node {
    fn default() -> Node {
        Node { start: 0, finish: 0, least: 0, parent: NONE, children: [NONE; 2], is_red: false }
    }
}

fn at(nodes: &[Node], id: u32) -> Option<&Node> {
    // The number of no node is beyond the last.
    nodes.get(id as usize)
}

fn is_red(nodes: &[Node], id: u32) -> bool {
    at(nodes, id).is_some_and(|node| node.is_red)
}

/// A tree, by its root; its nodes are in a list that it shares with others.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: u32,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { root: NONE }
    }
}

impl Tree {
    pub(super) fn is_empty(&self) -> bool {
        self.root == NONE
    }

    /// Adds one behind those that finish no later.
    pub(super) fn insert(&mut self, nodes: &mut [Node], id: usize) {
        let (start, finish) = (nodes[id].start, nodes[id].finish);
        let (mut parent, mut side, mut place) = (NONE, 0, self.root);
        while place != NONE {
            let node = &mut nodes[place as usize];
            if is_after(node.least, start) {
                node.least = start;
            }
            side = usize::from(!is_after(node.finish, finish));
            (parent, place) = (place, node.children[side]);
        }
        let new = u32::try_from(id).expect("fewer than 2^32 queues");
        let node = &mut nodes[id];
        (node.parent, node.children, node.least, node.is_red) = (parent, [NONE; 2], start, true);
        match parent {
            NONE => self.root = new,
            parent => nodes[parent as usize].children[side] = new,
        }
        self.balance_red(nodes, new);
    }

    /// A red node may have a red parent.
    fn balance_red(&mut self, nodes: &mut [Node], mut node: u32) {
        loop {
            let mut parent = nodes[node as usize].parent;
            if !is_red(nodes, parent) {
                break;
            }
            // The root is black, so a red one has a parent.
            let above = nodes[parent as usize].parent;
            let side = usize::from(nodes[above as usize].children[1] == parent);
            let uncle = nodes[above as usize].children[1 - side];
            if is_red(nodes, uncle) {
                nodes[uncle as usize].is_red = false;
                nodes[parent as usize].is_red = false;
                nodes[above as usize].is_red = true;
                node = above;
                continue;
            }
            if nodes[parent as usize].children[1 - side] == node {
                self.turn(nodes, parent, side);
                parent = node;
            }
            self.turn(nodes, above, 1 - side);
            nodes[parent as usize].is_red = false;
            nodes[above as usize].is_red = true;
            break;
        }
        nodes[self.root as usize].is_red = false;
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, nodes: &mut [Node], id: usize) {
        let [left, right] = nodes[id].children;
        // From where on upwards what is known of starts has changed, and whether a black one is missing there.
        let (from, is_short) = if left == NONE || right == NONE {
            let (parent, child) = (nodes[id].parent, if left == NONE { right } else { left });
            self.replace(nodes, id, child);
            let was_red = nodes[id].is_red;
            match child {
                NONE => (parent, !was_red),
                child => {
                    nodes[child as usize].is_red = was_red;
                    (parent, false)
                }
            }
        } else {
            self.replace_by_next(nodes, id)
        };
        let mut place = from;
        while place != NONE {
            refresh(nodes, place);
            place = nodes[place as usize].parent;
        }
        if is_short && from != NONE {
            self.balance_black(nodes, from);
        }
    }

    /// The one behind takes the place of one that has children on both sides.
    fn replace_by_next(&mut self, nodes: &mut [Node], id: usize) -> (u32, bool) {
        let [left, right] = nodes[id].children;
        let mut next = right;
        while nodes[next as usize].children[0] != NONE {
            next = nodes[next as usize].children[0];
        }
        let (child, was_red) = (nodes[next as usize].children[1], nodes[next as usize].is_red);
        let mut from = next;
        if next != right {
            from = nodes[next as usize].parent;
            self.replace(nodes, next as usize, child);
            nodes[next as usize].children[1] = right;
            nodes[right as usize].parent = next;
        }
        nodes[next as usize].children[0] = left;
        nodes[left as usize].parent = next;
        self.replace(nodes, id, next);
        nodes[next as usize].is_red = nodes[id].is_red;
        if child != NONE {
            nodes[child as usize].is_red = false;
        }
        (from, child == NONE && !was_red)
    }

    /// A child, or nothing, stands where its parent was.
    fn replace(&mut self, nodes: &mut [Node], id: usize, by: u32) {
        let parent = nodes[id].parent;
        match parent {
            NONE => self.root = by,
            parent => {
                let side = usize::from(nodes[parent as usize].children[1] as usize == id);
                nodes[parent as usize].children[side] = by;
            }
        }
        if by != NONE {
            nodes[by as usize].parent = parent;
        }
    }

    /// Below a node there is a black one less on one side, where nothing is or what is black.
    fn balance_black(&mut self, nodes: &mut [Node], mut parent: u32) {
        let mut node = NONE;
        while parent != NONE {
            let side = usize::from(nodes[parent as usize].children[0] != node);
            let mut sibling = nodes[parent as usize].children[1 - side];
            if nodes[sibling as usize].is_red {
                self.turn(nodes, parent, side);
                nodes[parent as usize].is_red = true;
                nodes[sibling as usize].is_red = false;
                sibling = nodes[parent as usize].children[1 - side];
            }
            let (near, far) = {
                let children = nodes[sibling as usize].children;
                (children[side], children[1 - side])
            };
            if !is_red(nodes, far) {
                if !is_red(nodes, near) {
                    nodes[sibling as usize].is_red = true;
                    let was_red = std::mem::take(&mut nodes[parent as usize].is_red);
                    if was_red {
                        return;
                    }
                    (node, parent) = (parent, nodes[parent as usize].parent);
                    continue;
                }
                self.turn(nodes, sibling, 1 - side);
                sibling = near;
            }
            let far = nodes[sibling as usize].children[1 - side];
            self.turn(nodes, parent, side);
            nodes[sibling as usize].is_red = nodes[parent as usize].is_red;
            nodes[parent as usize].is_red = false;
            nodes[far as usize].is_red = false;
            return;
        }
    }

    /// A node goes down on a side, and its child of the other side up to where it was.
    fn turn(&mut self, nodes: &mut [Node], down: u32, side: usize) {
        let up = nodes[down as usize].children[1 - side];
        let between = nodes[up as usize].children[side];
        self.replace(nodes, down as usize, up);
        nodes[down as usize].children[1 - side] = between;
        if between != NONE {
            nodes[between as usize].parent = down;
        }
        nodes[up as usize].children[side] = down;
        nodes[down as usize].parent = up;
        nodes[up as usize].least = nodes[down as usize].least;
        refresh(nodes, down);
    }

    /// The least start.
    pub(super) fn least_start(&self, nodes: &[Node]) -> Option<u64> {
        at(nodes, self.root).map(|root| root.least)
    }

    /// The one that finishes first, or last.
    pub(super) fn first(&self, nodes: &[Node]) -> Option<usize> {
        self.end(nodes, 0)
    }

    pub(super) fn last(&self, nodes: &[Node]) -> Option<usize> {
        self.end(nodes, 1)
    }

    fn end(&self, nodes: &[Node], side: usize) -> Option<usize> {
        let mut place = self.root;
        while at(nodes, place)?.children[side] != NONE {
            place = nodes[place as usize].children[side];
        }
        Some(place as usize)
    }

    /// Of those whose start has come one that finishes first or nearly so (`bfq_first_active_entity`): the search goes to the left where
    /// there are any, and does not turn right below one it has seen, though one there may finish earlier.
    pub(super) fn first_eligible(&self, nodes: &[Node], now: u64) -> Option<usize> {
        let (mut place, mut first) = (self.root, None);
        while let Some(node) = at(nodes, place) {
            if !is_after(node.start, now) {
                first = Some(place as usize);
            }
            if at(nodes, node.children[0]).is_some_and(|before| !is_after(before.least, now)) {
                place = node.children[0];
            } else if first.is_some() {
                break;
            } else {
                place = node.children[1];
            }
        }
        first
    }
}

/// What is known of starts is right below a node: it is made right for the node.
fn refresh(nodes: &mut [Node], id: u32) {
    let node = &nodes[id as usize];
    let mut least = node.start;
    for child in node.children {
        if let Some(child) = at(nodes, child)
            && is_after(least, child.least)
        {
            least = child.least;
        }
    }
    nodes[id as usize].least = least;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Black nodes on each way down, and the least start; every rule of the tree is looked at.
    fn check(nodes: &[Node], place: u32, parent: u32, order: &mut Vec<usize>) -> (usize, Option<u64>) {
        let Some(node) = at(nodes, place) else { return (1, None) };
        assert_eq!(node.parent, parent);
        assert!(!(node.is_red && is_red(nodes, parent)), "two red ones");
        let (left, before) = check(nodes, node.children[0], place, order);
        order.push(place as usize);
        let (right, behind) = check(nodes, node.children[1], place, order);
        assert_eq!(left, right, "as many black ones on each side");
        let least = [before, behind].into_iter().flatten().fold(node.start, u64::min);
        assert_eq!(node.least, least);
        (left + usize::from(!node.is_red), Some(least))
    }

    fn shape(nodes: &[Node], place: u32, hash: &mut u64) {
        let mut add = |part: u64| *hash = hash.wrapping_mul(31).wrapping_add(part);
        let Some(node) = at(nodes, place) else { return add(1) };
        add(u64::from(place) + 2);
        node.children.iter().for_each(|child| shape(nodes, *child, hash));
    }

    /// 20,000 insertions and removals, with a search after each. The number is what a C program says that does the same with the kernel's
    /// red-black tree (`tools/lib/rbtree.c` of 6.12.117) and searches as the kernel does: a hash of what was found, and of the tree.
    #[test]
    fn the_tree_and_what_is_found_are_the_kernels() {
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let (mut nodes, mut tree, mut hash) = (vec![Node::default(); 100], Tree::default(), 0_u64);
        let mut is_in = [false; 100];
        for step in 0..20_000 {
            let id = usize::try_from(draw(100)).unwrap();
            if is_in[id] {
                tree.remove(&mut nodes, id);
            } else {
                nodes[id].start = draw(40);
                nodes[id].finish = nodes[id].start + draw(40);
                tree.insert(&mut nodes, id);
            }
            is_in[id] = !is_in[id];
            let found = tree.first_eligible(&nodes, draw(80)).map_or(0, |id| id as u64 + 1);
            hash = hash.wrapping_mul(31).wrapping_add(found);
            if step % 100 == 0 {
                shape(&nodes, tree.root, &mut hash);
            }
        }
        assert_eq!(hash, 0xcd0c_5c3d_0703_425a, "{hash:#x}");
    }

    /// Thousands of insertions and removals beside a plain list.
    #[test]
    fn a_tree_finds_what_a_list_has() {
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for size in [1, 2, 3, 5, 8, 20, 100] {
            let mut nodes = vec![Node::default(); size];
            let (mut tree, mut list) = (Tree::default(), Vec::new());
            for step in 0..2000 {
                let id = usize::try_from(draw(size as u64)).unwrap();
                match list.iter().position(|other| *other == id) {
                    Some(place) => {
                        list.remove(place);
                        tree.remove(&mut nodes, id);
                    }
                    None => {
                        nodes[id].start = draw(40);
                        nodes[id].finish = nodes[id].start + draw(40);
                        list.push(id);
                        tree.insert(&mut nodes, id);
                    }
                }
                let mut order = Vec::new();
                check(&nodes, tree.root, NONE, &mut order);
                let mut expected = list.clone();
                expected.sort_by_key(|id| nodes[*id].finish);
                assert_eq!(order, expected, "step {step} of {size}");
                assert_eq!(tree.first(&nodes), expected.first().copied());
                assert_eq!(tree.last(&nodes), expected.last().copied());
                assert_eq!(tree.is_empty(), expected.is_empty());
                assert_eq!(tree.least_start(&nodes), expected.iter().map(|id| nodes[*id].start).min());
                let now = draw(80);
                let found = tree.first_eligible(&nodes, now);
                assert_eq!(found.is_some(), expected.iter().any(|id| nodes[*id].start <= now));
                assert!(found.is_none_or(|id| nodes[id].start <= now), "step {step} of {size}");
            }
        }
    }
}
