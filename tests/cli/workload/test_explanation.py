"""What the manager says of a workload, from the call to the value; `tests/cli/commands/test_why.py` shows it to people."""

from __future__ import annotations

import pytest

from fakekube.model.wire import Request, Response
from multikueue.api.meta import ObjectKey
from multikueue.cli.workload.explanation import (
    ManagerExplanation,
    demand_by,
    fetch_explanation,
)
from multikueue.errors import ApiError
from multikueue.quota.visibility.differences import PodPolicies
from multikueue.workload.nomination.foresight import requested
from multikueue.workload.nomination.prospects import Prospect
from tests.builders import pod_set, workload
from tests.cluster import InProcessClient

pytestmark = pytest.mark.anyio


class Answering:
    """An API server with one answer to all requests."""

    def __init__(self, body: bytes) -> None:
        self.body, self.calls = body, list[str]()

    async def handle(self, request: Request) -> Response:
        self.calls.append(f"{request.method} {request.path}")
        return Response(body=self.body)


async def test_the_answer_is_about_that_workload() -> None:
    api = Answering(b'{"workers": [{"cluster": "w1", "state": "waits there", "message": "m"}]}')
    found = await fetch_explanation(InProcessClient(api), ObjectKey("team", "job-1"))
    assert found == ManagerExplanation(workers=(Prospect(cluster="w1", state="waits there", message="m"),))
    assert api.calls == ["GET /apis/visibility.multikueue.dev/v1alpha1/namespaces/team/workloads/job-1/explanation"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"workers": 3}', b'{"quota": {"place": "first"}}'])
async def test_an_answer_of_another_form_counts_as_none(body: bytes) -> None:
    with pytest.raises(ApiError, match="of another form"):
        await fetch_explanation(InProcessClient(Answering(body)), ObjectKey("team", "job-1"))


def test_a_pod_set_needs_what_all_its_pods_do() -> None:
    three = pod_set(count=3).request(cpu=2)
    big, fewer = (workload("big").queue("main").pod_sets(each).build() for each in (three, three.min_count(1)))
    assert requested(demand_by(PodPolicies(), big, None), big) == [{"cpu": 6000}]
    assert requested(demand_by(PodPolicies(), fewer, None), fewer) == [], "nobody knows how many of them will do"
