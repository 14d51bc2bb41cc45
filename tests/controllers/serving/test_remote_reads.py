"""What people are shown of a worker: relatives of the workload and nothing else, within bounds, or a reason why not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial

import anyio
import pytest
from anyio.abc import TaskStatus

from fakekube.model.wire import Refused as Answer
from multikueue.api.kubernetes.printed import PODS, WORKLOAD_ANNOTATION
from multikueue.controllers.serving import remote_reads
from multikueue.controllers.serving.remote_reads import AT_ONCE, AT_ONCE_OF_ONE, AT_ONCE_THERE, InFlight, Reads
from multikueue.errors import ClusterUnreachable
from multikueue.web.visibility import Refused
from tests.controllers.serving.worker import TEAM, Side, train

pytestmark = pytest.mark.anyio


@pytest.fixture
def side() -> Side:
    return Side()


async def test_the_pods_of_the_job_are_shown_and_no_others(side: Side) -> None:
    side.pod("of-the-job", side.job)
    side.pod("marked", annotations={WORKLOAD_ANNOTATION: "job-train"})
    side.pod("of-another", annotations={WORKLOAD_ANNOTATION: "job-other"})
    side.pod("stranger")
    found = await side.look()
    assert (found["kind"], found["cluster"]) == ("WorkloadPods", "w1")
    assert [pod.metadata.name for pod in found["items"]] == ["marked", "of-the-job"]
    assert "unseen" not in found


@pytest.mark.parametrize("cluster", [None, "gone"], ids=["the workload is nowhere", "its worker is no more"])
async def test_without_a_worker_there_is_nothing_and_nobody_is_asked(side: Side, cluster: str | None) -> None:
    found = await side.look(cluster=cluster)
    assert (found["items"], found.get("cluster")) == ((), cluster)
    assert side.worker.calls == []


async def test_what_has_the_name_of_our_copy_where_we_have_none_is_somebody_elses(side: Side) -> None:
    side.pod("marked", annotations={WORKLOAD_ANNOTATION: "job-train"})
    side.view.workloads.remove(train(None))
    assert await side.names() == []
    assert side.worker.calls == []


async def test_a_worker_that_refuses_names_the_command_that_grants_it(side: Side) -> None:
    side.worker.fault = lambda _verb, plural: Answer(403, "Forbidden", "no pods for you") if plural == "pods" else None
    with pytest.raises(Refused, match=r"no pods for you; .* `multikueue clusters register w1 --view-pods`") as refused:
        await side.look()
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


async def test_a_kind_between_pods_and_job_that_may_not_be_read_is_told(side: Side) -> None:
    side.pod("of-the-job", side.job)
    side.worker.fault = lambda _verb, plural: Answer(403, "Forbidden", "no") if plural == "jobs" else None
    found = await side.look()
    assert (found["items"], found["unseen"]) == ([], ["the manager may not read Job there"])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param(Answer(401, "Unauthorized", "who are you"), "w1: .*who are you", id="it does not know us"),
        pytest.param(ClusterUnreachable("w1", "away"), "w1: .*away", id="it is away"),
    ],
)
async def test_trouble_with_the_worker_is_told_in_kubernetes_words(side: Side, fault: Exception, message: str) -> None:
    side.worker.fault = lambda _verb, _plural: fault
    with pytest.raises(Refused, match=message) as refused:
        await side.look()
    assert (refused.value.code, refused.value.reason) == (503, "ServiceUnavailable")


async def test_without_a_connection_nobody_waits(side: Side) -> None:
    reads = Reads(clients={}, workers={"w1": side.view})
    side.reads = reads
    with pytest.raises(Refused, match="no connection to w1"):
        await side.look()


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'{"metadata": {"continue": 3}}', b"[" * 100_000], ids=["none", "no list", "no page", "deep"]
)
async def test_an_answer_that_nobody_can_read_is_told(
    side: Side, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    async def request(_method: str, _path: str, *, params: Mapping[str, str] | None = None) -> bytes:
        return answer

    monkeypatch.setattr(side.worker, "request", request)
    with pytest.raises(Refused, match="cannot be read"):
        await side.look()


async def test_the_events_of_copy_job_and_pods_are_shown_and_no_others(side: Side) -> None:
    pod, stranger = side.pod("one", side.job, uid="one"), side.pod("stranger", uid="stranger")
    copy = {"kind": "Workload", "metadata": {"name": "job-train"}}
    for name, about in (("copy", copy), ("job", side.job), ("pod", pod), ("stranger", stranger)):
        side.event(name, about)
    found = await side.look("events")
    assert (found["kind"], found["cluster"]) == ("WorkloadEvents", "w1")
    assert [event.metadata.name for event in found["items"]] == ["copy", "job", "pod"]


async def test_events_that_the_worker_refuses_are_told_as_such(side: Side) -> None:
    side.worker.fault = lambda _verb, plural: Answer(403, "Forbidden", "no ears") if plural == "events" else None
    with pytest.raises(Refused, match=r"no ears; .* `multikueue clusters register w1 --view-pods`"):
        await side.look("events")


# Logs.


async def test_the_log_of_a_pod_of_the_job_is_passed_on_in_pieces(side: Side) -> None:
    side.pod("one", side.job)
    pieces = await side.log()
    assert len(pieces) == 2
    assert b"".join(pieces) == b"fakekube runs no containers: pod one has nothing to say.\n"


@pytest.mark.parametrize("pod", ["stranger", "nobody"], ids=["it is another's", "there is none"])
async def test_a_pod_of_somebody_else_has_no_log_to_show(side: Side, pod: str) -> None:
    side.pod("stranger")
    with pytest.raises(Refused) as refused:
        await side.log(pod)
    assert (refused.value.code, refused.value.reason) == (404, "NotFound")
    assert "get pods/log" not in side.worker.calls


async def test_a_pod_without_a_node_has_said_nothing_yet(side: Side) -> None:
    side.pod("one", side.job, node="")
    with pytest.raises(Refused, match="on no node of w1 yet") as refused:
        await side.log()
    assert refused.value.code == 400


async def test_no_log_is_read_where_the_workload_has_no_copy_of_ours(side: Side) -> None:
    side.pod("marked", annotations={WORKLOAD_ANNOTATION: "job-train"})
    side.view.workloads.remove(train(None))
    with pytest.raises(Refused, match="not found"):
        await side.log("marked")
    assert side.worker.calls == []


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        pytest.param(Answer(403, "Forbidden", "no"), 403, "--view-pods", id="the manager may not"),
        pytest.param(Answer(400, "BadRequest", "it has not begun"), 400, "w1: .*it has not begun", id="not begun yet"),
        pytest.param(ClusterUnreachable("w1", "away"), 503, "away", id="the worker is away"),
    ],
)
async def test_a_log_that_cannot_be_had_is_told_before_it_begins(
    side: Side, fault: Exception, code: int, message: str
) -> None:
    side.pod("one", side.job)
    side.worker.fault = lambda _verb, _plural: fault if side.worker.requests[-1].path.endswith("/log") else None
    with pytest.raises(Refused, match=message) as refused:
        await side.log()
    assert refused.value.code == code


async def test_a_log_without_end_breaks_off(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reads, "LOG_BYTES", 50)
    side.pod("one", side.job)
    with pytest.raises(Refused) as refused:
        await side.log()
    assert refused.value.code == 413


async def test_a_log_comes_at_a_rate(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    naps = list[float]()

    async def sleep(seconds: float) -> None:
        naps.append(seconds)

    monkeypatch.setattr(remote_reads, "LOG_RATE", 14)
    monkeypatch.setattr("multikueue.controllers.serving.remote_reads.anyio.sleep", sleep)
    side.pod("one", side.job)
    length = sum(map(len, await side.log()))
    assert naps[-1] == pytest.approx(length / 14 - 1, abs=0.5)
    assert naps[0] == pytest.approx(length // 2 / 14 - 1, abs=0.5)


async def test_so_many_logs_of_one_namespace_are_open(side: Side) -> None:
    side.pod("one", side.job)
    with ExitStack() as open_:
        for _ in range(remote_reads.LOGS_OF_ONE):
            open_.enter_context(side.reads.logs.entered(TEAM, "w1"))
        with pytest.raises(Refused) as refused:
            await side.log()
        assert refused.value.code == 429
        assert await side.names() == ["one"], "lists have their own bounds"
    assert await side.log()


# Bounds.


async def test_a_worker_that_hangs_is_given_up(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    async def request(*_args: object, **_options: object) -> bytes:
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(side.worker, "request", request)
    monkeypatch.setattr(remote_reads, "ANSWER_TIMEOUT", timedelta(milliseconds=10))
    with pytest.raises(Refused, match="did not answer") as refused:
        await side.look()
    assert refused.value.code == 504


async def test_an_answer_has_so_many_pods_and_says_that_there_are_more(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_reads, "MOST_ITEMS", 2)
    for number in range(3):
        side.pod(f"p{number}", side.job)
    found = await side.look()
    assert [pod.metadata.name for pod in found["items"]] == ["p0", "p1"]
    assert found["unseen"] == ["no more than 2 pods are shown"]


async def test_so_many_pods_of_a_namespace_are_looked_at(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reads, "PAGE", 2)
    monkeypatch.setattr(remote_reads, "MOST_PAGES", 2)
    for number in range(6):
        side.pod(f"p{number}")
    side.pod("z", side.job)
    found = await side.look()
    assert found["items"] == []
    assert found["unseen"] == ["only 4 pods of the namespace were looked at"]
    assert side.worker.calls == ["list pods"] * 2


async def test_a_page_longer_than_asked_for_is_cut(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reads, "PAGE", 2)
    for number in range(4):
        side.pod(f"p{number}", side.job)
    ask = side.worker.request

    async def request(method: str, path: str, *, params: Mapping[str, str] | None = None) -> bytes:
        return await ask(method, path)

    monkeypatch.setattr(side.worker, "request", request)
    assert await side.names() == ["p0", "p1"]


async def test_so_many_owners_are_read(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reads, "MOST_OWNERS", 1)
    stranger = side.add(PODS, "a", uid="another", labels={})
    side.pod("b", stranger)
    side.pod("c", side.job)
    found = await side.look()
    assert found["items"] == []
    assert found["unseen"] == ["no more than 1 owners of pods were looked at"]


async def test_the_secrets_in_a_pod_are_not_shown(side: Side) -> None:
    side.pod("one", side.job)
    assert "dear" not in str(await side.look())


@pytest.mark.parametrize(
    ("before", "namespace", "worker"),
    [
        pytest.param([("team", f"w{n}") for n in range(AT_ONCE_OF_ONE)], "team", "w9", id="of one namespace"),
        pytest.param([(f"t{n}", "w1") for n in range(AT_ONCE_THERE)], "team", "w1", id="of one worker"),
        pytest.param([(f"t{n}", f"w{n}") for n in range(AT_ONCE)], "team", "w9", id="in all"),
    ],
)
async def test_so_many_are_under_way_at_once(before: list[tuple[str, str]], namespace: str, worker: str) -> None:
    in_flight = InFlight(of_all=AT_ONCE, of_one=AT_ONCE_OF_ONE, there=AT_ONCE_THERE)
    async with anyio.create_task_group() as tasks:
        for held in before[:-1]:
            await tasks.start(partial(_hold, in_flight, *held))
        with in_flight.entered(namespace, worker):
            pass
        await tasks.start(partial(_hold, in_flight, *before[-1]))
        with pytest.raises(Refused) as refused, in_flight.entered(namespace, worker):
            pass
        tasks.cancel_scope.cancel()
    with in_flight.entered(namespace, worker):
        pass
    assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")


async def _hold(
    in_flight: InFlight,
    namespace: str,
    worker: str,
    gave_way: list[str] | None = None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    try:
        with in_flight.entered(namespace, worker):
            task_status.started()
            await anyio.sleep_forever()
    except Refused as refused:
        if gave_way is None:
            raise
        gave_way.append(f"{namespace}: {refused.code}")


@pytest.mark.parametrize("place", ["of one worker", "in all"])
async def test_one_namespace_shuts_out_no_other_whatever_its_accounts_are(place: str) -> None:
    """Four accounts of one namespace held all logs of everybody for an hour."""
    limits = {"of_all": 4, "there": 9} if place == "in all" else {"of_all": 9, "there": 4}
    in_flight, gave_way = InFlight(of_one=9, **limits), list[str]()
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            await tasks.start(partial(_hold, in_flight, "greedy", "w1", gave_way))
        for _ in range(2):  # until both have the same
            await tasks.start(partial(_hold, in_flight, "team", "w1", gave_way))
        assert gave_way == ["greedy: 429"] * 2
        with pytest.raises(Refused), in_flight.entered("team", "w1"):
            pass
        with in_flight.entered("third", "w1"):
            await anyio.wait_all_tasks_blocked()
        assert len(gave_way) == 3
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("is_quiet", [True, False], ids=["a quiet log", "a busy log"])
async def test_a_log_ends_with_the_right_to_it(side: Side, monkeypatch: pytest.MonkeyPatch, is_quiet: bool) -> None:
    monkeypatch.setattr(remote_reads, "REVIEW_AGAIN", 0.0 if not is_quiet else 0.01)
    side.pod("one", side.job)
    if is_quiet:
        monkeypatch.setattr(side.worker, "stream", _silent)
    reviews = list[str]()

    async def admit() -> None:
        reviews.append("asked")
        if len(reviews) == 1:
            raise ClusterUnreachable("manager", "away")  # nobody can tell: the log goes on
        raise Refused(403, "Forbidden", "no more")

    with pytest.raises(Refused, match="no more"), anyio.fail_after(10):
        await side.log(admit=admit)
    assert len(reviews) == 2


@asynccontextmanager
async def _silent(*_args: object, **_options: object) -> AsyncIterator[object]:
    class Log:
        async def piece(self) -> bytes:
            await anyio.sleep_forever()
            raise AssertionError

    yield Log()


async def test_a_request_ends_with_its_answer_whatever_that_is(side: Side) -> None:
    side.worker.fault = lambda _verb, _plural: ClusterUnreachable("w1", "away")
    for _ in range(AT_ONCE + 1):
        with pytest.raises(Refused) as refused:
            await side.look()
        assert refused.value.code == 503
    side.worker.fault = lambda _verb, _plural: None
    for _ in range(AT_ONCE + 1):
        await side.look()
