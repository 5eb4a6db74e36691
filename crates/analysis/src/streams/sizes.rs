//! Batches that are tried, and what streams leave to best effort.

use surety_units::Rate;

use super::{DiskTerms, PAGE, SHARE, StreamDemand};

/// Up to here every multiple of a page is tried, and up to the second every multiple of sixteen pages.
const FINE: u64 = 1 << 20;
const LARGEST: u64 = 16 << 20;

/// Which batches are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    All,
    /// Of these about four for each doubling: what is admitted with one of them is admitted with all.
    Few,
}

/// Batches to try where any is to be chosen, the smallest first; one that nobody looks at where none is.
pub(super) fn candidates(demands: &[StreamDemand], sizes: Sizes) -> Box<dyn Iterator<Item = u64>> {
    if demands.iter().all(|demand| demand.batch.is_some()) {
        return Box::new(std::iter::once(PAGE));
    }
    if sizes == Sizes::Few {
        let doublings = (0..=(LARGEST / PAGE).ilog2()).map(|power| PAGE << power);
        // Of less than four pages no quarter is one; above `FINE` quarters are multiples of sixteen pages.
        let quarters = doublings.flat_map(|size| (4..8).map(move |part| size / 4 * part));
        return Box::new(quarters.filter(|size| size.is_multiple_of(PAGE) && *size <= LARGEST));
    }
    let fine = (1..=FINE / PAGE).map(|pages| pages * PAGE);
    let coarse = (FINE / (16 * PAGE) + 1..=LARGEST / (16 * PAGE)).map(|count| count * 16 * PAGE);
    Box::new(fine.chain(coarse))
}

/// What a disk has left for best effort in the long run, when streams take a share: in its longest requests, each as slow as it may be.
pub(super) fn left(disk: &DiskTerms, share: u64) -> Rate {
    if disk.beside_bytes == 0 {
        return Rate(0);
    }
    let each = u128::from(disk.beside().get_unsigned().max(1));
    let time = u128::from((1u64 << SHARE).saturating_sub(share));
    let rate = u128::from(disk.beside_bytes) * 1_000_000_000 * time / (each << SHARE);
    Rate(u64::try_from(rate).unwrap_or(u64::MAX))
}
