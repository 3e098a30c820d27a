"""Tables of what was measured."""

from __future__ import annotations

from typing import Any


def collectives(rows: list[dict[str, Any]]) -> None:
    """A line for each operation, type and size."""
    print(f"\n{rows[0]['ranks']} ranks, microseconds a call (median)")
    print(f"{'':16}{'dtype':8}{'bytes':>10}{'Gloo':>12}{'consort':>12}{'ratio':>9}")
    for gloo, ours in zip(rows[::2], rows[1::2], strict=True):
        ratio = gloo["p50_us"] / ours["p50_us"]
        print(
            f"{gloo['op']:16}{gloo['dtype']:8}{size(gloo['bytes']):>10}{gloo['p50_us']:12.1f}"
            f"{ours['p50_us']:12.1f}{ratio:9.1f}"
        )


def overhead(rows: list[dict[str, Any]]) -> None:
    """A line for each way of asking."""
    print("\none rank, all_reduce of one number, microseconds a call (median)")
    print(f"{'':24}{'Gloo':>12}{'consort':>12}{'ratio':>9}")
    for gloo, ours in zip(rows[::2], rows[1::2], strict=True):
        ratio = gloo["p50_us"] / ours["p50_us"]
        print(f"{gloo['way']:24}{gloo['p50_us']:12.2f}{ours['p50_us']:12.2f}{ratio:9.1f}")


def training(rows: list[dict[str, Any]]) -> None:
    """A line for each kind of learner."""
    print(
        f"\ntraining {rows[0]['model']} on {rows[0]['ranks']} ranks, milliseconds a step (median)"
    )
    print(f"{'':24}{'step':>10}{'exposed':>10}{'of Gloo':>10}")
    gloo = next(row["exposed_ms"] for row in rows if row["kind"] == "DDP on Gloo")
    for row in rows:
        share = f"{row['exposed_ms'] / gloo:10.2f}" if row["kind"] != "alone" else ""
        print(f"{row['kind']:24}{row['step_ms']:10.2f}{row['exposed_ms']:10.2f}{share}")


def size(count: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count // factor} {unit}"
    return f"{count} B"
