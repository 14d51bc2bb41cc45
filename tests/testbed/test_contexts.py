"""Clusters of a kubeconfig as a bed: what is read from it, what they cannot do, and how a test is skipped for that."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakekube.front_end.authority import Certificate
from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig
from testbed import objects
from testbed.bed import Testbed
from testbed.client import Client
from testbed.contexts import WEBHOOK, WEBHOOKS, Access, ContextBed, InUse, Missing, Unsupported, access, load
from testbed.kubeconfig import dump
from testbed.objects import MULTIKUEUE_CLUSTER, WORKLOAD
from testbed.sandbox import SandboxBed
from tests.real.skipping import skipping

pytestmark = pytest.mark.anyio

PAIR = {"client-certificate-data": "Y2VydA==", "client-key-data": "a2V5"}
BY_CERTIFICATE = Access("https://127.0.0.1:1", b"ca", certificate=Certificate(b"cert", b"key"))
BY_TOKEN = Access("https://127.0.0.1:2", b"ca", token="word")


def config(*contexts: str, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    """A kubeconfig with these contexts, each with a cluster and a user as kind writes them, or with those given."""
    authority = {"certificate-authority-data": b64encode(b"ca").decode()}
    return {
        "clusters": [
            {"name": f"{name}-cluster", "cluster": cluster or {"server": f"https://127.0.0.1:{port}", **authority}}
            for port, name in enumerate(contexts, 1)
        ],
        "users": [{"name": f"{name}-user", "user": user or PAIR} for name in contexts],
        "contexts": [
            {"name": name, "context": {"cluster": f"{name}-cluster", "user": f"{name}-user"}} for name in contexts
        ],
    }


@pytest.fixture(name="bed")
def _bed() -> ContextBed:
    return ContextBed(config("kind-manager", "kind-worker-1", "kind-worker-2"), ["kind-manager", "kind-worker-2"])


def test_a_context_leads_to_a_server_by_certificate_or_by_token() -> None:
    assert access(config("a"), "a") == BY_CERTIFICATE
    assert access(config("b", "a", user={"token": "word"}), "a") == BY_TOKEN


@pytest.mark.parametrize(
    ("given", "context", "message"),
    [
        pytest.param(config("a"), "b", "no context b", id="an unknown context"),
        pytest.param({**config("a"), "users": []}, "a", "no user a-user", id="an unknown user"),
        pytest.param(
            config("a", cluster={"server": "s", "certificate-authority": "/ca"}),
            "a",
            "context a .*certificate-authority-data is missing",
            id="an authority in a file",
        ),
        pytest.param(
            config("a", user={"exec": {}}), "a", "client-certificate-data is missing", id="a user by a program"
        ),
    ],
)
def test_what_is_missing_in_a_kubeconfig_is_named(given: dict[str, Any], context: str, message: str) -> None:
    with pytest.raises(Missing, match=message):
        access(given, context)


async def test_a_cluster_that_is_not_there_is_named() -> None:
    bed = ContextBed(config("kind-manager"), ["kind-manager"])
    with pytest.raises(Missing, match=r"manager \(https://127.0.0.1:1\) cannot be reached"):
        await bed.open()


@pytest.mark.timeout(180)  # it starts pytest again
def test_without_the_clusters_the_suite_ends_with_one_message(tmp_path: Path) -> None:
    nowhere = tmp_path / "kind"
    command = (sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider")
    env = {**os.environ, "KUBECONFIG": str(nowhere), "MULTIKUEUE_TEST_CONTEXTS": "kind-manager,kind-worker-1"}

    done = subprocess.run([*command, "tests/real/test_life.py"], env=env, capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stdout.count(str(nowhere)) == 1
    assert "make kind-up" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert " error" not in done.stdout


def test_of_several_kubeconfigs_the_first_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(yaml.safe_dump(config("a", user={"token": "first"})))
    second.write_text(yaml.safe_dump(config("a", "b", user={"token": "second"})))
    together = load(str(first), str(second))
    assert [access(together, name).token for name in "ab"] == ["first", "second"]


def test_the_first_context_is_the_manager_and_the_others_are_the_workers(bed: ContextBed) -> None:
    assert bed.manager.url == "https://127.0.0.1:1"
    assert {plane.name: plane.url for plane in bed.workers} == {"worker1": "https://127.0.0.1:3"}
    assert bed.foreign


def test_a_kubeconfig_of_a_plane_is_one_a_worker_may_be_reached_by(bed: ContextBed) -> None:
    (worker,) = bed.workers
    written = worker.kubeconfig(server="https://127.0.0.1:9")
    check_worker_kubeconfig(dump(written))
    assert access(written, "worker1") == Access("https://127.0.0.1:9", b"ca", certificate=BY_CERTIFICATE.certificate)
    assert access(worker.kubeconfig(token="word"), "worker1").token == "word"


async def _touch_audit(bed: Testbed) -> None:
    bed.manager.audit.mark()


UNSUPPORTED: dict[str, Callable[[Testbed], Awaitable[object]]] = {
    "the testbed's audit log": _touch_audit,
    "control planes of the testbed, which can be stopped": lambda bed: bed.manager.kill(),
    "the testbed's Kueue": lambda bed: bed.start_kueue(bed.manager),
    "the testbed's programs": lambda bed: bed.start_controllers(bed.manager, ["job-controller"]),
    "the testbed's users": lambda bed: bed.manager.grant("manager", []),
}


@pytest.mark.parametrize("needs", UNSUPPORTED)
async def test_what_needs_the_testbed_skips_a_test_and_says_so(bed: ContextBed, needs: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=f"^needs {needs}"), skipping():
        await UNSUPPORTED[needs](bed)


def test_no_other_user_than_the_administrator_is_there(bed: ContextBed) -> None:
    with pytest.raises(Unsupported, match="users"):
        bed.manager.client("manager")


def test_a_name_nobody_has_is_a_mistake_and_no_reason_to_skip(bed: ContextBed) -> None:
    assert not hasattr(bed.manager, "audits")
    assert not hasattr(bed, "stop_etcd")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(
            ExceptionGroup("", [ExceptionGroup("", [Unsupported("x")])]), pytest.skip.Exception, id="in task groups"
        ),
        pytest.param(ExceptionGroup("", [Unsupported("x"), ValueError()]), ExceptionGroup, id="beside a failure"),
        pytest.param(AssertionError(), AssertionError, id="a failure alone"),
    ],
)
def test_a_failure_is_never_skipped(error: Exception, outcome: type[BaseException]) -> None:
    with pytest.raises(outcome), skipping():
        raise error


@pytest.fixture(name="lent")
async def _lent() -> AsyncIterator[tuple[ContextBed, Client]]:
    """A manager cluster that somebody uses with a worker called theirs, as a bed, and as its administrator."""
    async with SandboxBed.start(workers=0) as owner, owner.manager.client() as client:
        body = objects.multikueue_cluster("theirs", secret="theirs")
        body["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "multikueue"}
        await client.create(body)
        kubeconfig = owner.manager.kubeconfig()
        yield ContextBed(kubeconfig, [kubeconfig["contexts"][0]["name"]]), client


async def test_the_workers_of_others_are_put_aside_and_come_back_as_they_were(lent: tuple[ContextBed, Client]) -> None:
    bed, client = lent
    before = await client.get(MULTIKUEUE_CLUSTER, "theirs")

    await bed.open()
    assert await client.find(MULTIKUEUE_CLUSTER, "theirs") is None
    await bed.close()

    after = await client.get(MULTIKUEUE_CLUSTER, "theirs")
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])


async def test_where_the_webhook_of_a_manager_stands_nothing_begins(lent: tuple[ContextBed, Client]) -> None:
    bed, client = lent
    await client.create({"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": {"name": WEBHOOK}})

    with pytest.raises(InUse, match="multikueue webhook remove"):
        await bed.open()
    assert await client.find(MULTIKUEUE_CLUSTER, "theirs") is not None


async def has_workload(client: Client, status: dict[str, Any]) -> None:
    await client.apply(objects.namespace("team"))
    spec = {"podSets": [{"name": "main", "count": 1, "template": objects.job("x", "team")["spec"]["template"]}]}
    identity = {"apiVersion": WORKLOAD.api_version, "kind": WORKLOAD.kind}
    await client.create({**identity, "metadata": {"name": "busy", "namespace": "team"}, "spec": spec})
    await client.patch_status(WORKLOAD, "busy", status, "team")


@pytest.mark.parametrize("status", [{"clusterName": "theirs"}, {"nominatedClusterNames": ["theirs"]}])
async def test_where_something_runs_or_waits_nothing_begins(
    lent: tuple[ContextBed, Client], status: dict[str, Any]
) -> None:
    bed, client = lent
    await has_workload(client, status)

    with pytest.raises(InUse, match="team/busy"):
        await bed.open()
    assert await client.find(MULTIKUEUE_CLUSTER, "theirs") is not None


async def test_what_is_finished_is_no_hindrance(lent: tuple[ContextBed, Client]) -> None:
    bed, client = lent
    finished = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    await has_workload(client, {"clusterName": "theirs", "conditions": [finished]})

    await bed.open()
    await bed.close()
    assert await client.find(MULTIKUEUE_CLUSTER, "theirs") is not None
