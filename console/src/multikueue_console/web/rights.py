"""Who may see what: on a laptop all that the kubeconfig shows, in a cluster what SubjectAccessReviews allow to each person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import anyio
import msgspec

from multikueue.api import kinds
from multikueue.errors import ApiError

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["EVERYTHING", "Access", "OpenAccess", "Person", "ReviewedAccess", "Visible"]

K = TypeVar("K")
V = TypeVar("V")

SHARED = (
    kinds.CLUSTER_QUEUES,
    kinds.COHORTS,
    kinds.ADMISSION_CHECKS,
    kinds.MULTIKUEUE_CONFIGS,
    kinds.MULTIKUEUE_CLUSTERS,
)
"""Kinds of the whole cluster that pages show; each takes the right to list it."""

LIFETIME = 15.0
"""Seconds for which an answer about a person holds: a right that is taken away ends within this time."""

MOMENT = 1.0
"""Seconds for which all that a person may see is not put together again: each stream asks for it with each piece."""

AT_ONCE = 16
"""Questions about one person that are under way at once."""

MOST_PEOPLE = 10_000
"""Answers that are kept."""


@dataclass(frozen=True, slots=True)
class Visible:
    """`namespaces`: whose workloads and queues may be seen; None for all. `shared`: plurals of kinds of the whole cluster."""

    namespaces: frozenset[str] | None
    shared: frozenset[str]

    def has(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


EVERYTHING = Visible(None, frozenset(kind.plural for kind in SHARED))


@dataclass(frozen=True, slots=True)
class Person:
    """Who looks, as a TokenReview tells. `token`: what they came with, for calls in their name. On a laptop all is empty."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    token: str = field(default="", repr=False)

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        return self.name, self.uid, self.groups


class Access(Protocol):
    """Tells who somebody is, and what they may see."""

    @property
    def takes_tokens(self) -> bool:
        """Whether people come with tokens of their own."""

    async def person(self, token: str) -> Person | None:
        """Whose token it is; None if it is nobody's (any more). Raises ApiError and ClusterUnreachable."""

    async def visible(self, person: Person, namespaces: Collection[str]) -> Visible:
        """What they may see, of these namespaces. Raises ApiError and ClusterUnreachable."""


class OpenAccess:
    """On a laptop: whoever has the link sees what the kubeconfig shows."""

    takes_tokens = False

    async def person(self, _token: str) -> Person | None:
        return None

    async def visible(self, _person: Person, _namespaces: Collection[str]) -> Visible:
        return EVERYTHING


class _Identity(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _Identity = msgspec.field(default_factory=_Identity)


class _TokenAnswer(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessAnswer(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class _Kept(Generic[K, V]):
    """Answers that hold for a time, of `MOST_PEOPLE` at most: the oldest goes first."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._found: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        """None for what is not known, or not any more."""
        until, found = self._found.get(key, (0.0, None))
        return found if until > self._monotonic() else None

    def put(self, key: K, found: V, *, until: float) -> None:
        self.drop(key)
        self._found[key] = until, found
        while len(self._found) > MOST_PEOPLE:
            del self._found[next(iter(self._found))]

    def drop(self, key: K) -> None:
        self._found.pop(key, None)

    def clear(self) -> None:
        self._found.clear()


class ReviewedAccess:
    """In a cluster: the API server says who has a token, and what that person may list. Needs the rights to create
    TokenReviews and SubjectAccessReviews."""

    takes_tokens = True

    def __init__(self, client: ClusterClient, monotonic: Callable[[], float]) -> None:
        self._client, self._monotonic = client, monotonic
        self._answers = _Kept[tuple[Any, ...], bool](monotonic)
        self._people = _Kept[str, Person](monotonic)
        self._seen = _Kept[tuple[Any, ...], Visible](monotonic)

    async def person(self, token: str) -> Person | None:
        known = self._people.get(token)
        if known is not None:
            return known
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        told = await self._client.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=body)
        status = msgspec.json.decode(told, type=_TokenAnswer).status
        self._people.drop(token)
        if not status.authenticated or not status.user.username:
            return None
        user = status.user
        found = Person(user.username, user.groups, user.uid, user.extra, token)
        self._people.put(token, found, until=self._monotonic() + LIFETIME)
        return found

    async def visible(self, person: Person, namespaces: Collection[str]) -> Visible:
        known = self._seen.get(person.key)
        if known is None:
            until, known = self._monotonic() + MOMENT, await self._looked(person, namespaces)
            self._seen.put(person.key, known, until=until)
        return known

    async def _looked(self, person: Person, namespaces: Collection[str]) -> Visible:
        shared = frozenset(await self._allowed(person, [(kind, "") for kind in SHARED]))
        if await self._may(person, kinds.WORKLOADS, ""):
            return Visible(None, frozenset(plural for plural, _ in shared))
        mine = await self._allowed(person, [(kinds.WORKLOADS, each) for each in sorted(namespaces)])
        return Visible(frozenset(namespace for _, namespace in mine), frozenset(plural for plural, _ in shared))

    async def _allowed(self, person: Person, wanted: Sequence[tuple[Kind[Any], str]]) -> list[tuple[str, str]]:
        """Those that may be listed, by plural and namespace; some are asked about at once."""
        found: list[tuple[str, str]] = []
        turns = anyio.CapacityLimiter(AT_ONCE)

        async def ask(kind: Kind[Any], namespace: str) -> None:
            async with turns:
                if await self._may(person, kind, namespace):
                    found.append((kind.plural, namespace))

        try:
            async with anyio.create_task_group() as tasks:
                for kind, namespace in wanted:
                    tasks.start_soon(ask, kind, namespace)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return found

    def forget(self) -> None:
        """Asks about everybody again."""
        self._answers.clear()
        self._people.clear()
        self._seen.clear()

    async def _may(self, person: Person, kind: Kind[Any], namespace: str) -> bool:
        place, until = (person.key, kind.plural, namespace), self._monotonic() + LIFETIME
        known = self._answers.get(place)
        if known is not None:
            return known
        spec = {
            "user": person.name,
            "uid": person.uid,
            "groups": list(person.groups),
            "extra": dict(person.extra),
            "resourceAttributes": {
                "verb": "list",
                "group": kind.group,
                "version": kind.version,
                "resource": kind.plural,
                "namespace": namespace,
            },
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        try:
            told = await self._client.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=body)
        except ApiError:
            self._answers.drop(place)
            raise
        answer = msgspec.json.decode(told, type=_AccessAnswer).status.allowed
        self._answers.put(place, answer, until=until)
        return answer
