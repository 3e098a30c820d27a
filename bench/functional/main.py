"""Measures collectives on values.

Ranks of consort and ranks of PyTorch on Gloo are started in turns, both by `consort run`. Each tells
its medians; what is shown is their median over all rounds. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict

from report import size


def main() -> None:
    said = arguments()
    programs = [["target/release/functional-bench"], [sys.executable, "bench/functional/gloo.py"]]
    for ranks in said.ranks:
        times: dict[tuple, list[float]] = defaultdict(list)
        for program in programs * said.rounds:
            for row in start(ranks, program, said):
                times[row["op"], row["dim"], row["bytes"], row["impl"]].append(row["p50_us"])
        medians = {what: sorted(found)[len(found) // 2] for what, found in times.items()}
        (tell if said.json else show)(ranks, medians)


def start(ranks: int, program: list[str], said: argparse.Namespace) -> list[dict]:
    """Runs a program as so many ranks, and gives what it has found."""
    command = ["target/release/consort", "run", "-n", str(ranks), "--", *program]
    command += ["--bytes", ",".join(map(str, said.bytes)), "--seconds", str(said.seconds)]
    with tempfile.TemporaryDirectory(prefix="consort-bench-") as folder:
        # PyTorch leaves things there.
        env = ALIKE | os.environ | {"TMPDIR": folder}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench/functional: {' '.join(command)} has failed")
    # Lines may begin with the rank's number.
    return [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines()]


def tell(ranks: int, medians: dict[tuple, float]) -> None:
    """One object a line."""
    for (op, dim, count, name), time in medians.items():
        place = {"op": op, "dim": dim, "dtype": "f32", "ranks": ranks, "bytes": count}
        print(json.dumps({"impl": name, **place, "p50_us": round(time, 3)}), flush=True)


def show(ranks: int, medians: dict[tuple, float]) -> None:
    """A table for each operation, with a line for each size."""
    for op, dim in dict.fromkeys(what[:2] for what in medians):
        print(f"\n{op}, dim {dim}, ranks {ranks}: microseconds a call (median)")
        print("".join(f"{head:>12}" for head in ["", *FORMS, "gloo/candle"]))
        for count in dict.fromkeys(what[2] for what in medians):
            times = {name: medians.get((op, dim, count, name)) for name in FORMS}
            cells = [f"{time:.2f}" if time else "-" for time in times.values()]
            cells.append(f"{times['gloo'] / times['candle']:.2f}")
            print("".join(f"{cell:>12}" for cell in [size(count), *cells]), flush=True)


def arguments() -> argparse.Namespace:
    quick = "--quick" in sys.argv
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, one round, short")
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4], help="such as 1,2,4")
    sizes = [8, 1 << 16] if quick else [8, 1 << 10, 1 << 16, 1 << 20, 1 << 24]
    parser.add_argument("--bytes", type=numbers, default=sizes, help="of the larger buffer")
    rounds, seconds = (1, 0.02) if quick else (3, 0.25)
    parser.add_argument("--rounds", type=int, default=rounds, help="how often each is started")
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="for each form at each point"
    )
    parser.add_argument("--json", action="store_true", help="one object a line")
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


FORMS = ["floor", "async", "functional", "candle", "gloo"]
# One thread for each rank, and memory that it keeps.
ALIKE = {
    "OMP_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4294967296",
}

if __name__ == "__main__":
    main()
