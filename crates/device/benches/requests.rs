//! Requests of each model in a second.

fn main() {}
