"""What the manager says of a workload, from the call to the value; `tests/cli/commands/test_why.py` shows it to people."""

from __future__ import annotations

from typing import Any, cast

import pytest

from multikueue.api.meta import ObjectKey
from multikueue.cli.workload.explanation import ManagerExplanation, fetch_explanation
from multikueue.dispatch.prospects import Prospect
from multikueue.errors import ApiError
from multikueue.kube.client import Client

pytestmark = pytest.mark.anyio


class Answering:
    def __init__(self, body: bytes) -> None:
        self.body, self.calls = body, list[str]()

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        self.calls.append(f"{method} {path}")
        return self.body


async def test_the_answer_is_about_that_workload() -> None:
    client = Answering(b'{"workers": [{"cluster": "w1", "state": "waits there", "message": "m"}]}')
    found = await fetch_explanation(cast("Client", client), ObjectKey("team", "job-1"))
    assert found == ManagerExplanation(workers=(Prospect(cluster="w1", state="waits there", message="m"),))
    assert client.calls == ["GET /apis/visibility.multikueue.dev/v1alpha1/namespaces/team/workloads/job-1/explanation"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"workers": 3}', b'{"quota": {"place": "first"}}'])
async def test_an_answer_of_another_form_counts_as_none(body: bytes) -> None:
    with pytest.raises(ApiError, match="of another form"):
        await fetch_explanation(cast("Client", Answering(body)), ObjectKey("team", "job-1"))
