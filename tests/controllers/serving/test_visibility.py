"""The visibility API from the request to the answer: whom it believes, whom it lets see; one file, one way of a request."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from fakekube.front_end.authority import Authority
from fakekube.model.wire import Request, Response
from multikueue.api.kinds import API_SERVICES, CONFIG_MAPS, SECRETS, SERVICES
from multikueue.api.kueue.queues import LocalQueue
from multikueue.api.meta import ObjectKey, encode
from multikueue.controllers.serving.foreseeing import QueueReads
from multikueue.controllers.serving.visibility import (
    AUTHENTICATION,
    BURST,
    CERTIFICATE_SECRET,
    REMEMBERED,
    REVIEW_LIFETIME,
    SHARE_OF_ONE,
    AccessReviewer,
    AnswerRateLimiter,
    Visibility,
    keep_visibility,
)
from multikueue.controllers.serving.webhooks import Service
from multikueue.errors import ClusterUnreachable
from multikueue.runtime import Clock
from multikueue.store.caches.cache import Cache
from multikueue.store.store import Store
from multikueue.strategy import Worker
from multikueue.web.front_proxy import User
from multikueue.web.server import Answerer, ApiRequest, Server, Write
from multikueue.web.serving import Serving
from multikueue.web.visibility import EXPLANATIONS, GROUP, SERVED, Pending, Refused
from multikueue.workload.case import Case, Fleet
from multikueue.workload.nomination.choice import ExplainedChoice, WorkerChoice
from tests.builders import local_queue
from tests.controllers.serving.api import manager
from tests.controllers.serving.worker import Side, has_queue, train
from tests.quota.builders import Play, wants

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CA = Authority().pem.decode()
PROXY = "front-proxy-client"
API_SERVICE = ObjectKey("", f"v1beta2.{GROUP}")
CLUSTER_QUEUE = f"/apis/{GROUP}/v1beta2/clusterqueues/cq/pendingworkloads"
EXPLANATION = "/apis/visibility.multikueue.dev/v1alpha1/namespaces/default/workloads/{}/explanation"
PODS_OF = "/apis/visibility.multikueue.dev/v1alpha1/namespaces/team/workloads/{}/pods"
LOCAL_QUEUE = f"/apis/{GROUP}/v1beta2/namespaces/default/localqueues/lq/pendingworkloads"


Tree = dict[str, Any]


@dataclass
class Sockets:
    """A server that only remembers what it was told to serve."""

    served: Serving | None = None
    client_ca: str = ""
    answer: Answerer | None = None

    async def serve_visibility(
        self, _host: str, port: int, certificate: Serving, *, client_ca: str, answer: Answerer
    ) -> int:
        self.served, self.client_ca, self.answer = certificate, client_ca, answer
        return port


class Scene:
    """A queue in which two wait, behind an API server in memory."""

    def __init__(self) -> None:
        self.api, self.sockets = manager(), Sockets()
        self.reviews: list[Tree] = []
        self.verdict: Tree = {"allowed": True}
        self.allows: Callable[[Tree], bool] = lambda _attributes: True
        self._usual, self.api.api.before = self.api.api.before, self._review
        self.problem: str | None = None
        self.time, self.takes = 0.0, 0.0
        self.play = Play.with_queue(cpu=0)
        self.play.submit(wants("a", cpu=1), wants("b", cpu=1).priority(7))
        self.play.run()
        self.publish()
        self.workloads = {
            each.key: each for each in (wants("a", cpu=1).build(), wants("won", cpu=1).reserved("cq").build())
        }
        self.side = Side()
        self.workloads[train().key] = train()
        self.gate = AccessReviewer(self.api, lambda: self.time)
        self.visibility = Visibility(
            client=self.api,
            server=cast("Server", self.sockets),
            store=self._store(),
            case=lambda key: Case(
                now=NOW, key=key, workload=self.workloads[key], check="mk", fleet=Fleet((Worker(name="w1"),))
            ),
            choice=self._choice,
            now=lambda: NOW,
            ready=lambda: self.problem,
            namespace="ours",
            service=Service("ours", "visibility"),
            host="",
            port=8082,
            gate=self.gate,
            reads=self.side.reads,
            queues=QueueReads({"w1": self.side.worker}, {"w1": self.side.view}),
            rate_limiter=AnswerRateLimiter(self._now),
        )

    def _store(self) -> Store:
        """With what answers are computed from."""
        queues = Cache[LocalQueue]()
        queues.upsert(local_queue("lq", "cq").build())
        workloads = SimpleNamespace(get=self.workloads.get, going_on=lambda: iter(self.workloads.values()))
        known = {"engine": self.play.engine, "workloads": workloads, "local_queues": queues}
        return cast("Store", SimpleNamespace(**known, local_job=lambda _workload: None))

    async def _choice(self, case: Case) -> ExplainedChoice | None:
        """Of one that waits for a worker."""
        return (
            ExplainedChoice(strategy="composed", workers=(WorkerChoice(worker="w1", total=0.5),))
            if case.attempt
            else None
        )

    def _now(self) -> float:
        """Each answer takes `takes` seconds."""
        now, self.time = self.time, self.time + self.takes
        return now

    async def _review(self, request: Request) -> Response | None:
        """What the API server says of who may do what is up to the test."""
        await self._usual(request)
        if not request.path.endswith("/subjectaccessreviews"):
            return None
        spec = msgspec.json.decode(request.body)["spec"]
        self.reviews.append(spec)
        allowed = self.allows(spec.get("resourceAttributes", {}))
        return Response(status=201, body=encode({"status": self.verdict if allowed else {"reason": "no role"}}))

    def registered(self, key: ObjectKey = API_SERVICE) -> Tree:
        spec: Tree = (self.api.find(API_SERVICES, key) or {})["spec"]
        return spec

    def publish(self, **more: str) -> None:
        data = {"requestheader-client-ca-file": CA, "requestheader-allowed-names": f'["{PROXY}"]'}
        headers = {"requestheader-group-headers": '["X-Remote-Group"]'}
        self.api.put(CONFIG_MAPS, {"data": data | headers | more}, AUTHENTICATION)

    async def ask(
        self,
        path: str,
        *,
        by: str | None = PROXY,
        user: str = "jane",
        groups: tuple[str, ...] = (),
        query: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        if self.sockets.answer is None:
            await self.visibility.reconcile()
        assert self.sockets.answer is not None
        headers = (("X-Remote-User", user), *(("X-Remote-Group", group) for group in groups))
        code, body = await self.sockets.answer(ApiRequest(by, headers, path, query or {}))
        assert isinstance(body, bytes)
        return code, json.loads(body)

    async def ask_log(self, **query: str) -> list[bytes]:
        """The pieces of a log."""
        await self.visibility.reconcile()
        assert self.sockets.answer is not None
        asked = ApiRequest(
            PROXY, (("X-Remote-User", "jane"),), PODS_OF.format("job-train").replace("/pods", "/log"), query
        )
        _, stream = await self.sockets.answer(asked)
        assert not isinstance(stream, bytes), stream
        pieces = list[bytes]()

        async def write(piece: bytes) -> None:
            pieces.append(piece)

        async def start() -> Write:
            return write

        await stream(start)
        return pieces


async def test_who_may_is_told_who_waits() -> None:
    code, body = await Scene().ask(CLUSTER_QUEUE)
    assert (code, [item["metadata"]["name"] for item in body["items"]]) == (200, ["b", "a"])
    code, body = await Scene().ask(LOCAL_QUEUE, query={"offset": "1"})
    assert (code, [item["metadata"]["name"] for item in body["items"]]) == (200, ["a"])


@pytest.mark.parametrize(
    ("path", "attributes"),
    [
        pytest.param(
            CLUSTER_QUEUE, {"resource": "clusterqueues", "name": "cq", "namespace": ""}, id="about a ClusterQueue"
        ),
        pytest.param(
            LOCAL_QUEUE, {"resource": "localqueues", "name": "lq", "namespace": "default"}, id="about a LocalQueue"
        ),
        pytest.param(
            EXPLANATION.format("a"),
            {
                "group": "visibility.multikueue.dev",
                "version": "v1alpha1",
                "resource": "workloads",
                "subresource": "explanation",
                "name": "a",
                "namespace": "default",
            },
            id="about a workload",
        ),
    ],
)
async def test_the_api_server_is_asked_about_exactly_what_is_asked_for(
    path: str, attributes: Mapping[str, str]
) -> None:
    scene = Scene()
    await scene.ask(path, groups=("a", "b"))
    common = {"group": GROUP, "version": "v1beta2", "subresource": "pendingworkloads", "verb": "get"}
    assert scene.reviews == [
        {"user": "jane", "groups": ["a", "b"], "extra": {}, "resourceAttributes": {**common, **attributes}}
    ]


async def test_discovery_is_a_question_about_a_path() -> None:
    scene = Scene()
    code, body = await scene.ask("/apis")
    assert (code, body["kind"]) == (200, "APIGroupList")
    assert scene.reviews[0]["nonResourceAttributes"] == {"path": "/apis", "verb": "get"}


@pytest.mark.parametrize(
    "verdict",
    [
        pytest.param({"allowed": False, "reason": "no role"}, id="not allowed"),
        pytest.param({"allowed": True, "denied": True, "reason": "no role"}, id="denied"),
        pytest.param({"reason": "no role"}, id="nothing said"),
    ],
)
async def test_who_may_not_is_refused(verdict: Tree) -> None:
    scene = Scene()
    scene.verdict = verdict
    code, body = await scene.ask(CLUSTER_QUEUE)
    assert (code, body["reason"]) == (403, "Forbidden")
    assert 'User "jane"' in body["message"]
    assert "no role" in body["message"]
    assert "items" not in body


async def test_administrators_need_no_review() -> None:
    scene = Scene()
    scene.verdict = {"allowed": False}
    assert (await scene.ask(CLUSTER_QUEUE, groups=("system:masters",)))[0] == 200
    assert scene.reviews == []


@pytest.mark.parametrize(
    ("by", "user"), [(None, "jane"), ("somebody", "jane"), (PROXY, "")], ids=["no certificate", "another's", "no user"]
)
async def test_who_does_not_come_through_the_api_server_is_nobody(by: str | None, user: str) -> None:
    scene = Scene()
    code, body = await scene.ask(CLUSTER_QUEUE, by=by, user=user, groups=("system:masters",))
    assert (code, body["reason"]) == (401, "Unauthorized")
    assert scene.reviews == []


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        pytest.param(CLUSTER_QUEUE.replace("/cq/", "/none/"), {}, 404, id="no such queue"),
        pytest.param("/apis/other", {}, 404, id="no such path"),
        pytest.param(CLUSTER_QUEUE, {"limit": "many"}, 400, id="a limit that is no number"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_kubernetes_words(path: str, query: dict[str, str], code: int) -> None:
    answered, body = await Scene().ask(path, query=query)
    assert (answered, body["kind"], body["status"], body["code"]) == (code, "Status", "Failure", code)


async def test_before_the_queues_are_known_nothing_is_answered() -> None:
    scene = Scene()
    scene.problem = "not listed yet"
    assert (await scene.ask(CLUSTER_QUEUE))[0] == 503
    assert (await scene.ask("/apis"))[0] == 200


async def test_when_nobody_can_tell_what_is_allowed_nothing_is_shown() -> None:
    scene = Scene()
    await scene.visibility.reconcile()

    def away(_verb: str, _plural: str) -> None:
        raise ClusterUnreachable("", "away")

    scene.api.fault = away
    code, body = await scene.ask(CLUSTER_QUEUE)
    assert (code, body["reason"]) == (503, "ServiceUnavailable")


async def test_a_question_changes_nothing() -> None:
    scene = Scene()
    before = scene.play.engine.view.pending_in("cq"), scene.play.engine.scheduler.next_look(scene.play.now)
    await scene.ask(CLUSTER_QUEUE)
    assert (scene.play.engine.view.pending_in("cq"), scene.play.engine.scheduler.next_look(scene.play.now)) == before


# The gate remembers for a moment.


async def test_an_answer_is_believed_for_a_moment_and_for_that_question_alone() -> None:
    scene = Scene()
    for _ in range(3):
        await scene.ask(CLUSTER_QUEUE)
    assert len(scene.reviews) == 1
    await scene.ask(LOCAL_QUEUE)
    await scene.ask(CLUSTER_QUEUE, user="joe")
    await scene.ask(CLUSTER_QUEUE, groups=("other",))
    assert len(scene.reviews) == 4
    scene.time = REVIEW_LIFETIME.total_seconds()
    await scene.ask(CLUSTER_QUEUE)
    assert len(scene.reviews) == 5


async def test_a_refusal_is_believed_no_longer_than_a_permission() -> None:
    scene = Scene()
    scene.verdict = {"allowed": False}
    assert (await scene.ask(CLUSTER_QUEUE))[0] == 403
    scene.verdict = {"allowed": True}
    assert (await scene.ask(CLUSTER_QUEUE))[0] == 403
    scene.time = REVIEW_LIFETIME.total_seconds()
    assert (await scene.ask(CLUSTER_QUEUE))[0] == 200


async def test_memory_is_bounded() -> None:
    scene = Scene()
    for number in range(REMEMBERED + 5):
        await scene.gate.admit(User(f"user-{number}"), Pending(version="v1beta2", name="cq"))
    assert len(scene.gate._known) == REMEMBERED


async def test_a_workload_that_waits_for_quota_is_explained() -> None:
    code, body = await Scene().ask(EXPLANATION.format("a"))
    assert code == 200
    assert (body["quota"]["clusterQueue"], body["quota"]["place"]) == ("cq", 2)
    assert [lack["missing"] for lack in body["quota"]["lacks"]] == ["1"]
    first = body["answer"]["obstacles"][0]["code"]
    assert (body["answer"]["state"], first) == ("Pending", "MoreThanQueueHas"), "the queue has no CPU at all"


async def test_one_that_waits_for_a_worker_is_told_what_each_of_them_is_to_it() -> None:
    code, body = await Scene().ask(EXPLANATION.format("won"))
    assert (code, body["workers"]) == (200, [{"cluster": "w1", "state": "was not asked yet"}])
    assert "quota" not in body
    assert body["choice"] == {"strategy": "composed", "workers": [{"worker": "w1", "total": 0.5}]}


LIST_OF_ANSWERS = "/apis/visibility.multikueue.dev/v1alpha1/namespaces/default/answers"


async def test_a_list_of_answers_has_those_that_wait_here() -> None:
    scene = Scene()
    code, body = await scene.ask(LIST_OF_ANSWERS)
    assert (code, [item["metadata"]["name"] for item in body["items"]]) == (200, ["a", "won"])
    assert [item["answer"]["obstacles"][0]["code"] for item in body["items"]] == ["MoreThanQueueHas", "NotAskedYet"]
    asked = scene.reviews[-1]["resourceAttributes"]
    assert (asked["verb"], asked["resource"], asked["subresource"], asked["namespace"]) == (
        "list",
        "answers",
        "",
        "default",
    )


async def test_a_list_of_answers_ends_where_the_share_of_whoever_asks_does() -> None:
    scene = Scene()
    scene.takes = BURST + 1
    code, body = await scene.ask(LIST_OF_ANSWERS)
    assert (code, len(body["items"]), body["partial"]) == (200, 1, True)


async def test_a_workload_that_is_not_there_is_not_explained() -> None:
    code, body = await Scene().ask(EXPLANATION.format("nobody"))
    assert (code, body["message"]) == (404, 'workloads.visibility.multikueue.dev "nobody" not found')


ANSWERS = (EXPLANATION.format("a"), LOCAL_QUEUE)


@pytest.mark.parametrize("path", ANSWERS)
async def test_a_namespace_takes_so_much_of_the_event_loop_whoever_asks(path: str) -> None:
    scene = Scene()
    scene.takes = BURST
    codes = [(await scene.ask(path, user=f"user{number}"))[0] for number in range(4)]
    assert codes == [200, 200, 429, 429]
    _, body = await scene.ask(path)
    assert (body["reason"], body["details"]) == ("TooManyRequests", {"retryAfterSeconds": 1})
    with scene.visibility.rate_limiter.paid_by(User("joe"), "other"):
        pass
    scene.time += 2 * BURST / SHARE_OF_ONE
    assert (await scene.ask(path))[0] == 200


async def test_an_account_takes_so_much_of_the_event_loop_wherever_it_asks() -> None:
    scene = Scene()
    scene.takes = BURST
    assert [(await scene.ask(CLUSTER_QUEUE, user="jane"))[0] for _ in range(3)] == [200, 200, 429]
    scene.takes = 0
    assert (await scene.ask(LOCAL_QUEUE, user="jane"))[0] == 429
    assert (await scene.ask(CLUSTER_QUEUE, user="joe"))[0] == 200


def test_service_accounts_of_a_namespace_are_one_and_all_of_them_together_have_a_share() -> None:
    time = [0.0]
    rate_limiter = AnswerRateLimiter(lambda: time[0])

    def use(user: str, namespace: str = "") -> None:
        with rate_limiter.paid_by(User(user), namespace):
            time[0] += BURST

    use("system:serviceaccount:team:one")
    use("system:serviceaccount:team:two")
    with pytest.raises(Refused, match="answers by team take"):
        use("system:serviceaccount:team:three")
    use("jane")
    with pytest.raises(Refused, match="by all users together"):
        use("joe")


def test_what_is_paid_is_remembered_of_few() -> None:
    rate_limiter = AnswerRateLimiter(lambda: 0.0)
    for number in range(REMEMBERED + 1):
        with rate_limiter.paid_by(User("jane"), f"team{number}"):
            pass
    assert len(rate_limiter._paid_until) == REMEMBERED


@pytest.mark.parametrize(
    ("cpu", "state"),
    [pytest.param(2, "was not asked yet", id="it may fit"), pytest.param("500m", "can never hold it", id="too small")],
)
async def test_a_worker_that_was_not_asked_is_judged_by_its_queues(cpu: Any, state: str) -> None:
    scene = Scene()
    has_queue(scene.side.worker, cpu=cpu)

    _, found = await scene.ask(EXPLANATION.format("a"))

    assert [each["state"] for each in found["workers"]] == [state]


async def test_others_have_their_turn_between_two_explanations() -> None:
    scene, turns = Scene(), list[str]()
    await scene.visibility.reconcile()

    async def ask() -> None:
        await scene.ask(EXPLANATION.format("a"), groups=("system:masters",))
        turns.append("told")

    async def others() -> None:
        while turns.count("told") < 3:
            turns.append("other")
            await checkpoint()

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
        tasks.start_soon(others)
    assert "told told" not in " ".join(turns)


async def test_the_gate_names_who_may_not_do_what() -> None:
    scene = Scene()
    scene.verdict = {}
    with pytest.raises(Refused, match=r'clusterqueues\.visibility\.kueue\.x-k8s\.io "cq" is forbidden'):
        await scene.gate.admit(User("jane"), Pending(version="v1beta2", name="cq"))


# What is on a worker.


async def test_who_may_see_pods_there_sees_those_of_a_workload() -> None:
    scene = Scene()
    scene.side.pod("one", scene.side.job)
    code, body = await scene.ask(PODS_OF.format("job-train"))
    assert (code, body["kind"], body["metadata"]) == (200, "WorkloadPods", {"name": "job-train", "namespace": "team"})
    assert (body["cluster"], [item["metadata"]["name"] for item in body["items"]]) == ("w1", ["one"])


@pytest.mark.parametrize("plural", ["pods", "events"])
async def test_that_takes_the_right_for_such_a_question_and_the_one_for_the_like_of_it_here(plural: str) -> None:
    scene = Scene()
    await scene.ask(PODS_OF.format("job-train").replace("/pods", f"/{plural}"))
    ours = {"group": EXPLANATIONS, "version": "v1alpha1", "resource": "workloads", "subresource": plural}
    like = {"group": "", "version": "v1", "resource": plural, "subresource": ""}
    assert [review["resourceAttributes"] for review in scene.reviews] == [
        {**ours, "namespace": "team", "name": "job-train", "verb": "get"},
        {**like, "namespace": "team", "name": "", "verb": "list"},
    ]


async def test_who_may_list_no_pods_is_told_so_and_no_worker_is_asked() -> None:
    scene = Scene()
    scene.side.pod("one", scene.side.job)
    scene.allows = lambda attributes: attributes["resource"] != "pods"
    code, body = await scene.ask(PODS_OF.format("job-train"))
    assert (code, body["reason"]) == (403, "Forbidden")
    assert body["message"] == (
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "team": no role'
    )
    assert scene.side.worker.calls == []


async def test_a_log_takes_the_right_to_logs_of_that_pod_here() -> None:
    scene = Scene()
    scene.side.pod("one", scene.side.job)
    pieces = await scene.ask_log(pod="one", container="main", follow="true", tailLines="5")
    assert b"pod one has nothing to say" in b"".join(pieces)
    assert scene.reviews[-1]["resourceAttributes"] == {
        "group": "",
        "version": "v1",
        "resource": "pods",
        "subresource": "log",
        "verb": "get",
        "namespace": "team",
        "name": "one",
    }
    assert scene.side.worker.requests[-1].query == {"container": "main", "follow": "true", "tailLines": "5"}
    scene = Scene()
    scene.allows = lambda attributes: attributes["resource"] != "pods"
    code, body = await scene.ask(PODS_OF.format("job-train").replace("/pods", "/log"), query={"pod": "one"})
    assert code == 403
    assert body["message"] == (
        'pods "one" is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "team":'
        " no role"
    )


async def test_a_workload_that_is_not_there_has_no_pods() -> None:
    assert (await Scene().ask(PODS_OF.format("nobody")))[0] == 404


# Registration.


async def test_it_is_registered_with_the_authority_of_its_certificate() -> None:
    scene = Scene()
    await scene.visibility.reconcile()
    assert scene.api.written == ["create secrets", *["create apiservices"] * 3]
    assert scene.sockets.client_ca == CA
    assert scene.sockets.served is not None
    for group, version in SERVED:
        spec = scene.registered(ObjectKey("", f"{version}.{group}"))
        assert b64decode(spec["caBundle"]) == scene.sockets.served.bundle
        assert spec["service"] == {"namespace": "ours", "name": "visibility", "port": 443}
        assert (spec["group"], spec["version"]) == (group, version)
    assert scene.api.find(SECRETS, ObjectKey("ours", CERTIFICATE_SECRET))


async def test_nothing_is_written_when_all_is_in_place() -> None:
    scene = Scene()
    await scene.visibility.reconcile()
    scene.api.written.clear()
    await scene.visibility.reconcile()
    assert scene.api.written == []


@pytest.mark.parametrize(
    "change", [{"caBundle": "b2xk"}, {"caBundle": "", "insecureSkipTLSVerify": True}], ids=["an old CA", "no CA"]
)
async def test_a_registration_that_leads_here_gets_our_authority(change: Tree) -> None:
    """The manifests in deploy/ have none: only the running process knows it."""
    scene = Scene()
    await scene.visibility.reconcile()
    good = scene.registered()
    scene.api.change(API_SERVICES, API_SERVICE, {"spec": change})
    scene.api.written.clear()
    await scene.visibility.reconcile()
    spec = scene.registered()
    assert (spec["caBundle"], spec["insecureSkipTLSVerify"]) == (good["caBundle"], False)
    assert scene.api.written == ["patch apiservices"]


@pytest.mark.parametrize("service", [{"namespace": "kueue-system", "name": "visibility-server"}, None])
async def test_a_registration_that_leads_elsewhere_is_not_ours_to_change(service: Tree | None) -> None:
    scene = Scene()
    theirs = {"caBundle": "", **({"service": service} if service else {})}
    scene.api.put(API_SERVICES, {"spec": theirs}, API_SERVICE)
    before = scene.registered()
    with capture_logs() as entries:
        await scene.visibility.reconcile()
    assert scene.registered() == before
    assert [entry["event"] for entry in entries if entry["log_level"] == "warning"] == ["visibility.taken"]


SERVICE = ObjectKey("ours", "visibility")


def outside(scene: Scene, host: str = "192.0.2.1", port: int = 8082) -> Scene:
    """The manager runs outside of the cluster."""
    service = Service("ours", "visibility", port)
    scene.visibility = msgspec.structs.replace(scene.visibility, external_name=host, service=service)
    return scene


async def test_outside_of_the_cluster_it_makes_the_service_that_leads_to_it() -> None:
    scene = outside(Scene())
    await scene.visibility.reconcile()
    assert scene.api.written == ["create secrets", "create services", *["create apiservices"] * 3]
    spec = (scene.api.find(SERVICES, SERVICE) or {})["spec"]
    assert (spec["type"], spec["externalName"]) == ("ExternalName", "192.0.2.1")
    assert scene.registered()["service"] == {"namespace": "ours", "name": "visibility", "port": 8082}
    scene.api.written.clear()
    await scene.visibility.reconcile()
    assert scene.api.written == []


async def test_a_manager_that_has_moved_is_found_again() -> None:
    scene = outside(Scene())
    await scene.visibility.reconcile()
    scene.api.written.clear()
    await outside(scene, "manager.example.com", 9000).visibility.reconcile()
    assert scene.api.written == ["patch services", *["patch apiservices"] * 3]
    assert (scene.api.find(SERVICES, SERVICE) or {})["spec"]["externalName"] == "manager.example.com"
    assert scene.registered()["service"]["port"] == 9000


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"type": "ExternalName", "externalName": "proxy"}, [], id="which leads outside as well"),
        pytest.param({"type": "ClusterIP", "ports": [{"port": 443}]}, ["visibility.taken"], id="which leads to pods"),
    ],
)
async def test_the_service_of_somebody_else_stays(spec: Tree, told: list[str]) -> None:
    scene = outside(Scene())
    scene.api.put(SERVICES, {"spec": spec}, SERVICE)
    with capture_logs() as entries:
        await scene.visibility.reconcile()
    assert (scene.api.find(SERVICES, SERVICE) or {})["spec"]["type"] == spec["type"]
    assert [entry["event"] for entry in entries if entry["log_level"] == "warning"] == told


async def test_an_api_server_without_front_proxy_is_told() -> None:
    scene = Scene()
    scene.publish(**{"requestheader-client-ca-file": ""})
    with pytest.raises(ValueError, match="requestheader-client-ca-file"):
        await scene.visibility.reconcile()
    assert scene.sockets.answer is None


@dataclass
class Naps:
    """A clock whose sleeper is woken `times` often, and then ends the test."""

    times: int
    slept: list[float] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) > self.times:
            raise TimeoutError
        self.meanwhile()


async def test_trouble_is_logged_and_tried_again_soon() -> None:
    scene = Scene()
    scene.publish(**{"requestheader-client-ca-file": ""})
    naps = Naps(times=1, meanwhile=scene.publish)
    with capture_logs() as entries, pytest.raises(TimeoutError):
        await keep_visibility(scene.visibility, clock=cast("Clock", naps))
    told = [entry["event"] for entry in entries]
    assert told[0] == "visibility.not_kept"
    assert told[-1] == "visibility.serving"
    assert naps.slept[0] < naps.slept[1]
