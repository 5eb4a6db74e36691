#!/usr/bin/env python3
# Solves the queues of instances.txt by dense cyclic reduction with numpy, beside the benchmark.
"""One line for each instance: its name, the median seconds, and P{done within the budgets between releases}.

    dense_cyclic_reduction.py INSTANCES [RUNS]

The quasi-birth-death blocks are made, reduced and solved as any textbook does it, with BLAS and LAPACK underneath. Exit
code 3 when numpy is missing.
"""

import statistics
import sys
import time

try:
    import numpy as np
except ImportError:
    print("numpy is not installed (python3 -m pip install numpy)", file=sys.stderr)
    sys.exit(3)


def read(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            name, periods, budget = words[0], int(words[1]), int(words[2])
            runs = [(*map(int, run.split("*")[0].split("-")), float(run.split("*")[1])) for run in words[3:]]
            work = np.zeros(max(high for _, high, _ in runs) + 1)
            for low, high, weight in runs:
                work[low : high + 1] += weight
            yield name, periods, budget, work / work.sum()


def blocks(work, drop):
    """The levels of w' = max(0, w + c - drop)."""
    lowest, highest = np.flatnonzero(work)[[0, -1]]
    b = max(highest - drop, drop - lowest, 1)
    steps = np.zeros(4 * b + 1)  # mass of the step s at 2b + s
    for c in np.flatnonzero(work):
        steps[2 * b + c - drop] += work[c]
    difference = np.arange(b)[None, :] - np.arange(b)[:, None]
    up, local, down = (steps[2 * b + difference + level * b] for level in (1, 0, -1))
    bottom = local.copy()
    cumulative = np.cumsum(steps)
    bottom[:, 0] = cumulative[2 * b - np.arange(b)]
    return b, up, local, down, bottom


def solve(work, drop):
    b, up0, local0, down0, bottom = blocks(work, drop)
    one = np.eye(b)
    up, local, down, first = up0.copy(), local0.copy(), down0.copy(), local0.copy()
    for _ in range(60):
        both = np.linalg.solve(one - local, np.hstack([up, down]))
        then_up, then_down = both[:, :b], both[:, b:]
        back = up @ then_down
        first += back
        local = local + back + down @ then_up
        up, down = up @ then_up, down @ then_down
        if min(np.abs(up).sum(1).max(), np.abs(down).sum(1).max()) < 1e-14:
            break
    entry = np.linalg.solve(one - first, down0)
    rate = np.linalg.solve((one - local0 - up0 @ entry).T, up0.T).T
    system = (bottom + rate @ down0 - one).T
    system[0] = np.linalg.solve(one - rate, np.ones(b))
    right = np.zeros(b)
    right[0] = 1.0
    level0 = np.linalg.solve(system, right)
    # A job is done within the budgets between releases exactly when it leaves no backlog.
    return level0[0]


def main():
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    for name, periods, budget, work in read(sys.argv[1]):
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            probability = solve(work, periods * budget)
            times.append(time.perf_counter() - start)
        print(f"{name} {statistics.median(times):.6f} {probability:.15f}", flush=True)


main()
