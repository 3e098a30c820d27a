"""Measures consort against Gloo, through PyTorch.

Both are groups of the same processes, and take turns at every point on the same tensors, so that
whatever else the machine does meets both. Run it on an otherwise idle machine.

    bench/torch/run
    bench/torch/run collectives --ranks 2 --ops all_reduce --bytes 8,1024 --dtypes f32
    bench/torch/run ddp --steps 20
    bench/torch/run overhead
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import collectives
import overhead
import report
import training
from ranks import together

Rows = list[dict[str, Any]]


def main() -> None:
    said = arguments()
    if "overhead" in said.parts:
        tell(together(1, overhead.measure), report.overhead, said.json)
    if "collectives" in said.parts:
        for ranks in said.ranks:
            points = collectives.points(said.ops, said.dtypes, said.bytes)
            rows = together(ranks, collectives.measure, points, said.seconds)
            tell(rows, report.collectives, said.json)
    if "ddp" in said.parts:
        for model in training.MODELS:
            rows = together(said.ddp_ranks, training.measure, model, said.steps)
            tell(rows, report.training, said.json)


def tell(
    rows: list[dict[str, Any]], as_table: Callable[[list[dict[str, Any]]], None], as_json: bool
) -> None:
    """Tells what was measured."""
    if not as_json:
        as_table(rows)
        return
    for row in rows:
        print(json.dumps(row), flush=True)


def arguments() -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parts = ["overhead", "collectives", "ddp"]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)}; all if none")
    parser.add_argument("--ranks", type=numbers, default=[2, 4, 8], help="such as 2,4,8")
    parser.add_argument("--ops", type=words, default=list(collectives.OPERATIONS))
    parser.add_argument("--dtypes", type=words, default=["f32", "bf16"])
    parser.add_argument("--bytes", type=numbers, default=collectives.BYTES)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each point and backend")
    parser.add_argument("--ddp-ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30, help="of training, for each kind")
    parser.add_argument("--json", action="store_true", help="one object a line")
    said = parser.parse_args()
    for part in said.parts:
        if part not in parts:
            parser.error(f"there is no part {part!r}: choose from {', '.join(parts)}")
    for operation in said.ops:
        if operation not in collectives.OPERATIONS:
            known = ", ".join(collectives.OPERATIONS)
            parser.error(f"there is no operation {operation!r}: choose from {known}")
    said.parts = said.parts or parts
    return said


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def words(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    main()
