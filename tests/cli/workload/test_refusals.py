"""Jobs whose Workload the API server refuses: each command that is asked about them says so."""

from __future__ import annotations

import json

import pytest

from multikueue.api.kinds import EVENTS, JOBS, WORKLOADS
from tests.builders import job, workload
from tests.cli.conftest import Run, World

FIRST = "the Workload of the job cannot be made: 403 Forbidden: exceeded quota"
WHY = "the Workload of the job cannot be made: 422 Invalid: Duplicate value"


def tell(world: World, name: str, words: str, *, minute: int = 0) -> None:
    uid = job(name).build().metadata.uid
    about = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": name, "uid": uid}
    meta = {"namespace": "default", "name": f"{name}.{minute}"}
    when = f"2026-01-01T12:{minute:02}:00Z"
    told = {"reason": "Refused", "message": words, "type": "Warning", "lastTimestamp": when}
    world.manager.add(EVENTS, {"metadata": meta, "involvedObject": about, **told})


@pytest.fixture
def refused(world: World) -> World:
    """A refused job whose words have changed; one that has its workload by now; and one that is gone."""
    for name in ("train", "later"):
        world.manager.add(JOBS, job(name).build())
        tell(world, name, FIRST)
    tell(world, "train", WHY, minute=1)
    tell(world, "gone", FIRST)
    world.manager.add(WORKLOADS, workload("later").owner_job("later").build())
    return world


@pytest.mark.usefixtures("refused")
def test_why_says_what_the_server_says(cli: Run) -> None:
    for name in ("train", "job/train"):
        result = cli("why", name)
        assert (result.code, result.out.strip()) == (0, f"Pending: {WHY}.")
    found = json.loads(cli("why", "train", "-o", "json").out)
    assert (found["job"], found["state"], found["summary"]) == ("job/train", "Pending", f"Pending: {WHY}.")
    assert [each["code"] for each in found["obstacles"]] == ["WorkloadRefused"]


@pytest.mark.usefixtures("refused")
def test_a_job_that_is_gone_has_no_reason(cli: Run) -> None:
    assert cli("why", "gone").code != 0


@pytest.mark.usefixtures("refused")
def test_the_list_of_jobs_has_those_without_a_workload(cli: Run) -> None:
    every = cli("workloads", "list", "-o", "wide")
    assert "gone" not in every.err + every.out
    assert {line.split()[0]: line.split()[5] for line in every.lines[1:]}["job/train"] == "WorkloadRefused"
    assert any(line.endswith(WHY) for line in every.lines)
    assert len(cli("workloads", "list", "train").lines) == 2


@pytest.mark.usefixtures("refused")
def test_it_is_among_the_objects_that_nothing_is_done_about(cli: Run) -> None:
    (line,) = cli("objects", "unreadable").lines[1:]
    assert line.split()[:3] == ["Job", "default", "train"]
    assert WHY in line
