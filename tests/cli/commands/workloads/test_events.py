from __future__ import annotations

import json
from typing import Any

import pytest

from multikueue.cli.access.connection import fetch_pairs
from multikueue.errors import Forbidden
from tests.cli.field import Field

pytestmark = pytest.mark.anyio


def minute(number: int) -> str:
    return f"2026-01-01T12:{number:02}:00Z"


async def told(field: Field) -> None:
    """A job on worker1, and events of it everywhere."""
    local = await field.submit()
    await field.runs_on("train", "worker1")
    copy = await field.copy("worker1")
    pod = await field.pod("worker1", "one", copy)
    stranger = await field.pod("worker1", "stranger", None)
    await field.tell("manager", local, "QuotaReserved", minute(1))
    await field.tell("worker1", copy, "Started", minute(3))
    await field.tell("worker1", {**local, "metadata": {**local["metadata"], "uid": "copy"}}, "Admitted", minute(2))
    await field.tell("worker1", pod, "Pulled", minute(4))
    await field.tell("worker1", stranger, "Strange", minute(5))
    await field.tell("manager", {**copy, "metadata": {**copy["metadata"], "uid": "another"}}, "Other", minute(6))


async def test_events_of_all_sides_are_one_line_of_time(field: Field) -> None:
    await told(field)

    shown = await field.run("workloads", "events", "train")

    assert shown.code == 0, shown.err
    assert shown.lines[0].split() == ["LAST", "SEEN", "CLUSTER", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [line.split()[1:5] for line in shown.lines[1:]] == [
        ["(manager)", "Normal", "QuotaReserved", "workload/job-train"],
        ["worker1", "Normal", "Admitted", "workload/job-train"],
        ["worker1", "Normal", "Started", "job/train"],
        ["worker1", "Normal", "Pulled", "pod/one"],
    ]
    items = json.loads((await field.run("workloads", "events", "train", "-o", "json")).out)["items"]
    assert [item["reason"] for item in items] == ["QuotaReserved", "Admitted", "Started", "Pulled"]


async def test_while_it_is_nowhere_those_of_the_manager_are_shown(field: Field) -> None:
    local = await field.submit()
    await field.tell("manager", local, "Pending", minute(1))

    shown = await field.run("workloads", "events", "train")

    assert shown.code == 0
    assert [line.split()[3] for line in shown.lines[1:]] == ["Pending"]
    assert "is on no cluster" in shown.err
    assert (await field.run("workloads", "events", "train", "-w", "-o", "yaml")).code == 2


async def test_they_are_shown_as_they_come(field: Field) -> None:
    local = await field.submit()
    watch = field.start("workloads", "events", "train", "-w")
    await field.tell("manager", local, "Reserved", minute(1))
    await watch.said("Reserved")
    await field.runs_on("train", "worker2")
    copy = await field.copy("worker2")
    await field.tell("worker2", copy, "Started", minute(2))
    await watch.said("Started")
    late = await field.pod("worker2", "late", copy)
    stranger = await field.pod("worker2", "stranger", None)
    await field.tell("worker2", stranger, "Strange", minute(3))
    await field.tell("worker2", late, "Pulled", minute(3))
    await watch.said("Pulled", "pod/late")
    await field.becomes("train", lambda made: made.cluster_name("worker2").finished(message="all went well"))

    done = await watch.result()

    assert done.code == 0
    assert "Strange" not in done.out


async def test_there_may_be_none(field: Field) -> None:
    await field.submit()
    await field.runs_on("train", "worker1")

    shown = await field.run("workloads", "events", "job/train")

    assert (shown.code, shown.out, shown.err) == (0, "", "No events of workload default/job-train found.\n")


async def test_where_the_worker_cannot_be_asked_those_of_the_manager_are_shown(field: Field) -> None:
    local = await field.submit()
    await field.tell("manager", local, "Reserved", minute(1))
    await field.runs_on("train", "nowhere")

    shown = await field.run("events", "train")

    assert shown.code == 0
    assert [line.split()[3] for line in shown.lines[1:]] == ["Reserved"]
    assert "Of the manager only: no way to nowhere" in shown.err


async def test_what_of_the_manager_may_not_be_seen_is_said(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    await told(field)

    async def denied(client: Any, kind: Any, **more: Any) -> Any:
        if not client.cluster and kind.plural == "events":
            raise Forbidden(403, "Forbidden", "events is forbidden")
        return await fetch_pairs(client, kind, **more)

    monkeypatch.setattr("multikueue.cli.commands.workloads.events.fetch_pairs", denied)
    shown = await field.run("events", "train")

    assert shown.code == 0
    assert [line.split()[1] for line in shown.lines[1:]] == ["worker1"] * 3
    assert "Not seen: events of the manager: events is forbidden" in shown.err
