"""Counts of workloads that are not admitted, by why."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from multikueue.api.meta import ObjectKey
from multikueue.controllers.metrics.unadmitted import Unadmitted, count
from tests.builders import WorkloadBuilder, workload

NEW = workload("w").queue("lq")
TABLE = {
    "new": (NEW, ("NoReservation", "PendingEvaluation")),
    "without quota": (NEW.unreserved(reason="WaitingForQuota"), ("NoReservation", "WaitingForQuota")),
    "with quota": (
        NEW.reserved().condition("Admitted", "False", reason="UnsatisfiedAdmissionChecks"),
        ("UnsatisfiedAdmissionChecks", ""),
    ),
    "admitted": (NEW.admitted(), None),
    "finished": (NEW.finished(), None),
    "leaving": (NEW.deleted(), None),
}


def counted(*versions: WorkloadBuilder | None) -> Counter[Unadmitted]:
    """The counts after a workload went through these versions."""
    counts: Counter[Unadmitted] = Counter()
    values = [None, *(each.build() if each is not None else None for each in versions)]
    for old, new in pairwise(values):
        count(counts, old, new)
    return counts


@pytest.mark.parametrize(("made", "why"), TABLE.values(), ids=TABLE)
def test_a_workload_counts_by_its_conditions(made: WorkloadBuilder, why: tuple[str, str] | None) -> None:
    expected = {} if why is None else {Unadmitted(ObjectKey("default", "lq"), *why): 1}

    assert counted(made) == expected
    assert counted(NEW, made) == expected
    assert counted(made, None) == {}


def test_a_workload_counts_in_the_queue_that_it_is_moved_to() -> None:
    found = counted(NEW, NEW.queue("other"))

    assert found == {Unadmitted(ObjectKey("default", "other"), "NoReservation", "PendingEvaluation"): 1}
