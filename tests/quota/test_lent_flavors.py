"""Where nobody can be preempted in its first flavor, work takes one that is lent to it (kueue#13896)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kueue.compatibility import Compatibility
from multikueue.quota.engine import Engine, EngineRules
from tests.builders import cluster_queue, cohort, flavor, limits, local_queue
from tests.quota.builders import Play, key_of, wants


@pytest.mark.parametrize("limit", [0, 2, None], ids=lambda each: f"borrowing limit {each}")
@pytest.mark.parametrize("levels", [0, 1, 2, 3], ids=lambda each: f"lent {each} levels up")
@pytest.mark.parametrize("preference", [None, "BorrowingOverPreemption", "PreemptionOverBorrowing"])
def test_a_flavor_that_is_lent_is_taken_where_nobody_can_be_preempted(
    limit: int | None, levels: int, preference: str | None
) -> None:
    """kueue#13896: with the preference PreemptionOverBorrowing the second job waited for its own flavor for ever."""
    assert _second_job(limit, levels, preference) == "b"


def test_it_waited_before() -> None:
    assert _second_job(0, 2, "PreemptionOverBorrowing", release="0.19") == "waits"


def _second_job(limit: int | None, levels: int, preference: str | None, *, release: Any = "0.19.2") -> str:
    """Which flavor it gets of a, its own, which is full, and b, of which `levels` Cohorts up there is enough."""
    tree = [cohort(f"c{level}") for level in range(levels + 1)]
    tree = [each.parent(f"c{level + 1}") if level < levels else each for level, each in enumerate(tree)]
    if levels:
        tree[levels] = tree[levels].quota("b", cpu=5)
    mine = (
        cluster_queue("mine").cohort("c0").quota("a", cpu=limits(5, borrowing=limit)).quota("b", cpu=0 if levels else 5)
    )
    rules: dict[str, Any] = {
        "when_can_borrow": "TryNextFlavor",
        "when_can_preempt": "TryNextFlavor",
        "preference": preference,
    }
    mine = mine.preempt(within_cluster_queue="LowerPriority").fungibility(**rules)
    other = cluster_queue("other").cohort("c0").quota("a", cpu=5)
    objects = (flavor("a"), flavor("b"), *tree, mine, other, local_queue("lq", "mine"), local_queue("lo", "other"))
    engine = Engine(EngineRules(compatibility=Compatibility.of(release)))
    scene = Play(*(each.build() for each in objects), engine=engine)
    scene.submit(wants("first", cpu=5, age=9), wants("others", queue="lo", cpu=5 if limit is None else 0))
    scene.settle()
    scene.submit(wants("second", cpu=5))
    scene.settle()
    admission = scene.workloads[key_of("second")].status.admission
    return admission.pod_set_assignments[0].flavors["cpu"] if admission else "waits"
