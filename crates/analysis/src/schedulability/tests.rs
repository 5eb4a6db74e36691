//! Each test of schedulability against its twin that simulates unit by unit, and against published sets.

mod acceptance;
mod dependent;
mod fixed;
pub(crate) mod generate;
mod global;
mod oracles;
mod orders;
mod partition;
mod picture;
mod published;
mod servers;
mod twin;
mod uniprocessor;
