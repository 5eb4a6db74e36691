#!/usr/bin/env python3
# How long this simulator and PARTSim take for the same sets of tasks.
#
#     PARTSIM=.../build/rtsim/rtsim tools/compare-partsim.py [SECONDS [RUNS]]
#
# PARTSIM names the other simulator's program, built as its README says (https://github.com/gabrieleara/PARTSim). SURETY names
# ours; without it, the release build of this tree.
#
# A set has 10, 100 or 1000 periodic tasks on 1 or 4 CPUs: global EDF, each task in a constant-bandwidth server whose budget is
# its work and an eighth more; four fifths of the CPUs are used. Both files are written here from the same numbers, in whole
# microseconds. Both programs simulate SECONDS (default 10) without a trace, in turn, RUNS times (default 5); the wall time of the whole
# program counts, the fastest run of each. The last column is theirs divided by ours.
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def drawn(tasks, cpus):
    """(period, work, budget) of each task, us."""
    chance = random.Random(1000 * tasks + cpus)
    found = []
    for _ in range(tasks):
        period = chance.randrange(20_000, 200_000)
        work = max(8, period * cpus * 4 // 5 // tasks)
        found.append((period, work, work + work // 8))
    return found


def write_ours(path, tasks):
    with open(path, "w") as file:
        file.write("format = 1\n")
        for place, (period, work, budget) in enumerate(tasks):
            file.write(
                f'[[task]]\nname = "t{place}"\nperiod = "{period}us"\nwork = "{work}us"\n'
                f'reservation = {{ runtime = "{budget}us", period = "{period}us" }}\nlate = "queue"\n'
            )


def write_theirs(system, taskset, tasks, cpus):
    with open(system, "w") as file:
        file.write(
            f"cpu_islands:\n  - name: all\n    numcpus: {cpus}\n    kernel:\n      scheduler: edf\n"
            "      task_placement: global\n    volts: [1]\n    freqs: [1000]\n    base_freq: 1000\n"
            "    power_model: flat\n    speed_model: flat\n"
            "power_models:\n  - name: flat\n    type: balsini_pannocchi\n    params:\n"
        )
        for workload in ("idle", "busy"):
            file.write(
                f"      - workload: {workload}\n        power_params: [1, 0, 0, 0]\n"
                "        speed_params: [1, 0, 0, 0]\n"
            )
    with open(taskset, "w") as file:
        file.write("taskset:\n")
        for place, (period, work, budget) in enumerate(tasks):
            file.write(
                f"  - name: t{place}\n    iat: {period}\n    runtime: {budget}\n    startcpu: {place % cpus}\n"
                f"    code:\n      - fixed({work},busy)\n"
            )
        file.write("resources: []\n")


def wall(command, allowed):
    begun = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode not in allowed:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return time.monotonic() - begun


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    ours = os.environ.get("SURETY", os.path.join(HERE, "../target/release/surety"))
    theirs = os.environ.get("PARTSIM")
    if not theirs or not os.access(theirs, os.X_OK):
        print("PARTSim is missing: build it as its README says and name build/rtsim/rtsim in PARTSIM. Ours alone:")
        theirs = None
    print(f"{'tasks':>6} {'CPUs':>5} {'ours, s':>9} {'PARTSim, s':>11} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as directory:
        at = lambda name: os.path.join(directory, name)
        for cpus in (1, 4):
            for count in (10, 100, 1000):
                tasks = drawn(count, cpus)
                write_ours(at("set.toml"), tasks)
                write_theirs(at("system.yml"), at("taskset.yml"), tasks, cpus)
                platform = f"cpus={cpus},enforcement=exact,fair-server=off"
                our = [ours, "run", at("set.toml"), "--on", "sim", "--platform", platform, "--warm-up", "0s"]
                our += ["--for", f"{seconds}s", "--no-trace", "--quiet"]
                their = [theirs, at("system.yml"), at("taskset.yml"), str(seconds * 1_000_000)]
                times = ([], [])
                for _ in range(runs):
                    times[0].append(wall(our, (0, 1, 4)))
                    if theirs:
                        times[1].append(wall(their, (0,)))
                own = min(times[0])
                row = f"{count:>6} {cpus:>5} {own:>9.3f}"
                if theirs:
                    row += f" {min(times[1]):>11.3f} {min(times[1]) / own:>7.1f}"
                print(row, flush=True)


if __name__ == "__main__":
    main()
