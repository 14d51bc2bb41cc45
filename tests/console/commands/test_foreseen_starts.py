from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.kueue.workload import PodSetRequest
from multikueue.api.meta import ObjectKey
from multikueue_console.commands.foreseen_starts import Outlook
from multikueue_console.commands.stored import opened
from multikueue_console.history.story import news_of
from tests.builders import WorkloadBuilder, cluster_queue, flavor, local_queue, namespace, workload
from tests.cli.conftest import Run as RunCommand
from tests.cli.conftest import World
from tests.console.terminal.fleets import a_fleet

WAITING = ObjectKey("team-a", "llama-2")


@pytest.mark.anyio
async def test_estimates_are_told_in_a_sentence_and_unknown_ones_as_unknown(tmp_path: Path) -> None:
    fleet = a_fleet()
    with opened(f"sqlite:///{tmp_path / 'history.db'}") as history:
        outlook = Outlook(fleet)
        assert outlook.expected(WAITING) == ""
        await outlook.compute(history, [namespace("team-a").build(), flavor("a100").build()])
    assert outlook.expected(WAITING).startswith("unknown")
    assert outlook.expected(ObjectKey("team-a", "bert")) == ""


MANIFEST = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "next"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}],
            }
        }
    },
}


@pytest.fixture(name="busy")
def _busy(world: World, tmp_path: Path) -> str:
    """A queue whose quota one job has; one waits for it, and 40 are over that took ten minutes each: the URL of the history."""
    now = datetime.now(UTC).replace(microsecond=0)
    manager = world.manager
    manager.add(kinds.NAMESPACES, namespace("a").build())
    manager.add(kinds.RESOURCE_FLAVORS, flavor("default").build())
    manager.add(kinds.CLUSTER_QUEUES, cluster_queue("cq").quota("default", cpu=4).build())
    manager.add(kinds.LOCAL_QUEUES, local_queue("main", "cq", namespace="a").build())

    def made(name: str, minutes: float) -> WorkloadBuilder:
        made = workload(name, namespace="a").uid(name).created(now - timedelta(minutes=minutes))
        return made.queue("main").request(cpu=3).owner_job(name)

    began = now - timedelta(minutes=2)
    manager.add(kinds.WORKLOADS, made("running", 3).reserved("cq", at=began).admitted(at=began).build())
    asked = PodSetRequest(name="main", resources={"cpu": "3"})
    waiting = made("waiting", 1).unreserved(message="no quota left", at=now).build()
    waiting = replace(waiting, status=replace(waiting.status, resource_requests=(asked,)))
    manager.add(kinds.WORKLOADS, waiting)
    url = f"sqlite:///{tmp_path / 'history.db'}"
    with opened(url) as history:
        for number in range(40):
            began = now - timedelta(hours=2 + number)
            over = made(f"over-{number}", 60 * (2 + number)).reserved("cq", at=began).admitted(at=began)
            history.record([news_of(over.finished(at=began + timedelta(minutes=10)).build())], now)
    return url


RANGE = re.compile(r"about \d\d-\d\d \d\d:\d\d, in 4 of 5 cases from .* to .* UTC")


def test_why_and_lists_and_dry_runs_tell_when_a_job_starts(
    busy: str, cli: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = cli("why", "-n", "a", "waiting", "--history", busy)
    assert RANGE.search(why.out), why.out + why.err

    listed = cli("workloads", "list", "-n", "a", "--history", busy)
    assert listed.lines[0].split()[-1] == "START"
    cells = {line.split()[0]: line.split()[-3:] for line in listed.lines[1:]}
    assert cells["job/waiting"][1] == "-"
    assert cells["job/running"][-1] == "-"

    file = tmp_path / "job.json"
    file.write_text(json.dumps(MANIFEST))
    monkeypatch.setenv("MULTIKUEUE_HISTORY", busy)
    foreseen = cli("submit", "-n", "a", "-q", "main", "--dry-run", str(file))
    assert RANGE.search(foreseen.out), foreseen.out + foreseen.err
    (item,) = json.loads(cli("submit", "-n", "a", "-q", "main", "--dry-run", "-o", "json", str(file)).out)["items"]
    assert RANGE.match(item["start"])
    (found,) = (
        each["answer"]["start"]
        for each in json.loads(cli("workloads", "list", "-n", "a", "-o", "json").out)["items"]
        if "start" in each["answer"]
    )
    assert RANGE.match(found)


def test_without_a_history_that_can_be_read_the_start_is_unknown(busy: str, cli: RunCommand, tmp_path: Path) -> None:
    why = cli("why", "-n", "a", "waiting", "--history", "mysql://x")
    assert "Start: unknown: a history is sqlite:///FILE or postgresql://USER@HOST/NAME" in why.lines
    empty = cli("why", "-n", "a", "waiting", "--history", f"sqlite:///{tmp_path / 'empty.db'}")
    assert "Start: unknown: too few jobs were seen, or too many wait before it" in empty.lines
    assert "Start" not in cli("why", "-n", "a", "waiting").out
