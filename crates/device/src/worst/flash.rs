//! The longest that flash takes for reads.
//!
//! A read of `p` pages takes a die for `ceil(p / dies)` of them and a channel for `ceil(p / channels)`, for its pages lie on the dies in turn. Controller,
//! die, channel and link are passed in this order, each in the order of coming: requests that are inside at once are through each of them when all
//! before it was and its work for all of them is done, so the times of all may be added, resource by resource.
//!
//! What writes take has no bound: before a page can be programmed as many pages are copied as a cleaned block has valid ones, which is chance, and a
//! block of valid pages alone gives none back.

use super::{Asked, Cost, Held, Worst};
use crate::fixed::transfer;
use crate::flash::Parameters;
use crate::model::SECTOR;

pub(super) fn worst(parameters: &Parameters, asked: &Asked) -> Result<Worst, String> {
    if asked.writes.is_some() {
        return Err(
            "how long flash takes to clean blocks for what is written has no bound: it depends on how many of their pages \
                    are valid; leave nothing on it that writes, or ask for no guarantee"
                .to_owned(),
        );
    }
    let page = f64::from(parameters.page_sectors);
    let channels = f64::from(parameters.channels);
    let dies = channels * f64::from(parameters.dies_per_channel);
    let ns = |bytes: u64, rate| transfer(bytes, rate).get() as f64;
    let moved = ns(u64::from(parameters.page_sectors) * SECTOR, parameters.channel);
    // Emptying fast cells: a step of it that is under way, or the pause that interrupts it.
    let folds = parameters.fast.map_or(0.0, |_| {
        (parameters.read + parameters.program).get() as f64
            + parameters.suspend.map_or(0.0, |pause| pause.get() as f64)
    });
    let read = parameters.read.get() as f64 + folds;
    // n sectors lie on n / page + 2 pages at most, of which one resource has its share rounded up.
    let of = |servers: f64, time: f64| (time * (1.0 + 2.0 / servers), time / (page * servers));
    let (die, die_sector) = of(dies, read);
    let (channel, channel_sector) = of(channels, moved);
    // The rounding of each page's transfers, too.
    let link = ns(1 << 30, parameters.link) / f64::from(1u32 << 21) + 1.0;
    let own = (parameters.command + parameters.latency + parameters.frame).get() as f64;
    let read = Cost::new(own + die + channel + 2.0, die_sector + channel_sector + link);
    Ok(Worst { read, write: read, flush: parameters.flush, held: Held::default() })
}
