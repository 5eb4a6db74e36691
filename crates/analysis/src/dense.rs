//! [`Matrix`]: square matrices of probabilities, as far as the analyses of Markov chains need them.

/// A square matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    n: usize,
    cells: Vec<f64>,
}

impl Matrix {
    pub(crate) fn new(n: usize, cell: impl Fn(usize, usize) -> f64) -> Matrix {
        let mut cells = Vec::with_capacity(n * n);
        for row in 0..n {
            cells.extend((0..n).map(|column| cell(row, column)));
        }
        Matrix { n, cells }
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.cells[row * self.n..(row + 1) * self.n]
    }

    pub(crate) fn transposed(&self) -> Matrix {
        Matrix::new(self.n, |row, column| self.cells[column * self.n + row])
    }

    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        let mut product = vec![0.0; self.n * self.n];
        for (row, sums) in product.chunks_exact_mut(self.n).enumerate() {
            for (factor, line) in self.row(row).iter().zip(other.cells.chunks_exact(self.n)) {
                // Blocks of skip-free or bounded walks are half empty.
                if *factor != 0.0 {
                    axpy(sums, *factor, line);
                }
            }
        }
        Matrix { n: self.n, cells: product }
    }

    pub(crate) fn add(&mut self, other: &Matrix) {
        axpy(&mut self.cells, 1.0, &other.cells);
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.cells.iter_mut().for_each(|cell| *cell *= factor);
    }

    /// `I - self`.
    pub(crate) fn identity_less(&self) -> Matrix {
        Matrix::new(self.n, |row, column| f64::from(row == column) - self.cells[row * self.n + column])
    }

    /// The largest sum of a row.
    pub(crate) fn norm(&self) -> f64 {
        self.cells
            .chunks_exact(self.n)
            .map(|row| row.iter().map(|x| x.abs()).sum::<f64>())
            .fold(0.0, f64::max)
    }

    /// The least sum of a row.
    pub(crate) fn least_row_sum(&self) -> f64 {
        self.cells.chunks_exact(self.n).map(|row| row.iter().sum::<f64>()).fold(f64::INFINITY, f64::min)
    }

    /// `self^-1 right`, for an M-matrix, which needs no pivots; not a number when it is singular.
    pub(crate) fn solve(mut self, mut right: Vec<Matrix>) -> Vec<Matrix> {
        let n = self.n;
        for pivot in 0..n {
            let (above, below) = self.cells.split_at_mut((pivot + 1) * n);
            let line = &above[pivot * n..];
            for (offset, row) in below.chunks_exact_mut(n).enumerate() {
                let factor = row[pivot] / line[pivot];
                if factor == 0.0 {
                    continue;
                }
                axpy(&mut row[pivot + 1..], -factor, &line[pivot + 1..]);
                for matrix in &mut right {
                    let (done, rest) = matrix.cells.split_at_mut((pivot + 1) * n);
                    axpy(&mut rest[offset * n..(offset + 1) * n], -factor, &done[pivot * n..]);
                }
            }
        }
        for pivot in (0..n).rev() {
            let line = &self.cells[pivot * n..(pivot + 1) * n];
            for matrix in &mut right {
                let (before, after) = matrix.cells.split_at_mut((pivot + 1) * n);
                let target = &mut before[pivot * n..];
                for (factor, known) in line[pivot + 1..].iter().zip(after.chunks_exact(n)) {
                    if *factor != 0.0 {
                        axpy(target, -factor, known);
                    }
                }
                target.iter_mut().for_each(|x| *x /= line[pivot]);
            }
        }
        right
    }

    /// The stationary distribution of a stochastic matrix in which every state reaches state 0, without a single
    /// subtraction (Grassmann, Taksar and Heyman, "Regenerative analysis and steady state distributions for
    /// Markov chains", Operations Research 33, 1985).
    pub(crate) fn stationary(mut self) -> Vec<f64> {
        let n = self.n;
        for state in (1..n).rev() {
            let (above, from) = self.cells.split_at_mut(state * n);
            let line = &from[..state];
            let out: f64 = line.iter().sum();
            for row in above.chunks_exact_mut(n) {
                // A state that leads nowhere is never entered.
                row[state] = if out > 0.0 { row[state] / out } else { 0.0 };
                let share = row[state];
                if share != 0.0 {
                    axpy(&mut row[..state], share, line);
                }
            }
        }
        let mut masses = vec![1.0];
        for state in 1..n {
            masses.push(masses.iter().enumerate().map(|(from, p)| p * self.cells[from * n + state]).sum());
        }
        let total: f64 = masses.iter().sum();
        masses.iter_mut().for_each(|p| *p /= total);
        masses
    }

    /// `row self`.
    pub(crate) fn after(&self, row: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.n];
        for (factor, line) in row.iter().zip(self.cells.chunks_exact(self.n)) {
            axpy(&mut sums, *factor, line);
        }
        sums
    }
}

fn axpy(sums: &mut [f64], factor: f64, line: &[f64]) {
    for (sum, x) in sums.iter_mut().zip(line) {
        *sum += factor * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved_and_chains_settle() {
        let m = Matrix::new(3, |i, j| [[0.1, 0.2, 0.3], [0.0, 0.4, 0.1], [0.3, 0.0, 0.2]][i][j]);
        let right = Matrix::new(3, |i, j| (i * 3 + j) as f64);
        let x = m.identity_less().solve(vec![right.clone()]).remove(0);
        let back = m.identity_less().times(&x);
        assert!(back.cells.iter().zip(&right.cells).all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!((m.norm(), m.transposed().transposed() == m), (0.6000000000000001, true));
        // Up with 1/4, down with 1/2: ratio 1/2.
        let chain = Matrix::new(3, |i, j| [[0.75, 0.25, 0.0], [0.5, 0.25, 0.25], [0.0, 0.5, 0.5]][i][j]);
        let found = chain.clone().stationary();
        assert!(found.iter().zip([4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]).all(|(a, b)| (a - b).abs() < 1e-15));
        assert!(chain.after(&found).iter().zip(&found).all(|(a, b)| (a - b).abs() < 1e-15));
    }
}
