"""By which credentials a worker is reached, and what is said where they do not suffice."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.objects import SECRET
from tests.cli.field import Field, a_field

pytestmark = pytest.mark.anyio


@pytest.fixture
def opened(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    return partial(a_field, tmp_path, capsys, monkeypatch)


async def running(field: Field) -> Field:
    await field.submit()
    await field.runs_on("train", "worker1")
    await field.pod("worker1", "one", await field.copy("worker1"))
    return field


async def test_without_a_context_of_ones_own_the_secret_is_used(opened: Any) -> None:
    async with opened(contexts=False) as field:
        await running(field)
        assert (await field.run("workloads", "pods", "train", "-o", "name")).lines == ["pod/one"]


@pytest.mark.parametrize("words", [["pods"], ["pods", "-w"], ["logs"], ["logs", "-f"], ["events", "-w"]])
async def test_what_the_credential_may_not_see_is_told_in_one_line(opened: Any, words: list[str]) -> None:
    async with opened(contexts=False, registered="manager") as field:
        await running(field)
        command, *more = words
        shown = await field.run("workloads", command, "train", *more)
    errors = [line for line in shown.err.splitlines() if line.startswith("error:")]
    assert (shown.code, shown.out, len(errors)) == (1, "", 1)
    assert errors[0].startswith("error: worker1 refuses (Secret kueue-system/multikueue-worker1): ")
    assert errors[0].endswith(
        "register it with --view-pods (multikueue clusters register worker1),"
        " or use a context of your own with --worker-context"
    )


async def test_events_that_the_credential_may_not_see_are_said_to_be_there(opened: Any) -> None:
    async with opened(contexts=False, registered="manager") as field:
        await running(field)
        shown = await field.run("workloads", "events", "train")

    assert (shown.code, shown.out) == (0, "")
    assert "Of the manager only: worker1 refuses (Secret kueue-system/multikueue-worker1): " in shown.err


async def test_ones_own_context_goes_before_the_secret(opened: Any) -> None:
    async with opened(registered="manager") as field:
        await running(field)
        assert (await field.run("workloads", "pods", "train", "-o", "name")).lines == ["pod/one"]
        other = await field.run("workloads", "pods", "train", "--worker-context", "worker2")
        assert (other.code, other.err) == (0, "No pods of workload default/job-train found on worker1.\n")


async def test_with_neither_both_are_named(opened: Any) -> None:
    async with opened(contexts=False) as field:
        await running(field)
        await field.manager.delete(SECRET, "multikueue-worker1", "kueue-system")
        shown = await field.run("workloads", "logs", "train")
    assert shown.code == 1
    assert shown.err.startswith("error: no way to worker1: Secret kueue-system/multikueue-worker1 is missing")
    assert "your kubeconfig has no context 'worker1'" in shown.err


async def test_a_secret_runs_no_programs_of_ours(opened: Any, tmp_path: Path) -> None:
    async with opened(contexts=False) as field:
        await running(field)
        held = await field.manager.get(SECRET, "multikueue-worker1", "kueue-system")
        path = tmp_path / "ran"
        config = yaml.safe_load((tmp_path / "worker1" / "admin.kubeconfig").read_text())
        exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(path)]}
        config["users"] = [{**config["users"][0], "user": {"exec": {**exec_, "interactiveMode": "Never"}}}]
        data = {"kubeconfig": b64encode(yaml.safe_dump(config).encode()).decode()}
        await field.manager.patch(SECRET, "multikueue-worker1", {"data": data}, held["metadata"]["namespace"])
        shown = await field.run("workloads", "logs", "train")
    assert shown.code == 2
    assert not path.exists()


async def test_a_cluster_that_is_away_ends_with_its_own_code(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as field:
        await running(field)
        path = field.kubeconfig
        config = yaml.safe_load(path.read_text())
        for each in config["clusters"]:
            if each["name"] == "worker1":
                each["cluster"]["server"] = "https://127.0.0.1:1"
        path.write_text(yaml.safe_dump(config))
        monkeypatch.setattr(
            "multikueue.cli.commands.workloads.cluster_view.CLUSTER_TIMEOUT", timedelta(milliseconds=500)
        )
        shown = await field.run("workloads", "show", "train")
        assert shown.code == 0
        (row,) = [line for line in shown.lines if line.startswith("worker1")]
        assert "unreachable" in row or "no answer within 0.5 s" in row
