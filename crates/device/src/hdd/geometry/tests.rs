//! Known answers of the layout, reckoned by hand from its rules, and laws of every layout.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn zone(cylinders: Range<u32>, spt: u32, spares: u64, slips: &[u64]) -> Zone {
    Zone { spares, slips: slips.to_vec(), ..Zone::plain(cylinders, spt, 2.0, 3.0) }
}

fn sectors(tracks: u32) -> Sparing {
    Sparing::Sectors { tracks, moves_skew: false }
}

/// A layout, a sector, and its cylinder, head, angle, run and span.
type Case = (HeadOrder, Sparing, Vec<Zone>, u64, (u32, u32, f64, u64, u64));

/// Two heads, ten sectors on a track, skews of two and three sectors. Each case: layout, sector, and its cylinder, head, angle,
/// run and span.
#[test]
fn known_places() {
    let same = HeadOrder::Same;
    let plain = || vec![zone(0..4, 10, 0, &[])];
    let cases: Vec<Case> = vec![
        (same, Sparing::None, plain(), 0, (0, 0, 0.0, 10, 10)),
        (same, Sparing::None, plain(), 7, (0, 0, 7.0, 3, 3)),
        // Another head: the skew of a track.
        (same, Sparing::None, plain(), 10, (0, 1, 2.0, 10, 10)),
        // The next cylinder: one switch of heads before it, and the skew of a cylinder.
        (same, Sparing::None, plain(), 20, (1, 0, 5.0, 10, 10)),
        // Third cylinder, second head: 2 * 3 + 3 * 2, and 9 more, around the track.
        (same, Sparing::None, plain(), 59, (2, 1, 1.0, 1, 1)),
        // On every second cylinder the heads are turned around.
        (HeadOrder::Alternating, Sparing::None, plain(), 20, (1, 1, 5.0, 10, 10)),
        // A spare sector at the end of each track: nine on each, the tenth logical one is the first of the next track.
        (same, sectors(1), vec![zone(0..4, 10, 1, &[])], 9, (0, 1, 2.0, 9, 9)),
        // A spare at the end of each cylinder, and sector 3 of the first cylinder is skipped.
        (same, sectors(2), vec![zone(0..4, 10, 1, &[3])], 2, (0, 0, 2.0, 8 - 1, 8)),
        (same, sectors(2), vec![zone(0..4, 10, 1, &[3])], 3, (0, 0, 4.0, 6, 6)),
        (same, sectors(2), vec![zone(0..4, 10, 1, &[3])], 19, (1, 0, 5.0, 10, 10)),
        // Spares of the whole zone: a skipped sector moves all after it.
        (same, sectors(0), vec![zone(0..4, 10, 2, &[3, 25])], 24, (1, 0, 5.0 + 6.0 - 10.0, 4, 4)),
        // Spare tracks, the first track skipped.
        (same, Sparing::Tracks, vec![zone(0..4, 10, 1, &[0])], 0, (0, 1, 2.0, 10, 10)),
        // A second zone with other tracks begins its angles anew.
        (same, Sparing::None, vec![zone(0..2, 10, 0, &[]), zone(3..5, 8, 0, &[])], 48, (3, 1, 2.0, 8, 8)),
    ];
    for (order, sparing, zones, sector, (cylinder, head, angle, run, span)) in cases {
        let geometry = Geometry::new(2, order, sparing, zones.clone()).unwrap();
        let place = geometry.place(sector);
        let found = (place.cylinder, place.head, place.angle, place.run, place.span);
        assert_eq!(found, (cylinder, head, angle, run, span), "{order:?} {sparing:?} {zones:?} {sector}");
    }
}

#[test]
fn capacities_leave_spares_and_reserved_sectors_out() {
    let reserved = Zone { reserved: 5, ..zone(0..4, 10, 1, &[]) };
    for (sparing, zone, expected) in [
        (Sparing::None, reserved.clone(), 75),
        (Sparing::Tracks, reserved.clone(), 65),
        (sectors(1), reserved.clone(), 67),
        (sectors(2), reserved.clone(), 71),
        // Ranges of three cylinders: one is whole, the fourth cylinder has no spares.
        (sectors(6), reserved.clone(), 74),
        (sectors(0), reserved, 74),
    ] {
        assert_eq!(Geometry::new(2, HeadOrder::Same, sparing, vec![zone]).unwrap().sectors(), expected);
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_zone() {
    let plain = zone(0..4, 10, 0, &[]);
    let overlapping = vec![plain.clone(), zone(3..5, 10, 0, &[])];
    for (zones, number, word) in [
        (overlapping, 1, "not after"),
        (vec![zone(0..4, 0, 0, &[])], 0, "not between 1 and 65536 sectors"),
        (vec![Zone { reserved: 80, ..plain.clone() }], 0, "nothing is left"),
        (vec![plain.clone(), zone(4..5, 10, 0, &[99])], 1, "skips sector 99"),
        (vec![plain, zone(4..5, 10, 0, &[3])], 1, "skips 1 sectors and has 0"),
    ] {
        let (found, words) = Geometry::new(2, HeadOrder::Same, Sparing::None, zones).unwrap_err();
        assert!(found == number && words.contains(word), "{found} {words}");
    }
    let large = vec![zone(0..16_000_000, 65_536, 0, &[])];
    let too_large = Geometry::new(255, HeadOrder::Same, Sparing::None, large).unwrap_err();
    assert!(too_large.0 == 0 && too_large.1.contains("of at most 2199023255552 (1 PiB)"), "{too_large:?}");
    let all_spare = Geometry::new(2, HeadOrder::Same, sectors(1), vec![zone(0..4, 10, 10, &[])]);
    assert!(all_spare.unwrap_err().1.contains("spare"));
}

fn any_layout() -> impl Strategy<Value = Geometry> {
    let slips = proptest::collection::btree_set(0u64..60, 0..4);
    let zones = proptest::collection::vec((1u32..5, 3u32..12, slips), 1..3);
    let order =
        prop_oneof![Just(HeadOrder::Same), Just(HeadOrder::Alternating), Just(HeadOrder::AlternatingOverall)];
    (1u32..4, order, 0usize..6, zones).prop_filter_map("a layout", |(heads, order, scheme, zones)| {
        let sparing =
            [Sparing::None, Sparing::Tracks, sectors(1), sectors(heads), sectors(heads * 2), sectors(0)]
                [scheme];
        let mut first = 0;
        let zones = zones.into_iter().map(|(cylinders, spt, slips)| {
            // As many spares as can be skipped, so that nothing slips out of its region.
            let spares = if matches!(sparing, Sparing::None) { 0 } else { slips.len() as u64 };
            let slips = if spares == 0 { Vec::new() } else { slips.into_iter().collect() };
            first += cylinders;
            Zone { spares, slips, ..Zone::plain(first - cylinders..first, spt, 1.0, 2.0) }
        });
        let zones: Vec<Zone> = zones.collect();
        let tracks = matches!(sparing, Sparing::Tracks | Sparing::Sectors { tracks: 1, .. });
        // Slips of tracks are numbers of tracks; keep those out of the way of a zone's few.
        if tracks && zones.iter().any(|zone| !zone.slips.is_empty()) {
            return None;
        }
        Geometry::new(heads, order, sparing, zones).ok()
    })
}

proptest! {
    #[test]
    fn a_floor_is_that_of_libm(whole in -(1_i64 << 50)..1 << 50, part in -2.0..2.0, shift in 0u32..50) {
        for number in [whole as f64, (whole >> shift) as f64 + part, part, -part / 1e9, 0.5, -0.5, 1.0 - f64::EPSILON] {
            prop_assert_eq!(floor(number), libm::floor(number), "{}", number);
        }
    }

    /// No two sectors are at one place, and what `run` says goes on is on the same track, one sector later each.
    #[test]
    fn every_sector_has_its_own_place_and_runs_are_of_one_track(geometry in any_layout()) {
        let mut places = BTreeSet::new();
        for sector in 0..geometry.sectors() {
            let place = geometry.place(sector);
            prop_assert!(place.run >= 1 && place.span >= place.run);
            prop_assert!(0.0 <= place.angle && place.angle < f64::from(place.sectors_per_track));
            prop_assert!(places.insert((place.cylinder, place.head, (place.angle * 16.0) as u64)));
            if place.run > 1 {
                let next = geometry.place(sector + 1);
                prop_assert_eq!((next.cylinder, next.head), (place.cylinder, place.head));
                prop_assert_eq!(next.run, place.run - 1);
                prop_assert_eq!(next.before, place.before + 1);
            }
        }
    }
}
