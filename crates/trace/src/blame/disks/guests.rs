//! [`Guests`]: disks of guests, and which request of the host's disk served a guest's.
//!
//! A guest's disk is a piece of its host's ([`GuestDisk`]). What the host's process queues after the guest's driver has issued a request,
//! inside that request's sectors on the host's disk, is for it; of a flush what that process has flushed. The last of these to be
//! complete is the one that the guest's request waited for.

use surety_model::event::{Comm, GuestDisk};

use super::account::LOOKED_AT;
use super::{DISKS_MAX, Disk, Kind, Place, Submitter, Way};

/// Where a guest's disk lies.
#[derive(Clone, Copy, Debug)]
struct Guest {
    disk: usize,
    host: usize,
    /// On the host's disk.
    first: u64,
    sectors: u64,
    /// The name of the host's process.
    process: Comm,
}

/// The disks of guests that the trace names.
#[derive(Clone, Debug, Default)]
pub(super) struct Guests(Vec<Guest>);

impl Guests {
    /// The trace says where a guest's disk lies.
    pub(super) fn add(&mut self, disk: usize, host: usize, told: &GuestDisk) {
        self.0.retain(|guest| guest.disk != disk);
        if disk != host && self.0.len() < DISKS_MAX {
            let GuestDisk { first, sectors, process, .. } = *told;
            self.0.push(Guest { disk, host, first, sectors, process });
        }
    }

    /// A bio of a disk is complete: where that is a host's, the guest's request that it was for has come so far.
    pub(super) fn carried(&self, disks: &mut [Disk], (sector, kind): Place, by: &Submitter, way: Way) {
        let found = self.0.iter().find(|guest| {
            let is_inside = sector >= guest.first && sector - guest.first < guest.sectors;
            guest.host == way.disk && by.comm == guest.process && (is_inside || kind == Kind::Flush)
        });
        let Some(guest) = found else { return };
        let sector = if kind == Kind::Flush { 0 } else { sector - guest.first };
        let before = disks[guest.disk].flying.range_mut(..=(sector, kind)).rev();
        let mut near = before.filter(|(place, _)| place.1 == kind).take(LOOKED_AT);
        let is_of = |issued, end| issued <= way.queued && (sector < end || kind == Kind::Flush);
        if let Some((_, flying)) = near.find(|(_, flying)| is_of(flying.issued, flying.end)) {
            flying.host = Some(way);
        }
    }
}
