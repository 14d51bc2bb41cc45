"""Pod templates as a Workload has them, and whether they agree with the job's (quota-engine 6.2, 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from multikueue.api.meta import decoder
from multikueue.api.values.canonical import canonical
from multikueue.jobs.trees.canonical import is_pruned_copy

__all__ = [
    "ASKED",
    "comparable",
    "in_workload",
    "is_same_template",
    "part",
    "tree_of",
    "with_comparable_containers",
    "with_single_entries",
]

Tree = dict[str, Any]

tree_of: Callable[[bytes | msgspec.Raw], Tree] = decoder(dict[str, Any])


def part(tree: Tree, name: str) -> Tree:
    """The object at that name; empty when absent, null or no object."""
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


_OF_POD: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("hostAliases",): ("ip",),
    ("imagePullSecrets",): ("name",),
    ("resourceClaims",): ("name",),
    ("resources", "claims"): ("name",),
    ("schedulingGates",): ("name",),
    ("topologySpreadConstraints",): ("topologyKey", "whenUnsatisfiable"),
    ("volumes",): ("name",),
}
_OF_CONTAINER: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("env",): ("name",),
    ("ports",): ("containerPort", "protocol"),
    ("resources", "claims"): ("name",),
    ("volumeDevices",): ("devicePath",),
    ("volumeMounts",): ("mountPath",),
}
"""The lists that the schema of Workloads has as maps, by their path, and the keys of their items. Of lists of containers a
second of a name is refused everywhere."""

_IF_ABSENT = {"protocol": "TCP"}


def with_single_entries(spec: Tree) -> Tree:
    """The pod spec with one entry, the last, per key of each list that the schema of Workloads has as a map, in the place
    of the first: two variables A, 1 and 2, become one, 2.

    The schema refuses duplicates, which the API server takes in a Job or Pod, and of variables uses the last.
    """
    return _in_containers(_with_single(spec, _OF_POD), lambda each: _with_single(each, _OF_CONTAINER))


def with_comparable_containers(spec: Tree) -> Tree:
    """The pod spec of a copy, with those lists of its containers as in the Workload, but for the variables: the worker's
    Kueue compares containers with the Workload's, and drops duplicates of variables only."""
    lists = {path: keys for path, keys in _OF_CONTAINER.items() if path != ("env",)}
    return _in_containers(spec, lambda each: _with_single(each, lists))


def _in_containers(spec: Tree, changed: Callable[[Tree], Tree]) -> Tree:
    return spec | {key: [changed(container) for container in group] for key, group in _containers(spec).items()}


def _with_single(tree: Tree, lists: Mapping[tuple[str, ...], tuple[str, ...]]) -> Tree:
    for (first, *rest), keys in lists.items():
        if rest:
            inner = part(tree, first)
            single = _with_single(inner, {tuple(rest): keys}) if inner else inner
            tree = tree if single is inner else tree | {first: single}
        elif isinstance(items := tree.get(first), list) and all(isinstance(each, dict) for each in items):
            last = {tuple(_key_of(each, key) for key in keys): each for each in items}
            tree = tree if len(last) == len(items) else tree | {first: list(last.values())}
    return tree


def _key_of(item: Tree, key: str) -> str:
    """A number 0 is a value, an empty text is none."""
    value = item.get(key)
    return _IF_ABSENT.get(key, "") if value in (None, "") else str(value)


def in_workload(template: Tree) -> Tree:
    """A template that no API server has defaulted, with the empty fields that Kueue writes."""
    spec = with_single_entries(part(template, "spec"))
    groups = _containers(spec)
    full: Tree = {key: [{"resources": {}} | container for container in group] for key, group in groups.items()}
    return {"metadata": {}} | template | ({"spec": spec | full} if template.get("spec") else {})


def _containers(spec: Tree) -> dict[str, list[Tree]]:
    """The lists of containers in a pod spec, by field name. Not every schema knows templates, so any value may be
    there."""
    groups = {key: spec[key] for key in ("containers", "initContainers") if isinstance(spec.get(key), list)}
    return {key: [each for each in group if isinstance(each, dict)] for key, group in groups.items() if group}


def _with_defaults(spec: Tree) -> Tree:
    """The pod spec with the defaults of the Workload's schema that the job's schema may lack: the protocol of a
    port."""
    return _in_containers(spec, _with_protocols)


def _with_protocols(container: Tree) -> Tree:
    ports = [port for port in container.get("ports") or () if isinstance(port, dict)]
    return container | {"ports": [{"protocol": "TCP"} | port for port in ports]} if ports else container


class _Template(msgspec.Struct, frozen=True, gc=False):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_template: Callable[[bytes], _Template] = decoder(_Template)

ASKED: Mapping[str, Any] = {
    "containers": [],
    "initContainers": [],
    "resources": {},
    "overhead": {},
    "runtimeClassName": "",
    "resourceClaims": [],
}
"""The fields of a pod's spec that say what it asks for, and how each looks where it is absent. All known definitions of
Workloads have them."""

_MOST_ANSWERS = 4096
_answers: dict[tuple[bytes, bytes, bool], bool] = {}
"""Cached by digest: the templates may be large, and of jobs that are long gone."""


def is_same_template(job: bytes, workload: bytes, should_ignore_tolerations: bool) -> bool:
    """Whether two templates, as JSON, have the same containers and ask for the same besides (`ASKED`), and have the same
    tolerations unless ignored.

    Kueue compares containers only. But of the kinds whose objects may change while they wait, a pod's overhead, its
    resources as a whole or its claims may change too, and then more would run than was counted.

    Cached: the same few pairs are compared again and again.
    """
    ours, theirs = _template(job).spec, _template(workload).spec
    key = (sha256(ours).digest(), sha256(theirs).digest(), should_ignore_tolerations)
    answer = _answers.get(key)
    if answer is None:
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        answer = _answers[key] = _asks_for_the_same(ours, theirs, should_ignore_tolerations=should_ignore_tolerations)
    return answer


def _asks_for_the_same(job: msgspec.Raw, workload: msgspec.Raw, *, should_ignore_tolerations: bool) -> bool:
    ours = canonical(_with_defaults(with_single_entries(_pod_spec(job))))
    theirs = canonical(_with_defaults(_pod_spec(workload)))
    if not should_ignore_tolerations and ours.get("tolerations") != theirs.get("tolerations"):
        return False
    pairs = (({key: theirs.get(key, empty)}, {key: ours.get(key, empty)}) for key, empty in ASKED.items())
    return all(is_pruned_copy(counted, asked) for counted, asked in pairs)


def comparable(template: bytes) -> Tree:
    """The pod spec of a template, as JSON, in the form in which two of them are compared."""
    found: Tree = canonical(_with_defaults(with_single_entries(_pod_spec(_template(template).spec))))
    return found


def _pod_spec(spec: msgspec.Raw) -> Tree:
    """Empty where it is no object."""
    return part({"spec": msgspec.json.decode(spec)}, "spec")
