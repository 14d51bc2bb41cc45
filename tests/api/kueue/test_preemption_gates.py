"""Which gates are open, by the status."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from multikueue.api.kueue.preemption_gates import opened_at, states, with_state
from multikueue.api.kueue.workload import WorkloadStatus
from multikueue.testing import NOW, workload


def test_a_gate_without_a_state_is_closed() -> None:
    assert opened_at(workload("wl").build(), "ours") is None


def test_a_gate_is_open_since_it_was_opened() -> None:
    status = with_state(WorkloadStatus(), "ours", "Open", NOW)
    value = msgspec.structs.replace(workload("wl").build(), status=status)
    assert (opened_at(value, "ours"), opened_at(value, "theirs")) == (NOW, None)


def test_other_gates_stay_as_they_are() -> None:
    both = with_state(with_state(WorkloadStatus(), "theirs", "Closed", NOW), "ours", "Open", NOW)
    again = with_state(both, "ours", "Closed", NOW + timedelta(seconds=1))
    assert [(each.name, each.position) for each in states(again)] == [("theirs", "Closed"), ("ours", "Closed")]


def test_what_cannot_be_read_is_closed() -> None:
    assert states(WorkloadStatus(preemption_gates=msgspec.Raw(b'"odd"'))) == ()
