"""The admission webhook: what it makes of new jobs, what it refuses, and that it stays in place."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from testbed import objects, queues
from testbed.bed import Testbed
from testbed.client import ApiError, eventually
from testbed.objects import JOB, KUEUE_NAMESPACE, MULTIKUEUE_CONTROLLER, SECRET, WORKLOAD, Object
from tests.real.harness import Manager, Team
from tests.real.skipping import needs_testbed
from tests.real.webhooking import CERTIFICATE, CONFIGURATION, SETTINGS, WEBHOOKS, registered, with_webhook

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    needs_testbed("an API server in a container does not reach a webhook on our loopback"),
]


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    return dict(SETTINGS)


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str]) -> Iterator[Manager]:
    yield from with_webhook(bed, manager_settings)


@pytest.fixture
async def crew(crew: Team) -> Team:
    return await registered(crew)


def plain(crew: Team, name: str = "job", **more: Any) -> Object:
    """A job as a user writes it, with nothing but a queue."""
    body = objects.job(name, crew.namespace, suspend=False, **more)
    del body["spec"]["suspend"]
    return body


@pytest.mark.usefixtures("history")
async def test_a_plain_job_with_a_queue_runs_through(crew: Team) -> None:
    made = await crew.manager.create(plain(crew))
    assert made["spec"]["suspend"] is True
    assert made["spec"]["managedBy"] == MULTIKUEUE_CONTROLLER
    worker = await crew.runs_on()
    await eventually(lambda: _is_started(crew))
    await crew.complete(worker)
    done = await crew.finished()
    assert done["spec"]["suspend"] is False
    assert done["status"]["succeeded"] == 1


async def test_a_job_that_names_its_manager_keeps_it(crew: Team) -> None:
    made = await crew.manager.create(plain(crew, managed_by="example.com/mine"))
    assert (made["spec"]["suspend"], made["spec"]["managedBy"]) == (True, "example.com/mine")


async def test_a_job_of_a_queue_that_runs_on_the_manager_is_only_suspended(crew: Team) -> None:
    here = objects.cluster_queue(f"{crew.namespace}-here")
    await queues.setup_queue(crew.manager, namespace=crew.namespace, queue="here", cluster_queue=here)

    async def known() -> Object | None:
        made = await crew.manager.create(plain(crew, queue="here"), dry_run=True)
        return None if "managedBy" in made["spec"] else made

    await eventually(known)
    made = await crew.manager.create(plain(crew, queue="here"))
    assert made["spec"]["suspend"] is True
    assert "managedBy" not in made["spec"]

    async def runs() -> bool:
        return (await crew.job())["spec"]["suspend"] is False

    await eventually(runs)
    assert await crew.remote_jobs() == {}


async def test_a_job_without_a_queue_is_not_touched(crew: Team) -> None:
    made = await crew.manager.create(plain(crew, queue=None))
    assert made["spec"]["suspend"] is False
    assert "managedBy" not in made["spec"]


async def test_a_job_that_belongs_to_one_in_a_queue_is_not_touched(crew: Team) -> None:
    await crew.stop()
    parent = await crew.manager.create(plain(crew))
    await crew.waiting()
    child = plain(crew, "child")
    owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": "job", "uid": parent["metadata"]["uid"]}
    child["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    made = await crew.manager.create(child)
    assert "managedBy" not in made["spec"]

    async def is_held() -> bool:
        return bool((await crew.job("child"))["spec"]["suspend"])

    await eventually(is_held)
    assert len(await crew.manager.list(WORKLOAD, crew.namespace)) == 1


async def test_a_job_without_a_queue_gets_the_one_for_all_as_long_as_there_is_one(crew: Team) -> None:
    queue = objects.local_queue("default", crew.namespace, cluster_queue=crew.namespace)
    for client in (crew.manager, *crew.clients.values()):
        await client.create(queue)

    async def is_given() -> bool:
        made = await crew.manager.create(plain(crew, "probe", queue=None), dry_run=True)
        return objects.QUEUE_LABEL in (made["metadata"].get("labels") or {})

    async def is_asked_about_no_more() -> bool:
        return len((await crew.manager.get(WEBHOOKS, CONFIGURATION))["webhooks"]) == 2

    await eventually(is_given)
    made = await crew.manager.create(plain(crew, queue=None))
    assert made["metadata"]["labels"][objects.QUEUE_LABEL] == "default"
    assert (made["spec"]["suspend"], made["spec"]["managedBy"]) == (True, MULTIKUEUE_CONTROLLER)
    await crew.complete(await crew.runs_on())
    await crew.finished()
    (*_, last) = (await crew.manager.get(WEBHOOKS, CONFIGURATION))["webhooks"]
    assert last["namespaceSelector"]["matchExpressions"][0]["values"] == [crew.namespace]

    await crew.manager.delete(objects.LOCAL_QUEUE, "default", crew.namespace)
    await eventually(is_asked_about_no_more)
    assert not await is_given()


REFUSED_AT_BIRTH = {
    "a time limit that is none": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "-3"}},
    "an odd queue": {"queue": "Main_Queue"},
}


@pytest.mark.parametrize("fault", REFUSED_AT_BIRTH.values(), ids=REFUSED_AT_BIRTH.keys())
async def test_a_job_that_breaks_a_rule_is_refused(crew: Team, fault: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match=r"denied the request: metadata\.labels"):
        await crew.manager.create(plain(crew, **fault))


async def test_a_running_job_may_not_change_what_its_workload_was_made_from(crew: Team) -> None:
    await crew.manager.create(plain(crew))
    worker = await crew.runs_on()
    await eventually(lambda: _is_started(crew))
    limit = "kueue.x-k8s.io/max-exec-time-seconds"
    for label, value in {objects.QUEUE_LABEL: "other", limit: "60"}.items():
        with pytest.raises(ApiError, match="immutable while the job is not suspended"):
            await crew.manager.patch(JOB, "job", {"metadata": {"labels": {label: value}}}, crew.namespace)
    await crew.manager.patch(JOB, "job", {"metadata": {"labels": {"mine": "yes"}}}, crew.namespace)
    await crew.complete(worker)
    await crew.finished()


async def _is_started(crew: Team) -> bool:
    return (await crew.job())["spec"]["suspend"] is False


async def test_a_waiting_job_may_change_its_queue(crew: Team) -> None:
    await crew.manager.create(objects.local_queue("other", crew.namespace, cluster_queue=crew.namespace))
    await crew.stop()
    await crew.manager.create(plain(crew))
    await crew.waiting()
    await crew.manager.patch(JOB, "job", {"metadata": {"labels": {objects.QUEUE_LABEL: "other"}}}, crew.namespace)
    await eventually(lambda: _waits_in(crew, "other"))


async def _waits_in(crew: Team, queue: str) -> bool:
    return bool((await crew.workload())["spec"]["queueName"] == queue)


async def test_the_webhook_does_not_slow_the_managers_own_writes_or_those_of_others(crew: Team) -> None:
    """It looks at jobs with a queue only; a registration that looked at more would stop the cluster while we are down."""
    (create, update) = (await crew.manager.get(WEBHOOKS, CONFIGURATION))["webhooks"]
    for hook, operation in ((create, "CREATE"), (update, "UPDATE")):
        (rule,) = hook["rules"]
        assert (rule["apiGroups"], rule["resources"], rule["operations"]) == (["batch"], ["jobs"], [operation])
        assert hook["objectSelector"]["matchExpressions"] == [{"key": objects.QUEUE_LABEL, "operator": "Exists"}]
    assert (create["failurePolicy"], update["failurePolicy"]) == ("Fail", "Ignore")


async def test_what_is_damaged_is_put_back(crew: Team) -> None:
    secret = await crew.manager.get(SECRET, CERTIFICATE, KUEUE_NAMESPACE)
    found = await crew.manager.get(WEBHOOKS, CONFIGURATION)
    good = found["webhooks"][0]["clientConfig"]["caBundle"]
    for hook in found["webhooks"]:
        hook["clientConfig"]["caBundle"] = b64encode(b64decode(secret["data"]["tls.crt"]) * 2).decode()
    await crew.manager.replace(found)
    await crew.manager.delete(SECRET, CERTIFICATE, KUEUE_NAMESPACE)

    async def repaired() -> bool:
        new = await crew.manager.get(SECRET, CERTIFICATE, KUEUE_NAMESPACE)
        assert new["data"]["tls.crt"] != secret["data"]["tls.crt"]
        for hook in (await crew.manager.get(WEBHOOKS, CONFIGURATION))["webhooks"]:
            assert hook["clientConfig"]["caBundle"] not in (good, found["webhooks"][0]["clientConfig"]["caBundle"])
        return True

    await eventually(repaired, timeout=90)

    async def serves() -> bool:
        try:
            made = await crew.manager.create(plain(crew))
        except ApiError as error:
            if error.status == 500:  # the webhook that the API server knows is not the one that answers
                return False
            raise
        return bool(made["spec"]["suspend"])

    await eventually(serves)
    await crew.complete(await crew.runs_on())
    await crew.finished()
    assert len(await crew.manager.list(WORKLOAD, crew.namespace)) == 1
