"""What goes to the server, what is refused before, and what a dry run tells: one file, as all of it is one command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from fakekube.model.wire import Refused
from multikueue.api.kinds import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from multikueue.api.kueue.workload import PRIORITY_CLASS_LABEL
from multikueue.cli.terminal.output import CLEAR_LINE
from tests.builders import (
    admission_check,
    cluster_queue,
    flavor,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    namespace,
    workload,
)
from tests.cli.conftest import Run, World

PODS = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"generateName": "train-"},
    "spec": {"template": {"spec": PODS}},
}
QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def ready(world: World) -> World:
    """A queue over two clusters, of which one is cordoned."""
    manager = world.manager
    manager.add(NAMESPACES, namespace("a").build())
    manager.add(LOCAL_QUEUES, local_queue("batch", "shared", namespace="a").build())
    manager.add(CLUSTER_QUEUES, cluster_queue("shared").checks("everywhere").build())
    manager.add(ADMISSION_CHECKS, admission_check("everywhere").config("all").active().build())
    manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", "east", "west").build())
    manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("east").active().build())
    cordon = {"multikueue.dev/cordon": "true"}
    manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("west").active().annotations(cordon).build())
    return world


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(JOB))
    return str(path)


def asking(folder: Path, cpu: str) -> str:
    """A file with a job that asks for that much."""
    path = folder / "job.yaml"
    main = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    path.write_text(yaml.safe_dump({**JOB, "spec": {"template": {"spec": {**PODS, "containers": [main]}}}}))
    return str(path)


def test_a_job_goes_into_the_queue(ready: World, cli: Run, file: str) -> None:
    done = cli("submit", "-f", file, "-q", "batch", "-n", "a")

    assert done.code == 0, done.err
    (made,) = ready.manager.all(JOBS)
    name = made["metadata"]["name"]
    assert done.out == f"job/{name} submitted to queue a/batch\n"
    assert made["metadata"]["labels"] == {QUEUE: "batch"}
    assert done.err == f"Where it is: multikueue why -n a job/{name}\n"


def test_a_dry_run_makes_nothing_and_tells_of_queue_and_clusters(ready: World, cli: Run, file: str) -> None:
    done = cli("submit", "-f", file, "-q", "batch", "-n", "a", "--dry-run")

    assert done.code == 0, done.err
    assert ready.manager.all(JOBS) == []
    assert re.fullmatch("job/train-[a-z0-9]+ would be submitted to queue a/batch", done.lines[0])
    assert done.lines[1:3] == [
        "  LocalQueue batch: nothing waits there",
        "  ClusterQueue shared: nothing waits there",
    ]
    assert [" ".join(line.split()) for line in done.lines[4:]] == [
        "Workers",
        "CLUSTER ANSWER PLACE MESSAGE REPAIR",
        "east does not let you look - you cannot look there -",
        "west is cordoned - - multikueue clusters uncordon west",
    ]


@pytest.mark.parametrize(
    ("cpu", "told"),
    [
        (
            "1",
            [
                "  Pending: ClusterQueue shared (number 1 there) has room for it, and the manager is about to look at it."
            ],
        ),
        (
            "3",
            [
                "  Pending: it waits for 1 cpu of flavor default in ClusterQueue shared (number 1 there); it fits once "
                "job/taken ends."
            ],
        ),
        (
            "5",
            [
                "  Pending: it asks for 5 cpu, and ClusterQueue shared can never give more than 4 of flavor default.",
                "    What helps: `multikueue submit -n a -f FILE --queue batch` (anyone who may change the job)",
            ],
        ),
    ],
)
def test_a_dry_run_answers_as_why_would(ready: World, cli: Run, tmp_path: Path, cpu: str, told: list[str]) -> None:
    ready.manager.add(RESOURCE_FLAVORS, flavor("default").build())
    ready.manager.add(CLUSTER_QUEUES, cluster_queue("shared").checks("everywhere").quota("default", cpu="4").build())
    taken = workload("taken", namespace="a").queue("batch").owner_job("taken").request(cpu="2").reserved("shared")
    ready.manager.add(WORKLOADS, taken.build())

    done = cli("submit", "-f", asking(tmp_path, cpu), "-q", "batch", "-n", "a", "--dry-run")

    assert (done.code, done.lines[3 : 3 + len(told)]) == (0, told), done.err


ROOM = "  Pending: ClusterQueue shared (number 1 there) has room for it, and the manager is about to look at it."
LACK = "cpu 6 of 4 at most in flavor default"
NEVER = f"  Pending: no worker can ever hold it: {LACK} on worker."


@pytest.mark.parametrize(
    ("clusters", "cpu", "told", "unseen"),
    [
        pytest.param(["worker"], "4", ROOM, "", id="it fits"),
        pytest.param(["worker"], "6", NEVER, "", id="it fits nowhere"),
        pytest.param(["worker", "gone"], "6", ROOM, "Not seen: gone: cluster gone is unreachable", id="one is away"),
        pytest.param(["worker", "hidden"], "6", ROOM, "Not seen: hidden: no way to hidden", id="one is not ours"),
    ],
)
def test_a_dry_run_tells_which_workers_are_too_small(
    ready: World, cli: Run, tmp_path: Path, clusters: list[str], cpu: str, told: str, unseen: str
) -> None:
    manager, worker = ready.manager, ready.worker
    manager.add(RESOURCE_FLAVORS, flavor("default").build())
    manager.add(CLUSTER_QUEUES, cluster_queue("shared").checks("everywhere").quota("default", cpu=12).build())
    manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", *clusters).build())
    for name in clusters:
        manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster(name).active().build())
    worker.add(LOCAL_QUEUES, local_queue("batch", "theirs", namespace="a").build())
    worker.add(CLUSTER_QUEUES, cluster_queue("theirs").quota("default", cpu=4).build())

    done = cli("submit", "-f", asking(tmp_path, cpu), "-q", "batch", "-n", "a", "--dry-run")

    assert done.lines[3].startswith(told)
    told_of_worker = next(" ".join(line.split()) for line in done.lines if line.startswith("worker "))
    assert told_of_worker == (f"worker can never hold it - {LACK}" if cpu == "6" else "worker was not asked yet - -")
    assert done.err.startswith(unseen) if unseen else not done.err
    assert worker.sent == []


def test_a_dry_run_tells_what_runs_on_a_worker_beside_what_is_counted(ready: World, cli: Run, tmp_path: Path) -> None:
    manager, worker = ready.manager, ready.worker
    manager.add(RESOURCE_FLAVORS, flavor("default").build())
    manager.add(CLUSTER_QUEUES, cluster_queue("shared").checks("everywhere").quota("default", cpu=12).build())
    manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", "worker").build())
    manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("worker").active().build())
    for cluster, cpu in ((manager, "1"), (worker, "2")):
        item = {"type": "Container", "defaultRequest": {"cpu": cpu}}
        cluster.add(LIMIT_RANGES, {"metadata": {"name": "limits", "namespace": "a"}, "spec": {"limits": [item]}})
    manager.add(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    manager.add(PRIORITY_CLASSES, {"metadata": {"name": "other"}, "value": 100})
    worker.add(LOCAL_QUEUES, local_queue("batch", "theirs", namespace="a").build())
    worker.add(CLUSTER_QUEUES, cluster_queue("theirs").quota("default", cpu=12).build())
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**JOB, "spec": {"template": {"spec": {**PODS, "priorityClassName": "high"}}}}))

    done = cli("submit", "-f", str(path), "-q", "batch", "-n", "a", "--dry-run")

    told = [line for line in done.lines if line.startswith("  On worker,")]
    assert told == [
        "  On worker, LimitRanges of a: cpu of pod set main is 1 on the manager, 2 there: it counts as 1, and takes 2 there;"
        " make the LimitRanges of a equal, or say in the job what its pods need.",
        "  On worker, PriorityClass high: it is missing there: pods that name it are refused there, so their jobs do not"
        " begin; create it there.",
    ]
    assert (done.code, done.err) == (0, "")

    (item,) = json.loads(cli("submit", "-f", str(path), "-q", "batch", "-n", "a", "--dry-run", "-o", "json").out)[
        "items"
    ]
    assert [(each["cluster"], each["subject"], each["manager"], each["worker"]) for each in item["differences"]] == [
        ("worker", "LimitRanges of a", "1", "2"),
        ("worker", "PriorityClass high", "there", "missing"),
    ]
    assert {"namespace": "a", "queue": "batch", "state": "Pending", "missing": []}.items() <= item.items()
    assert "workload" not in item, "there is none yet"
    assert (item["summary"], item["obstacles"]) == (
        ROOM.strip(),
        [{"code": "NextInLine", "text": ROOM.strip().removeprefix("Pending: ").removesuffix(".")}],
    )
    assert item["workers"] == [{"cluster": "worker", "state": "was not asked yet"}]
    assert item["quota"]["place"] == 1


@pytest.mark.parametrize("is_there", [True, False], ids=["all is there", "it is missing"])
def test_what_a_worker_lacks_for_the_job_is_told(ready: World, cli: Run, tmp_path: Path, is_there: bool) -> None:
    manager, worker = ready.manager, ready.worker
    manager.add(MULTIKUEUE_CONFIGS, multikueue_config("all", "worker", "hidden").build())
    for name in ("worker", "hidden"):
        manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster(name).active().build())
    if is_there:
        worker.add(CONFIG_MAPS, {"metadata": {"name": "rates", "namespace": "a"}})
    path = tmp_path / "job.yaml"
    volume = {"name": "rates", "configMap": {"name": "rates"}}
    path.write_text(yaml.safe_dump({**JOB, "spec": {"template": {"spec": {**PODS, "volumes": [volume]}}}}))
    lack = "worker has no ConfigMap rates (namespace a): pods that name it do not start there; create it there"

    dry = cli("submit", str(path), "-q", "batch", "-n", "a", "--dry-run")
    real = cli("submit", str(path), "-q", "batch", "-n", "a")

    assert (dry.code, real.code) == (0, 0)
    assert (f"  {lack}" in dry.out) is not is_there
    assert (f"warning: {lack}" in real.err) is not is_there


def test_a_document_is_of_a_dry_run(ready: World, cli: Run, file: str) -> None:
    ended = cli("submit", "-f", file, "-q", "batch", "-n", "a", "-o", "yaml")

    assert (ended.code, ended.out, ready.manager.sent) == (2, "", [])
    assert "give --dry-run" in ended.err


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("words", "doing"),
    [((), ["submitting job/train-"]), (("--dry-run",), ["checking job/train-", "queue batch", "for its quota"])],
    ids=["for good", "a dry run"],
)
def test_on_a_terminal_it_shows_that_it_is_at_work(
    ready: World, cli: Run, file: str, words: tuple[str, ...], doing: list[str]
) -> None:
    done = cli("submit", "-f", file, "-q", "batch", "-n", "a", *words)

    assert [text for text in doing if text not in done.err] == []
    assert CLEAR_LINE not in done.out


def test_a_dry_run_names_once_what_may_not_be_seen(ready: World, cli: Run, file: str) -> None:
    """A user of one namespace sees no ClusterQueue, and so nothing of its quota and its workers."""
    hidden = {"clusterqueues", "workloadpriorityclasses", "priorityclasses"}
    ready.manager.fault = lambda _, plural: Refused(403, "Forbidden", f"no {plural}") if plural in hidden else None

    done = cli("submit", "-f", file, "-q", "batch", "-n", "a", "--dry-run")

    assert done.lines[1:] == [
        "  LocalQueue batch: nothing waits there",
        "  Pending: nothing stands in its way, as far as was seen.",
    ]
    assert (done.code, done.err) == (
        0,
        "Not seen: its priority, since you may not list classes of priority; its quota, since you may not list clusterqueues; "
        "its workers, since you may not see where its queue leads.\n",
    )


def test_a_dry_run_tells_of_a_class_that_is_not_there(ready: World, cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**JOB, "metadata": {"name": "train", "labels": {PRIORITY_CLASS_LABEL: "hihg"}}}))
    ready.manager.add(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 3})

    done = cli("submit", "-f", str(path), "-q", "batch", "-n", "a", "--dry-run")

    assert done.lines[3:] == [
        "  Pending: there is no WorkloadPriorityClass hihg; did you mean high?",
        "    What helps: `multikueue submit -n a -f FILE --queue batch` (anyone who may change the job)",
    ]
    assert (done.code, done.err) == (0, "")


WRONG = {
    "no queue at all": ((), JOB, "names no queue: give --queue"),
    "a queue that is not there": (("-q", "bathc"), JOB, "did you mean 'batch'?"),
    "another namespace": (
        ("-q", "batch"),
        JOB | {"metadata": {"name": "x", "namespace": "b"}},
        "is of namespace b, and not",
    ),
    "a kind that is not served": (
        ("-q", "batch"),
        JOB | {"apiVersion": "example.com/v1", "kind": "Jbo"},
        "the server knows no Jbo (example.com/v1)",
    ),
    "what is no job": (
        ("-q", "batch"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
        "configmap/x is no job, and has no queue: create it with `kubectl apply`",
    ),
    "a list of queues": (
        ("-q", "batch"),
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueueList", "items": [{"metadata": {"name": "x"}}]},
        "localqueue/x is no job",
    ),
    "no object": ((), ["x"], "expected objects with apiVersion and kind"),
    "nothing": ((), None, "there is no object in these files"),
}


@pytest.mark.parametrize(("words", "document", "hint"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_work_is_refused(
    ready: World, cli: Run, tmp_path: Path, words: tuple[str, ...], document: object, hint: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(document))

    ended = cli("submit", "-f", str(path), "-n", "a", *words)

    assert (ended.code, ended.out) == (1, "")
    assert hint in ended.err
    assert not any("jobs" in write for write in ready.manager.sent)


def test_what_fails_keeps_no_other_job_from_its_queue(ready: World, cli: Run, tmp_path: Path) -> None:
    named = [{**JOB, "metadata": {"name": name}} for name in ("one", "two", "three")]
    wrong = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump_all([named[0], wrong, *named]))

    ended = cli("submit", str(path), "-q", "batch", "-n", "a")

    assert (ended.code, ended.lines) == (
        1,
        [f"job/{name} submitted to queue a/batch" for name in ("one", "two", "three")],
    )
    where, *errors = ended.err.splitlines()
    assert where == "Where it is: multikueue why -n a job/three"
    assert [error.split(" ")[:2] for error in errors] == [["error:", "secret/token"], ["error:", "job/one:"]]


def test_files_are_given_as_with_kubectl_or_without_an_option(ready: World, cli: Run, file: str) -> None:
    both = cli("submit", file, "-f", file, "-q", "batch", "-n", "a")
    none = cli("submit", "-q", "batch", "-n", "a")

    assert (both.code, len(ready.manager.all(JOBS))) == (0, 2)
    assert none.code == 2
    assert "expected a file with jobs, or - for standard input" in " ".join(none.err.split())


def test_a_file_that_is_not_there_is_one_line(cli: Run) -> None:
    assert (
        cli("submit", "-f", "/nowhere.yaml").err == "error: /nowhere.yaml: cannot be read: No such file or directory\n"
    )


def test_a_job_is_made_of_options_and_what_follows_them_is_its_command(ready: World, cli: Run) -> None:
    words = ("--name", "train", "--image", "trainer:1", "--cpu", "4", "--gpu", "1", "--", "python", "train.py", "-v")
    done = cli("submit", "-n", "a", "-q", "batch", *words)

    assert done.code == 0, done.err
    (made,) = ready.manager.all(JOBS)
    assert made["metadata"]["labels"] == {QUEUE: "batch"}
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("trainer:1", ["python", "train.py", "-v"])
    assert container["resources"]["requests"]["cpu"] == "4"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cpu", "4"), "give --image"),
        (("--image", "x", "-f", "job.yaml"), "leave out -f"),
        (("--image", "x", "--wait", "--dry-run"), "leave out --dry-run"),
    ],
    ids=["amounts of no job", "a file and an image", "to wait for what is not made"],
)
def test_options_that_contradict_each_other_are_refused(cli: Run, words: tuple[str, ...], message: str) -> None:
    done = cli("submit", "-q", "batch", *words)

    assert done.code == 2
    assert message in " ".join(done.err.split())
