"""Pods, events and logs of a workload on its cluster: from the manager's aggregated API, else from the cluster itself.

The manager's answer needs rights on the manager cluster only (docs/operations.md). A context or kubeconfig that the user
names goes first: its rights are the ones the user wants to see with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec

from multikueue.api.kubernetes.printed import PODS, PRINTED_EVENTS, PrintedEvent, PrintedPod
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import Object, decoder
from multikueue.cli.access.connection import fetch_pairs, with_kind
from multikueue.cli.access.following import follow
from multikueue.cli.access.worker_access import ReachableWorker, WorkerAccess
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note
from multikueue.cli.workload.related_objects import RelatedObjects
from multikueue.errors import ApiError, Forbidden, MultiKueueError, NotFound, ServerError

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.kube.cluster_client import Lines, WatchingClient

__all__ = ["WorkloadView"]

T = TypeVar("T", bound=Object)

Pairs = list[tuple[dict[str, Any], T]]
"""Objects as the server sent them, and as values."""

POLL_INTERVAL = timedelta(seconds=2)
"""Time between two reads through the manager, whose API has no watch of objects on workers."""


class _Seen(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()
    unseen: tuple[str, ...] = ()


class WorkloadView:
    """One workload on its cluster. `unseen`: why an answer may be incomplete. The worker is connected on first need."""

    def __init__(self, manager: WatchingClient, reach: WorkerAccess, workload: Workload, stack: AsyncExitStack) -> None:
        self.workload, self.cluster = workload, workload.status.cluster_name or ""
        self.unseen: list[str] = []
        self._manager, self._reach, self._stack = manager, reach, stack
        self._refused: ApiError | None = None
        self._is_told = False
        self._own: tuple[ReachableWorker, RelatedObjects] | None = None
        self._connecting = anyio.Lock()

    async def own(self) -> tuple[ReachableWorker, RelatedObjects]:
        """The user's own access to the worker. Raises CommandFailed without any, with the manager's refusal."""
        async with self._connecting:
            if self._own is None:
                worker = await self._connect()
                self._own = worker, RelatedObjects(worker.client, self.workload)
        return self._own

    async def _connect(self) -> ReachableWorker:
        try:
            return await self._stack.enter_async_context(self._reach.connect(self._manager, self.cluster))
        except CommandFailed as error:
            if self._refused is None or isinstance(self._refused, NotFound):
                raise
            raise CommandFailed(f"{error}; the manager does not show it either: {self._refused.message}") from error

    async def pods(self) -> Pairs[PrintedPod]:
        """The pods of the job."""
        found = await self._from_manager(PODS)
        if found is None:
            _, related = await self.own()
            found = await related.pods()
            self.unseen = (
                [f"you may not read {', '.join(sorted(related.forbidden))} there"] if related.forbidden else []
            )
        return found

    async def follow_pods(
        self, take: Callable[[PrintedPod, bool], Awaitable[None]], rest: Callable[[], None] = lambda: None
    ) -> None:
        """Calls `take` with each pod and each change, and `rest` after the last one that is known, until cancelled; the
        flag says that the pod is gone."""

        found = await self._from_manager(PODS)
        if found is not None:
            return await self._poll(PODS, found, take, rest)
        worker, related = await self.own()

        async def take_ours(pod: PrintedPod, is_gone: bool) -> None:
            if await related.has(pod.metadata):
                await take(pod, is_gone)

        return await follow(worker.client, PODS, self.workload.metadata.namespace, take_ours, rest=rest)

    async def events(self) -> Pairs[PrintedEvent]:
        """The events of its copy, its job and its pods."""
        found = await self._from_manager(PRINTED_EVENTS)
        if found is not None:
            return found
        worker, related = await self.own()
        await related.pods()
        pairs = await fetch_pairs(worker.client, PRINTED_EVENTS, namespace=self.workload.metadata.namespace)
        return [pair for pair in pairs if related.is_about_relative(pair[1].involved_object)]

    async def follow_events(
        self, take: Callable[[PrintedEvent, bool], Awaitable[None]], rest: Callable[[], None] = lambda: None
    ) -> None:
        """Calls `take` with each event and each change, and `rest` after the last one that is known, until cancelled; the
        flag says that the event is gone."""
        found = await self._from_manager(PRINTED_EVENTS)
        if found is not None:
            return await self._poll(PRINTED_EVENTS, found, take, rest)
        worker, related = await self.own()
        await related.pods()

        async def take_ours(event: PrintedEvent, is_gone: bool) -> None:
            if await related.is_about_new_relative(event.involved_object):
                await take(event, is_gone)

        return await follow(worker.client, PRINTED_EVENTS, self.workload.metadata.namespace, take_ours, rest=rest)

    @asynccontextmanager
    async def log(self, pod: PrintedPod, query: Mapping[str, str]) -> AsyncIterator[Lines]:
        """The log of a pod, from the source that showed the pod. Raises the errors of a request."""
        async with AsyncExitStack() as stack:
            yield await self._open(stack, pod, query)

    async def _open(self, stack: AsyncExitStack, pod: PrintedPod, query: Mapping[str, str]) -> Lines:
        if self._is_told:
            asked = {**query, "pod": pod.metadata.name}
            try:
                return await stack.enter_async_context(self._manager.stream(self._path("log"), asked, idle=None))
            except (Forbidden, ServerError) as error:
                self._refused = error
        worker, _ = await self.own()
        path = PODS.path(pod.key, subresource="log")
        return await stack.enter_async_context(worker.client.stream(path, query, idle=None))

    def _path(self, subresource: str) -> str:
        key = self.workload.key
        of = f"namespaces/{key.namespace}/workloads/{key.name}"
        return f"/apis/visibility.multikueue.dev/v1alpha1/{of}/{subresource}"

    async def _from_manager(self, kind: Kind[T]) -> Pairs[T] | None:
        """The manager's answer; None if it refuses, or if the user named a context or kubeconfig."""
        if self._reach.is_named:
            return None
        try:
            found = await self._ask(kind)
            self._is_told = True
            return found
        except ApiError as error:  # no such API, no right to it, or no server behind it
            self._refused = error
            return None

    async def _ask(self, kind: Kind[T]) -> Pairs[T]:
        answer = await self._manager.request("GET", self._path(kind.plural))
        decode = decoder(kind.type)
        try:
            seen = msgspec.json.decode(answer, type=_Seen)
            self.unseen = list(seen.unseen)
            return [(with_kind(kind, msgspec.json.decode(raw)), decode(raw)) for raw in seen.items]
        except msgspec.DecodeError as error:
            raise ApiError(502, "BadGateway", f"{kind.plural} of another form: {error}") from None

    async def _poll(
        self, kind: Kind[T], found: Pairs[T], take: Callable[[T, bool], Awaitable[None]], rest: Callable[[], None]
    ) -> None:
        known: dict[str, T] = {}
        said = ""
        while True:
            now = {item.metadata.uid: item for _, item in found}
            for uid in [uid for uid in known if uid not in now]:
                await take(known[uid], True)
            for uid, item in now.items():
                if known.get(uid) != item:
                    await take(item, False)
            rest()
            known = now
            await anyio.sleep(POLL_INTERVAL.total_seconds())
            try:
                found, said = await self._ask(kind), ""
            except MultiKueueError as error:
                if said != (said := str(error)):
                    note(f"{said}; trying again")
