"""The accounts at the end of a real scenario: what counts as wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.accounts import below_zero, uncounted

Object = dict[str, Any]


def workload(name: str = "w", *, count: int = 2, owned: bool = True, **conditions: str) -> Object:
    owners = {"ownerReferences": [{"name": "job"}]} if owned else {}
    said = [{"type": type_, "status": status} for type_, status in conditions.items()]
    admission = {"podSetAssignments": [{"name": "main", "count": count}]}
    return {"metadata": {"name": name, **owners}, "status": {"conditions": said, "admission": admission}}


HERE = workload(QuotaReserved="True")
RUNS = workload(Admitted="True")
CASES: dict[str, tuple[list[Object], list[Object], bool]] = {
    "one copy with a job": ([HERE], [RUNS], False),
    "two copies with a job": ([HERE], [RUNS, RUNS], True),
    "another copy without a job": ([HERE], [RUNS, workload(owned=False, Admitted="True")], False),
    "another copy that is over": ([HERE], [RUNS, workload(Admitted="True", Finished="True")], False),
    "a copy of more pods": ([HERE], [workload(count=3, Admitted="True")], True),
    "a copy of a workload without quota": ([workload(QuotaReserved="False")], [RUNS], True),
    "a copy of no workload": ([], [RUNS], True),
}


@pytest.mark.parametrize(("here", "there", "is_wrong"), CASES.values(), ids=CASES)
def test_more_pods_than_are_counted(here: list[Object], there: list[Object], is_wrong: bool) -> None:
    assert bool(list(uncounted(here, there))) is is_wrong


@pytest.mark.parametrize(("total", "is_wrong"), [("0", False), ("1500m", False), ("-99", True), ("-1m", True)])
def test_a_usage_below_zero(total: str, is_wrong: bool) -> None:
    resources = [{"name": "cpu", "total": total}]
    queue = {"metadata": {"name": "cq"}, "status": {"flavorsUsage": [{"name": "default", "resources": resources}]}}
    assert bool(list(below_zero([queue]))) is is_wrong
