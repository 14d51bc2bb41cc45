"""What a reconcile writes itself does not wake it; anything else does."""

from __future__ import annotations

import pytest

from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.store.store import Writes
from tests.builders import workload

KEY = ObjectKey("default", "wl")
OTHER = ObjectKey("default", "other")


def ignore(_: object) -> None:
    """Nobody waits for it."""


def version(number: int) -> Workload:
    return workload("wl").version(number).build()


@pytest.mark.parametrize(
    ("seen", "answer", "woken"),
    [
        ([], 2, False),
        ([2], 2, False),
        ([2, 3], 2, True),
        ([1, 2], 2, True),
        ([2], None, True),
        ([], None, False),
    ],
    ids=[
        "the answer comes first",
        "the watch brings the write first",
        "somebody else writes after it",
        "somebody else writes before it",
        "no answer comes, and something was seen",
        "no answer comes, and nothing was seen",
    ],
)
def test_a_reconcile_is_woken_by_what_it_did_not_write(seen: list[int], answer: int | None, woken: bool) -> None:
    writes, calls = Writes(), list[str]()
    with writes.under_way(KEY, lambda _: calls.append("woken"), ignore) as answered:
        for number in seen:
            assert writes.should_hold_back(KEY, version(number)), "until the answer has come"
        if answer is not None:
            answered(version(answer))
        assert not calls, "not before it is clear"
    assert calls == ["woken"] * woken


def test_only_the_key_that_writes_waits() -> None:
    writes = Writes()
    with writes.under_way(KEY, ignore, ignore):
        assert not writes.should_hold_back(OTHER, version(1))
    assert not writes.should_hold_back(KEY, version(1))


def test_a_write_that_fails_wakes_for_what_came_meanwhile() -> None:
    writes, calls = Writes(), list[str]()

    def write() -> None:
        with writes.under_way(KEY, lambda _: calls.append("woken"), ignore):
            writes.should_hold_back(KEY, version(2))
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        write()
    assert calls == ["woken"]
