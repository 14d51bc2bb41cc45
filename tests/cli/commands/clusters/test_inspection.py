"""`clusters check`: what a worker lacks, and what cannot be seen from here."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fakekube.model.wire import Refused
from multikueue.api.kinds import (
    CLUSTER_QUEUES,
    DEFINITIONS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    SECRETS,
)
from multikueue.api.meta import ObjectKey
from multikueue.registration.credentials import Credential, Endpoint, build_kubeconfig
from tests.builders import cluster_queue, local_queue, multikueue_cluster, secret
from tests.cli.cluster import Cluster
from tests.cli.commands.clusters.registering import stored, token_until
from tests.cli.conftest import Result, Run, World


def test_check_finds_a_queue_that_is_missing_on_the_worker(joined: World, cli: Run) -> None:
    result = cli("clusters", "check", "w1")

    assert result.code == 1
    assert "LocalQueue team-a/main" in result.out
    assert "create namespace team-a" in result.out


def test_check_of_a_fit_worker_ends_with_0(joined: World, cli: Run) -> None:
    joined.worker.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())

    result = cli("clusters", "check", "-o", "json")

    levels = {(each["subject"], each["level"]) for each in json.loads(result.out)["items"]}
    assert result.code == 0
    assert ("credential", "ok") in levels
    assert ("configs", "ok") in levels
    assert ("manager's connection", "warning") in levels
    assert ("LocalQueue team-a/main", "warning") in levels
    assert "failed" not in dict(levels).values()


@pytest.mark.parametrize(
    ("there", "setting", "told"),
    [
        (("h100", "spot"), "{}", False),
        (("a100",), "{}", True),
        (("a100",), "{a100: h100}", False),
        (("a100",), "{w1/a100: h100}", False),
        (("a100",), "{w2/a100: h100}", True),
    ],
    ids=["the same name", "another name", "said to be the same", "said for this worker", "said for another worker"],
)
def test_check_warns_of_flavors_that_are_not_known_there(
    there: tuple[str, ...], setting: str, told: bool, joined: World, cli: Run, tmp_path: Path
) -> None:
    joined.manager.add(CLUSTER_QUEUES, cluster_queue("shared").checks("mk").quota("h100", cpu=1).build())
    joined.manager.add(LOCAL_QUEUES, local_queue("gpu", "shared", namespace="team-a").build())
    theirs = cluster_queue("theirs")
    for name in there:
        theirs = theirs.quota(name, cpu=1)
    joined.worker.add(CLUSTER_QUEUES, theirs.build())
    joined.worker.add(LOCAL_QUEUES, local_queue("gpu", "theirs", namespace="team-a").build())
    settings = tmp_path / "multikueue.yaml"
    settings.write_text(f"capacity_follow: {{flavors: {setting}}}", encoding="utf-8")

    found = json.loads(cli("clusters", "check", "-o", "json", "--config", str(settings)).out)["items"]

    details = [each["detail"] for each in found if each["subject"] == "flavors of shared"]
    assert bool(details) is told
    if told:
        assert details[0].startswith("h100: ClusterQueue theirs there has a100. Name them alike")


def test_check_looks_for_the_kinds_that_are_declared(joined: World, cli: Run, tmp_path: Path) -> None:
    settings = tmp_path / "multikueue.yaml"
    settings.write_text(
        "integrations: {declared: [{name: Sweep.v1.example.com, pods: [{at: spec.workers}]}]}", encoding="utf-8"
    )

    result = cli("clusters", "check", "-o", "json", "--config", str(settings))

    found = {each["subject"]: (each["level"], each["detail"]) for each in json.loads(result.out)["items"]}
    words = "example.com/v1 is not served: jobs of this kind cannot go there"
    assert found["kind Sweep"] == ("warning", words)


def test_check_of_an_unreachable_worker_ends_with_3_and_says_why(joined: World, cli: Run) -> None:
    credential = Credential(kind="token", user={"token": "t"}, expires=None)
    gone = build_kubeconfig("w1", Endpoint(server="https://127.0.0.1:1"), credential)
    joined.manager.add(SECRETS, secret("multikueue-w1", namespace="kueue-system").kubeconfig(gone).build())

    result = cli("clusters", "check")

    assert result.code == 3
    assert "unreachable" in result.out


@pytest.mark.parametrize(
    ("kubeconfig", "words"),
    [
        (token_until(timedelta(days=-9, hours=-12)), "ended 9d ago"),
        (b"users: [{name: a, user: {tokenFile: /x}}]\nclusters: [{name: c}]", "tokenFile is not allowed"),
        (b"clusters: [{name: c, cluster: {server: 'https://x'}}]", "no current context"),
    ],
    ids=["it has ended", "it is not safe", "it is not complete"],
)
def test_check_does_not_use_a_credential_that_cannot_work(
    joined: World, cli: Run, kubeconfig: bytes, words: str
) -> None:
    joined.manager.add(SECRETS, secret("multikueue-w1", namespace="kueue-system").kubeconfig(kubeconfig).build())

    result = cli("clusters", "check")

    assert result.code == 1
    assert words in result.out
    assert "API server" not in result.out


def test_check_warns_before_a_credential_ends_and_says_who_is_refused(joined: World, cli: Run) -> None:
    (user,) = stored(joined)["users"]
    joined.worker.revoke(user["user"]["token"])

    refused = cli("clusters", "check")

    assert refused.code == 1
    assert "the worker refuses it" in refused.out


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (multikueue_cluster("w1").path("/etc/kubeconfigs/w1"), "only the manager has the file /etc/kubeconfigs/w1"),
        (multikueue_cluster("w1").profile("w1"), "only the manager has the credentials of a ClusterProfile"),
    ],
    ids=["a file", "a ClusterProfile"],
)
def test_check_says_what_cannot_be_checked_from_here_and_ends_with_3(
    joined: World, cli: Run, source: Any, words: str
) -> None:
    joined.manager.add(MULTIKUEUE_CLUSTERS, source.active().build())

    result = cli("clusters", "check", "-o", "json")

    found = {each["subject"]: (each["level"], each["detail"]) for each in json.loads(result.out)["items"]}
    assert found["manager's connection"][0] == "ok"
    assert found["credential"] == ("unchecked", f"not checkable from here: {words}")
    assert "API server" not in found
    assert result.code == 3


def test_check_of_a_secret_that_one_may_not_read_is_none(joined: World, cli: Run) -> None:
    def forbidding(_verb: str, _plural: str) -> Refused | None:
        path = joined.manager.requests[-1].path
        return Refused(403, "Forbidden", "no") if "/secrets/" in path else None

    joined.manager.fault = forbidding

    result = cli("clusters", "check")

    assert "not checkable from here: you may not read Secret kueue-system/multikueue-w1" in result.out
    assert result.code == 3


def served(world: World, strategy: str, *versions: str) -> None:
    """Kueue's definitions on the manager cluster serve these versions, and are converted by that."""
    for found in world.manager.all(DEFINITIONS):
        key = ObjectKey("", found["metadata"]["name"])
        if found["spec"]["group"] == "kueue.x-k8s.io":
            listed = [{"name": each, "served": True, "storage": each == "v1beta2"} for each in versions]
            spec = {"conversion": {"strategy": strategy}, "versions": listed}
            world.manager.change(DEFINITIONS, key, {"spec": spec})


OLD_VERSIONS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "two versions that nobody converts": (
        ("None", "v1beta1", "v1beta2"),
        {"kueue.x-k8s.io/v1beta1", "ClusterQueue cq"},
    ),
    "two versions that Kueue converts": (("Webhook", "v1beta1", "v1beta2"), set()),
    "one version": (("None", "v1beta2"), set()),
}


@pytest.mark.parametrize(("definitions", "told"), OLD_VERSIONS.values(), ids=OLD_VERSIONS)
def test_check_tells_of_versions_that_nobody_converts_and_of_what_was_lost(
    joined: World, cli: Run, definitions: tuple[str, ...], told: set[str]
) -> None:
    joined.worker.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())
    written = {"apiVersion": "kueue.x-k8s.io/v1beta1", "fieldsV1": {"f:spec": {"f:cohort": {}}}}
    joined.manager.change(CLUSTER_QUEUES, ObjectKey("", "cq"), {"metadata": {"managedFields": [written]}})
    served(joined, *definitions)

    result = cli("clusters", "check", "-o", "json")

    items = json.loads(result.out)["items"]
    assert {each["subject"] for each in items if each["metadata"]["name"] == "(manager)"} == told
    assert result.code == (1 if told else 0)
    assert ("multikueue convert -f FILE" in result.out) == bool(told)


def limited(cluster: Cluster, cpu: str, namespace: str = "team-a") -> None:
    item = {"type": "Container", "defaultRequest": {"cpu": cpu}}
    cluster.add(LIMIT_RANGES, {"metadata": {"name": "limits", "namespace": namespace}, "spec": {"limits": [item]}})


def compared(result: Result) -> list[dict[str, Any]]:
    """The findings that are differences, or say that there was no comparison."""
    items = json.loads(result.out)["items"]
    return [each for each in items if "difference" in each or each["subject"] == "not compared"]


def test_check_tells_what_changes_amounts_and_ends_with_0(joined: World, cli: Run) -> None:
    joined.worker.add(LOCAL_QUEUES, local_queue("main", "cq", namespace="team-a").build())
    limited(joined.manager, "1")
    limited(joined.worker, "2")
    joined.manager.add(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})

    told, shown = cli("clusters", "check", "-o", "json"), cli("clusters", "check")

    of_limits, of_priority = compared(told)
    assert (told.code, of_limits["level"], of_limits["subject"]) == (0, "warning", "LimitRange team-a/limits")
    assert of_limits["difference"] | {"meaning": ""} == {
        "subject": "LimitRange team-a/limits",
        "field": "defaultRequest.cpu of type Container",
        "manager": "1",
        "worker": "2",
        "meaning": "",
        "advice": "give namespace team-a the same defaultRequest on both, or say it in each job",
    }
    assert (of_priority["subject"], of_priority["difference"]["worker"]) == ("PriorityClass high", "missing")
    assert "a container that requests no cpu counts as 1, and runs with 2 there" in shown.out


def test_check_tells_nothing_of_what_changes_no_amount(joined: World, cli: Run) -> None:
    limited(joined.manager, "1")
    limited(joined.worker, "1000m")
    limited(joined.worker, "4", namespace="another")

    assert compared(cli("clusters", "check", "-o", "json")) == []


def test_check_says_what_it_may_not_compare(joined: World, cli: Run) -> None:
    """As of a worker that was registered before these rights were granted."""
    joined.worker.fault = lambda _, plural: Refused(403, "Forbidden", "no") if plural in HIDDEN else None

    (told,) = compared(cli("clusters", "check", "-o", "json"))

    assert told["level"] == "warning"
    assert told["detail"] == (
        "limitranges, priorityclasses, because the account may not list them there; register the cluster again"
    )


HIDDEN = ("limitranges", "priorityclasses")


def test_check_counts_devices_as_the_settings_say(joined: World, cli: Run, tmp_path: Path) -> None:
    for cluster, device in ((joined.manager, "small.example.com"), (joined.worker, "big.example.com")):
        request = {"name": "r", "exactly": {"deviceClassName": device, "allocationMode": "ExactCount", "count": 1}}
        spec = {"spec": {"devices": {"requests": [request]}}}
        cluster.add(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "one", "namespace": "team-a"}, "spec": spec})
    settings = tmp_path / "multikueue.yaml"
    mapping = "{name: gpu, device_class_names: [small.example.com, big.example.com]}"
    settings.write_text(f"quota: {{dra: {{device_class_mappings: [{mapping}]}}}}", encoding="utf-8")

    assert len(compared(cli("clusters", "check", "-o", "json"))) == 2
    assert compared(cli("clusters", "check", "-o", "json", "--config", str(settings))) == []
