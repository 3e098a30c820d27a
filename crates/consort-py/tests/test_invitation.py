"""What rank 0 leaves in PyTorch's store, where anybody may have left something else."""

from __future__ import annotations

import json
import random

import consort
import pytest
from consort.torch.invitation import Invitation

GOOD = Invitation("torch-1", 30.0, "tcp://127.0.0.1:4000", "00" * 32)


def test_an_invitation_comes_back_as_it_was_written() -> None:
    for invitation in (GOOD, Invitation("job", 1.5)):
        assert Invitation.read(invitation.write().encode()) == invitation


def test_a_refusal_is_told_with_its_reason() -> None:
    with pytest.raises(consort.Aborted, match="no interface of that name") as told:
        Invitation.read(Invitation.refusal("there is no interface of that name").encode())
    assert told.value.ranks == (0,)
    with pytest.raises(consort.Aborted):
        Invitation.read(Invitation.refusal("x" * 100_000).encode())


@pytest.mark.parametrize(
    "changes",
    [
        {"address": "file:///etc/passwd"},
        {"address": None},
        {"secret": None},
        {"secret": 7},
        {"timeout": -1.0},
        {"timeout": "soon"},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
        {"job": ""},
        {"job": "x" * 5000},
        {"job": "a\nb"},
        {"job": None},
        {"more": 1},
    ],
)
def test_what_rank_0_would_not_write_is_refused(changes: dict[str, object]) -> None:
    text = json.dumps(json.loads(GOOD.write()) | changes)
    with pytest.raises(consort.Mismatch, match="not consort's"):
        Invitation.read(text.encode())


def test_no_bytes_do_any_harm() -> None:
    chance = random.Random(7)
    good = GOOD.write().encode()
    strange = [b"", b"null", b"[]", b"{", b"[" * 3000, b"\xff" * 9, b"1e999", b"x" * 10_000_000]
    for _ in range(3000):
        bytes_of_it = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            bytes_of_it[chance.randrange(len(bytes_of_it))] = chance.randrange(256)
        strange.append(bytes(bytes_of_it))
    for text in strange:
        try:
            read = Invitation.read(text)
        except consort.Error:
            continue
        assert read.address is None or read.address.startswith("tcp://")
