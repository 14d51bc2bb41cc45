"""Preemption on one worker at a time (KEP 8303)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.kueue.workload import WorkloadStatus
from multikueue.api.meta import encode, render_time
from multikueue.dispatch.copies.effects import CreateWorkload, PatchStatus
from multikueue.dispatch.copies.preemption_gates import GATE, opened_at, states
from multikueue.dispatch.remote import Remote
from multikueue.dispatch.slices import Slice
from multikueue.strategy import Fleet, Nomination
from multikueue.testing import NOW
from multikueue.workload.strategy_call import LoadedStrategy
from tests.builders import workload
from tests.workload.builders import (
    Decided,
    at_gate,
    carried_out,
    case_of,
    copy,
    decided,
    reserved,
    told,
    with_gates,
    with_nomination,
    worker,
)

LOCAL = reserved().nominated("w1", "w2", "w3")
MINUTE = timedelta(minutes=1)


def decision(*remotes: Remote, now: datetime = NOW, **more: Any) -> Decided:
    return decided(LOCAL, *remotes, now=now, **({"is_preemption_sequential": True} | more))


def test_copies_are_made_behind_a_gate() -> None:
    (made,) = decision(worker("w1")).actions
    assert isinstance(made, CreateWorkload)
    assert made.body["spec"]["preemptionGates"] == [{"name": GATE}]
    (plain,) = decision(worker("w1"), is_preemption_sequential=False).actions
    assert isinstance(plain, CreateWorkload)
    assert isinstance(plain.body["spec"], msgspec.Raw)


def test_a_slice_that_goes_to_one_worker_only_needs_none() -> None:
    stays = Slice(is_elastic=True, stays="w1")
    (made,) = decided(reserved().cluster_name("w1"), worker("w1"), slice=stays, is_preemption_sequential=True).actions
    assert isinstance(made, CreateWorkload)
    assert isinstance(made.body["spec"], msgspec.Raw)


def test_the_gate_of_who_waits_longest_is_opened_and_of_nobody_else() -> None:
    later, sooner = at_gate("w1", since=NOW - MINUTE), at_gate("w2", since=NOW - 2 * MINUTE)
    found = decision(later, sooner, worker("w3", copy()))
    assert told(found) == ["PatchStatus w2"]
    (patch,) = found.actions
    assert isinstance(patch, PatchStatus)
    state = {"name": GATE, "position": "Open", "lastTransitionTime": render_time(NOW)}
    assert patch.body["status"]["preemptionGates"] == [state]
    assert told(decision(later, sooner, is_preemption_sequential=False)) == []


def test_the_gate_of_a_copy_that_yields_stays_closed() -> None:
    class Yielding:
        def nominate(self, _workload: Any, fleet: Fleet) -> Nomination:
            return Nomination(fleet.names, yielding=("w2",))

    blocked = at_gate("w2", since=NOW - 9 * MINUTE)
    local = reserved().nominated("w1", "w2")
    seen = case_of(local, worker("w1", copy()), blocked, is_preemption_sequential=True)
    found = carried_out(with_nomination(seen, by=LoadedStrategy("yielding", Yielding())))
    assert told(found) == ["PatchWorkload w2"], "its priority is lowered, and nothing else"
    assert told(carried_out(with_nomination(seen))) == ["PatchStatus w2"]


def test_the_next_one_has_its_turn_after_a_while() -> None:
    opened = at_gate("w1", since=NOW - 9 * MINUTE, opened=NOW - 4 * MINUTE)
    found = decision(opened, at_gate("w2"))
    assert (told(found), found.again_after) == ([], MINUTE)
    assert told(decision(opened, at_gate("w2"), now=NOW + MINUTE)) == ["PatchStatus w2"]


def test_a_gate_that_was_to_be_opened_goes_first_until_it_is_seen_open() -> None:
    longer = at_gate("w1", since=NOW - 2 * MINUTE)
    assert told(decision(longer, at_gate("w2"), opening="w2")) == ["PatchStatus w2"]
    assert told(decision(longer, at_gate("w2", opened=NOW), opening="w2")) == []
    assert told(decision(longer, worker("w2", copy()), opening="w2")) == ["PatchStatus w1"], (
        "it is not blocked any more"
    )


def test_where_nobody_would_preempt_no_gate_is_opened() -> None:
    assert told(decision(worker("w1", copy()), worker("w2", copy()))) == []


def test_what_a_worker_says_of_its_gates_may_be_anything() -> None:
    built = at_gate("w1").workload
    assert built is not None
    assert told(decision(worker("w1", with_gates(built, {"a": 1})))) == ["PatchStatus w1"]


def test_a_gate_without_a_state_is_closed() -> None:
    assert opened_at(workload("wl").build(), "ours") is None


def test_a_gate_is_open_since_it_was_opened() -> None:
    gates = [{"name": "theirs", "position": "Closed"}, {"name": "ours", "position": "Open", "lastTransitionTime": NOW}]
    status = WorkloadStatus(preemption_gates=msgspec.Raw(encode(gates)))
    value = msgspec.structs.replace(workload("wl").build(), status=status)
    assert (opened_at(value, "ours"), opened_at(value, "theirs")) == (NOW, None)


def test_what_cannot_be_read_is_closed() -> None:
    assert states(WorkloadStatus(preemption_gates=msgspec.Raw(b'"odd"'))) == ()
