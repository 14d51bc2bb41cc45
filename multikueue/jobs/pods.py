"""Where a declared kind says which pods it has, and the pod sets that Kueue makes of them (quota-engine 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from multikueue.jobs import paths, workloads
from multikueue.jobs.states import State
from multikueue.jobs.templates import in_workload, part

__all__ = ["Pods", "PodsOf", "number", "pod_set"]

Tree = dict[str, Any]


class PodsOf(Protocol):
    """What tells the pod sets of a job, given its metadata and its spec. `paths` are those it goes, to be checked."""

    def pod_sets(self, job: Tree) -> Iterator[Tree]: ...

    def paths(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Pods of one shape, or of several if `at` is a path to several parts, each of which is a pod set.

    `name` is the pod set's, in lower case; or `name_at` where it is in the part. The other paths start at the part too.
    There are `count` times the smallest of `each` many pods. Where `count` or the first of `each` is absent, it is one.
    `index` is the label that numbers them; `group` numbers the groups that `count` counts. A part without a template has
    no pods, or those of the template that `otherwise` makes of it. There are none but `when` that holds.
    """

    at: str
    template: str = "template"
    name: str = "main"
    name_at: str = ""
    count: str = "replicas"
    each: tuple[str, ...] = ()
    index: str = ""
    group: str = ""
    otherwise: Callable[[Tree], Tree | None] | None = None
    when: State | None = None

    def pod_sets(self, job: Tree) -> Iterator[Tree]:
        if self.when is not None and not self.when.holds(job):
            return
        for found in paths.found(job, self.at):
            template = paths.only(found, self.template)
            if template is None and self.otherwise is not None and isinstance(found, dict):
                template = self.otherwise(found)
            if template is not None:
                yield self._pod_set(found, template)

    def paths(self) -> Iterator[str]:
        yield from filter(None, (self.at, self.template, self.name_at, self.count, *self.each))
        yield from self.when.paths() if self.when is not None else ()

    def _pod_set(self, found: Any, template: Any) -> Tree:
        count = number(paths.only(found, self.count))
        least = [number(paths.only(found, path)) for path in self.each[:1]]
        least += [number(each) for path in self.each[1:] for each in paths.found(found, path)]
        return pod_set(
            str(paths.only(found, self.name_at) if self.name_at else self.name),
            count=count * min(least, default=1),
            template=template if isinstance(template, dict) else {},
            index=self.index,
            groups=(self.group, count) if self.group else None,
        )


def pod_set(name: str, *, count: int, template: Tree, index: str = "", groups: tuple[str, int] | None = None) -> Tree:
    """A pod set as a Workload has it. `index` and `groups` as for `workloads.topology_request`."""
    given = part(part(template, "metadata"), "annotations")
    annotations = {key: text for key, text in given.items() if isinstance(text, str)}
    topology = workloads.topology_request(annotations, pod_index_label=index, groups=groups)
    return {
        "name": name.lower(),
        "count": count,
        "template": in_workload(template),
        **({"topologyRequest": topology} if topology else {}),
    }


def number(value: Any, otherwise: int = 1) -> int:
    """The number of something; `otherwise` if it is none, or not said."""
    return value if isinstance(value, int) and value >= 0 else otherwise
