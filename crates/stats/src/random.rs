//! [`Pcg`]: seeded chance, the same on every machine and independent for every job.
//!
//! The generator is PCG XSL RR 128/64 of M. E. O'Neill, "PCG: a family of simple fast space-efficient
//! statistically good algorithms for random number generation" (Harvey Mudd College, HMC-CS-2014-0905, 2014):
//! a 128-bit linear congruence `s <- M s + c mod 2^128` whose halves are xor-ed together and rotated by its
//! own top six bits.
//!
//! A simulation must not depend on the order in which its jobs happen: job `k` of task `i` draws the same
//! work in every world. So there is no shared generator. [`Pcg::for_job`] hashes seed, stream and job number
//! into the state and the increment of a generator for that job alone, with the finalizer of SplitMix64
//! (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; constants by D.
//! Stafford, variant 13).

use crate::special::normal_quantile;

/// The multiplier of the 128-bit congruence, from the PCG paper (L'Ecuyer 1999).
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// A PCG XSL RR 128/64 generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pcg {
    state: u128,
    increment: u128,
}

impl Pcg {
    /// A generator as the reference implementation seeds it: `stream` selects one of 2^127 sequences.
    pub fn new(state: u128, stream: u128) -> Pcg {
        let mut pcg = Pcg { state: 0, increment: (stream << 1) | 1 };
        pcg.step();
        pcg.state = pcg.state.wrapping_add(state);
        pcg.step();
        pcg
    }

    /// The generator of one job: independent of the one of every other seed, stream or job.
    ///
    /// `stream` is the task, usually [`stream_of`] its name; what the generator gives never changes between
    /// releases.
    pub fn for_job(seed: u64, stream: u64, job: u64) -> Pcg {
        // Two lanes with different beginnings absorb the same three words: 128 bits in which a collision is
        // not met.
        let lane = |start: u64| {
            [seed, stream, job].iter().fold(start, |h, &word| mix(h.wrapping_add(GOLDEN) ^ mix(word)))
        };
        let (a, b) = (lane(0x243f_6a88_85a3_08d3), lane(0x1319_8a2e_0370_7344));
        let wide = |salt: u64| {
            let high = mix(a.wrapping_add(salt));
            let low = mix(b.wrapping_add(salt) ^ high);
            u128::from(high) << 64 | u128::from(low)
        };
        Pcg::new(wide(GOLDEN), wide(GOLDEN.wrapping_mul(2)))
    }

    #[inline]
    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// Uniform between 0 and 1, never either of them: an odd multiple of 2^-53, so its logarithm and its
    /// complement's are finite and the mean is exactly one half.
    #[inline]
    pub fn unit_open(&mut self) -> f64 {
        // Below 2^53 every integer is a float. Adding a half instead of the last bit would round the largest
        // up to 1.
        ((self.next_u64() >> 11) | 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform among `0..n`, without bias (D. Lemire, "Fast random integer generation in an interval", 2019).
    ///
    /// Panics when `n` is 0: there is nothing to choose from.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below 0 to choose");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let fraction = product as u64;
            // Of the 2^64 draws, 2^64 mod n are one too many; they are those with the smallest fractions.
            if fraction >= n || fraction >= n.wrapping_neg() % n {
                return (product >> 64) as u64;
            }
        }
    }

    /// A standard normal value, by inversion: one draw each, between -8.3 and 8.3.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        normal_quantile(self.unit_open())
    }
}

/// 2^64 divided by the golden ratio, the increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64: a bijection in which every input bit changes every output bit half of the
/// time.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The stream of a name: its 64-bit FNV-1a hash (Fowler, Noll and Vo; RFC 9923), the same for ever.
pub fn stream_of(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::{autocorrelation, ks_p_value, ks_statistic};
    use crate::special::normal_cdf;
    use proptest::prelude::*;

    /// The first outputs of the reference C implementation's `pcg64` demonstration, seeded with 42 and 54.
    #[test]
    fn the_reference_sequence() {
        let mut pcg = Pcg::new(42, 54);
        for expected in [
            0x86b1_da1d_7206_2b68,
            0x1304_aa46_c985_3d39,
            0xa367_0e9e_0dd5_0358,
            0xf909_0e52_9a7d_ae00,
            0xc85b_9fd8_3799_6f2c,
            0x6061_21f8_e391_9196,
        ] {
            assert_eq!(pcg.next_u64(), expected);
        }
    }

    /// The finalizer over multiples of the golden increment is SplitMix64 itself, whose output from seed
    /// 1234567 is a widely published test vector.
    #[test]
    fn the_finalizer_is_splitmix64() {
        let outputs: Vec<u64> =
            (1..=3u64).map(|i| mix(GOLDEN.wrapping_mul(i).wrapping_add(1_234_567))).collect();
        assert_eq!(
            outputs,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    /// Test vectors from the authors of FNV.
    #[test]
    fn names_hash_as_published() {
        for (name, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(stream_of(name), hash, "{name}");
        }
    }

    /// Recorded simulations depend on these numbers: changing them changes every result ever published.
    #[test]
    fn job_generators_never_change() {
        let mut pcg = Pcg::for_job(1, stream_of("player"), 0);
        let drawn = (pcg.next_u64(), pcg.unit_open().to_bits(), pcg.below(1000), pcg.normal().to_bits());
        assert_eq!(
            drawn,
            (15_576_451_258_395_636_564, 4_598_960_127_967_386_182, 414, 4_606_284_561_285_521_077)
        );
    }

    #[test]
    fn the_ends_of_the_unit_interval_are_never_reached() {
        for bits in [0u64, u64::MAX] {
            let unit = ((bits >> 11) | 1) as f64 * (1.0 / (1u64 << 53) as f64);
            assert!(0.0 < unit && unit < 1.0, "{unit}");
            assert!(normal_quantile(unit).is_finite());
        }
    }

    /// One value from each job of a task must be as random as many from one generator; likewise over streams
    /// and seeds.
    #[test]
    fn first_values_over_jobs_streams_and_seeds_are_independent_and_uniform() {
        let n = 20_000u64;
        for (place, name) in ["seeds", "streams", "jobs"].into_iter().enumerate() {
            let first_value = |i| {
                let mut words = [1, 2, 3];
                words[place] = i;
                Pcg::for_job(words[0], words[1], words[2]).normal()
            };
            let mut values: Vec<f64> = (0..n).map(first_value).collect();
            let r = autocorrelation(&values, 1).unwrap();
            assert!(r.abs() < 4.0 / (n as f64).sqrt(), "{name}: {r}");
            values.sort_by(f64::total_cmp);
            let p = ks_p_value(ks_statistic(&values, normal_cdf).unwrap(), n);
            assert!(p > 1e-4, "{name}: {p}");
        }
    }

    #[test]
    fn bounded_draws_are_uniform() {
        let mut pcg = Pcg::new(7, 7);
        let mut counts = [0u32; 6];
        (0..60_000).for_each(|_| counts[pcg.below(6) as usize] += 1);
        // Chi square with 5 degrees of freedom exceeds 25.7 once in 10 000.
        let chi_square: f64 = counts.iter().map(|&c| (f64::from(c) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi_square < 25.7, "{counts:?}");
        // Three quarters of 2^64: without rejection the lower half of the range would come up twice as often.
        let n = 3 << 62;
        let low = (0..30_000).filter(|_| pcg.below(n) < n / 3).count();
        assert!((9_600..10_400).contains(&low), "{low}");
    }

    proptest! {
        #[test]
        fn draws_stay_in_their_range(seed: u64, stream: u64, job: u64, n in 1u64..) {
            let mut pcg = Pcg::for_job(seed, stream, job);
            prop_assert!(pcg.below(n) < n);
            let unit = pcg.unit_open();
            prop_assert!(0.0 < unit && unit < 1.0);
        }

        #[test]
        fn the_order_of_the_words_matters(a: u64, b: u64) {
            prop_assume!(a != b);
            prop_assert_ne!(Pcg::for_job(a, b, 0), Pcg::for_job(b, a, 0));
            prop_assert_ne!(Pcg::for_job(0, a, b), Pcg::for_job(0, b, a));
        }
    }
}
