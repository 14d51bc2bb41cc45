"""Logs of simulated pods: a line a second, which can be read in part, and followed to the end."""

from __future__ import annotations

from datetime import datetime, timedelta

import anyio
import pytest

from fakekube.model.wire import Object, Request, Response, Watch
from multikueue_simulator.time import EPOCH, VirtualClock, run
from multikueue_simulator.workers.jobs.logs import lines, wanted
from multikueue_simulator.world.world import Layout, World


def pod(*, ran: float | None = None, code: int = 0) -> Object:
    status: Object = {"startTime": "2030-01-01T00:00:00Z"}
    if ran is not None:
        end = (EPOCH + timedelta(seconds=ran)).isoformat()
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"finishedAt": end, "exitCode": code}}}]
    return {"metadata": {"name": "p", "uid": "1"}, "status": status}


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def texts(one: Object, seconds: float) -> list[str]:
    return [line.text.split("  loss")[0] for line in lines(one, "large", at(seconds))]


def test_a_pod_says_where_it_begins_and_how_far_it_is() -> None:
    assert texts(pod(), 2.5) == ["p begins on large", "step   1", "step   2"]


@pytest.mark.parametrize(("code", "last"), [(0, "done"), (1, "failed with exit code 1")])
def test_a_pod_says_how_it_ended_and_no_more(code: int, last: str) -> None:
    assert texts(pod(ran=1.5, code=code), 60.0) == ["p begins on large", "step   1", last]


def test_a_pod_that_has_not_begun_says_nothing() -> None:
    assert lines({"metadata": {"name": "p"}, "status": {}}, "large", at(5.0)) == []


@pytest.mark.parametrize(
    ("query", "count"),
    [({}, 6), ({"tailLines": "2"}, 2), ({"tailLines": "0"}, 0), ({"tailLines": "99"}, 6), ({"sinceSeconds": "2"}, 3)],
)
def test_a_part_of_a_log(query: dict[str, str], count: int) -> None:
    assert len(wanted(lines(pod(), "large", at(5.0)), query, at(5.0))) == count


def test_a_log_is_followed_until_its_pod_ends() -> None:
    async def main() -> None:
        world = World(Layout(pods=True), clock=VirtualClock(), seed=1)
        api = world.manager.cluster.api
        spec = {"containers": [{"name": "main", "image": "x"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        world.manager.call("POST", "/api/v1/namespaces/default/pods", body)
        _tell(world, pod()["status"])
        path = "/api/v1/namespaces/default/pods/p/log"
        followed = await api.handle(Request(method="GET", path=path, query={"follow": "true"}))
        assert isinstance(followed, Watch)
        await anyio.sleep(2.5)
        assert not followed.ended
        _tell(world, pod(ran=2.2)["status"])
        await anyio.sleep(2.0)
        assert followed.ended
        assert b"".join(followed.lines).endswith(b"done\n")
        whole = await api.handle(Request(method="GET", path=path, query={"follow": "true"}))
        assert isinstance(whole, Response), "there is nothing left to follow"
        assert whole.body == b"".join(followed.lines)
        refused = await api.handle(Request(method="POST", path=path))
        assert isinstance(refused, Response)
        assert refused.status == 405

    run(main)


def test_a_log_ends_with_its_pod_or_its_reader() -> None:
    async def main() -> None:
        world = World(Layout(pods=True), clock=VirtualClock(), seed=1)
        spec = {"containers": [{"name": "main", "image": "x"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        world.manager.call("POST", "/api/v1/namespaces/default/pods", body)
        path, query = "/api/v1/namespaces/default/pods/p/log", {"follow": "true"}
        left, gone = [
            await world.manager.cluster.api.handle(Request(method="GET", path=path, query=query)) for _ in "ab"
        ]
        assert isinstance(left, Watch)
        assert isinstance(gone, Watch)
        left.close()
        world.manager.call("DELETE", "/api/v1/namespaces/default/pods/p", {"gracePeriodSeconds": 0})
        await anyio.sleep(1.5)
        assert gone.ended

    run(main)


def _tell(world: World, status: Object) -> None:
    path = "/api/v1/namespaces/default/pods/p/status"
    world.manager.call("PATCH", path, {"status": status}, content_type="application/merge-patch+json")
