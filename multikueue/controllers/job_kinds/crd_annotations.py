"""Kinds of jobs that CustomResourceDefinitions of the manager cluster declare in an annotation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from multikueue.api.kind import Kind
from multikueue.api.kinds import DEFINITIONS
from multikueue.api.kubernetes.definition import Definition
from multikueue.api.meta import ObjectKey
from multikueue.controllers.job_kinds.declarations import NOTHING, Annotated, declaration_of
from multikueue.controllers.reconcile.events import Recorder, log_state
from multikueue.errors import ConfigurationError
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.kinds.declared.declaration import KIND_ANNOTATION, Declaration
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.reflector import Reflector
from multikueue.settings import read_kind
from multikueue.store.caches.cache import Cache
from multikueue.telemetry import get_logger

__all__ = ["KIND_ANNOTATION", "AnnotatedKinds", "annotated_kinds"]

log = get_logger()


@dataclass(slots=True)
class AnnotatedKinds:
    """Watches the definitions, if `is_enabled`. `taken` names the kinds (`Kind.name`) that the settings decide about.

    A manager is built around the kinds that it takes in. So each run of it has the kinds that it took at its start, and
    a change of the declared kinds starts a new run. A definition with an invalid declaration has no kind, and gets an
    event; the jobs of that kind go on as they are.
    """

    taken: Collection[str] = ()
    is_enabled: bool = False
    _definitions: Cache[Definition] = field(init=False)
    _declared: Annotated = NOTHING
    _in_use: Annotated = NOTHING
    _problems: dict[ObjectKey, str] = field(default_factory=dict)
    _settled: anyio.Event = field(default_factory=anyio.Event)
    _news: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self._definitions = Cache(self._changed)

    async def run(self, client: WatchingClient) -> None:
        if not self.is_enabled:
            return
        tell = log_state(DEFINITIONS.plural)

        def on_state(is_healthy: bool, why: str) -> None:
            tell(is_healthy, why)
            if reflector.refused:
                self._settled.set()

        reflector = Reflector(client, DEFINITIONS, self._definitions, on_state=on_state)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reflector.run)
            await reflector.synced.wait()
            self._settled.set()

    async def known(self) -> None:
        """Returns once the definitions were listed, or the list was refused."""
        if self.is_enabled:
            await self._settled.wait()

    def take(self) -> Annotated:
        """The kinds declared now, which are in use from now on."""
        self._in_use = self._declared
        return self._in_use

    @property
    def is_stale(self) -> bool:
        """Whether the declared kinds differ from those in use. One more invalid declaration makes no difference."""
        return self._declared.kinds != self._in_use.kinds

    async def changed(self) -> None:
        """Returns once `is_stale`."""
        while not self.is_stale:
            await self._news.wait()

    async def report_problems(self, recorder: Recorder) -> None:
        """Emits an event about each definition with an invalid declaration, for ever."""
        while True:
            for key, why in self._problems.items():
                definition = self._definitions.get(key)
                if definition is not None:
                    recorder.emit(DEFINITIONS, definition, type_="Warning", reason="KindMisdeclared", message=why)
            await self._news.wait()

    def _changed(self, old: Definition | None, new: Definition | None) -> None:
        if _declaration_text(old) == _declaration_text(new):
            return
        self._read()
        self._news.set()
        self._news = anyio.Event()

    def _read(self) -> None:
        found: dict[str, Declaration] = {}
        before, self._problems, unclear = self._problems, {}, set()
        for definition, said in _readings(self._definitions, self.taken):
            if isinstance(said, Declaration):
                found[_name(definition)] = said
            else:
                unclear.add(_name(definition))
                self._reject(definition.key, said, before)
        self._declared = Annotated(tuple(found.values()), frozenset(unclear - found.keys()))

    def _reject(self, key: ObjectKey, error: str, before: Mapping[ObjectKey, str]) -> None:
        why = f"annotation {KIND_ANNOTATION}: {error}. Until this is fixed its jobs are not taken in"
        self._problems[key] = why
        if before.get(key) != why:
            log.warning("jobs.kind_misdeclared", definition=str(key), why=why)


def annotated_kinds(definitions: Iterable[Definition], taken: Collection[str] = ()) -> tuple[Kind[Any], ...]:
    """The kinds that definitions declare beside the kinds `taken` (`Kind.name`), without invalid declarations."""
    return tuple(DeclaredJob(said).kind for _, said in _readings(definitions, taken) if isinstance(said, Declaration))


def _readings(
    definitions: Iterable[Definition], taken: Collection[str]
) -> Iterator[tuple[Definition, Declaration | str]]:
    """The definitions with a declaration, in the order of their names, each with the declaration or its problem."""
    annotated = (each for each in definitions if KIND_ANNOTATION in each.metadata.annotations)
    found: list[str] = []
    for definition in sorted(annotated, key=lambda each: each.key):
        try:
            declaration = _declaration(definition, (*taken, *found))
        except ValueError as error:
            yield definition, str(error)
        else:
            found.append(_name(definition))
            yield definition, declaration


def _declaration(definition: Definition, taken: Collection[str]) -> Declaration:
    """The declaration of a definition. Raises ValueError, which says what was expected."""
    spec = definition.spec
    if spec.scope != "Namespaced":
        raise ValueError(f"expected a definition of scope Namespaced, as jobs have a namespace, got {spec.scope}")
    if _name(definition) in taken:
        raise ValueError(
            f"expected none on the kind {_name(definition)}: the settings, or another one, declare it already"
        )
    name = f"{spec.names.kind}.{_version(definition)}.{spec.group}"
    try:
        own = read_kind(definition.metadata.annotations[KIND_ANNOTATION], name=name, plural=spec.names.plural)
    except ConfigurationError as error:
        raise ValueError("; ".join(str(error).splitlines())) from None
    return declaration_of(own)


def _version(definition: Definition) -> str:
    """The stored version, if it is served: the version that the paths refer to must not depend on the others."""
    served = sorted((each for each in definition.spec.versions if each.served), key=lambda each: not each.storage)
    if not served:
        raise ValueError("expected a definition with a version that is served")
    return served[0].name


def _name(definition: Definition) -> str:
    return f"{definition.spec.names.kind}.{definition.spec.group}"


def _declaration_text(definition: Definition | None) -> object:
    """The declaration with the spec it refers to; None without a declaration."""
    text = definition.metadata.annotations.get(KIND_ANNOTATION) if definition is not None else None
    return (text, definition.spec) if definition is not None and text is not None else None
