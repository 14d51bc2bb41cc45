"""A workload is held and released, and released in any case."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from multikueue.api.workload import Workload
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.workload import activation
from multikueue.errors import Forbidden
from multikueue.kube.client import Client
from multikueue.testing import workload

pytestmark = pytest.mark.anyio

RUNNING = workload("train").reserved("cq").admitted()
GIVEN_BACK = workload("train").evicted("Deactivated")


class Answering:
    """A manager cluster where the workload is, one after the other, so."""

    def __init__(self, *states: Workload, refuses: bool = False) -> None:
        self.states, self.refuses, self.written = list(states), refuses, list[bool]()

    async def get(self, *_: Any) -> Workload:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def merge_patch(self, _kind: Any, _key: Any, body: dict[str, Any]) -> None:
        if self.refuses:
            raise Forbidden(403, "Forbidden", "you may not")
        self.written.append(body["spec"]["active"])


async def test_it_is_released_once_its_quota_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "POLL_INTERVAL", timedelta())
    cluster = Answering(RUNNING.build(), GIVEN_BACK.requeue_state(1).build(), GIVEN_BACK.build())

    await activation.requeue(cast("Client", cluster), RUNNING.build())

    assert cluster.written == [False, True]
    assert len(cluster.states) == 1, "it was released before its quota and its back-off were gone"


async def test_it_is_released_also_where_no_manager_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "GIVE_BACK_TIMEOUT", timedelta())
    cluster = Answering(RUNNING.build())

    with pytest.raises(CommandFailed, match="does a manager run"):
        await activation.requeue(cast("Client", cluster), RUNNING.build())

    assert cluster.written == [False, True]


async def test_the_missing_right_is_named() -> None:
    with pytest.raises(CommandFailed, match="as the role multikueue-batch-admin has it"):
        await activation.activate(cast("Client", Answering(refuses=True)), RUNNING.build(), active=False)
