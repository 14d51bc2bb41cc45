from __future__ import annotations

from typing import Any

import pytest
import yaml

from multikueue.kube.client import Client
from tests.cli.conftest import Run
from tests.cli.field import POD, Field

Asked = list[tuple[str, str, dict[str, str]]]

pytestmark = pytest.mark.anyio


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Which logs were asked for: cluster, pod and query."""
    logs: Asked = []
    stream = Client.stream

    def record(self: Client, path: str, params: dict[str, str], **more: Any) -> Any:
        if path.endswith("/log"):
            logs.append((self.cluster, path.split("/")[-2], dict(params)))
        return stream(self, path, params, **more)

    monkeypatch.setattr(Client, "stream", record)
    return logs


def said(pod: str) -> str:
    """What the sandbox says in the place of a container."""
    return f"fakekube runs no containers: pod {pod} has nothing to say."


async def test_the_log_of_the_only_pod_is_printed_as_it_is(field: Field, asked: Asked) -> None:
    await field.submit()
    await field.runs_on("train", "worker2")
    await field.pod("worker2", "one", await field.copy("worker2"))

    shown = await field.run("workloads", "logs", "train", "--tail", "7", "--since", "5m", "--timestamps", "-p")

    assert (shown.code, shown.lines, shown.err) == (0, [said("one")], "")
    wanted = {"container": "main", "tailLines": "7", "sinceSeconds": "300", "timestamps": "true", "previous": "true"}
    assert asked == [("worker2", "one", wanted)]


async def test_several_pods_are_told_apart_and_can_be_chosen(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")
    copy = await field.copy("worker1")
    for name in ("one", "two"):
        await field.pod("worker1", name, copy)

    both = await field.run("workloads", "logs", "train")
    assert both.lines == [f"[{name}/main] {said(name)}" for name in ("one", "two")]
    assert (await field.run("workloads", "logs", "train", "--pod", "two")).lines == [said("two")]
    assert (await field.run("workloads", "logs", "train", "--pod", "two", "--prefix")).lines == [
        f"[two/main] {said('two')}"
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--pod", "three"], "there is no pod 'three'; there are: one"),
        (["-c", "side"], "no pod has a container 'side'; there are: main"),
    ],
    ids=["no such pod", "no such container"],
)
async def test_what_is_not_there_is_named_with_what_is(field: Field, words: list[str], expected: str) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")
    await field.pod("worker1", "one", await field.copy("worker1"))

    shown = await field.run("workloads", "logs", "train", *words)

    assert (shown.code, shown.out, shown.err) == (1, "", f"error: {expected}\n")


async def test_without_a_cluster_or_pods_it_says_why_in_one_line(field: Field) -> None:
    await field.submit()
    waiting = await field.run("workloads", "logs", "train")
    await field.runs_on("train", "worker1")
    empty = await field.run("workloads", "logs", "train")
    await field.becomes("train", lambda made: made.cluster_name("worker1").finished(message="all went well"))
    over = await field.run("workloads", "logs", "train", "-f")

    for shown, expected in (
        (waiting, "is on no cluster"),
        (empty, "No pods of workload"),
        (over, "Its pods are gone"),
    ):
        assert (shown.code, shown.out, len(shown.err.splitlines())) == (1, "", 1)
        assert expected in shown.err


async def test_a_job_that_waits_is_followed_to_its_end(field: Field) -> None:
    await field.submit()
    follow = field.start("workloads", "logs", "train", "-f")
    await follow.said("Waiting for a cluster.")
    await field.runs_on("train", "worker1")
    await follow.said("workload default/job-train is on worker1")
    copy = await field.copy("worker1")
    await field.pod("worker1", "one", copy)
    await follow.said(said("one"))
    await field.leaves("train")
    await field.runs_on("train", "worker2")
    await field.pod("worker2", "two", await field.copy("worker2"))
    await follow.said(said("two"))
    await field.becomes("train", lambda made: made.cluster_name("worker2").finished(message="all went well"))

    done = await follow.result()

    assert (done.code, done.lines) == (0, [said("one"), said("two")])
    assert done.err.endswith("Finished on worker2: all went well.\n")


async def test_a_worker_that_is_gone_is_waited_for_until_the_job_leaves_it(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")
    known = field.kubeconfig.read_text()
    (gone,) = [each["cluster"]["server"] for each in yaml.safe_load(known)["clusters"] if each["name"] == "worker1"]
    field.kubeconfig.write_text(known.replace(gone, "https://127.0.0.1:9"))
    follow = field.start("workloads", "logs", "train", "-f")
    await follow.said("worker1 cannot be reached", "Connect call failed")
    await field.leaves("train")
    await field.runs_on("train", "worker2")
    await field.pod("worker2", "two", await field.copy("worker2"))
    await follow.said(said("two"))
    await field.becomes("train", lambda made: made.cluster_name("worker2").finished(message="all went well"))

    done = await follow.result()

    assert (done.code, done.lines) == (0, [said("two")])
    assert done.err.count("worker1 cannot be reached") == 1


async def test_more_containers_than_wanted_are_not_followed(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")
    copy = await field.copy("worker1")
    spec = {"containers": [{"name": "main", "image": "x"}, {"name": "side", "image": "x"}]}
    await field.pod("worker1", "one", copy, spec=spec)

    shown = await field.run("workloads", "logs", "train", "-f", "--all-containers", "--max-log-requests", "1")

    assert shown.code == 1
    assert "more than 1 containers run: choose with --pod" in shown.err


async def test_the_default_container_is_that_of_kubectl(field: Field, asked: Asked) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")
    spec = {"containers": [*POD["containers"], {"name": "side", "image": "x"}]}
    named = {"kubectl.kubernetes.io/default-container": "side"}
    await field.pod("worker1", "one", await field.copy("worker1"), spec=spec, annotations=named)

    await field.run("workloads", "logs", "train")
    await field.run("workloads", "logs", "train", "--all-containers")

    assert [query["container"] for _, _, query in asked] == ["side", "main", "side"]


def test_one_container_or_all(cli: Run) -> None:
    assert cli("workloads", "logs", "train", "-c", "a", "--all-containers").code == 2
