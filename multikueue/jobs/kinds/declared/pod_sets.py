"""Where a job of a declared kind describes its pods, the pod sets that Kueue makes of them, and their pod set info.

Rules: quota-engine 6.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.kueue.workload import ReclaimablePod, Workload
from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.actions import PatchJob
from multikueue.jobs.framework.pod_set_info import PodSetInfo, mark_of, may_be_marked, originals, placed, restored
from multikueue.jobs.kinds.declared.state_rules import StateRule
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import in_workload, merge_patch, part, tree_of

__all__ = [
    "AddedOverhead",
    "Addition",
    "DeclaredContainer",
    "DeclaredPodSetInfoWriter",
    "Pods",
    "PodsOf",
    "number",
    "pod_set",
    "reclaimed",
]

Tree = dict[str, Any]


_PLACEMENT = ("nodeSelector", "tolerations", "affinity", "priorityClassName")
_JAVA_AMOUNT = re.compile(r"([0-9]+)([kmgt])b?")


class AddedOverhead(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind's controller adds to a request of `resource`: the amount at a path; without it a `share` (a decimal number)
    of the request, and no less than `least`."""

    resource: str
    at: str
    share: str = "0"
    least: str = "0"

    def added_to(self, requests: Tree, found: Tree) -> Tree:
        """The requests with it. One that is no quantity stays as it is, for the API server to refuse."""
        asked = requests.get(self.resource)
        if asked is None:
            return requests
        said = paths.only(found, self.at)
        try:
            request = quantity.parse(asked)
            share = max(-(-request * quantity.parse(self.share) // quantity.NANO), quantity.parse(self.least))
            more = share if said is None else quantity.parse(_amount(self.resource, said))
        except InvalidObject:
            return requests
        total = quantity.capped(quantity.amount(self.resource, max(0, request) + max(0, more)))
        return {**requests, self.resource: quantity.render(self.resource, total)}


class DeclaredContainer(msgspec.Struct, frozen=True, kw_only=True):
    """The only container of pods that fields describe instead of a template: its name, the paths of its requests and
    limits, and what is added to a request. `a|b` is the field `a`, or where it is absent the field `b`.

    The template made of it also takes the part's scheduling fields that have the names they have in a pod.
    """

    name: str = "main"
    requests: tuple[tuple[str, str], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    overhead: AddedOverhead | None = None

    def __call__(self, found: Tree) -> Tree:
        requests = _amounts(found, self.requests)
        if self.overhead is not None:
            requests = self.overhead.added_to(requests, found)
        resources = {"requests": requests, "limits": _amounts(found, self.limits)}
        container = {"name": self.name, "resources": {key: amounts for key, amounts in resources.items() if amounts}}
        placement = {key: found[key] for key in _PLACEMENT if found.get(key)}
        return {"spec": {"containers": [container], **placement}}

    def paths(self) -> Iterator[str]:
        yield from (path for _, text in (*self.requests, *self.limits) for path in text.split("|"))
        yield from (self.overhead.at,) if self.overhead is not None else ()


def _amounts(found: Tree, at: tuple[tuple[str, str], ...]) -> Tree:
    said = {resource: _first(found, text.split("|")) for resource, text in at}
    return {resource: _amount(resource, value) for resource, value in said.items() if value is not None}


def _first(found: Tree, at: Iterable[str]) -> Any:
    return next((value for path in at if (value := paths.only(found, path)) is not None), None)


def _amount(resource: str, value: Any) -> str:
    """The quantity as Kubernetes writes it. A lower-case unit of memory is Java's: 512m are megabytes of 1024
    kilobytes."""
    java = _JAVA_AMOUNT.fullmatch(str(value)) if resource == "memory" else None
    return f"{java[1]}{java[2].upper()}i" if java else str(value)


class PodsOf(Protocol):
    """The pod sets of a job from its metadata and spec, and their finished pods from its status too.

    `over` is the path of the latter, empty if the kind reports none. `paths` are all paths it reads, for validation.
    """

    @property
    def over(self) -> str: ...

    def pod_sets(self, job: Tree) -> Iterator[Tree]: ...

    def templates(self, job: Tree) -> Iterator[tuple[str, Tree]]:
        """The templates inside the job, by pod set: mutable parts of the given tree."""
        ...

    def uncounted(self, job: Tree) -> Iterator[str]:
        """What its pods would take and its pod sets do not say, each with its field: such a job does not queue."""
        ...

    def reclaimed(self, job: Tree) -> Iterator[ReclaimablePod]: ...

    def paths(self) -> Iterator[str]: ...


class Addition(msgspec.Struct, frozen=True):
    """What the kind's controller makes of a template, from the job and the template; and which releases of Kueue count it."""

    is_counted: Callable[[Compatibility], bool]
    to: Callable[[Tree, Tree], Tree]


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one shape, or of several if `at` is a path to several parts, each of which is a pod set.

    `name` is the pod set's, in lower case; `name_at` is its path within the part. The other paths start at the part
    too. The number of pods is `count` times the smallest of `each`. A missing `count`, or a missing first of `each`, is
    one. `over` is a path from the object to parts that report, by the name of the pod set, how many of `count` have
    `succeeded`. `index` is the label that numbers the pods; `group` numbers the groups that `count` counts. A part
    without a template has no pods, or those of the template that `otherwise` makes of it; `template` is empty if no
    part has one. `additions` are what the kind's controller adds to the template. Without the state `when`, the job has none
    of these pods.
    """

    at: str
    template: str = "template"
    name: str = "main"
    name_at: str = ""
    count: str = "replicas"
    each: tuple[str, ...] = ()
    over: str = ""
    index: str = ""
    group: str = ""
    otherwise: Callable[[Tree], Tree | None] | None = None
    additions: tuple[Addition, ...] = ()
    when: StateRule | None = None

    def of(self, compatibility: Compatibility) -> Pods:
        """The pods as another release of Kueue counts them."""
        return replace(self, additions=tuple(each for each in self.additions if each.is_counted(compatibility)))

    def pod_sets(self, job: Tree) -> Iterator[Tree]:
        if self.when is not None and not self.when.is_true(job):
            return
        for found in paths.found(job, self.at):
            template = paths.only(found, self.template) if self.template else None
            if template is None and self.otherwise is not None and isinstance(found, dict):
                template = self.otherwise(found)
            if template is not None:
                yield self._pod_set(found, self._with_additions(job, template))

    def _with_additions(self, job: Tree, template: Any) -> Any:
        for each in self.additions if isinstance(template, dict) else ():
            template = each.to(job, template)
        return template

    def templates(self, job: Tree) -> Iterator[tuple[str, Tree]]:
        for found in (
            paths.found(job, self.at) if self.template and (self.when is None or self.when.is_true(job)) else ()
        ):
            template = paths.only(found, self.template)
            if isinstance(template, dict):
                yield self._name(found).lower(), template

    def paths(self) -> Iterator[str]:
        yield from filter(None, (self.at, self.template, self.name_at, self.count, *self.each, self.over))
        yield from self.when.paths() if self.when is not None else ()
        yield from self.otherwise.paths() if isinstance(self.otherwise, DeclaredContainer) else ()

    def _pod_set(self, found: Any, template: Any) -> Tree:
        count = number(paths.only(found, self.count))
        return pod_set(
            self._name(found),
            count=count * self._per_count(found),
            template=template if isinstance(template, dict) else {},
            index=self.index,
            groups=(self.group, count) if self.group else None,
        )

    def uncounted(self, job: Tree) -> Iterator[str]:  # noqa: ARG002  # its pod sets have all of a template
        return iter(())

    def reclaimed(self, job: Tree) -> Iterator[ReclaimablePod]:
        replicas = (
            (self._name(found), number(paths.only(found, self.count)), self._per_count(found))
            for found in paths.found(job, self.at)
        )
        return reclaimed(replicas, paths.found(job, self.over), name_at=self.name_at)

    def _name(self, found: Any) -> str:
        return str(paths.only(found, self.name_at) if self.name_at else self.name).lower()

    def _per_count(self, found: Any) -> int:
        least = [number(paths.only(found, path)) for path in self.each[:1]]
        least += [number(each) for path in self.each[1:] for each in paths.found(found, path)]
        return min(least, default=1)


def pod_set(name: str, *, count: int, template: Tree, index: str = "", groups: tuple[str, int] | None = None) -> Tree:
    """A pod set of a Workload. `index` and `groups` as for `workloads.topology_request`."""
    given = part(part(template, "metadata"), "annotations")
    annotations = {key: text for key, text in given.items() if isinstance(text, str)}
    topology = workloads.topology_request(annotations, pod_index_label=index, groups=groups)
    return {
        "name": name.lower(),
        "count": count,
        "template": in_workload(template),
        **({"topologyRequest": topology} if topology else {}),
    }


Replicas = tuple[str, int, int]
"""The name of a pod set, its number of replicas, and the number of pods per replica."""


def reclaimed(replicas: Iterable[Replicas], told: Iterable[Tree], *, name_at: str = "name") -> Iterator[ReclaimablePod]:
    """The pods of succeeded replicas, reported by pod set name in `told`. An impossible count is ignored."""
    succeeded = {str(paths.only(each, name_at)).lower(): number(paths.only(each, "succeeded"), 0) for each in told}
    for name, count, pods in replicas if succeeded else ():
        if 0 < succeeded.get(name, 0) <= count:
            yield ReclaimablePod(name=name, count=succeeded[name] * pods)


def number(value: Any, otherwise: int = 1) -> int:
    """A count; `otherwise` if the value is missing or no count."""
    return value if isinstance(value, int) and value >= 0 else otherwise


class DeclaredPodSetInfoWriter(msgspec.Struct, frozen=True):
    """The pod set info of a kind with these pods.

    Patches replace the templates at the declared paths. Merge patches replace lists whole, so each patch has the resource
    version as precondition.
    """

    pods: tuple[PodsOf, ...]

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        change = self._change(job, lambda name, each: placed(each, places[name]) if name in places else each)
        return _deep(patch, {"spec": change} if change else {})

    def stop_patch(self, job: AnyJob, patch: Tree, workload: Workload | None) -> Tree:
        change = self._restoring(job, workload)
        return _deep(patch, workloads.precisely(job) | {"spec": change}) if change else patch

    def pod_set_info_of(self, job: AnyJob) -> str:
        marks = (mark_of(each) for _, each in self._templates(_tree(job))) if may_be_marked(job.spec) else ()
        return next(filter(None, marks), "")

    def restoration(self, job: AnyJob, workload: Workload | None) -> PatchJob | None:
        change = self._restoring(job, workload)
        return PatchJob(workloads.precisely(job) | {"spec": change}) if change else None

    def _restoring(self, job: AnyJob, workload: Workload | None) -> Tree:
        """The restoring change; only marked templates have pod set info."""
        if not self.pod_set_info_of(job):
            return {}
        known = originals(workload)
        return self._change(job, lambda name, each: restored(each, known.get(name)) if mark_of(each) else each)

    def _change(self, job: AnyJob, new: Callable[[str, Tree], Tree]) -> Tree:
        """The merge patch of the spec that replaces its templates."""
        changed = _tree(job)
        for name, template in self._templates(changed):
            made = dict(new(name, template))
            template.clear()
            template.update(made)
        return merge_patch(tree_of(job.spec), changed["spec"])

    def _templates(self, tree: Tree) -> Iterator[tuple[str, Tree]]:
        for pods in self.pods:
            yield from pods.templates(tree)


def _tree(job: AnyJob) -> Tree:
    return {"metadata": {"name": job.metadata.name}, "spec": tree_of(job.spec)}


def _deep(one: Tree, other: Tree) -> Tree:
    """One merge patch of two that touch different fields."""
    both = {key: _deep(part(one, key), part(other, key)) for key in one if part(one, key) and part(other, key)}
    return one | other | both
