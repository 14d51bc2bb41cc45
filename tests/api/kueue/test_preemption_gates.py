"""Which gates are open, by the status."""

from __future__ import annotations

import msgspec

from multikueue.api.kueue.preemption_gates import opened_at, states
from multikueue.api.kueue.workload import WorkloadStatus
from multikueue.api.meta import encode
from tests.builders import NOW, workload


def test_a_gate_without_a_state_is_closed() -> None:
    assert opened_at(workload("wl").build(), "ours") is None


def test_a_gate_is_open_since_it_was_opened() -> None:
    gates = [{"name": "theirs", "position": "Closed"}, {"name": "ours", "position": "Open", "lastTransitionTime": NOW}]
    status = WorkloadStatus(preemption_gates=msgspec.Raw(encode(gates)))
    value = msgspec.structs.replace(workload("wl").build(), status=status)
    assert (opened_at(value, "ours"), opened_at(value, "theirs")) == (NOW, None)


def test_what_cannot_be_read_is_closed() -> None:
    assert states(WorkloadStatus(preemption_gates=msgspec.Raw(b'"odd"'))) == ()
