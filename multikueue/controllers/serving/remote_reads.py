"""Reads a workload's pods, events and logs on its worker for users, who never see the manager's credentials.

Lists are read whole; logs are streamed. The manager may read pods only where the worker was registered for it. Only
relatives of the workload are shown, and only if the worker has a copy of ours. Neither workers nor users are trusted, so
everything is limited: requests under way (in all, of one namespace, on one worker), their time, the objects read, and the
fields and texts shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from typing import Any, TypeVar

import anyio
import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kubernetes.printed import PODS, PRINTED_EVENTS, PrintedEvent
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.values.foreign import excerpt
from multikueue.errors import Forbidden, Invalid, MultiKueueError, NotFound
from multikueue.kube.cluster_client import ClusterClient, Lines, WatchingClient
from multikueue.kube.decode import UNREADABLE, list_of
from multikueue.kube.relatives import Relatives
from multikueue.store.workers.worker import WorkerView
from multikueue.web.relatives import MOST_ITEMS, shown_event, shown_pod
from multikueue.web.server import Write
from multikueue.web.visibility import Look, PodLog, Refused, relatives

T = TypeVar("T", bound=Object)

__all__ = ["AT_ONCE", "AT_ONCE_OF_ONE", "AT_ONCE_THERE", "MOST_OWNERS", "MOST_PAGES", "PAGE", "InFlight", "Reads"]

AT_ONCE, AT_ONCE_OF_ONE, AT_ONCE_THERE = 8, 2, 2
"""Maximum reads under way: in all, of one namespace, and on one worker, whose connection has spare calls for so many."""

ANSWER_TIMEOUT = timedelta(seconds=10)
"""Maximum time of one answer: a user would rather ask again, and an API server gives up after a minute."""

PAGE, MOST_PAGES = 250, 20
"""Objects of a page, and maximum pages: together the objects of the namespace that one search reads."""

MOST_OWNERS = 200
"""Maximum owners that one search reads to find the workload of pods. Pods that Kueue has marked need none."""


LOGS, LOGS_OF_ONE, LOGS_THERE = 16, 8, 8
"""Maximum logs under way: in all, of one namespace, whose people may follow some pods side by side, and on one worker."""

REVIEW_AGAIN = 60.0
"""Seconds after which the reader of a log needs the right to it again."""

LOG_SECONDS, LOG_BYTES = 3600.0, 64 * 2**20
"""Maximum time and size of one log. An endless log breaks off; a client that follows asks again."""

LOG_RATE = 2**20
"""Maximum bytes of a log per second after the first second's worth: the event loop has other work."""

QUIET_LOG_TIMEOUT = timedelta(minutes=15)
"""Maximum time without a byte of a log."""


@dataclass(slots=True, eq=False)
class _UnderWay:
    namespace: str
    worker: str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class InFlight:
    """Limits requests under way: in all, of one namespace, whose people may make accounts at will, and on one worker.

    No namespace is shut out by others: at a limit, the namespace that has most of what is under way gives up its oldest for one
    that would still have fewer.
    """

    def __init__(self, *, of_all: int, of_one: int, there: int) -> None:
        self._of_all, self._of_one, self._there = of_all, of_one, there
        self._open: list[_UnderWay] = []

    @contextmanager
    def entered(self, namespace: str, worker: str) -> Iterator[None]:
        """One more request, for the time of the block. Raises Refused (429) at a limit: requests never wait, since
        strangers could fill a queue. So does a block that gives way to another."""
        if sum(each.namespace == namespace for each in self._open) >= self._of_one:
            message = f"namespace {namespace} has {self._of_one} such requests under way"
            raise Refused(429, "TooManyRequests", message)
        there = [each for each in self._open if each.worker == worker]
        if len(there) >= self._there:
            self._make_room(namespace, there)
        if len(self._open) >= self._of_all:
            self._make_room(namespace, self._open)
        own = _UnderWay(namespace, worker)
        self._open.append(own)
        try:
            with own.scope:
                yield
        finally:
            if own in self._open:
                self._open.remove(own)
        if own.scope.cancelled_caught:
            raise Refused(429, "TooManyRequests", f"it gave way to a request of another namespace, try {worker} again")

    def _make_room(self, namespace: str, among: list[_UnderWay]) -> None:
        held = Counter(each.namespace for each in among)
        holder, most = max(held.items(), key=itemgetter(1))
        if most <= held[namespace] + 1:
            raise Refused(429, "TooManyRequests", "too many requests of this kind are under way, try again")
        oldest = next(each for each in among if each.namespace == holder)
        self._open.remove(oldest)
        oldest.scope.cancel()


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """Reads on workers for users. `clients`: of the connected workers; `workers`: the store's view of all workers."""

    clients: Mapping[str, WatchingClient]
    workers: Mapping[str, WorkerView]
    in_flight: InFlight = msgspec.field(
        default_factory=lambda: InFlight(of_all=AT_ONCE, of_one=AT_ONCE_OF_ONE, there=AT_ONCE_THERE)
    )
    logs: InFlight = msgspec.field(default_factory=lambda: InFlight(of_all=LOGS, of_one=LOGS_OF_ONE, there=LOGS_THERE))

    async def look(self, request: Look, workload: Workload) -> Mapping[str, Any]:
        """The pods or events; none if the workload is on no worker, or its copy there is gone. Raises Refused."""
        cluster = workload.status.cluster_name or ""
        if not self._is_there(workload):
            return relatives(request, cluster, (), ())
        with self.in_flight.entered(request.namespace, cluster), _refusals(cluster):
            with anyio.fail_after(ANSWER_TIMEOUT.total_seconds()):
                search = _Search(self._client(cluster), workload)
                items = await (search.pods() if request.subresource == PODS.plural else search.events())
        return relatives(request, cluster, items, search.unseen)

    async def log(
        self,
        request: PodLog,
        workload: Workload,
        admit: Callable[[], Awaitable[None]],
        start: Callable[[], Awaitable[Write]],
    ) -> None:
        """Streams the log of a pod of that workload. Raises Refused, also for any other pod, and when `admit` does, which is
        asked again and again."""
        cluster = workload.status.cluster_name or ""
        if not self._is_there(workload):
            raise _no_pod(request)
        with self.logs.entered(request.namespace, cluster), _refusals(cluster), anyio.fail_after(LOG_SECONDS):
            client = self._client(cluster)
            key = ObjectKey(request.namespace, request.pod)
            with anyio.fail_after(ANSWER_TIMEOUT.total_seconds()):
                pod = await client.get(PODS, key)
                if not await Relatives(client, workload, most=MOST_OWNERS).has(pod.metadata):
                    raise _no_pod(request)
                if not pod.spec.node_name:  # an API server would answer such a request with an empty log
                    raise Refused(400, "BadRequest", f'pod "{request.pod}" is on no node of {cluster} yet')
            async with client.stream(
                PODS.path(key, subresource="log"), dict(request.query), idle=QUIET_LOG_TIMEOUT.total_seconds()
            ) as log:
                await _pass_on(log, await start(), admit)

    def _is_there(self, workload: Workload) -> bool:
        """Whether the worker has a copy of ours: without one, objects of these names belong to others."""
        worker = self.workers.get(workload.status.cluster_name or "")
        return worker is not None and worker.workloads.get(workload.key) is not None

    def _client(self, cluster: str) -> WatchingClient:
        client = self.clients.get(cluster)
        if client is None:
            raise Refused(503, "ServiceUnavailable", f"the manager has no connection to {cluster}")
        return client


def _no_pod(request: PodLog) -> Refused:
    return Refused(404, "NotFound", f'pods "{request.pod}" not found among those of workload {request.key}')


async def _pass_on(log: Lines, write: Write, admit: Callable[[], Awaitable[None]]) -> None:
    """Writes the log at the pace of the worker, the reader or LOG_RATE. Raises Refused beyond LOG_BYTES, and if the reader
    may not have it any more.

    In pieces, not lines: reading an endless line would hold the lock that the worker's watches share."""
    began, sent, reviewed = anyio.current_time(), 0, anyio.current_time()
    while True:
        piece: bytes | None = None
        with anyio.CancelScope(deadline=reviewed + REVIEW_AGAIN):
            piece = await log.piece()
        if anyio.current_time() >= reviewed + REVIEW_AGAIN:
            with suppress(MultiKueueError):  # it is unknown now: the next review may tell
                await admit()
            reviewed = anyio.current_time()
        if piece is None:
            continue
        if not piece:
            return
        sent += len(piece)
        if sent > LOG_BYTES:
            raise Refused(413, "RequestEntityTooLarge", f"the log has more than {LOG_BYTES // 2**20} MiB")
        await write(piece)
        await anyio.sleep(max(0.0, sent / LOG_RATE - 1 - (anyio.current_time() - began)))


@contextmanager
def _refusals(cluster: str) -> Iterator[None]:
    """Turns errors of the worker into Refused, a Kubernetes Status for the caller."""
    try:
        yield
    except TimeoutError:
        raise Refused(504, "Timeout", f"{cluster} did not answer within {ANSWER_TIMEOUT.total_seconds():g} s") from None
    except Forbidden as error:
        advice = f"whoever administers it grants that by `multikueue clusters register {cluster} --view-pods`"
        message = f"{cluster} refuses it to the manager: {excerpt(error.message)}; {advice}"
        raise Refused(403, "Forbidden", message) from None
    except (NotFound, Invalid) as error:
        raise Refused(error.status, excerpt(error.reason, 100), f"{cluster}: {excerpt(error.message)}") from None
    except MultiKueueError as error:
        raise Refused(503, "ServiceUnavailable", f"{cluster}: {excerpt(str(error))}") from None
    except UNREADABLE:
        raise Refused(503, "ServiceUnavailable", f"{cluster} gave an answer that cannot be read") from None


class _Search:
    """One search for relatives of a workload."""

    def __init__(self, client: ClusterClient, workload: Workload) -> None:
        self._client, self._namespace = client, workload.metadata.namespace
        self._relatives = Relatives(client, workload, most=MOST_OWNERS)
        self._unseen: list[str] = []

    async def pods(self) -> Sequence[Object]:
        return [shown_pod(pod) for pod in await self._those(PODS, lambda pod: self._relatives.has(pod.metadata))]

    async def events(self) -> Sequence[Object]:
        """Events about the copy, the job and its pods; the pods must be found first."""
        await self.pods()

        async def is_told(event: PrintedEvent) -> bool:
            return self._relatives.is_about_relative(event.involved_object)

        return [shown_event(event) for event in await self._those(PRINTED_EVENTS, is_told)]

    @property
    def unseen(self) -> Sequence[str]:
        """Reasons why the result may be incomplete."""
        forbidden = excerpt(", ".join(sorted(self._relatives.forbidden)))
        more = [f"the manager may not read {forbidden} there"] if forbidden else []
        more += [f"no more than {MOST_OWNERS} owners of pods were looked at"] if self._relatives.gave_up else []
        return [*self._unseen, *more]

    async def _those(self, kind: Kind[T], is_ours: Callable[[T], Awaitable[bool]]) -> list[T]:
        """Objects of the namespace that belong to the workload, page by page. Items beyond the requested limit are
        ignored: the worker is not trusted to keep it."""
        decode, cont, found = list_of(kind), "", list[T]()
        for _ in range(MOST_PAGES):
            query = {"limit": str(PAGE)} | ({"continue": cont} if cont else {})
            page = decode(await self._client.request("GET", kind.collection(self._namespace), params=query))
            for item in page.items[:PAGE]:
                if await is_ours(item):
                    found.append(item)
                if len(found) == MOST_ITEMS:
                    self._unseen.append(f"no more than {MOST_ITEMS} {kind.plural} are shown")
                    return found
            if not (cont := page.cont):
                return found
        self._unseen.append(f"only {PAGE * MOST_PAGES} {kind.plural} of the namespace were looked at")
        return found
