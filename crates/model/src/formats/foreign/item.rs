//! [`Item`]: a value of a file with its place, whichever syntax it was written in.

use std::ops::Range;

/// Values inside each other, at most.
pub(super) const DEPTH_MAX: usize = 32;

/// What a file has behind a key, or in a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Object(Vec<Member>),
    Array(Vec<Item>),
    Text(String),
    /// As it is written.
    Number(String),
    Boolean(bool),
    Null,
    /// A key that stands alone.
    Omitted,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) value: Value,
    pub(super) span: Range<usize>,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) key: String,
    /// That of the key.
    pub(super) span: Range<usize>,
    pub(super) item: Item,
}
