from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fakekube.builtins.columns import BUILT_IN, human, since
from fakekube.model.wire import Object
from tests.fakekube.front_ends import NOW, ago, item


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=-5), "<invalid>"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=5, seconds=13), "5m13s"),
        (timedelta(minutes=10, seconds=30), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=3, minutes=7), "3h7m"),
        (timedelta(hours=8, minutes=59), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2), "2d"),
        (timedelta(days=2, hours=5), "2d5h"),
        (timedelta(days=8, hours=5), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=740), "2y10d"),
        (timedelta(days=365 * 9), "9y"),
    ],
    ids=str,
)
def test_durations_read_like_kubectls(duration: timedelta, text: str) -> None:
    assert human(duration) == text


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [(None, "<unknown>"), ("", "<unknown>"), ("yesterday", "<invalid>"), (ago(hours=5), "5h")],
)
def test_ages_count_from_a_time(timestamp: str | None, text: str) -> None:
    assert since(timestamp, NOW) == text


def cells(storage: str, body: Object, *, wide: bool = False) -> list[Any]:
    return [cell.value(body, NOW) for cell in BUILT_IN[storage] if wide or not cell.priority]


def job(**status: Any) -> Object:
    spec = {"completions": 3, "parallelism": 2, "template": {"spec": {"containers": [container("a"), container("b")]}}}
    return item("one", "team", spec=spec, status=status)


def container(name: str) -> Object:
    return {"name": name, "image": f"{name}:1"}


def holds(*types: str) -> list[Object]:
    return [{"type": each, "status": "True"} for each in types]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        pytest.param(job(), ["one", "Running", "0/3", "", "5m13s"], id="not started"),
        pytest.param(
            job(startTime=ago(seconds=90), succeeded=1), ["one", "Running", "1/3", "90s", "5m13s"], id="running"
        ),
        pytest.param(
            job(
                startTime=ago(minutes=10),
                completionTime=ago(minutes=5),
                succeeded=3,
                conditions=holds("SuccessCriteriaMet", "Complete"),
            ),
            ["one", "Complete", "3/3", "5m", "5m13s"],
            id="complete",
        ),
        pytest.param(job(conditions=holds("Failed")), ["one", "Failed", "0/3", "", "5m13s"], id="failed"),
        pytest.param(job(conditions=holds("Suspended")), ["one", "Suspended", "0/3", "", "5m13s"], id="suspended"),
        pytest.param(
            job(conditions=holds("FailureTarget")), ["one", "FailureTarget", "0/3", "", "5m13s"], id="about to fail"
        ),
        pytest.param(
            {**job(), "metadata": job()["metadata"] | {"deletionTimestamp": ago()}},
            ["one", "Terminating", "0/3", "", "5m13s"],
            id="being deleted",
        ),
        pytest.param(item("one", spec={"parallelism": 4}), ["one", "Running", "0/1 of 4", "", "5m13s"], id="a queue"),
        pytest.param(item("one", spec={}), ["one", "Running", "0/1", "", "5m13s"], id="one pod"),
    ],
)
def test_jobs(body: Object, shown: list[Any]) -> None:
    assert cells("jobs.batch", body) == shown


def test_wide_columns_of_a_job() -> None:
    selector = {"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
    body = job() | {"spec": job()["spec"] | {"selector": selector}}
    assert cells("jobs.batch", body, wide=True)[5:] == ["a,b", "a:1,b:1", "a=1,b=2,c"]
    assert cells("jobs.batch", job(), wide=True)[-1] == "<none>"


def pod(*statuses: Object, **status: Any) -> Object:
    spec = {"containers": [container(str(index)) for index in range(max(1, len(statuses)))], "initContainers": [{}]}
    return item("p", "team", spec=spec, status={"containerStatuses": list(statuses), **status})


RUNS = {"ready": True, "state": {"running": {}}}


def ended(code: int = 0, reason: str = "Completed") -> Object:
    return {"state": {"terminated": {"exitCode": code, "reason": reason}}}


@pytest.mark.parametrize(
    ("body", "ready", "status", "restarts"),
    [
        pytest.param(pod(phase="Pending"), "0/1", "Pending", "0", id="pending"),
        pytest.param(pod(RUNS, phase="Running"), "1/1", "Running", "0", id="running"),
        pytest.param(
            pod({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, phase="Pending"),
            "0/1",
            "ImagePullBackOff",
            "0",
            id="waiting for an image",
        ),
        pytest.param(pod(ended(), phase="Succeeded"), "0/1", "Completed", "0", id="completed"),
        pytest.param(pod(ended(1, "Error"), phase="Failed"), "0/1", "Error", "0", id="failed"),
        pytest.param(pod(ended(3, ""), phase="Failed"), "0/1", "ExitCode:3", "0", id="failed without a reason"),
        pytest.param(
            pod(ended(), RUNS, phase="Running", conditions=holds("Ready")), "1/2", "Running", "0", id="one of two ended"
        ),
        pytest.param(pod(ended(), RUNS, phase="Running"), "1/2", "NotReady", "0", id="one ended, the other not ready"),
        pytest.param(
            pod(phase="Pending", initContainerStatuses=[{"state": {"running": {}}}]),
            "0/1",
            "Init:0/1",
            "0",
            id="initializing",
        ),
        pytest.param(
            pod(phase="Pending", initContainerStatuses=[{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]),
            "0/1",
            "Init:CrashLoopBackOff",
            "0",
            id="initialization waits",
        ),
        pytest.param(
            pod(phase="Pending", initContainerStatuses=[ended(1, "Error")]), "0/1", "Init:Error", "0", id="init failed"
        ),
        pytest.param(
            pod(RUNS, initContainerStatuses=[ended()], phase="Running"), "1/1", "Running", "0", id="init done"
        ),
        pytest.param(
            pod({"restartCount": 2, "lastState": {"terminated": {"finishedAt": ago(minutes=3)}}, **RUNS}),
            "1/1",
            "",
            "2 (3m ago)",
            id="restarted",
        ),
        pytest.param(
            pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            "0/1",
            "SchedulingGated",
            "0",
            id="gated",
        ),
        pytest.param(pod(phase="Failed", reason="Evicted"), "0/1", "Evicted", "0", id="evicted"),
        pytest.param(
            {**pod(RUNS), "metadata": pod()["metadata"] | {"deletionTimestamp": ago()}},
            "1/1",
            "Terminating",
            "0",
            id="terminating",
        ),
    ],
)
def test_pods(body: Object, ready: str, status: str, restarts: str) -> None:
    assert cells("pods.", body) == ["p", ready, status, restarts, "5m13s"]


def test_wide_columns_of_a_pod() -> None:
    placed = pod(podIPs=[{"ip": "10.0.0.7"}], conditions=holds("a"))
    placed["spec"] |= {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    assert cells("pods.", placed, wide=True)[5:] == ["10.0.0.7", "n1", "<none>", "1/2"]
    assert cells("pods.", pod(), wide=True)[5:] == ["<none>", "<none>", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({"kernelVersion": "6.1", "architecture": "arm64"}, "6.1 (arm64)"),
        ({"kernelVersion": "6.1"}, "6.1"),
        ({}, "<unknown>"),
    ],
)
def test_the_kernel_of_a_node(told: Object, shown: str) -> None:
    assert cells("nodes.", item("a", status={"nodeInfo": told}), wide=True)[8] == shown


def test_events_of_both_kinds() -> None:
    core = item(
        "e.1",
        "team",
        type="Normal",
        reason="Created",
        message=" made it \n",
        involvedObject={"kind": "Job", "name": "one", "fieldPath": "spec"},
        source={"component": "test", "host": "h"},
        firstTimestamp=ago(minutes=4),
        lastTimestamp=ago(minutes=2),
        count=3,
    )
    row = ["2m", "Normal", "Created", "job/one", "spec", "test, h", "made it", "4m", 3, "e.1"]
    assert cells("events.", core, wide=True) == row
    new = item(
        "e.2",
        "team",
        type="Normal",
        reason="Created",
        message="made it",
        involvedObject={"kind": "Job"},
        eventTime=ago(minutes=4),
        reportingComponent="c",
        reportingInstance="i",
        series={"count": 5, "lastObservedTime": ago(minutes=1)},
    )
    row = ["60s", "Normal", "Created", "job", "", "c, i", "made it", "4m", 5, "e.2"]
    assert cells("events.", new, wide=True) == row
    assert cells("events.", item("e.3", eventTime=ago(minutes=4)))[0] == "4m"
    old = item("e.4", regarding={"kind": "Job", "name": "one"}, deprecatedLastTimestamp=ago(minutes=2), note="it")
    assert cells("events.", old) == ["2m", "", "", "job/one", "it"]


@pytest.mark.parametrize(
    ("storage", "body", "shown"),
    [
        ("namespaces.", item("a", status={"phase": "Active"}), ["a", "Active", "5m13s"]),
        ("secrets.", item("a", type="Opaque", data={"x": "", "y": ""}), ["a", "Opaque", 2, "5m13s"]),
        ("secrets.", item("a", type="Opaque"), ["a", "Opaque", 0, "5m13s"]),
        ("configmaps.", item("a", data={"x": ""}, binaryData={"y": ""}), ["a", 2, "5m13s"]),
        ("serviceaccounts.", item("a"), ["a", "5m13s"]),
        ("leases.coordination.k8s.io", item("a", spec={"holderIdentity": "me"}), ["a", "me", "5m13s"]),
        ("nodes.", item("a", status={"conditions": holds("Ready")}), ["a", "Ready", "<none>", "5m13s", ""]),
        (
            "nodes.",
            item("a", metadata={"labels": {"node-role.kubernetes.io/gpu": ""}}, spec={"unschedulable": True}),
            ["a", "Unknown,SchedulingDisabled", "gpu", "5m13s", ""],
        ),
        (
            "cronjobs.batch",
            item("a", spec={"schedule": "@daily", "suspend": False}, status={"active": [{}]}),
            ["a", "@daily", "<none>", "False", 1, "<none>", "5m13s"],
        ),
        (
            "services.",
            item("a", spec={"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 443}]}),
            ["a", "ClusterIP", "10.0.0.1", "<none>", "443/TCP", "5m13s"],
        ),
        (
            "rolebindings.rbac.authorization.k8s.io",
            item("a", roleRef={"kind": "Role", "name": "r"}),
            ["a", "Role/r", "5m13s"],
        ),
        (
            "resourcequotas.",
            item("a", status={"hard": {"cpu": "2", "limits.cpu": "4"}, "used": {"cpu": "1"}}),
            ["a", "cpu: 1/2", "limits.cpu: 0/4", "5m13s"],
        ),
        (
            "endpoints.",
            item("a", subsets=[{"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"port": 3}, {"port": 4}]}]),
            ["a", "1:3,2:3,1:4 + 1 more...", "5m13s"],
        ),
        ("endpoints.", item("a"), ["a", "<none>", "5m13s"]),
        ("apiservices.apiregistration.k8s.io", item("a"), ["a", "Local", "Unknown", "5m13s"]),
        (
            "apiservices.apiregistration.k8s.io",
            item(
                "a",
                spec={"service": {"namespace": "n", "name": "s"}},
                status={"conditions": [{"type": "Available", "status": "False", "reason": "Gone"}]},
            ),
            ["a", "n/s", "False (Gone)", "5m13s"],
        ),
        (
            "certificatesigningrequests.certificates.k8s.io",
            item("a", spec={"signerName": "s", "username": "u", "expirationSeconds": 3600}),
            ["a", "5m13s", "s", "u", "60m", "Pending"],
        ),
        (
            "certificatesigningrequests.certificates.k8s.io",
            item("a", status={"conditions": holds("Approved"), "certificate": "x"}),
            ["a", "5m13s", "", "", "<none>", "Approved,Issued"],
        ),
        (
            "deployments.apps",
            item("a", spec={"replicas": 3}, status={"readyReplicas": 1, "updatedReplicas": 2}),
            ["a", "1/3", 2, 0, "5m13s"],
        ),
    ],
)
def test_other_kinds(storage: str, body: Object, shown: list[Any]) -> None:
    assert cells(storage, body) == shown


def test_subjects_of_a_binding() -> None:
    subjects = [
        {"kind": "User", "name": "u"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        {"kind": "User", "name": "v"},
    ]
    body = item("a", roleRef={"kind": "ClusterRole", "name": "r"}, subjects=subjects)
    wide = cells("clusterrolebindings.rbac.authorization.k8s.io", body, wide=True)
    assert wide == ["a", "ClusterRole/r", "5m13s", "u, v", "g", "n/s"]


@pytest.mark.parametrize("storage", BUILT_IN)
def test_an_object_of_which_little_is_known_has_cells_too(storage: str) -> None:
    body = item("a", roleRef={"kind": "Role", "name": "r"})
    assert len(cells(storage, body, wide=True)) == len(BUILT_IN[storage])
