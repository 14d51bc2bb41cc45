"""Objects that were written in v1beta1 on a cluster where nobody converts."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.controllers.quota.old_versions import OldVersions
from multikueue.errors import ClusterUnreachable
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

SERVED = "multikueue.controllers.quota.old_versions.served_versions"


def looking(world: Table, monkeypatch: pytest.MonkeyPatch, *versions: str) -> OldVersions:
    async def served(_client: object) -> tuple[str, ...]:
        return versions

    monkeypatch.setattr(SERVED, served)
    return OldVersions(world.world)


def written_in(world: Table, version: str, *fields: str) -> None:
    """Somebody wrote the queue's spec in that version."""
    entry = {"apiVersion": f"kueue.x-k8s.io/{version}", "fieldsV1": {"f:spec": {f"f:{field}": {} for field in fields}}}
    world.manager.change(
        kinds.CLUSTER_QUEUES, world.store.cluster_queues.all_keys()[0], {"metadata": {"managedFields": [entry]}}
    )


def events(world: Table) -> list[dict[str, Any]]:
    return [each for each in world.recorder.waiting() if each["reason"] == "FieldsLost"]


def counted(world: Table) -> float:
    return float(world.world.metrics.lost_fields._value.get())


async def test_a_field_that_is_lost_is_told_on_the_queue_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()
    written_in(world, "v1beta1", "cohort", "admissionChecks", "resourceGroups")

    await looking(world, monkeypatch, "v1beta2", "v1beta1").look()

    (event,) = events(world)
    assert "spec.cohort, spec.admissionChecks is lost" in event["message"]
    assert "multikueue convert -f FILE" in event["message"]
    assert counted(world) == 1


async def test_what_was_written_in_v1beta2_has_lost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()
    written_in(world, "v1beta2", "cohortName")

    await looking(world, monkeypatch, "v1beta2", "v1beta1").look()

    assert (events(world), counted(world)) == ([], 0)


async def test_where_one_version_is_served_nobody_looks_further(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()
    written_in(world, "v1beta1", "cohort")

    await looking(world, monkeypatch, "v1beta2").look()

    assert (events(world), counted(world)) == ([], 0)


async def test_the_api_server_is_asked_again_only_about_a_new_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()
    looks = looking(world, monkeypatch, "v1beta2", "v1beta1")
    calls = list[int]()
    for spec in ({}, {}, {"stopPolicy": "Hold"}, {}):
        if spec:
            world.manager.change(kinds.CLUSTER_QUEUES, world.store.cluster_queues.all_keys()[0], {"spec": spec})
        before = len(world.manager.calls)
        await looks.look()
        calls.append(len(world.manager.calls) - before)
    assert calls == [2, 0, 2, 0]


async def test_a_spec_that_changes_during_a_look_is_looked_at_next(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()

    async def served(_client: object) -> tuple[str, ...]:
        if not world.manager.calls:
            world.manager.calls.append("the first look")
            world.manager.change(
                kinds.CLUSTER_QUEUES, world.store.cluster_queues.all_keys()[0], {"spec": {"stopPolicy": "Hold"}}
            )
        else:
            world.manager.calls.append("the second look")
        return ("v1beta2",)

    monkeypatch.setattr(SERVED, served)
    looks = OldVersions(world.world)
    world.manager.calls.clear()
    for _ in range(3):
        await looks.look()
    assert world.manager.calls == ["the first look", "the second look"]


async def test_who_got_no_answer_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()
    written_in(world, "v1beta1", "cohort")
    looks = looking(world, monkeypatch, "v1beta2", "v1beta1")
    world.manager.fault = lambda _verb, _plural: ClusterUnreachable("", "away")
    await looks.look()
    assert events(world) == []
    world.manager.fault = lambda _verb, _plural: None
    await looks.look()
    assert len(events(world)) == 1
