"""Draws task sets, asks pyRTA, and prints both: the stored answers beside this file (pyrta.txt).

pyRTA (PyPI: response-time-analysis, MIT) implements the response-time analyses whose theory is verified in PROSA. It is
not needed to build or test Surety: the test compares with what is stored. Made anew with

    python3 -m venv /tmp/pyrta && /tmp/pyrta/bin/pip install response-time-analysis==0.1.1
    /tmp/pyrta/bin/python pyrta.py > pyrta.txt

A line is a scheduler (fp: fixed priorities, falling; edf), its tasks as C/D/T/J, and the longest
response of each from its release, `-` where the horizon of 4000 was reached.
"""

import random

from response_time_analysis import edf, fp
from response_time_analysis.model import (
    WCET,
    Deadline,
    FullyPreemptive,
    IdealProcessor,
    PeriodicWithJitter,
    Priority,
    Sporadic,
    Task,
    taskset,
)

HORIZON = 4000


def arrivals(period, jitter):
    return PeriodicWithJitter(period=period, jitter=jitter) if jitter else Sporadic(mit=period)


def draw(rng, kind):
    tasks, used = [], 0.0
    for _ in range(rng.randint(1, 6)):
        period = rng.randint(3, 60)
        work = max(1, round(period * rng.random() * 0.45))
        if used + work / period > 1.0:
            break
        used += work / period
        deadline = rng.randint(work, period if kind == "edf" else 2 * period)
        jitter = rng.randint(0, period) if kind != "edf" and rng.random() < 0.3 else 0
        tasks.append((work, deadline, period, jitter))
    return tasks


def answer(kind, params):
    tasks = [
        Task(arrivals(t, j), FullyPreemptive(WCET(c)), Deadline(d), Priority(len(params) - i))
        for i, (c, d, t, j) in enumerate(params)
    ]
    module = edf if kind == "edf" else fp
    found = [module.rta(taskset(*tasks), t, IdealProcessor(), horizon=HORIZON) for t in tasks]
    return [str(s.response_time_bound) if s.bound_found() else "-" for s in found]


def main():
    print("# See pyrta.py for what this is and how it was made.")
    rng = random.Random(20)
    for kind in ("fp", "edf"):
        for _ in range(400):
            params = draw(rng, kind)
            if not params:
                continue
            words = " ".join("/".join(map(str, p)) for p in params)
            print(f"{kind} {words} = {' '.join(answer(kind, params))}")


if __name__ == "__main__":
    main()
