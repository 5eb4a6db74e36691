//! Fractions that others published for tasks under a constant-bandwidth server, computed again.
//!
//! The task is the one of the unit tests of PROSIT (Palopoli, Fontanelli, Abeni and Villalba Frías; file
//! `unit_test/test-prob-periodic-task-descriptor.cpp` of github.com/jiankangren/PROSIT, commit 1d8e0638), with the fractions
//! they assert to 1e-5 for its two solvers: cyclic reduction, and the analytic bound of IEEE TPDS 27(3), 2016. Their grid is the
//! one of [`surety_analysis::cbs::grid`]: work is rounded up to cells, budgets are rounded down.

use surety_analysis::cbs::Queue;
use surety_analysis::cbs::solver::Solver;
use surety_analysis::cbs::solver::analytic::Analytic;
use surety_analysis::cbs::solver::reduction::{CyclicReduction, LogReduction};
use surety_analysis::cbs::solver::wiener_hopf::WienerHopf;

/// Work in their unit of time, with its probability.
const WORK: [(usize, f64); 12] = [
    (10, 0.05),
    (15, 0.05),
    (25, 0.45),
    (35, 0.2),
    (40, 0.15),
    (45, 0.0125),
    (50, 0.0125),
    (55, 0.025),
    (60, 0.025),
    (65, 0.0125),
    (70, 0.00625),
    (80, 0.00625),
];
/// Distance of its releases.
const PERIOD: usize = 100;
/// What they assert, to this.
const GIVEN_TO: f64 = 1e-5;

/// One published fraction: budget, server period, length of a cell, and the fraction done by the next release.
struct Row {
    budget: usize,
    period: usize,
    cell: usize,
    fraction: f64,
}

const fn row(budget: usize, period: usize, cell: usize, fraction: f64) -> Row {
    Row { budget, period, cell, fraction }
}

const BY_CYCLIC_REDUCTION: [Row; 4] =
    [row(4, 10, 1, 0.780476), row(6, 10, 1, 0.973746), row(4, 10, 2, 0.745696), row(6, 10, 2, 0.973372)];

/// The last has a budget that is no whole number of cells, and is worth one of them.
const BY_THE_ANALYTIC_BOUND: [Row; 4] =
    [row(8, 20, 4, 0.35), row(12, 20, 4, 0.921053), row(8, 20, 8, 0.511364), row(12, 20, 8, 0.511364)];

impl Row {
    fn between(&self) -> u32 {
        (PERIOD / self.period) as u32
    }

    fn queue(&self) -> Queue {
        let mut masses = vec![0.0; WORK[WORK.len() - 1].0.div_ceil(self.cell) + 1];
        for (work, probability) in WORK {
            masses[work.div_ceil(self.cell)] += probability;
        }
        Queue::periodic(masses, self.between(), self.budget / self.cell).expect("the work is a distribution")
    }

    fn check(&self, solver: &dyn Solver) {
        // Done by the next release is the same as no backlog at it, which is what they compute.
        let found = solver.solve(&self.queue()).expect("it is small").backlog_at_most(0);
        let Row { budget, period, cell, fraction } = self;
        assert!(
            (found.value - fraction).abs() <= GIVEN_TO && found.at_least <= fraction + GIVEN_TO,
            "{}: {budget} in {period}, cells of {cell}: {found:?}, not {fraction}",
            solver.name()
        );
    }
}

#[test]
fn exact_solvers_find_the_published_fractions() {
    for row in &BY_CYCLIC_REDUCTION {
        for solver in
            [&CyclicReduction::default() as &dyn Solver, &LogReduction::default(), &WienerHopf::default()]
        {
            row.check(solver);
        }
    }
}

#[test]
fn the_analytic_bound_is_the_published_one_and_below_the_exact_fraction() {
    for row in &BY_THE_ANALYTIC_BOUND {
        row.check(&Analytic { unit: Some(1) });
        let exact = CyclicReduction::default().solve(&row.queue()).unwrap().within(row.between());
        assert!(exact.value >= row.fraction - GIVEN_TO, "{exact:?} {}", row.fraction);
    }
}
