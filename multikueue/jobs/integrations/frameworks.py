"""The known kinds of jobs, each with its adapter, and the kinds in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.jobs.framework.adapter import Adapter, Admitting
from multikueue.jobs.integrations.declarations import DECLARATIONS
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB, BatchJob
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.kinds.deployment import DEPLOYMENT
from multikueue.jobs.kinds.pods.group import GroupOfPods
from multikueue.jobs.kinds.pods.pod import PLAIN_POD, PlainPod
from multikueue.jobs.kinds.stateful_set.adapter import STATEFUL_SET

__all__ = ["BATCH_ONLY", "FRAMEWORKS", "GATED", "TEMPLATES", "Adapters", "framework", "known_kind"]

_OURS: dict[str, Adapter] = {"batch/job": BATCH_JOB, "pod": PLAIN_POD, "statefulset": STATEFUL_SET}
_DECLARED: dict[str, Adapter] = {each.framework: DeclaredJob(each) for each in DECLARATIONS}

FRAMEWORKS: Mapping[str, Adapter] = MappingProxyType(_OURS | _DECLARED)
"""Every known kind, under the name of its integration in Kueue's configuration."""

TEMPLATES: Mapping[str, Admitting] = MappingProxyType({"deployment": DEPLOYMENT, "statefulset": STATEFUL_SET})
"""Under such names too: kinds whose Pods are gated one by one. The webhook labels their pod templates."""


def framework(name: str, compatibility: Compatibility = NEWEST) -> Adapter:
    """A known kind by that name, as a release of Kueue has it."""
    adapter = FRAMEWORKS[name]
    return adapter.of(compatibility) if isinstance(adapter, BatchJob | DeclaredJob | PlainPod) else adapter


GATED = frozenset({"pod", "statefulset"})
"""Kinds that only the scheduling gate of their Pods keeps from running on the manager cluster."""


class Adapters:
    """The adapters in use, and the `templates`. Raises ValueError if two are for the same kind.

    The adapter of Pods brings that of Pod groups, which are no kind in any API. `has_identifier_annotations`: as in
    `Compatibility`.
    """

    def __init__(
        self,
        adapters: Iterable[Adapter],
        templates: Iterable[Admitting] = (),
        *,
        compatibility: Compatibility = NEWEST,
    ) -> None:
        self._all, self.templates = tuple(adapters), tuple(templates)
        self.has_identifier_annotations = compatibility.has_identifier_annotations
        groups = GroupOfPods(most_pod_sets=compatibility.most_pod_sets)
        known = (*self._all, groups) if any(isinstance(each, PlainPod) for each in self._all) else self._all
        self._by_type = {adapter.kind.type: adapter for adapter in known}
        self._by_owner = {(adapter.kind.api_version, adapter.kind.kind): adapter for adapter in self._all}
        self._by_resource: dict[tuple[str, str], Admitting] = {
            (each.kind.group, each.kind.plural): each for each in (*self._all, *self.templates)
        }
        self._by_name = {adapter.kind.name: adapter for adapter in known}
        if len(self._by_name) < len(known):
            raise ValueError(f"expected one adapter per kind, got {[adapter.kind.name for adapter in self._all]}")

    def __iter__(self) -> Iterator[Adapter]:
        return iter(self._all)

    def of(self, job: AnyJob) -> Adapter:
        """The adapter of a job's value; KeyError if its type is no job."""
        return self._by_type[type(job)]

    def key_of(self, job: AnyJob) -> JobKey:
        """The key of a job's value; KeyError as for `of`."""
        meta = job.metadata
        return JobKey(self._by_type[type(job)].kind.name, meta.namespace, meta.name)

    def named(self, name: str) -> Adapter:
        """The adapter of the kind of that name (`Kind.name`); KeyError if it is not in use."""
        return self._by_name[name]

    def owner(self, api_version: str, kind: str) -> Adapter | None:
        """The adapter of the kind that an owner reference names; None if it is no kind in use."""
        return self._by_owner.get((api_version, kind))

    def resource(self, group: str, plural: str) -> Admitting | None:
        """The webhook rules of the kind that an admission request names, in any version; None if there are none."""
        return self._by_resource.get((group, plural))


def known_kind(api_version: str, kind: str) -> Adapter | None:
    """The adapter of a known kind, in use or not; None for a kind that only settings may declare."""
    return Adapters(tuple(FRAMEWORKS.values())).owner(api_version, kind)


BATCH_ONLY = Adapters((BATCH_JOB,))
"""The default, as in Kueue."""
