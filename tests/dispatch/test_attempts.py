"""What belongs to the present attempt of a workload, and what does not."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION
from multikueue.api.meta import Object
from multikueue.testing import NOW
from multikueue.workload.phases import Phase
from tests.workload.builders import RESERVED, admitted_copy, case_of, decided, remote_job, reserved, told, won, worker

T = TypeVar("T", bound=Object)


def leaving(item: T) -> T:
    return replace(item, metadata=replace(item.metadata, deletion_timestamp=NOW))


def unmarked(item: T) -> T:
    """As Kueue's own MultiKueue makes it, just after the reservation."""
    kept = {key: value for key, value in item.metadata.annotations.items() if key != ATTEMPT_ANNOTATION}
    created = RESERVED + timedelta(seconds=1)
    return replace(item, metadata=replace(item.metadata, annotations=kept, creation_timestamp=created))


@pytest.mark.parametrize("is_marked", [True, False], ids=["with our mark", "without a mark"])
@pytest.mark.parametrize("is_won", [True, False], ids=["on the recorded winner", "before a win"])
def test_what_is_being_deleted_is_of_no_attempt(is_marked: bool, is_won: bool) -> None:
    copy, job = admitted_copy().build(), remote_job().build()
    if not is_marked:
        copy, job = unmarked(copy), unmarked(job)
    local = won("w1") if is_won else reserved().nominated("w1", "w2")
    there = case_of(local, worker("w1", copy, job))
    assert (there.is_current(copy), there.is_current(job)) == (True, True)
    goes = case_of(local, worker("w1", leaving(copy), leaving(job)))
    [remote] = goes.remotes
    assert (goes.is_current(remote.workload), goes.is_current(remote.job)) == (False, False)


def test_a_copy_on_its_way_out_does_not_win() -> None:
    local = reserved().nominated("w1", "w2")
    decision = decided(local, worker("w1", leaving(admitted_copy().build())), worker("w2", admitted_copy().build()))
    assert told(decision) == ["CreateJob w2"]
    alone = decided(local, worker("w1", leaving(admitted_copy().build())), worker("w2"))
    assert alone.phase is Phase.NOMINATING
    assert not [action for action in told(alone) if action.startswith("CreateJob")]
