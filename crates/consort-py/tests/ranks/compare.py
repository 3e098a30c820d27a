"""Two results are the same: containers item by item, tensors with dtype, shape and content."""

from __future__ import annotations

from typing import Any

import torch


def assert_same(ours: Any, theirs: Any, where: str, *, exact: bool = True) -> None:
    """Fails with the place of the first difference. `exact` compares bits (NaNs are alike)."""
    assert type(ours) is type(theirs), f"{where}: {ours!r} is not {theirs!r}"
    if isinstance(theirs, torch.Tensor):
        assert_same_tensor(ours, theirs, where, exact=exact)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), f"{where}: keys {list(ours)} are not {list(theirs)}"
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{where}, {key}", exact=exact)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), f"{where}: {ours!r} is not {theirs!r}"
        for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(a, b, f"{where}[{index}]", exact=exact)
    elif isinstance(theirs, float) and not exact:
        torch.testing.assert_close(ours, theirs, msg=lambda text: f"{where}: {text}")
    else:
        assert ours == theirs, f"{where}: {ours!r} is not {theirs!r}"


def assert_same_tensor(
    ours: torch.Tensor, theirs: torch.Tensor, where: str, *, exact: bool
) -> None:
    """Tensors agree in everything that a user can see of their values."""
    if ours.is_sparse or theirs.is_sparse:
        assert ours.is_sparse and theirs.is_sparse, f"{where}: only one of them is sparse"
        ours, theirs = ours.coalesce().to_dense(), theirs.coalesce().to_dense()
    limits = {"rtol": 0.0, "atol": 0.0} if exact else {}
    torch.testing.assert_close(
        ours, theirs, equal_nan=True, msg=lambda text: f"{where}: {text}", **limits
    )
