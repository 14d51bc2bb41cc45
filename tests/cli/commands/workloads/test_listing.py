"""Which workloads are listed, in which order, and how."""

from __future__ import annotations

import json

import anyio
import pytest

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
from multikueue.cli.access.connection import ContextChoice
from multikueue.cli.commands.workloads.listing import Selection, watch_workloads
from multikueue.cli.terminal.formats import Format
from testbed.client import eventually
from tests.builders import multikueue_cluster
from tests.cli.conftest import Run, World
from tests.cli.field import Field


def columns(lines: list[str]) -> list[list[str]]:
    return [line.split()[:-1] for line in lines[1:]]


def names(out: str) -> list[str]:
    return [line.rpartition("/")[2] for line in out.splitlines()]


def test_list_shows_one_namespace(full: World, cli: Run) -> None:
    result = cli("workloads", "list", "-n", "a")

    assert result.code == 0
    assert result.lines[0].split() == ["NAME", "JOB", "QUEUE", "STATUS", "CLUSTER", "AGE"]
    assert columns(result.lines) == [
        ["offered", "-", "side", "QuotaReserved", "-"],
        ["waiting", "Job/train", "main", "Pending", "-"],
    ]


def test_list_shows_all_namespaces_of_one_queue(full: World, cli: Run) -> None:
    result = cli("workloads", "list", "-A", "-q", "main")

    assert result.lines[0].split()[0] == "NAMESPACE"
    assert columns(result.lines) == [
        ["a", "waiting", "Job/train", "main", "Pending", "-"],
        ["b", "running", "-", "main", "Admitted", "w2"],
    ]


def test_list_wide_says_why(full: World, cli: Run) -> None:
    header, offered, waiting = cli("workloads", "list", "-n", "a", "-o", "wide").lines

    assert header.split()[-4:] == ["PRIORITY", "NOMINATED", "ATTEMPT", "MESSAGE"]
    assert "w1,w2" in offered
    assert "2026-01-01T12:00:00Z" in offered
    assert waiting.endswith("no quota left")


def test_list_for_programs(full: World, cli: Run) -> None:
    items = json.loads(cli("workloads", "list", "-A", "-o", "json").out)["items"]

    assert [item["metadata"]["name"] for item in items] == ["offered", "waiting", "running"]
    assert items[0]["kind"] == "Workload"


def test_an_empty_namespace_is_named(full: World, cli: Run) -> None:
    result = cli("workloads", "list")

    assert (result.code, result.out) == (0, "")
    assert result.err == "No workloads found in namespace default.\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--status", "pending"), ["waiting"]),
        (("--status", "Admitted"), ["running"]),
        (("--cluster", "w2"), ["offered", "running"]),
        (("--cluster", "w1"), ["offered"]),
        (("-l", "team=vision"), ["running"]),
        (("running", "job/train"), ["waiting", "running"]),
        (("--sort-by", ".spec.priority"), ["waiting", "running", "offered"]),
        (("--sort-by", "{.status.clusterName}"), ["running", "offered", "waiting"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_some_of_them_in_an_order(full: World, cli: Run, words: tuple[str, ...], expected: list[str]) -> None:
    assert names(cli("workloads", "list", "-A", *words, "-o", "name").out) == expected


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
        (("--status", "Admited"), "did you mean 'Admitted'?"),
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


@pytest.mark.parametrize("watch", [(), ("-w",)], ids=["once", "in a watch"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-q", "mian"), "there is no LocalQueue 'mian'; did you mean 'main'? there are: main"),
        (("--cluster", "w11"), "there is no MultiKueueCluster 'w11'; did you mean 'w1'? there are: w1, w2"),
    ],
    ids=["a queue", "a cluster"],
)
def test_a_filter_that_is_misspelt_is_an_error_with_the_nearest(
    full: World, cli: Run, words: tuple[str, ...], message: str, watch: tuple[str, ...]
) -> None:
    for name in ("w1", "w2"):
        full.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster(name).build())

    ended = cli("workloads", "list", "-A", *words, *watch)

    assert (ended.code, ended.out, ended.err) == (1, "", f"error: {message}\n")


def test_a_filter_by_what_exists_and_has_nothing_is_none(full: World, cli: Run) -> None:
    full.manager.add(MULTIKUEUE_CLUSTERS, multikueue_cluster("w1").build())

    ended = cli("workloads", "list", "-A", "-q", "main", "--cluster", "w1")

    assert (ended.code, ended.err) == (0, "No workloads found.\n")


def test_an_order_by_what_nothing_has_is_an_error_with_the_nearest(full: World, cli: Run) -> None:
    ended = cli("workloads", "list", "-A", "--sort-by", ".spec.priorty")

    assert ended.code == 2
    assert "none of them has .spec.priorty; did you mean '.spec.priority'?" in " ".join(ended.err.split())


def test_an_index_that_is_not_there_is_an_error_as_with_kubectl(full: World, cli: Run) -> None:
    ended = cli("workloads", "list", "-A", "-o", "jsonpath={.items[3].metadata.name}")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: [3]: array index out of bounds: index 3, length 3\n"


def test_a_name_that_nobody_has_is_an_error_with_the_nearest(full: World, cli: Run) -> None:
    ended = cli("workloads", "list", "-n", "a", "offerd")

    assert (ended.code, ended.out) == (1, "")
    assert "did you mean 'offered'? there are: offered, job/train" in ended.err


@pytest.mark.parametrize("alias", [("jobs", "list"), ("get", "jobs"), ("get", "workloads")], ids=" ".join)
def test_there_are_other_words_for_it(full: World, cli: Run, alias: tuple[str, ...]) -> None:
    assert cli(*alias, "-A") == cli("workloads", "list", "-A")


@pytest.mark.anyio
async def test_a_watch_aligns_what_is_there_at_first(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "a-much-longer-name"):
        await field.submit(name)
    lines = list[str]()

    async def both() -> bool:
        lines.extend(capsys.readouterr().out.splitlines())
        return len(lines) == 2

    everything = Selection(names=(), queue="", status="", cluster="")
    async with anyio.create_task_group() as tasks:
        to = ContextChoice(field.kubeconfig, None)
        tasks.start_soon(watch_workloads, to, None, "", everything, Format.TABLE, False)
        await eventually(both)
        tasks.cancel_scope.cancel()

    assert len({line.index("Job/") for line in lines}) == 1


@pytest.mark.anyio
async def test_each_change_is_a_row_until_it_is_none_of_those_meant(
    field: Field, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list[list[str]]()

    async def seen(number: int) -> None:
        async def yet() -> bool:
            rows.extend(line.split() for line in capsys.readouterr().out.splitlines())
            return len(rows) >= number

        await eventually(yet)

    choice = Selection(names=(), queue="", status="Admitted", cluster="")
    await field.submit("train")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_workloads, ContextChoice(field.kubeconfig, None), None, "", choice, Format.TABLE, False)
        await field.submit("other")
        await field.runs_on("train", "worker1")
        await seen(1)
        await field.leaves("train")
        await seen(2)
        tasks.cancel_scope.cancel()

    assert [(row[0], row[3]) for row in rows] == [("job-train", "Admitted"), ("job-train", "Pending")]
