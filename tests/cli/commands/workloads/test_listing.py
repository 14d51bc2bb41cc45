"""Which workloads are listed, in which order, and how."""

from __future__ import annotations

import json

import pytest

from fakekube.model.wire import Refused
from multikueue.api.kinds import JOBS, LOCAL_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from multikueue.api.kueue.workload import PRIORITY_CLASS_LABEL
from multikueue.api.meta import ObjectKey
from tests.builders import WorkloadBuilder, job, local_queue, multikueue_cluster, workload
from tests.cli.conftest import Run, World


def rows(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines[1:]]


def names(out: str) -> list[str]:
    return [line.rpartition("/")[2] for line in out.splitlines()]


def test_list_shows_one_namespace(full: World, cli: Run) -> None:
    result = cli("workloads", "list", "-n", "a")

    assert result.code == 0
    assert " ".join(result.lines[0].split()) == "JOB STATUS WHERE RUN TIME POSITION REASON"
    assert rows(result.lines) == [
        ["workload/offered", "Pending", "-", "-", "-", "WaitsOnWorkers"],
        ["job/train", "Pending", "-", "-", "1", "WaitsForQuota"],
    ]


def test_list_shows_all_namespaces_of_one_queue(full: World, cli: Run) -> None:
    result = cli("workloads", "list", "-A", "-q", "main")

    assert result.lines[0].split()[0] == "NAMESPACE"
    waiting, running = rows(result.lines)
    assert waiting == ["a", "job/train", "Pending", "-", "-", "1", "WaitsForQuota"]
    assert (running[:4], running[5:]) == (["b", "workload/running", "Starting", "w2"], ["-", "PodsStarting"])


def test_list_wide_says_why(full: World, cli: Run) -> None:
    header, offered, waiting = cli("workloads", "list", "-n", "a", "-o", "wide").lines

    assert header.split()[-7:] == ["QUEUE", "AGE", "PRIORITY", "NOMINATED", "ATTEMPT", "WORKLOAD", "MESSAGE"]
    assert "w1,w2" in offered
    assert "2026-01-01T12:00:00Z" in offered
    assert waiting.endswith("it waits for quota in LocalQueue main: no quota left")


READY = {"status": {"active": 1, "ready": 1}}


def test_it_runs_once_a_pod_is_ready_by_the_status_of_the_job(full: World, cli: Run) -> None:
    """Also where the job has not all of its pods yet."""
    made = job("train", namespace="a").parallelism(2)
    full.manager.add(WORKLOADS, placed("job-train", "train").build())
    full.manager.add(JOBS, made.build())
    assert state(cli, "job-train") == ("Starting", "PodsStarting")

    full.manager.change(JOBS, ObjectKey("a", "train"), READY)
    assert state(cli, "job-train") == ("Running", "-")


def test_a_job_on_a_worker_that_is_away_is_unknown(full: World, cli: Run) -> None:
    full.manager.add(WORKLOADS, placed("job-train", "train").build())
    full.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w2").active(False, message="no answer").build())

    assert state(cli, "job-train") == ("Unknown", "WorkerAway")


def test_to_a_user_of_one_namespace_the_manager_tells_that_the_worker_is_away(full: World, cli: Run) -> None:
    for name in ("one", "two", "three"):
        full.manager.add(WORKLOADS, placed(f"job-{name}", name).build())
    gone = [{"cluster": "w2", "state": "cannot be reached", "message": "no answer"}]
    path = "/apis/visibility.multikueue.dev/v1alpha1/namespaces/a/workloads/{}/explanation"
    full.manager.documents |= {path.format(f"job-{name}"): {"workers": gone} for name in ("one", "two", "three")}
    full.manager.fault = lambda _verb, plural: (
        Refused(403, "Forbidden", "no") if plural in ("multikueueclusters", "events") else None
    )
    full.manager.requests.clear()

    found = rows(cli("workloads", "list", "-n", "a").lines)

    assert [row[1] for row in found if row[0] != "job/train" and row[0] != "workload/offered"] == ["Unknown"] * 3
    assert len([each for each in full.manager.requests if each.path.endswith("/explanation")]) == 1


def test_places_are_those_that_the_manager_tells_in_one_read_of_a_queue(full: World, cli: Run) -> None:
    for number in range(3):
        full.manager.add(WORKLOADS, workload(f"w{number}", namespace="a").queue("main").unreserved().build())
    items = [{"metadata": {"name": f"w{number}"}, "positionInClusterQueue": 10 + number} for number in range(3)]
    path = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/a/localqueues/main/pendingworkloads"
    full.manager.documents[path] = {"items": items}
    full.manager.requests.clear()

    found = {row[0]: row[4] for row in rows(cli("workloads", "list", "-n", "a").lines)}

    assert [found[f"workload/w{number}"] for number in range(3)] == ["11", "12", "13"]
    assert found["job/train"] == "-"
    assert len([each for each in full.manager.requests if "pendingworkloads" in each.path]) == 1


def test_what_only_the_manager_sees_it_tells_in_one_read_of_a_namespace(full: World, cli: Run) -> None:
    made = workload("w1", namespace="a").queue("main").unreserved()
    full.manager.add(WORKLOADS, made.build())
    version = full.manager.named(WORKLOADS, "w1", "a") or {}
    stopped = [{"code": "ClusterQueueStopped", "text": "ClusterQueue cq is stopped"}]
    told = {"job": "workload/w1", "state": "Pending", "summary": "Pending: it is stopped.", "obstacles": stopped}
    now = {"name": "w1", "resourceVersion": version["metadata"]["resourceVersion"]}
    path = "/apis/visibility.multikueue.dev/v1alpha1/namespaces/a/answers"
    full.manager.documents[path] = {"items": [{"metadata": now, "answer": told}]}
    full.manager.requests.clear()

    assert state(cli, "w1") == ("Pending", "ClusterQueueStopped")
    assert len([each for each in full.manager.requests if each.path == path]) == 1

    full.manager.documents[path] = {"items": [{"metadata": now | {"resourceVersion": "older"}, "answer": told}]}
    assert state(cli, "w1") == ("Pending", "WaitsForQuota"), "that was about another version"


def test_without_a_manager_that_tells_them_they_are_counted_over_all_namespaces(full: World, cli: Run) -> None:
    first = workload("first", namespace="b").queue("far").priority(9).unreserved()
    full.manager.add(LOCAL_QUEUES, local_queue("far", "cq", namespace="b").build())
    full.manager.add(WORKLOADS, first.build())

    (row,) = rows(cli("workloads", "list", "train", "-n", "a").lines)

    assert row[4] == "2"


def test_a_long_list_costs_no_call_for_each_row(full: World, cli: Run) -> None:
    full.manager.requests.clear()
    few = cli("workloads", "list", "-n", "a")
    calls = len(full.manager.requests)
    for number in range(50):
        made = (
            placed(f"job-{number}", str(number))
            if number % 2
            else workload(f"job-{number}", namespace="a").queue("main")
        )
        full.manager.add(WORKLOADS, made.build())
    full.manager.requests.clear()
    many = cli("workloads", "list", "-n", "a")

    assert len(many.lines) == len(few.lines) + 50
    assert len(full.manager.requests) <= calls + 1  # the workers, which nobody had work on before


def test_jobs_without_a_workload_are_listed_with_the_reason(full: World, cli: Run) -> None:
    full.manager.add(JOBS, job("unlabelled", namespace="a").build())
    full.manager.add(JOBS, job("misspelt", namespace="a").queue("mian").build())
    full.manager.add(JOBS, job("unclassed", namespace="a").queue("main").labels({PRIORITY_CLASS_LABEL: "hihg"}).build())

    result = cli("workloads", "list", "-n", "a")

    found = {row[0]: (row[1], row[-1]) for row in rows(result.lines)}
    assert found["job/unlabelled"] == ("Pending", "NoQueueLabel")
    assert found["job/misspelt"] == ("Pending", "QueueNotFound")
    assert found["job/unclassed"] == ("Pending", "PriorityClassNotFound")
    assert "job.batch/misspelt" in cli("workloads", "list", "-n", "a", "-o", "name").lines
    assert len(cli("workloads", "list", "misspelt", "-n", "a").lines) == 2


def test_programs_read_the_codes(full: World, cli: Run) -> None:
    offered, waiting = json.loads(cli("workloads", "list", "-n", "a", "-o", "json").out)["items"]

    assert offered["answer"]["state"] == "Pending"
    assert [each["code"] for each in waiting["answer"]["obstacles"]] == ["WaitsForQuota"]
    assert (waiting["answer"]["job"], waiting["answer"]["position"]) == ("job/train", 1)


def placed(name: str, of: str) -> WorkloadBuilder:
    return workload(name, namespace="a").queue("main").owner_job(of).reserved("cq").admitted().cluster_name("w2")


def state(cli: Run, name: str) -> tuple[str, str]:
    (row,) = rows(cli("workloads", "list", name, "-n", "a").lines)
    return row[1], row[-1]


def test_list_for_programs(full: World, cli: Run) -> None:
    items = json.loads(cli("workloads", "list", "-A", "-o", "json").out)["items"]

    assert [item["metadata"]["name"] for item in items] == ["offered", "waiting", "running"]
    assert items[0]["kind"] == "Workload"


def test_an_empty_namespace_is_named(full: World, cli: Run) -> None:
    result = cli("workloads", "list")

    assert (result.code, result.out) == (0, "")
    assert result.err == "No jobs found in namespace default.\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--status", "pending"), ["offered", "waiting"]),
        (("--status", "starting"), ["running"]),
        (("--cluster", "w2"), ["offered", "running"]),
        (("--cluster", "w1"), ["offered"]),
        (("-l", "team=vision"), ["running"]),
        (("-l", "team notin (vision)"), ["offered", "waiting"]),
        (("running", "job/train"), ["waiting", "running"]),
        (("--sort-by", ".spec.priority"), ["waiting", "running", "offered"]),
        (("--sort-by", "{.status.clusterName}"), ["running", "offered", "waiting"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_some_of_them_in_an_order(full: World, cli: Run, words: tuple[str, ...], expected: list[str]) -> None:
    assert names(cli("workloads", "list", "-A", *words, "-o", "name").out) == expected


def test_labels_are_those_of_the_job_or_of_its_workload(world: World, cli: Run) -> None:
    """Settings say which labels a Workload has of its job's: none of them by default."""
    made = job("train", namespace="default").labels(team="vision").build()
    world.manager.add(JOBS, made)
    own = {
        "api_version": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": world.manager.all(JOBS)[0]["metadata"]["uid"],
    }
    runs = workload("job-train").queue("main").reserved("cq").admitted().cluster_name("w1").owned_by(**own)
    world.manager.add(WORKLOADS, runs.build())

    (found,) = rows(cli("jobs", "list", "-l", "team=vision").lines)

    assert found[:3] == ["job/train", "Starting", "w1"]
    assert cli("jobs", "list", "-l", "team=sound").err == "No jobs found in namespace default.\n"
    assert "expected a label selector such as team=a" in cli("jobs", "list", "-l", "team in vision").err


def test_without_titles(full: World, cli: Run) -> None:
    bare, full_ = cli("workloads", "list", "-A", "--no-headers"), cli("workloads", "list", "-A")

    assert [line.split() for line in bare.lines] == [line.split() for line in full_.lines[1:]]


def test_templates_are_those_of_kubectl(full: World, cli: Run) -> None:
    path = cli("workloads", "list", "-A", "-o", 'jsonpath={range .items[*]}{.metadata.name}{"\\n"}{end}')
    own = cli("workloads", "list", "-A", "-o", "custom-columns=WHAT:.metadata.name,WHERE:.status.clusterName")

    assert path.out == "offered\nwaiting\nrunning\n"
    assert [line.split() for line in own.lines] == [
        ["WHAT", "WHERE"],
        ["offered", "<none>"],
        ["waiting", "<none>"],
        ["running", "w2"],
    ]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--status", "Runing"), "did you mean 'Running'?"),
        (("-o", "jsn"), "did you mean json?"),
        (("-o", "jsonpath={.a"), "a brace is not closed"),
        (("-o", "custom-columns=NAME"), "expected custom-columns=TITLE:PATH"),
        (("--sort-by", "["), "expected a path such as .metadata.name"),
        (("-w", "-o", "json"), "--watch shows rows"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_told_before_anybody_is_asked(cli: Run, words: tuple[str, ...], hint: str) -> None:
    ended = cli("workloads", "list", *words)

    assert ended.code == 2
    assert hint in ended.err


def test_an_order_by_what_nothing_has_is_an_error_with_the_nearest(full: World, cli: Run) -> None:
    ended = cli("workloads", "list", "-A", "--sort-by", ".spec.priorty")

    assert ended.code == 2
    assert "none of them has .spec.priorty; did you mean '.spec.priority'?" in " ".join(ended.err.split())


def test_an_index_that_is_not_there_is_an_error_as_with_kubectl(full: World, cli: Run) -> None:
    ended = cli("workloads", "list", "-A", "-o", "jsonpath={.items[3].metadata.name}")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: [3]: array index out of bounds: index 3, length 3\n"


@pytest.mark.parametrize("alias", [("jobs", "list"), ("get", "jobs"), ("get", "workloads")], ids=" ".join)
def test_there_are_other_words_for_it(full: World, cli: Run, alias: tuple[str, ...]) -> None:
    assert cli(*alias, "-A") == cli("workloads", "list", "-A")
