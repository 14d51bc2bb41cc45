"""Pod templates: as a Workload has them, whether they agree with the job's, what no Pod may have, and overrides.

Rules: quota-engine 6.2, 6.3. Canonical trees (`api.values.canonical`) are compared whose schemas may be of different
versions.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from multikueue.api.meta import decoder
from multikueue.api.values import quantity
from multikueue.api.values.canonical import QUANTITIES, canonical
from multikueue.api.values.foreign import excerpt
from multikueue.errors import InvalidObject

__all__ = [
    "ASKED",
    "comparable",
    "in_workload",
    "is_pruned_copy",
    "is_same_template",
    "merge_patch",
    "merged",
    "metadata_problems",
    "negative_amounts",
    "part",
    "tree_of",
    "with_comparable_containers",
    "with_single_entries",
]

# The fields of a container that every schema in use knows: here absent means absent. Any other field may be missing in
# the Workload because its CustomResourceDefinition is older than the API server's own Job, and prunes it.
_KNOWN = frozenset(("args", "command", "env", "envFrom", "image", "name", "ports", "restartPolicy", "workingDir"))
_KNOWN |= frozenset(("resources", "requests", "limits", "volumeDevices", "volumeMounts"))


def is_pruned_copy(copy: Any, original: Any) -> bool:
    """Whether `copy` equals `original`, except for fields that its schema may have pruned. Both canonical."""
    if isinstance(copy, dict) and isinstance(original, dict):
        lost = original.keys() - copy.keys()
        if lost & _KNOWN or copy.keys() - original.keys():
            return False
        return all(
            value == original[key] if key in QUANTITIES else is_pruned_copy(value, original[key])
            for key, value in copy.items()
        )
    if isinstance(copy, list) and isinstance(original, list):
        return len(copy) == len(original) and all(map(is_pruned_copy, copy, original))
    return bool(copy == original)


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) that turns `old` into `new`; empty if they are equal."""
    removed: dict[str, Any] = {key: None for key in old if key not in new}
    changed = {key: _change(old.get(key), value) for key, value in new.items() if key not in old or old[key] != value}
    return removed | changed


def _change(old: Any, new: Any) -> Any:
    return merge_patch(old, new) if isinstance(old, dict) and isinstance(new, dict) else new


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


_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX = 253
_MOST_ANNOTATED = 256 * 1024
_LONGEST_TOLD = 80

_EXPECTED_KEY = "expected a key such as team or example.com/team, at most 63 characters after the slash"
_EXPECTED_VALUE = "expected at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"


def metadata_problems(pod_set: Tree) -> Iterator[str]:
    """Each label and annotation in the template of a pod set that the API server refuses in a Pod, and why.

    The API server checks the templates of its own kinds. Those of a CustomResourceDefinition it takes as they are, and so
    do Kueue's Workloads before 0.19.1 (kueue#13679): the pods would be refused one by one, on the worker, with quota held.
    """
    metadata, where = part(pod_set["template"], "metadata"), f"pods {pod_set['name']}: metadata"
    for key, value in part(metadata, "labels").items():
        if not _is_key(key):
            yield f"{where}.labels: {_EXPECTED_KEY}, got {excerpt(repr(key), _LONGEST_TOLD)}"
        elif not isinstance(value, str) or (value and _NAME.fullmatch(value) is None):
            yield f"{where}.labels[{key}]: {_EXPECTED_VALUE}, got {excerpt(repr(value), _LONGEST_TOLD)}"
    annotations = part(metadata, "annotations")
    for key, value in annotations.items():
        if not _is_key(key.lower()):
            yield f"{where}.annotations: {_EXPECTED_KEY}, got {excerpt(repr(key), _LONGEST_TOLD)}"
        elif not isinstance(value, str):
            yield f"{where}.annotations[{key}]: expected text, got {excerpt(repr(value), _LONGEST_TOLD)}"
    if sum(len(str(text).encode(errors="replace")) for pair in annotations.items() for text in pair) > _MOST_ANNOTATED:
        yield f"{where}.annotations: expected at most {_MOST_ANNOTATED // 1024} KiB in all"


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    is_prefix = not slash or (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix) is not None)
    return is_prefix and _NAME.fullmatch(name) is not None


def negative_amounts(pod_set: Tree) -> Iterator[str]:
    """Each request, limit and overhead below zero in the template of a pod set: its field, what is expected and the value.
    What is no quantity is left to the API server and to the Workload's own condition.

    The API server refuses them in the templates of its own kinds. Those of a CustomResourceDefinition it takes as they are,
    and so it does Kueue's Workloads; where they counted, they would make quota (kueue#13391).
    """
    spec, where = part(pod_set["template"], "spec"), f"pods {pod_set['name']}: spec"
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict):
                yield from _of_resources(part(container, "resources"), f"{where}.{kind}[{index}].resources")
    yield from _of_resources(part(spec, "resources"), f"{where}.resources")
    yield from _negative(part(spec, "overhead"), f"{where}.overhead")


def _of_resources(resources: Tree, where: str) -> Iterator[str]:
    for name in ("requests", "limits"):
        yield from _negative(part(resources, name), f"{where}.{name}")


def _negative(amounts: Tree, where: str) -> Iterator[str]:
    for resource, amount in amounts.items():
        try:
            if quantity.parse(amount) < 0:
                yield f"{where}[{resource}]: expected 0 or more, got {amount!r}"
        except InvalidObject:
            continue


_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
}
"""The merge key of each list in a pod that an override merges. All other lists are replaced."""


def merged(tree: Tree, patch: Tree) -> Tree:
    """The tree after a strategic merge patch. Overrides delete nothing and have no directives, so neither is
    supported."""
    return tree | {key: _merged_value(tree.get(key), value, key) for key, value in patch.items()}


def _merged_value(ours: Any, theirs: Any, key: str) -> Any:
    if isinstance(theirs, dict):
        return merged(ours if isinstance(ours, dict) else {}, theirs)
    if key in _MERGE_KEYS and _are_trees(ours) and _are_trees(theirs):
        return _merged_list(ours, theirs, _MERGE_KEYS[key])
    return theirs


def _are_trees(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _merged_list(ours: list[Tree], theirs: list[Tree], key: str) -> list[Tree]:
    """In Kubernetes' order: the patch's items, each after those of ours that stood before it."""
    place, known = {each.get(key): n for n, each in enumerate(ours)}, {each.get(key): each for each in ours}
    named = {each.get(key) for each in theirs}
    left, found = deque(each for each in ours if each.get(key) not in named), []
    for each in theirs:
        while left and place[left[0].get(key)] < place.get(each.get(key), 0):
            found.append(left.popleft())
        found.append(merged(known.get(each.get(key), {}), each))
    return [*found, *left]
