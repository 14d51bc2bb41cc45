"""The visibility API, one file: kept in place, and answered. The API server authorizes; the quota engine or a worker answers.

A request comes through the aggregation layer: it must carry the front proxy's certificate (`web.front_proxy`), and
SubjectAccessReviews must allow it to its user. Only then the engine, or a worker (`remote_reads`), is read.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from multikueue.answers.answer import JobAnswer, answer
from multikueue.answers.seen import Seen
from multikueue.api.kinds import API_SERVICES, CONFIG_MAPS, SERVICES
from multikueue.api.kubernetes.builtins import APIService
from multikueue.api.kueue.workload import ADMITTED, Workload
from multikueue.api.meta import ObjectKey, encode
from multikueue.controllers.serving.certificate import keep_certificate
from multikueue.controllers.serving.foreseeing import QueueReads
from multikueue.controllers.serving.names import MANAGED_BY
from multikueue.controllers.serving.remote_reads import Reads
from multikueue.controllers.serving.webhooks import Service, names_of
from multikueue.errors import AlreadyExists, Conflict, Forbidden, MultiKueueError, NotFound, NotLeading
from multikueue.kube.cluster_client import ClusterClient
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.quota.visibility.explain import explain
from multikueue.runtime import Clock
from multikueue.store.seen import seen_of
from multikueue.store.store import Store
from multikueue.telemetry import get_logger
from multikueue.web.answers import answers, explanation, own_names
from multikueue.web.front_proxy import Trust, Unknown, User, trust_in, user_of
from multikueue.web.server import Answerer, ApiRequest, Server, Stream
from multikueue.web.serving import Serving
from multikueue.web.visibility import (
    SERVED,
    Answers,
    Discovery,
    Explain,
    Look,
    Pending,
    PodLog,
    Refused,
    VisibilityRequest,
    parse_request,
    pending_summary,
    status,
)
from multikueue.workload.case import Case
from multikueue.workload.nomination.choice import ExplainedChoice
from multikueue.workload.nomination.foresight import foresee, requested
from multikueue.workload.nomination.prospects import State

log = get_logger()

CERTIFICATE_SECRET = "multikueue-visibility-certificate"  # noqa: S105  # the name of one
AUTHENTICATION = ObjectKey("kube-system", "extension-apiserver-authentication")
"""The ConfigMap in which the API server publishes how it authenticates to extension API servers."""

LOOK_AGAIN_AFTER = timedelta(minutes=1)
RETRY_AFTER = timedelta(seconds=5)

REVIEW_LIFETIME = timedelta(seconds=10)
"""How long an authorization is cached, as in other extension API servers."""

REMEMBERED = 1024

SHARE, SHARE_OF_ONE = 0.1, 0.025
"""The event loop's time for answers from memory: of everybody together, and of one namespace or account."""

BURST = 0.25
"""Seconds of the event loop that one namespace or account may use at once; everybody together, twice that."""

_EVERYBODY = ""

MOST_ANSWERS = 200
"""Workloads of a namespace in one list of answers."""

_ADMINISTRATORS = "system:masters"
_NOT_READY = "the queues are not known yet"


@dataclass(slots=True)
class AccessReviewer:
    """Authorizes a request by SubjectAccessReviews, each cached for `REVIEW_LIFETIME`.

    What is on a worker takes two reviews: of the request itself, and of the same request to the manager cluster."""

    client: ClusterClient
    seconds: Callable[[], float] = monotonic
    _known: dict[bytes, tuple[float, bool, str]] = field(default_factory=dict)

    async def admit(self, user: User, request: VisibilityRequest) -> None:
        """Returns if it is allowed. Raises Refused (403) if not, and as `ClusterClient` does if the review fails."""
        if _ADMINISTRATORS in user.groups:
            return
        for attributes, what in _rights(request):
            allowed, reason = await self._verdict(encode(_review(user, attributes)))
            if not allowed:
                raise Refused(403, "Forbidden", _forbidden(user, *what, reason))

    async def _verdict(self, body: bytes) -> tuple[bool, str]:
        known = self._known.get(body)
        if known is None or known[0] <= self.seconds():
            allowed, reason = await self._ask(body)
            while len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            known = self._known[body] = (self.seconds() + REVIEW_LIFETIME.total_seconds(), allowed, reason)
        _, allowed, reason = known
        return allowed, reason

    async def _ask(self, body: bytes) -> tuple[bool, str]:
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answered = msgspec.json.decode(await self.client.request("POST", path, body=body), type=_Reviewed)
        return answered.status.allowed and not answered.status.denied, answered.status.reason


@dataclass(slots=True)
class AnswerRateLimiter:
    """Limits the time for which the event loop makes answers from memory, and does nothing else: `BURST` at once, then the
    shares of it. A namespace pays for requests in it, and an account for its own; a ServiceAccount pays as its namespace,
    whose people may make accounts at will."""

    seconds: Callable[[], float] = monotonic
    _paid_until: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def paid_by(self, user: User, namespace: str) -> Iterator[None]:
        """The block makes one answer. Raises Refused (429) instead if a caller that pays has had its share."""
        payers = dict.fromkeys((_payer(user), namespace), (SHARE_OF_ONE, BURST)) | {_EVERYBODY: (SHARE, 2 * BURST)}
        began = self.seconds()
        for payer in payers:
            if self._paid_until.get(payer, began) > began:
                who = f"by {payer}" if payer else "by all users together"
                raise Refused(429, "TooManyRequests", f"answers {who} take the manager too much time, ask again later")
        try:
            yield
        finally:
            took = self.seconds() - began
            for payer, (share, burst) in payers.items():
                least = began - burst / share  # a caller that used nothing lately may use a burst before the first wait
                self._paid_until[payer] = max(self._paid_until.pop(payer, least), least) + took / share
            while len(self._paid_until) > REMEMBERED:
                del self._paid_until[next(iter(self._paid_until))]


def _payer(user: User) -> str:
    match user.name.split(":"):
        case ["system", "serviceaccount", namespace, _]:
            return namespace
    return user.name


class _Verdict(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _Reviewed(msgspec.Struct, frozen=True):
    status: _Verdict = _Verdict()


def _review(user: User, attributes: Mapping[str, Any]) -> dict[str, Any]:
    subject = {"user": user.name, "groups": list(user.groups), "extra": {k: list(v) for k, v in user.extra}}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**subject, **attributes},
    }


def _rights(request: VisibilityRequest) -> Iterator[tuple[dict[str, Any], tuple[str, str]]]:
    """The rights that the request needs: the attributes of a review, and in words what is asked for, and what to do."""
    if isinstance(request, Discovery):
        yield {"nonResourceAttributes": {"path": request.path, "verb": "get"}}, (request.path, f"get {request.path}")
        return
    what = f'{request.resource}.{request.group} "{request.name}"'
    verb = "list" if isinstance(request, Answers) else "get"
    yield _attributes(verb, request.group, request.version, request.resource, request), (what, f"{verb} {what}")
    where = f'in API group "" in the namespace "{request.namespace}"'
    if isinstance(request, Look):
        yield (
            _like_it(request, "list", request.subresource),
            (request.subresource, f'list resource "{request.subresource}" {where}'),
        )
    if isinstance(request, PodLog):
        like = _like_it(request, "get", "pods", name=request.pod, subresource="log")
        yield like, (f'pods "{request.pod}"', f'get resource "pods/log" {where}')


def _attributes(
    verb: str, group: str, version: str, resource: str, request: Pending | Explain | Answers | Look | PodLog
) -> dict[str, Any]:
    of = {"group": group, "version": version, "resource": resource, "subresource": request.subresource}
    return {"resourceAttributes": {**of, "namespace": request.namespace, "name": request.name, "verb": verb}}


def _like_it(
    request: Look | PodLog, verb: str, resource: str, *, name: str = "", subresource: str = ""
) -> dict[str, Any]:
    """The attributes of the same request for a workload that runs on the manager cluster."""
    of = {"group": "", "version": "v1", "resource": resource, "subresource": subresource}
    return {"resourceAttributes": {**of, "namespace": request.namespace, "name": name, "verb": verb}}


def _forbidden(user: User, what: str, to_do: str, reason: str) -> str:
    return f'{what} is forbidden: User "{user.name}" cannot {to_do}{f": {reason}" if reason else ""}'


class Visibility(msgspec.Struct, frozen=True, kw_only=True):
    """Reconciles the visibility API of one manager cluster, and answers it.

    `service` is the Service in front of us; with an `external_name` we run outside of the cluster, and make it lead there.
    `namespace` holds the Secret with the certificate. `ready` returns why the queues are not known yet, None when they are.
    `case` returns the case of a workload, `choice` what its strategy thinks of the workers; `reads` and `queues` ask workers.
    """

    client: ClusterClient
    server: Server
    store: Store
    case: Callable[[ObjectKey], Case]
    choice: Callable[[Case], Awaitable[ExplainedChoice | None]]
    now: Callable[[], datetime]
    ready: Callable[[], str | None]
    namespace: str
    service: Service
    host: str
    port: int
    gate: AccessReviewer
    reads: Reads
    queues: QueueReads
    external_name: str = ""
    rate_limiter: AnswerRateLimiter = msgspec.field(default_factory=AnswerRateLimiter)
    _one: anyio.Lock = msgspec.field(default_factory=anyio.Lock)

    async def reconcile(self) -> int:
        """Certificate, listening socket, registration, in this order; returns the port. Writes nothing when all is in
        place. Raises as `ClusterClient` does, and ValueError if the API server publishes no usable front proxy CA."""
        trust = trust_in((await self.client.get(CONFIG_MAPS, AUTHENTICATION)).data)
        key = ObjectKey(self.namespace, CERTIFICATE_SECRET)
        certificate = await keep_certificate(self.client, key, names=names_of(self.service), now=self.now)
        port = await self.server.serve_visibility(
            self.host, self.port, certificate, client_ca=trust.bundle, answer=self._answerer(trust)
        )
        if self.external_name:
            await self._lead_here()
        for group, version in SERVED:
            await self._register(group, version, certificate)
        return port

    async def _lead_here(self) -> None:
        """Makes the Service, or corrects ours. One that another program has made stays."""
        key = ObjectKey(self.service.namespace, self.service.name)
        wanted = {"type": "ExternalName", "externalName": self.external_name}
        try:
            found = await self.client.get(SERVICES, key)
        except NotFound:
            meta = {"name": key.name, "namespace": key.namespace, "labels": MANAGED_BY}
            body = {"apiVersion": SERVICES.api_version, "kind": SERVICES.kind, "metadata": meta, "spec": wanted}
            await self.client.create(SERVICES, key.namespace, body)
            log.info("visibility.registered", service=str(key), host=self.external_name)
            return
        except Forbidden:  # who gave us no right to Services has made it
            return
        if (found.spec.type, found.spec.external_name) == (wanted["type"], wanted["externalName"]):
            return
        if not MANAGED_BY.items() <= found.metadata.labels.items():
            if found.spec.type != wanted["type"]:  # such as that of deploy/, which leads to pods
                log.warning("visibility.taken", service=str(key))
            return
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": wanted}
        await self.client.merge_patch(SERVICES, key, patch)
        log.info("visibility.registration_repaired", service=str(key), host=self.external_name)

    def _answerer(self, trust: Trust) -> Answerer:
        async def respond(request: ApiRequest) -> tuple[int, bytes | Stream]:
            try:
                found = await self._answer(trust, request)
                return 200, encode(found) if isinstance(found, Mapping) else found
            except Refused as refused:
                return refused.code, encode(status(refused))

        return respond

    async def _answer(self, trust: Trust, request: ApiRequest) -> Mapping[str, Any] | Stream:
        try:
            user = user_of(trust, request.common_name, request.headers)
        except Unknown as error:
            raise Refused(401, "Unauthorized", str(error)) from None
        what = parse_request(request.path, request.query)
        try:
            await self.gate.admit(user, what)
        except MultiKueueError as error:
            log.warning("visibility.not_authorized", error=str(error))
            raise Refused(503, "ServiceUnavailable", "nobody could tell whether this is allowed") from None
        if isinstance(what, Discovery):
            return what.document
        if self.ready() is not None:
            raise Refused(503, "ServiceUnavailable", _NOT_READY)
        if isinstance(what, Pending):
            async with self._turn(user, what.namespace):
                return self._pending(what)
        if isinstance(what, Explain):
            return await self._explanation(user, what)
        if isinstance(what, Answers):
            return await self._answers(user, what)
        workload = self._workload(what)
        if isinstance(what, PodLog):
            return partial(self.reads.log, what, workload, partial(self.gate.admit, user, what))
        return await self.reads.look(what, workload)

    def _pending(self, request: Pending) -> Mapping[str, Any]:
        view = self.store.engine.view
        return pending_summary(request, lines=self._line, places=view.places_of, routes=self._route)

    def _workload(self, request: Explain | Look | PodLog) -> Workload:
        workload = self.store.workloads.get(request.key)
        if workload is None:
            raise Refused(404, "NotFound", f'{request.resource}.{request.group} "{request.name}" not found')
        return workload

    @asynccontextmanager
    async def _turn(self, user: User, namespace: str) -> AsyncIterator[None]:
        """The block makes one answer, and the caller pays for it. Others have their turn between two of them."""
        async with self._one:
            await checkpoint()
            with self.rate_limiter.paid_by(user, namespace):
                yield

    async def _explanation(self, user: User, request: Explain) -> Mapping[str, Any]:
        """A strategy from another distribution may think for a second: no other caller waits for that, and none pays."""
        async with self._turn(user, request.namespace):
            seen, choice = self._seen(self._workload(request)), self.choice(self.case(request.key))
        seen = await self._foreseen(seen)
        said = answer(seen, self.now())
        return explanation(request, seen.quota, seen.workers, said, await choice)

    async def _foreseen(self, seen: Seen) -> Seen:
        """With what the workers could make of a workload that waits for quota, and that they were not asked about."""
        waits = self.store.engine.view.pending_workload(seen.workload.key) if seen.workload and seen.quota else None
        unasked = [each.cluster for each in seen.workers if each.state == State.NOT_ASKED.value]
        if waits is None or seen.workload is None or not unasked:
            return seen
        workload, there = seen.workload, await self.queues.of(unasked)
        needed = requested(waits.demand, workload)
        workers = (
            foresee(each.cluster, workload, needed, there[each.cluster])
            if each.cluster in there and each.state == State.NOT_ASKED.value
            else each
            for each in seen.workers
        )
        return msgspec.structs.replace(seen, workers=tuple(workers))

    def _seen(self, workload: Workload) -> Seen:
        """With the names that users of its namespace may see."""
        found = explain(self.store.engine.view, workload.key, self.now())
        told = own_names(found, workload.metadata.namespace) if found is not None else None
        return seen_of(self.store, workload, self.case(workload.key), told)

    async def _answers(self, user: User, request: Answers) -> Mapping[str, Any]:
        """Others have their turn after each, and what the caller has not paid is left out."""
        mine = (each for each in self.store.workloads.going_on() if each.metadata.namespace == request.namespace)
        waiting = [each for each in mine if not each.has(ADMITTED)]
        found: list[tuple[Workload, JobAnswer]] = []
        with suppress(Refused):
            for workload in waiting[:MOST_ANSWERS]:
                async with self._turn(user, request.namespace):
                    found.append((workload, answer(self._seen(workload), self.now())))
        return answers(found, is_partial=len(found) < len(waiting))

    def _line(self, cluster_queue: str) -> Iterator[PendingWorkload] | None:
        view = self.store.engine.view
        return None if view.cluster_queue(cluster_queue) is None else view.waiting_in(cluster_queue)

    def _route(self, local_queue: ObjectKey) -> str | None:
        found = self.store.engine.view.local_queue(local_queue)
        return found.spec.cluster_queue if found else None

    async def _register(self, group: str, version: str, certificate: Serving) -> None:
        """Makes the APIService if there is none; sets our CA if it leads to us. One that leads elsewhere stays."""
        key, bundle = ObjectKey("", f"{version}.{group}"), b64encode(certificate.bundle).decode()
        try:
            found = await self.client.get(API_SERVICES, key)
        except NotFound:
            await self._create(key, group, version, bundle)
            return
        if not self._is_ours_in(found):
            log.warning("visibility.taken", api_service=key.name, service=_shown(found))
        elif found.spec.ca_bundle != bundle or found.spec.insecure_skip_tls_verify or not self._has_our_port(found):
            # The API server refuses both fields at once; false leaves the second out.
            spec: dict[str, Any] = {"caBundle": bundle, "insecureSkipTLSVerify": False}
            if not self._has_our_port(found):
                spec["service"] = msgspec.to_builtins(self.service)
            patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": spec}
            await self.client.merge_patch(API_SERVICES, key, patch)
            log.info("visibility.registration_repaired", api_service=key.name)

    async def _create(self, key: ObjectKey, group: str, version: str, bundle: str) -> None:
        spec = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": msgspec.to_builtins(self.service),
            "caBundle": bundle,
        }
        meta = {"name": key.name, "labels": MANAGED_BY}
        body = {"apiVersion": API_SERVICES.api_version, "kind": API_SERVICES.kind, "metadata": meta, "spec": spec}
        await self.client.create(API_SERVICES, "", body)
        log.info("visibility.registered", api_service=key.name)

    def _has_our_port(self, found: APIService) -> bool:
        """Inside the cluster the port is that of a Service, which its creator may have changed."""
        return not self.external_name or (
            found.spec.service is not None and found.spec.service.port == self.service.port
        )

    def _is_ours_in(self, found: APIService) -> bool:
        service = found.spec.service
        return service is not None and (service.namespace, service.name) == (self.service.namespace, self.service.name)


def _shown(found: APIService) -> str:
    service = found.spec.service
    return f"{service.namespace}/{service.name}" if service else "the API server itself"


async def keep_visibility(visibility: Visibility, *, clock: Clock) -> None:
    """Keeps the API in place forever. Jobs do not depend on it, so failures are logged and retried."""
    serving = False
    while True:
        wait = LOOK_AGAIN_AFTER
        try:
            port = await visibility.reconcile()
        except (AlreadyExists, Conflict, NotLeading):
            wait = RETRY_AFTER  # another replica was faster, or is the one to do it
        except (MultiKueueError, ValueError, OSError) as error:
            log.warning("visibility.not_kept", error=str(error))
            wait = RETRY_AFTER
        else:
            if not serving:
                serving = True
                log.info("visibility.serving", host=visibility.host, port=port)
        await clock.sleep(wait.total_seconds())
