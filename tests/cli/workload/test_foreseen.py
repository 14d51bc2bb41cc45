"""What would be seen of a job that nobody has submitted; `tests/cli/commands/test_submit.py` shows the answer to people."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fakekube.model.wire import Request, Response
from multikueue.answers.answer import answer
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.cli.access.worker_access import WorkerAccess
from multikueue.cli.workload.foreseen import look_ahead
from tests.builders import NOW
from tests.cluster import InProcessClient

pytestmark = pytest.mark.anyio

PODS = {"containers": [{"name": "main", "image": "x"}], "priorityClassName": "gone"}


class Nothing:
    """An API server that has empty lists only."""

    async def handle(self, _request: Request) -> Response:
        return Response(body=b'{"metadata": {}, "items": []}')


def job(kind: str = "Job", api_version: str = "batch/v1") -> dict[str, Any]:
    meta = {"name": "train", "namespace": "a", "uid": "u", "labels": {QUEUE_LABEL: "mine"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": {"template": {"spec": PODS}}}


async def look(tree: dict[str, Any]) -> Any:
    return await look_ahead(
        cast("Any", InProcessClient(Nothing())), WorkerAccess(manager=cast("Any", None)), tree, None
    )


async def test_a_class_of_its_pods_that_does_not_exist_is_told_before_anything_is_made() -> None:
    found = await look(job())
    told = answer(found.seen, NOW)
    assert (told.heaviest and told.heaviest.code, told.workload) == ("PriorityClassNotFound", "")
    assert "there is no PriorityClass gone, which its pods name" in told.summary


async def test_nothing_is_known_of_a_kind_that_settings_declare() -> None:
    assert await look(job("Training", "example.com/v1")) is None
