#!/usr/bin/env python3
# Films of scenes for docs/modes.md, and what a recorded run of one does under a budget.
#
# films.py make NAME SEED      writes NAME.mkv: still pictures, a fractal and noise, scenes of 30 pictures on average (needs ffmpeg)
# films.py late WORKLOAD Q...  plays the sequence of a workload file through budgets of Q us in each 20 ms: late jobs with their interval


import random
import re
import subprocess
import sys

RATE = 50
GROUPS = 1500  # of ten pictures: 300 s
KINDS = {
    "still": f"smptehdbars=size=640x360:rate={RATE}",
    "fractal": f"mandelbrot=size=640x360:rate={RATE}:end_scale=0.01:maxiter=300",
    "noise": f"testsrc2=size=640x360:rate={RATE},noise=alls=60:allf=t",
}


def groups_of(kind, source):
    """300 pictures as groups that can be decoded alone."""
    file = f"{kind}.h264"
    command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-frames:v", "300", "-c:v", "libx264"]
    command += ["-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p", "-g", "10", "-sc_threshold", "0", "-bf", "0", file]
    subprocess.run(command, check=True)
    with open(file, "rb") as stream:
        data = stream.read()
    cuts = [found.start() for found in re.finditer(b"\0\0\0\1\x67", data)] + [len(data)]
    return [data[a:b] for a, b in zip(cuts, cuts[1:])]


def make(name, seed):
    parts = {kind: groups_of(kind, source) for kind, source in KINDS.items()}
    random.seed(seed)
    film, kind = [], "still"
    while len(film) < GROUPS:
        at = random.randrange(len(parts[kind]))
        while len(film) < GROUPS:
            film.append(parts[kind][at % len(parts[kind])])
            at += 1
            if random.random() < 1 / 3:
                break
        others = [other for other in KINDS if other != kind]
        kind = random.choices(others, [2, 1] if kind == "still" else [1, 1])[0]
    with open(f"{name}.h264", "wb") as stream:
        stream.write(b"".join(film))
    command = ["ffmpeg", "-v", "error", "-y", "-r", str(RATE), "-f", "h264", "-i", f"{name}.h264", "-c", "copy", f"{name}.mkv"]
    subprocess.run(command, check=True)


def late(file, budgets):
    with open(file, encoding="utf-8") as stream:
        values = re.search(r'kind = "sequence", values = \[([^\]]*)\]', stream.read()).group(1)
    works = [int(value) for value in re.findall(r'"(\d+)ns"', values)]
    for budget in budgets:
        backlog, before = 0, [0]
        for work in works:
            backlog += work
            before.append(before[-1] + (backlog > budget * 1000))
            backlog = max(0, backlog - budget * 1000)
        random.seed(3)
        block, blocks, means = 1000, len(works) // 1000, []
        for _ in range(1000):
            starts = [random.randrange(len(works) - block) for _ in range(blocks)]
            means.append(sum(before[s + block] - before[s] for s in starts) / (block * blocks))
        means.sort()
        print(f"{budget} us: {before[-1] / len(works):.4f} late, {means[25]:.4f} to {means[974]:.4f}")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]))
    elif len(sys.argv) >= 4 and sys.argv[1] == "late":
        late(sys.argv[2], [int(word) for word in sys.argv[3:]])
    else:
        sys.exit("films.py make NAME SEED, or films.py late WORKLOAD Q...")
