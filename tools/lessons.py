#!/usr/bin/env python3
# Types the tutorial's lessons as they stand and checks that each command ends as its page says:
#   lessons.py [--beside N] [--only LESSON ...] [-- COMMAND ...]
# COMMAND runs `bash -c SCRIPT` in the place to try, for instance `chroot ROOT`; by default here. What is printed goes to standard output; the exit
# code is 1 where a page is wrong.

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PAGES = Path(__file__).resolve().parent.parent / "docs" / "tutorial"

# What a command's output has to show, by its beginning: pages with other numbers on each machine are held to their words.
SHOWN = {
    "surety doctor": r"(?m)^(good|limited|bad) +",
    "sudo surety trace record --for 5s --output alone.dat": r"alone\.dat: \d+ events of CPUs .*, none lost",
    "surety trace stats alone.dat": r"(?m)^\d+ player\.py +\d+ ",
    "sudo surety trace record --for 5s --output late.dat": r"late\.dat: \d+ events of CPUs .*, none lost",
    "surety trace stats late.dat": r"(?m)^\d+ player\.py +\d+ ",
    "surety trace explain late.dat": r"(?s)in all .*hog\.sh.*mean of a response.*behind fair thread hog\.sh",
    "sudo surety trace record --for 30s --keep 5s": r"response\(player\.py\) > 40ms: met by \d+ player\.py",
    "sudo surety guarantee --pid": r"(?m)^The promise is |: refused$",
    "surety plan upgrade.toml": r"(?m)^pulse +4\.\d+ ms +20 ms +20 ms ",
    "surety lab fetch": r"(?m)^6\.\d+-cloud: ",
    "surety run upgrade.toml --on": r"(?s)A promise is broken in 2 of 4 results.*lab:6\.1-cloud .* kept\n.*lab:6\.12-cloud .* broken\n",
    "surety trace explain upgrade": r"(?s)is ready; fair thread busy .*wants to go on; fair thread busy",
    "surety run upgrade.toml --plan": r"Every promise is kept in all 2 results",
    "surety lab record": r"(?m)^500 wake-ups of ",
    "surety lab check wake-ups.json --kernel": r"(?m)^[1-9]\d* of 500 wake-ups changed, first ",
    "surety lab check": r"(?m)^0 of 500 wake-ups changed",
}

# Codes that a page gives in its text; where it says nothing, 0.
CODES = {
    "surety lab check wake-ups.json --kernel": {1},
    "sudo surety apply": {124, 130},
    "sudo surety guarantee": {0, 1, 4},
}

# A guarantee's verdict by its code, and the reasons that the page names for those that are not "kept".
VERDICTS = {
    0: r"(?m)^The promise is kept",
    1: r"(?ms)^The promise is broken|: refused$.*a runtime of .* is needed",
    4: r"(?ms)^The promise is undecided.*(may\s+explain it|at this rate|sooner after the one before|others and the hypervisor)",
}


def blocks(page):
    """The fenced blocks of a page at the margin: language and text."""
    return re.findall(r"(?ms)^```(\w+)[^\n]*\n(.*?)^```$", page.read_text())


def commands(block):
    """Commands of a console block and what the page shows behind each."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line[2:], [])
        elif found:
            found[-1][1].append(line)
    return found


def steps(page):
    """What is typed in a lesson, with the page's sample and whether it is the same on each machine."""
    text = page.read_text()
    for language, block in blocks(page):
        if language == "sh":
            yield block, [], False
        elif language == "console":
            same = f"```console tested\n{block}" in text
            for command, sample in commands(block):
                yield command, sample, same


def typed(number, command):
    """A command as it is given to the shell; an endless one is ended as by Ctrl-C, and no line of a block may fail."""
    endless = command.startswith("sudo surety apply")
    line = command.replace("sudo ", "sudo timeout --foreground -s INT 5 ", 1) if endless else command
    if line.endswith("\n"):
        line = f"__bad=0; trap '__bad=1' ERR\n{line}trap - ERR\n[ $__bad = 0 ]"
    return f"{line}\n__code=$?\nprintf '\\n@@ {number} %d\\n' $__code\n(exit $__code)\n"


def script(pages):
    """One session for all lessons."""
    lines = ["exec 2>&1\nset -m\nexport TERM=dumb\nmkdir -p ~/lessons && cd ~/lessons\n"]
    every = [step for page in pages for step in steps(page)]
    return "".join(lines + [typed(number, step[0]) for number, step in enumerate(every)]), every


def in_order(sample, output):
    """The sample's first line that is not in the output behind the one before, or None; `...` stands for any lines."""
    rest = iter(line.rstrip() for line in output.splitlines())
    for line in sample:
        if line.strip() != "..." and line.rstrip() and line.rstrip() not in rest:
            return line
    return None


def by_beginning(table, command, otherwise):
    """The entry with the longest key that the command begins with."""
    keys = [key for key in table if " ".join(command.split()).startswith(key)]
    return table[max(keys, key=len)] if keys else otherwise


def wrong(step, output, code, following, beside):
    """What is not as the page says, in words, or None."""
    command, sample, same = step
    if command == "echo $?":
        return None if in_order(sample, output) is None else f"the page says {sample}, it printed {output.strip()!r}"
    expected = by_beginning(CODES, command, {0})
    if following and following[0] == "echo $?":
        expected = {int(following[1][0])}
    if code not in expected:
        return f"it ended with code {code}, the page says {sorted(expected)}"
    if same and (line := in_order(sample, output)) is not None:
        return f"the page shows {line!r}"
    shown = by_beginning(SHOWN, command, None)
    if shown and not re.search(shown, output):
        return f"its output does not have {shown!r}"
    if command.startswith("sudo surety guarantee"):
        if not re.search(VERDICTS[code], output):
            return f"code {code} and no {VERDICTS[code]!r}"
        if beside and not re.search(r"(?s)degraded\n.*other programs\s+used", output):
            return f"{beside} busy programs beside it and not a word of them"
    return None


def dead(every):
    """What is to be held of commands that no page has."""
    typed_lines = [" ".join(step[0].split()) for step in every]
    return [key for key in {**SHOWN, **CODES} if not any(line.startswith(key) for line in typed_lines)]


def session(shell, seconds):
    """What a session printed, as far as it came in time; nothing of it stays."""
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=output, start_new_session=True)
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"WRONG: not done in {seconds} s")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        output.seek(0)
        return output.read().decode(errors="replace")


def judge(every, text, beside):
    """Prints each command with what it printed, and returns how many are wrong."""
    count, begin = 0, 0
    for number, step in enumerate(every):
        mark = re.compile(rf"\n@@ {number} (\d+)\n").search(text, begin)
        if not mark:
            print(f"$ {step[0]}\n{text[begin:]}\nWRONG: the session ended here")
            return count + 1
        output, code, begin = text[begin : mark.start()], int(mark[1]), mark.end()
        following = every[number + 1] if number + 1 < len(every) else None
        why = wrong(step, output, code, following, beside)
        print(f"$ {step[0].rstrip()}\n{output.rstrip()}\n[code {code}]" + (f"\nWRONG: {why}" if why else ""), flush=True)
        count += why is not None
    return count


def main():
    parser = argparse.ArgumentParser(description="Type the tutorial's lessons and check that each command ends as its page says.")
    parser.add_argument("--beside", type=int, default=0, metavar="N", help="programs that compete for the CPUs meanwhile; lesson 2 has to say so (default 0)")
    parser.add_argument("--only", nargs="+", type=int, choices=[1, 2, 3, 4], help="lessons to type (default: all)")
    parser.add_argument("command", nargs="*")
    given = parser.parse_args()
    pages = sorted(page for page in PAGES.glob("*.md") if not given.only or int(page.name[0]) in given.only)
    text, every = script(pages)
    if not every or not given.only and dead(every):
        sys.exit(f"lessons.py: no page of {PAGES} has {', '.join(dead(every)) or 'a command'}")
    busy = [subprocess.Popen(["timeout", "1800", "sh", "-c", "while :; do :; done"]) for _ in range(given.beside)]
    try:
        printed = session([*given.command, "bash", "-c", text], 3600)
    finally:
        for program in busy:
            program.terminate()
    count = judge(every, printed, given.beside)
    lessons = ", ".join(page.name[0] for page in pages)
    print(f"lessons {lessons}: {len(every)} steps, {count} not as the pages say")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
