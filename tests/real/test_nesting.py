"""Jobs that belong to other jobs: one Workload for all, and none of them runs before the uppermost is admitted."""

from __future__ import annotations

import pytest

from testbed import objects
from testbed.client import eventually
from testbed.objects import JOB, WORKLOAD, Object
from tests.real.harness import Team

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120), pytest.mark.usefixtures("history")]


def child(crew: Team, parent: Object, name: str) -> Object:
    """What some controller makes for its job: in the same queue, as most copy labels, and free to run."""
    body = objects.job(name, crew.namespace, suspend=False)
    owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": parent["metadata"]["name"]}
    body["metadata"]["ownerReferences"] = [owner | {"uid": parent["metadata"]["uid"], "controller": True}]
    return body


async def is_suspended(crew: Team, name: str) -> bool:
    return bool((await crew.job(name))["spec"]["suspend"])


async def test_what_belongs_to_a_job_is_held_until_that_is_admitted_and_has_no_workload(crew: Team) -> None:
    await crew.stop()
    parent = await crew.submit()
    made = await crew.manager.create(child(crew, parent, "child"))
    await crew.manager.create(child(crew, made, "grandchild"))
    for name in ("child", "grandchild"):
        await eventually(lambda name=name: is_suspended(crew, name))  # type: ignore[misc]
    await crew.waiting()

    await crew.go()
    worker = await crew.runs_on()
    await eventually(lambda: crew.is_true("Admitted"))
    for name in ("child", "grandchild"):
        assert await is_suspended(crew, name), "whoever made it lets it go"
        await crew.manager.patch(JOB, name, {"spec": {"suspend": False}}, crew.namespace)

    await crew.complete(worker)
    await crew.finished()
    for name in ("child", "grandchild"):
        assert not await is_suspended(crew, name)
    (only,) = await crew.manager.list(WORKLOAD, crew.namespace)
    assert [owner["name"] for owner in only["metadata"]["ownerReferences"]] == ["job"]
    assert "Suspended" in {event["reason"] for event in await crew.told(JOB, "child")}


async def test_what_belongs_to_a_job_is_stopped_with_it(crew: Team) -> None:
    parent = await crew.submit()
    first = await crew.runs_on()
    await eventually(lambda: crew.is_true("Admitted"))
    await crew.manager.create(child(crew, parent, "child"))

    await crew.manager.patch(
        WORKLOAD, (await crew.workload())["metadata"]["name"], {"spec": {"active": False}}, crew.namespace
    )

    await eventually(lambda: is_suspended(crew, "child"), timeout=40)
    assert await crew.clients[first].find(JOB, "child", crew.namespace) is None
