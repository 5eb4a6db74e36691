//! [`ByArrival`]: waiting requests in the order in which they came.

use surety_units::Nanos;

use super::RequestId;

/// No request has this number.
const NONE: u32 = u32::MAX;

/// The place of a request in its list.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    behind: u32,
    expires: Nanos,
}

/// Places of requests in lists, numbered as the requests: of all lists that no two have a request in common of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links(Vec<Link>);

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    first: u32,
    last: u32,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { first: NONE, last: NONE }
    }
}

impl Ends {
    /// What says who is behind one; the first of all is behind none.
    fn behind<'a>(&'a mut self, links: &'a mut Links, number: u32) -> &'a mut u32 {
        if number == NONE { &mut self.first } else { &mut links.0[number as usize].behind }
    }

    /// What says who is before one; the last of all is before none.
    fn before<'a>(&'a mut self, links: &'a mut Links, number: u32) -> &'a mut u32 {
        if number == NONE { &mut self.last } else { &mut links.0[number as usize].before }
    }

    /// A request comes, and expires at an instant.
    pub(crate) fn push(&mut self, links: &mut Links, id: RequestId, expires: Nanos) {
        let link = Link { before: self.last, behind: NONE, expires };
        if links.0.len() <= id.index() {
            links.0.resize(id.index() + 1, link);
        }
        links.0[id.index()] = link;
        *self.behind(links, self.last) = id.0;
        self.last = id.0;
    }

    /// Takes a request out, which is in it.
    pub(crate) fn remove(&mut self, links: &mut Links, id: RequestId) {
        let Link { before, behind, .. } = links.0[id.index()];
        *self.behind(links, before) = behind;
        *self.before(links, behind) = before;
    }

    /// The one that has waited longest, and when it expires.
    pub(crate) fn oldest(&self, links: &Links) -> Option<(RequestId, Nanos)> {
        let first = links.0.get(self.first as usize)?;
        Some((RequestId(self.first), first.expires))
    }

    /// A request is about to become a part of another: the one that is left has the place of the one that expires first.
    pub(crate) fn join(&mut self, links: &mut Links, kept: RequestId, gone: RequestId) {
        let expires = links.0[gone.index()].expires;
        if expires >= links.0[kept.index()].expires {
            return self.remove(links, gone);
        }
        self.remove(links, kept);
        let before = links.0[gone.index()].before;
        links.0[kept.index()] = Link { before, behind: gone.0, expires };
        links.0[gone.index()].before = kept.0;
        *self.behind(links, before) = kept.0;
        self.remove(links, gone);
    }
}

/// Waiting requests in the order in which they came, with links of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByArrival {
    links: Links,
    ends: Ends,
}

impl ByArrival {
    /// A request comes, and expires at an instant.
    pub(crate) fn push(&mut self, id: RequestId, expires: Nanos) {
        self.ends.push(&mut self.links, id, expires);
    }

    /// Takes a request out, which is in it.
    pub(crate) fn remove(&mut self, id: RequestId) {
        self.ends.remove(&mut self.links, id);
    }

    /// The one that has waited longest, and when it expires.
    pub(crate) fn oldest(&self) -> Option<(RequestId, Nanos)> {
        self.ends.oldest(&self.links)
    }

    /// A request is about to become a part of another: the one that is left has the place of the one that expires first.
    pub(crate) fn join(&mut self, kept: RequestId, gone: RequestId) {
        self.ends.join(&mut self.links, kept, gone);
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.first == NONE
    }
}
