//! Inter-packet times: how far apart packets are that were sent at a fixed distance, wherever they are seen.

use surety_units::Nanos;

use crate::record::Observed;

/// The series of the sender's own stamps, taken right before each packet is handed to the kernel.
pub const SENT: &str = "sent";
/// The series of the receiver's own stamps, taken right after each packet was returned to it.
pub const RECEIVED: &str = "received";
/// The series of the kernel's event of each packet that the far device took.
pub const TRACED: &str = "traced";
/// The series of the kernel's event of the poll that took each packet from the far device, at the poll's end.
pub const POLLED: &str = "polled";

/// The figure of the CPU time that the threads of a card's interrupt took for a packet, on average.
pub const HANDLED: &str = "execution of the interrupt threads";

/// The times between neighbouring stamps.
///
/// Stamps before `observe` do not count. A stamp before its predecessor gives 0.
pub fn between(stamps: &[Nanos], observe: Nanos) -> Observed {
    let mut observed = Observed::default();
    let mut counted = stamps.iter().filter(|stamp| **stamp >= observe);
    let Some(mut last) = counted.next() else { return observed };
    for stamp in counted {
        observed.record(*stamp - *last);
        last = stamp;
    }
    observed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_stamps_have_n_minus_one_distances_and_their_mean_is_that_of_the_ends() {
        let stamps: Vec<Nanos> = [5, 10, 21, 30, 50].into_iter().map(Nanos::from_millis).collect();
        let seen = between(&stamps, Nanos::from_millis(10));
        assert_eq!(seen.moments.count(), 3);
        let mean = seen.moments.mean().unwrap();
        assert!((mean - 40e6 / 3.0).abs() < 1e-3, "{mean}");
        assert_eq!(between(&stamps[..1], Nanos::ZERO).moments.count(), 0);
        assert_eq!(between(&[], Nanos::ZERO).moments.count(), 0);
    }
}
