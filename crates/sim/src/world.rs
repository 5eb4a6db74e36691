//! x
/// x
#[derive(Debug)]
pub struct SimWorld;
/// x
#[derive(Debug)]
pub struct TickPhase;
