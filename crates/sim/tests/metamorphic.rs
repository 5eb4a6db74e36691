//! What changes nothing of a run, or changes it in a way that is known beforehand, for drawn workloads.

mod common;

use common::drawn::{Told, drawn};
use common::ms;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The first half of a run is the run of half the length, event by event.
    #[test]
    fn a_run_is_the_beginning_of_every_longer_one(set in drawn(1..7), length in 20i64..250) {
        let (mut short, mut long) = (Told::default(), Told::default());
        let run = set.run(ms(length), &mut short);
        prop_assert!(run.is_ok(), "{:?}\n{}", run.err(), set.text());
        prop_assert!(set.run(ms(2 * length), &mut long).is_ok());
        let common = long.0.partition_point(|(time, _)| *time <= ms(length));
        let differs = short.0.iter().zip(&long.0[..common]).position(|(a, b)| a != b);
        if let Some(place) = differs {
            prop_assert!(false, "{:?} in the short run, {:?} in the long one\n{}", short.0[place], long.0[place], set.text());
        }
        prop_assert_eq!(short.0.len(), common, "one run says more\n{}", set.text());
    }
}
