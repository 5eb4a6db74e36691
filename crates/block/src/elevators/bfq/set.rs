//! [`Set`]: the tunables of a queue.

use surety_units::Nanos;

use crate::elevator::Making;
use crate::tick::Tick;

/// What is set.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub slice_idle: Nanos,
    pub fifo_expire: [Nanos; 2],
    pub timeout: Nanos,
    pub max_budget: u64,
    pub back_max: u64,
    pub back_penalty: u64,
    pub low_latency: bool,
    pub strict: bool,
    pub interactive: bool,
    pub soft: bool,
    pub bursts: bool,
    pub idling: bool,
    pub injection: bool,
    pub wakers: bool,
    pub merging: bool,
    pub feedback: bool,
    pub charge_time: bool,
    pub groups: bool,
}

impl Set {
    pub(super) fn of(making: &Making) -> Set {
        let get = |name| making.settings.get(name);
        let on = |name| making.settings.is_on(name);
        let ms = |name| making.settings.millis(name);
        let tick = Tick::at(making.hz);
        Set {
            slice_idle: ms("slice_idle"),
            fifo_expire: [ms("fifo_expire_async"), ms("fifo_expire_sync")],
            // HZ/8 in whole ticks: 124 ms at 250 a second.
            timeout: tick.before(ms("timeout_sync")).max(tick.of(1)),
            max_budget: get("max_budget"),
            back_max: get("back_seek_max") * 2,
            back_penalty: get("back_seek_penalty"),
            low_latency: on("low_latency"),
            strict: on("strict_guarantees"),
            interactive: on("wr_interactive"),
            soft: on("wr_soft_rt"),
            bursts: on("bursts"),
            idling: on("idling"),
            injection: on("injection"),
            wakers: on("wakers"),
            merging: on("merging"),
            feedback: on("feedback"),
            charge_time: on("charge_time"),
            groups: on("groups"),
        }
    }
}
