//! A plan put in force: every change journalled before it is made, read back after it, and undone at the end.
//!
//! Threads of our own process need no journal: they, and with them their policies, are gone when the process is.
//! Everybody else's are written down first, so that even `kill -9` is undone at the next start.

#![forbid(unsafe_code)]

mod attributes;
mod enforcer;
mod groups;
mod inspector;
mod order;
mod own_domain;
mod plan;

pub use attributes::{attr_of_policy, attr_of_reservation, describe};
pub use enforcer::{EnforceError, Enforcer, Owner, verify_scheduler};
pub use groups::{ControlGroups, Entered, GroupError, GroupSeats};
pub use inspector::{INSPECTED_EVERY, Inspector, Place, Post, ThreadState};
pub use order::{Wanted, enforce_all};
pub use own_domain::{DomainError, OwnDomain};
pub use plan::{Applied, Binding, put_in_force};
