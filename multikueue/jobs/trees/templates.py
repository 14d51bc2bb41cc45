"""Pod templates as a Workload has them, and whether they agree with the job's (quota-engine 6.2, 6.3)."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from multikueue.api.meta import decoder
from multikueue.api.values.canonical import canonical
from multikueue.jobs.trees.canonical import is_pruned_copy

__all__ = ["in_workload", "is_same_template", "part", "tree_of", "with_single_variables"]

Tree = dict[str, Any]

tree_of: Callable[[bytes | msgspec.Raw], Tree] = decoder(dict[str, Any])


def part(tree: Tree, name: str) -> Tree:
    """The object at that name; empty when absent, null or no object."""
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def with_single_variables(spec: Tree) -> Tree:
    """The pod spec with one value, the last, per environment variable, in the place of the first.

    The Workload's schema has the names as keys and refuses duplicates; Kubernetes takes the last.
    """
    groups = _containers(spec)
    return spec | {key: [_with_single_variables_of(container) for container in group] for key, group in groups.items()}


def in_workload(template: Tree) -> Tree:
    """A template that no API server has defaulted, with the empty fields that Kueue writes."""
    spec = with_single_variables(part(template, "spec"))
    groups = _containers(spec)
    full: Tree = {key: [{"resources": {}} | container for container in group] for key, group in groups.items()}
    return {"metadata": {}} | template | ({"spec": spec | full} if template.get("spec") else {})


def _containers(spec: Tree) -> dict[str, list[Tree]]:
    """The lists of containers in a pod spec, by field name. Not every schema knows templates, so any value may be
    there."""
    groups = {key: spec[key] for key in ("containers", "initContainers") if isinstance(spec.get(key), list)}
    return {key: [each for each in group if isinstance(each, dict)] for key, group in groups.items() if group}


def _with_single_variables_of(container: Tree) -> Tree:
    variables = container.get("env")
    if not isinstance(variables, list) or not all(isinstance(each, dict) for each in variables):
        return container
    return container | {"env": list({str(variable.get("name")): variable for variable in variables}.values())}


def _with_defaults(spec: Tree) -> Tree:
    """The pod spec with the defaults of the Workload's schema that the job's schema may lack: the protocol of a
    port."""
    groups = _containers(spec)
    return spec | {key: [_with_protocols(container) for container in group] for key, group in groups.items()}


def _with_protocols(container: Tree) -> Tree:
    ports = [port for port in container.get("ports") or () if isinstance(port, dict)]
    return container | {"ports": [{"protocol": "TCP"} | port for port in ports]} if ports else container


class _Template(msgspec.Struct, frozen=True, gc=False):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_template: Callable[[bytes], _Template] = decoder(_Template)

_MOST_ANSWERS = 4096
_answers: dict[tuple[bytes, bytes, bool], bool] = {}
"""Cached by digest: the templates may be large, and of jobs that are long gone."""


def is_same_template(job: bytes, workload: bytes, should_ignore_tolerations: bool) -> bool:
    """Whether two templates, as JSON, have the same containers, and the same tolerations unless ignored.

    Cached: the same few pairs are compared again and again.
    """
    ours, theirs = _template(job).spec, _template(workload).spec
    key = (sha256(ours).digest(), sha256(theirs).digest(), should_ignore_tolerations)
    answer = _answers.get(key)
    if answer is None:
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        answer = _answers[key] = _has_same_containers(ours, theirs, should_ignore_tolerations=should_ignore_tolerations)
    return answer


def _has_same_containers(job: msgspec.Raw, workload: msgspec.Raw, *, should_ignore_tolerations: bool) -> bool:
    ours = canonical(_with_defaults(with_single_variables(_pod_spec(job))))
    theirs = canonical(_with_defaults(_pod_spec(workload)))
    if not should_ignore_tolerations and ours.get("tolerations") != theirs.get("tolerations"):
        return False
    return all(is_pruned_copy(theirs.get(key, []), ours.get(key, [])) for key in ("containers", "initContainers"))


def _pod_spec(spec: msgspec.Raw) -> Tree:
    """Empty where it is no object."""
    return part({"spec": msgspec.json.decode(spec)}, "spec")
