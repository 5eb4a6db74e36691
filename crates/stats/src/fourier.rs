//! [`RealFft`]: the discrete Fourier transform of real sequences whose length is a power of two.
//!
//! Cooley and Tukey's algorithm (Mathematics of Computation 19, 1965), two binary stages at a time:
//! decimation in frequency forwards, in time backwards. The spectrum is left in bit-reversed order, since
//! whoever multiplies spectra or maps them point by point does not need another, and the permutation would cost
//! as much as a stage. A real sequence of N is transformed as a complex one of N/2 (evens and odds as real and
//! imaginary parts).
//!
//! Roots of unity come from the pure-Rust `libm`, so results are the same bits on every machine.
//!
//! *Rounding.* For transforms with exactly rounded roots the largest error of a cyclic convolution computed by
//! three of them is at most `(3 n (1 + √5) + 3 n + √5) u |x| |y|`, about `13 n u |x| |y|`, with `n = log2 N`, `u
//! = 2^-53` and Euclidean norms (C. Percival, "Rapid multiplication modulo the sum and difference of highly
//! composite numbers", Mathematics of Computation 72, 2003, theorem 5.1): [`convolution_error`].

/// Plans the transforms of one length; holds the roots, allocates nothing afterwards.
#[derive(Clone, Debug)]
pub struct RealFft {
    len: usize,
    /// For each pass over quarters, longest first: `w^j`, `w^2j`, `w^3j` interleaved as six runs of the
    /// quarter's length (re, im each).
    roots: Vec<Vec<f64>>,
    /// `exp(-2πi k / len)` in the order of the spectrum.
    turns: Turns,
}

#[derive(Clone, Debug)]
struct Turns {
    re: Vec<f64>,
    im: Vec<f64>,
}

/// The values of a transform at the frequencies `0 ..= len/2`, in bit-reversed order.
///
/// Place 0 holds the two real values at frequencies 0 (in `re`) and `len/2` (in `im`).
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    re: Vec<f64>,
    im: Vec<f64>,
}

/// A bound of every error of a cyclic convolution by transforms of this length; `left` and `right` are the
/// Euclidean norms of what is convolved.
pub fn convolution_error(len: usize, left: f64, right: f64) -> f64 {
    let stages = f64::from(len.max(2).ilog2());
    // 13 and a little, for the packing of reals.
    16.0 * stages * (f64::EPSILON / 2.0) * left * right
}

/// `exp(-2πi k / n)`, exact at the quarters.
fn root(k: usize, n: usize) -> (f64, f64) {
    // Reduced to an eighth of the circle, where sine and cosine keep all their digits.
    let k = k % n;
    let eighth = (8 * k) / n;
    let angle = |k: f64| 2.0 * std::f64::consts::PI * (k / n as f64);
    let (k, n4) = (k as f64, n as f64 / 4.0);
    let (cos, sin) = match eighth {
        0 => (libm::cos(angle(k)), libm::sin(angle(k))),
        1 | 2 => (-libm::sin(angle(k - n4)), libm::cos(angle(k - n4))),
        3 | 4 => (-libm::cos(angle(k - 2.0 * n4)), -libm::sin(angle(k - 2.0 * n4))),
        5 | 6 => (libm::sin(angle(k - 3.0 * n4)), -libm::cos(angle(k - 3.0 * n4))),
        _ => (libm::cos(angle(k - 4.0 * n4)), libm::sin(angle(k - 4.0 * n4))),
    };
    (cos, -sin)
}

impl RealFft {
    /// A plan for sequences of `len` numbers.
    ///
    /// # Panics
    /// Unless `len` is a power of two and at least 4.
    pub fn new(len: usize) -> RealFft {
        assert!(len.is_power_of_two() && len >= 4, "a length is a power of two from 4 on, not {len}");
        let half = len / 2;
        let mut roots = Vec::new();
        let mut span = half;
        while span >= 4 {
            let quarter = span / 4;
            let mut run = vec![0.0; 6 * quarter];
            for j in 0..quarter {
                for (power, place) in [(1, 0), (2, 2), (3, 4)] {
                    let (re, im) = root(power * j, span);
                    run[place * quarter + j] = re;
                    run[(place + 1) * quarter + j] = im;
                }
            }
            roots.push(run);
            span = quarter;
        }
        let bits = half.ilog2();
        let (mut re, mut im) = (Vec::with_capacity(half), Vec::with_capacity(half));
        for place in 0..half {
            let (cos, sin) = root(reversed(place, bits), len);
            re.push(cos);
            im.push(sin);
        }
        RealFft { len, roots, turns: Turns { re, im } }
    }

    /// The length of the sequences.
    pub fn sequence_len(&self) -> usize {
        self.len
    }

    /// An empty spectrum to transform into.
    pub fn spectrum(&self) -> Spectrum {
        Spectrum { re: vec![0.0; self.len / 2], im: vec![0.0; self.len / 2] }
    }

    /// `X(k) = sum_j x(j) exp(-2πi jk / N)`.
    ///
    /// # Panics
    /// When the sequence or the spectrum has another length.
    pub fn forward(&self, sequence: &[f64], into: &mut Spectrum) {
        self.check(sequence, into);
        for (pair, (re, im)) in sequence.as_chunks::<2>().0.iter().zip(into.re.iter_mut().zip(&mut into.im)) {
            (*re, *im) = (pair[0], pair[1]);
        }
        self.pass_down(&mut into.re, &mut into.im);
        self.unpack(into);
    }

    /// The sequence of a spectrum, which is used up as working space.
    ///
    /// # Panics
    /// When the sequence or the spectrum has another length.
    pub fn inverse(&self, from: &mut Spectrum, sequence: &mut [f64]) {
        self.check(sequence, from);
        self.pack(from);
        self.pass_up(&mut from.re, &mut from.im);
        let scale = 1.0 / (self.len / 2) as f64;
        for (pair, (re, im)) in sequence.as_chunks_mut::<2>().0.iter_mut().zip(from.re.iter().zip(&from.im)) {
            *pair = [re * scale, im * scale];
        }
    }

    fn check(&self, sequence: &[f64], spectrum: &Spectrum) {
        assert_eq!(sequence.len(), self.len, "the plan is for sequences of {}", self.len);
        assert_eq!(spectrum.re.len(), self.len / 2, "the plan is for spectra of {}", self.len / 2);
    }

    /// Complex transform, natural order in, bit-reversed order out.
    fn pass_down(&self, re: &mut [f64], im: &mut [f64]) {
        let mut span = re.len();
        for roots in &self.roots {
            for (re, im) in re.chunks_exact_mut(span).zip(im.chunks_exact_mut(span)) {
                quarters_down(re, im, roots);
            }
            span /= 4;
        }
        if span == 2 {
            halves(re, im);
        }
    }

    /// The way back, without the division by the length.
    fn pass_up(&self, re: &mut [f64], im: &mut [f64]) {
        let mut span = if re.len().ilog2().is_multiple_of(2) { 1 } else { 2 };
        if span == 2 {
            halves(re, im);
        }
        for roots in self.roots.iter().rev() {
            span *= 4;
            for (re, im) in re.chunks_exact_mut(span).zip(im.chunks_exact_mut(span)) {
                quarters_up(re, im, roots);
            }
        }
    }

    /// From the transform of evens + i odds to that of the real sequence.
    fn unpack(&self, s: &mut Spectrum) {
        (s.re[0], s.im[0]) = (s.re[0] + s.im[0], s.re[0] - s.im[0]);
        self.pairs(s, |(zr, zi), (yr, yi), (cos, sin)| {
            // E = (Z(k) + conj Z(-k)) / 2, O = (Z(k) - conj Z(-k)) / 2i, X(k) = E + w O, X(-k) = conj(E - w O).
            let (er, ei) = ((zr + yr) / 2.0, (zi - yi) / 2.0);
            let (or, oi) = ((zi + yi) / 2.0, (yr - zr) / 2.0);
            let (wr, wi) = (cos * or - sin * oi, cos * oi + sin * or);
            ((er + wr, ei + wi), (er - wr, wi - ei))
        });
    }

    fn pack(&self, s: &mut Spectrum) {
        (s.re[0], s.im[0]) = ((s.re[0] + s.im[0]) / 2.0, (s.re[0] - s.im[0]) / 2.0);
        self.pairs(s, |(xr, xi), (yr, yi), (cos, sin)| {
            let (er, ei) = ((xr + yr) / 2.0, (xi - yi) / 2.0);
            let (dr, di) = ((xr - yr) / 2.0, (xi + yi) / 2.0);
            let (or, oi) = (cos * dr + sin * di, cos * di - sin * dr);
            ((er - oi, ei + or), (er + oi, or - ei))
        });
    }

    /// Visits the frequencies k and N/2 - k together: in bit-reversed order they mirror each other within
    /// each run from a power of two to the next.
    fn pairs(
        &self,
        s: &mut Spectrum,
        each: impl Fn((f64, f64), (f64, f64), (f64, f64)) -> ((f64, f64), (f64, f64)),
    ) {
        let half = s.re.len();
        let mut from = 1;
        while from < half {
            for low in from..from + from.div_ceil(2) {
                let high = 3 * from - 1 - low;
                let root = (self.turns.re[low], self.turns.im[low]);
                let (a, b) = each((s.re[low], s.im[low]), (s.re[high], s.im[high]), root);
                (s.re[high], s.im[high]) = b;
                (s.re[low], s.im[low]) = a;
            }
            from *= 2;
        }
    }

    /// Replaces each value `X` at the unit root `exp(-2πi k / N) = (cos, sin)` by another; `each` is given
    /// `(cos, sin)` and `(re, im)`. At the frequencies 0 and N/2 the imaginary part of the result is dropped.
    pub fn map(&self, s: &mut Spectrum, each: impl Fn((f64, f64), (f64, f64)) -> (f64, f64)) {
        let first = each((1.0, 0.0), (s.re[0], 0.0)).0;
        let middle = each((-1.0, 0.0), (s.im[0], 0.0)).0;
        for place in 1..s.re.len() {
            let root = (self.turns.re[place], self.turns.im[place]);
            (s.re[place], s.im[place]) = each(root, (s.re[place], s.im[place]));
        }
        (s.re[0], s.im[0]) = (first, middle);
    }
}

impl Spectrum {
    /// The product with another spectrum of the same length, in place: the cyclic convolution.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn multiply(&mut self, other: &Spectrum) {
        assert_eq!(self.re.len(), other.re.len(), "spectra of one length multiply");
        let (first, middle) = (self.re[0] * other.re[0], self.im[0] * other.im[0]);
        for place in 1..self.re.len() {
            let (a, b) = (self.re[place], self.im[place]);
            let (c, d) = (other.re[place], other.im[place]);
            (self.re[place], self.im[place]) = (a * c - b * d, a * d + b * c);
        }
        (self.re[0], self.im[0]) = (first, middle);
    }

    /// Makes it the transform of nothing.
    pub fn clear(&mut self) {
        self.re.fill(0.0);
        self.im.fill(0.0);
    }

    /// Adds `factor` times another spectrum.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn add_scaled(&mut self, factor: f64, other: &Spectrum) {
        assert_eq!(self.re.len(), other.re.len(), "spectra of one length add up");
        self.re.iter_mut().zip(&other.re).for_each(|(sum, x)| *sum += factor * x);
        self.im.iter_mut().zip(&other.im).for_each(|(sum, x)| *sum += factor * x);
    }

    /// Takes over another spectrum.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy_from(&mut self, other: &Spectrum) {
        self.re.copy_from_slice(&other.re);
        self.im.copy_from_slice(&other.im);
    }
}

fn reversed(place: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { place.reverse_bits() >> (usize::BITS - bits) }
}

/// Four mutable quarters of a run.
fn in_four(run: &mut [f64]) -> [&mut [f64]; 4] {
    let quarter = run.len() / 4;
    let (low, high) = run.split_at_mut(2 * quarter);
    let (a, b) = low.split_at_mut(quarter);
    let (c, d) = high.split_at_mut(quarter);
    [a, b, c, d]
}

/// The six runs of roots, all as long as a quarter.
fn in_six(roots: &[f64], quarter: usize) -> [&[f64]; 6] {
    std::array::from_fn(|i| &roots[i * quarter..(i + 1) * quarter])
}

fn quarters_down(re: &mut [f64], im: &mut [f64], roots: &[f64]) {
    let quarter = re.len() / 4;
    let [c1, s1, c2, s2, c3, s3] = in_six(roots, quarter);
    let [r0, r1, r2, r3] = in_four(re);
    let [i0, i1, i2, i3] = in_four(im);
    for j in 0..quarter {
        let (ar, ai, br, bi) = (r0[j] + r2[j], i0[j] + i2[j], r1[j] + r3[j], i1[j] + i3[j]);
        let (cr, ci, dr, di) = (r0[j] - r2[j], i0[j] - i2[j], r1[j] - r3[j], i1[j] - i3[j]);
        (r0[j], i0[j]) = (ar + br, ai + bi);
        let (er, ei) = (ar - br, ai - bi);
        (r1[j], i1[j]) = (er * c2[j] - ei * s2[j], er * s2[j] + ei * c2[j]);
        // c - i d and c + i d.
        let (fr, fi, gr, gi) = (cr + di, ci - dr, cr - di, ci + dr);
        (r2[j], i2[j]) = (fr * c1[j] - fi * s1[j], fr * s1[j] + fi * c1[j]);
        (r3[j], i3[j]) = (gr * c3[j] - gi * s3[j], gr * s3[j] + gi * c3[j]);
    }
}

fn quarters_up(re: &mut [f64], im: &mut [f64], roots: &[f64]) {
    let quarter = re.len() / 4;
    let [c1, s1, c2, s2, c3, s3] = in_six(roots, quarter);
    let [r0, r1, r2, r3] = in_four(re);
    let [i0, i1, i2, i3] = in_four(im);
    for j in 0..quarter {
        let (er, ei) = (r1[j] * c2[j] + i1[j] * s2[j], i1[j] * c2[j] - r1[j] * s2[j]);
        let (fr, fi) = (r2[j] * c1[j] + i2[j] * s1[j], i2[j] * c1[j] - r2[j] * s1[j]);
        let (gr, gi) = (r3[j] * c3[j] + i3[j] * s3[j], i3[j] * c3[j] - r3[j] * s3[j]);
        let (ar, ai, br, bi) = (r0[j] + er, i0[j] + ei, r0[j] - er, i0[j] - ei);
        let (cr, ci) = (fr + gr, fi + gi);
        // i (f - g).
        let (dr, di) = (gi - fi, fr - gr);
        (r0[j], i0[j]) = (ar + cr, ai + ci);
        (r2[j], i2[j]) = (ar - cr, ai - ci);
        (r1[j], i1[j]) = (br + dr, bi + di);
        (r3[j], i3[j]) = (br - dr, bi - di);
    }
}

fn halves(re: &mut [f64], im: &mut [f64]) {
    for run in [re, im] {
        for pair in run.as_chunks_mut::<2>().0 {
            *pair = [pair[0] + pair[1], pair[0] - pair[1]];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;
    use proptest::prelude::*;

    fn noise(len: usize, seed: u128) -> Vec<f64> {
        let mut pcg = Pcg::new(seed, 3);
        (0..len).map(|_| pcg.unit_open() - 0.5).collect()
    }

    /// The sum of the definition, at one frequency.
    fn defined(sequence: &[f64], k: usize) -> (f64, f64) {
        let n = sequence.len();
        sequence.iter().enumerate().fold((0.0, 0.0), |(re, im), (j, x)| {
            let (cos, sin) = root(j * k % n, n);
            (re + x * cos, im + x * sin)
        })
    }

    #[test]
    fn every_length_gives_what_the_definition_says() {
        for len in [4usize, 8, 16, 32, 64, 128, 1024, 2048] {
            let sequence = noise(len, len as u128);
            let fft = RealFft::new(len);
            let mut spectrum = fft.spectrum();
            fft.forward(&sequence, &mut spectrum);
            let bits = (len / 2).ilog2();
            for place in 1..len / 2 {
                let (re, im) = defined(&sequence, reversed(place, bits));
                assert!((spectrum.re[place] - re).abs() < 1e-12 * len as f64, "{len} {place}");
                assert!((spectrum.im[place] - im).abs() < 1e-12 * len as f64, "{len} {place}");
            }
            assert!((spectrum.re[0] - defined(&sequence, 0).0).abs() < 1e-12 * len as f64);
            assert!((spectrum.im[0] - defined(&sequence, len / 2).0).abs() < 1e-12 * len as f64);
        }
    }

    #[test]
    fn a_point_is_mapped_with_its_own_root() {
        // The shift by one place multiplies by the root.
        let fft = RealFft::new(64);
        let sequence = noise(64, 9);
        let mut spectrum = fft.spectrum();
        fft.forward(&sequence, &mut spectrum);
        fft.map(&mut spectrum, |(c, s), (re, im)| (re * c - im * s, re * s + im * c));
        let mut shifted = vec![0.0; 64];
        fft.inverse(&mut spectrum, &mut shifted);
        for j in 0..64 {
            assert!((shifted[(j + 1) % 64] - sequence[j]).abs() < 1e-14);
        }
    }

    proptest! {
        #[test]
        fn there_and_back_and_products_convolve(bits in 2u32..12, seed in 0u64..1000) {
            let len = 1usize << bits;
            let (x, y) = (noise(len, u128::from(seed)), noise(len, u128::from(seed) + 7));
            let fft = RealFft::new(len);
            let (mut a, mut b) = (fft.spectrum(), fft.spectrum());
            fft.forward(&x, &mut a);
            fft.forward(&y, &mut b);
            let mut back = vec![0.0; len];
            fft.inverse(&mut a.clone(), &mut back);
            prop_assert!(back.iter().zip(&x).all(|(p, q)| (p - q).abs() < 1e-14));
            a.multiply(&b);
            fft.inverse(&mut a, &mut back);
            let norm = |v: &[f64]| v.iter().map(|p| p * p).sum::<f64>().sqrt();
            let allowed = convolution_error(len, norm(&x), norm(&y));
            for k in 0..len.min(64) {
                let direct: f64 = (0..len).map(|j| x[j] * y[(len + k - j) % len]).sum();
                prop_assert!((back[k] - direct).abs() <= allowed, "{} {} {allowed}", back[k], direct);
            }
        }
    }
}
