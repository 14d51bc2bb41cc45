"""What must hold for each job of each kind, whatever is in it: nothing raises, and no field is lost or changed on its way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import reduce
from random import Random
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.meta import Condition, decoder, encode
from multikueue.jobs.framework.adapter import MANAGED, Adapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.kinds.declared.declaration import Declaration
from multikueue.jobs.kinds.declared.pod_sets import Pods
from multikueue.jobs.trees import paths
from multikueue.jobs.trees.templates import with_comparable_containers
from tests.jobs.all_kinds import drop, leaves, put
from tests.jobs.builders import stored
from tests.jobs.shapes import of_schema

__all__ = ["NAME", "SINGLE", "at", "drawn_job", "exactly", "is_faithful", "merged", "placed", "without_nulls"]

Tree = dict[str, Any]

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMES = ("job", "j.x", "a" * 63, "long-" * 12 + "e.nd", "x" * 253)
_ALWAYS = {"containers", "name", "spec"}
_BATCH = (
    "parallelism",
    "completions",
    "suspend",
    "managedBy",
    "template",
    "ttlSecondsAfterFinished",
    "selector",
    "active",
    "conditions",
    "startTime",
    "succeeded",
)
SINGLE = frozenset(("env", "ports", "claims", "volumeMounts", "volumeDevices", "hostAliases", "imagePullSecrets"))
SINGLE |= frozenset(("resourceClaims", "schedulingGates", "topologySpreadConstraints", "volumes"))
"""Lists of which a Workload has one entry per key: `tests.jobs.trees.test_templates` shows which."""

_GENERATED = {"job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"}


def drawn_job(chance: Random, adapter: Adapter, schema: Tree) -> Tree:
    """A job of the kind as its API server may hold it: spec and status by its schema, ours to dispatch."""
    always: dict[str, Sequence[str]] = dict.fromkeys((*_ALWAYS, *_fields(adapter)), ())
    always |= {
        "": _roles(adapter),
        "type": _ends(adapter),
        "status": ("True", "False", "Unknown"),
        "state": ("ready", "suspended", ""),
    }
    made: Tree = {
        "apiVersion": adapter.kind.api_version,
        "kind": adapter.kind.kind,
        "metadata": {
            "name": chance.choice(_NAMES),
            "namespace": "default",
            "uid": "5e7b2c0e-0000-4000-8000-000000000001",
            "resourceVersion": "7",
            "labels": {"kueue.x-k8s.io/queue-name": "main", "x.y/z": chance.choice(["", "v" * 63])},
            "annotations": {"note": chance.choice(["", '"\\\u2028', "n" * 1000])},
        },
    }
    made |= {part: of_schema(chance, schema["properties"][part], always=always) for part in ("spec", "status")}
    suspend, managed_by = _places(adapter)
    put(made, suspend, chance.random() < 0.5)
    put(made, managed_by, MANAGED)
    return made


def _fields(adapter: Adapter) -> Iterable[str]:
    """The names of the fields that the adapter looks at."""
    if not isinstance(adapter, DeclaredJob):
        return _BATCH
    own = adapter.declared
    named = [
        own.suspend,
        own.managed_by,
        own.priority,
        own.ready_of,
        *own.active_counts,
        *own.ready_counts,
        *own.dropped,
    ]
    for pods in _plain(own):
        named += [pods.at, pods.template, pods.name_at, pods.count, *pods.each]
    return {name for path in named for name in re.findall(r"[^].\[*=]+", path)} | {"conditions"}


def _roles(adapter: Adapter) -> Sequence[str]:
    """What pod sets are called that are values of a map."""
    pods = _plain(adapter.declared) if isinstance(adapter, DeclaredJob) else ()
    return [each.at.rpartition(".")[2] for each in pods if "[" not in each.at]


def _ends(adapter: Adapter) -> Sequence[str]:
    """The types of conditions that mean something, and one that does not."""
    if not isinstance(adapter, DeclaredJob):
        return ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget", "Suspended")
    own = adapter.declared
    states = [state.at for state in (own.succeeded, own.failed, own.ready) if state is not None and "type=" in state.at]
    return (*(at.partition("type=")[2].partition("]")[0] for at in states), "Other")


def _places(adapter: Adapter) -> tuple[str, str]:
    own = adapter.declared if isinstance(adapter, DeclaredJob) else None
    return (own.suspend, own.managed_by) if own else ("spec.suspend", "spec.managedBy")


def _plain(own: Declaration) -> list[Pods]:
    """The pods that are told by paths, and are there whatever else the job says."""
    return [pods for pods in own.pods if isinstance(pods, Pods) and pods.otherwise is None and pods.when is None]


def placed(own: Declaration, template: Tree) -> Tree:
    """A schema for a declared kind that has nothing but what the declaration speaks of, and any other fields beside."""
    schema = _open({"spec": _open()})
    for pods in _plain(own):
        part = _open()
        _place(part, pods.template, template)
        for path in (pods.count, *pods.each):
            _place(part, path, {"type": "integer", "format": "int32", "minimum": 0})
        if pods.name_at:
            _place(part, pods.name_at, {"type": "string"})
        _place(schema, pods.at, part)
    for path in own.dropped:
        place, is_item, which = path.partition("[")
        field, _, text = which.removesuffix("]").partition("=")
        items = {"type": "array", "items": _open({field: {"type": "string", "enum": [text, "somebody"]}})}
        _place(schema, place, items if is_item else {"type": "integer", "format": "int32"})
    for path in (*own.active_counts, *own.ready_counts):
        _place(schema, path, {"type": "integer", "format": "int32"})
    for state in own.active_states:
        _place(schema, state.at, {"type": "string"})
    condition = _open({key: {"type": "string"} for key in ("type", "status", "message")})
    _place(schema, "status.conditions", {"type": "array", "items": condition})
    return schema


def _open(fields: Tree | None = None) -> Tree:
    return {"type": "object", "properties": fields or {}, "x-kubernetes-preserve-unknown-fields": True}


def _place(schema: Tree, path: str, what: Tree) -> None:
    """Have `what` at the path; a list wherever the path goes through all of several."""
    name, _, rest = path.partition(".")
    field, is_many = name.removesuffix("[*]"), name.endswith("[*]")
    fields = schema["properties"]
    if is_many:
        many = fields.setdefault(field, {"type": "array", "items": _open()})
        inner = many["items"]
    elif rest:
        inner = fields.setdefault(field, _open())
    if rest:
        _place(inner, rest, what)
    elif is_many:
        fields[field] = {"type": "array", "items": what}
    else:
        fields[field] = what


# --- the invariants --------------------------------------------------------------------------------------------------


def is_faithful(adapter: Adapter, made: Tree, *, other: Tree | None = None) -> None:
    """Asserts all of them for the job; `other` is one of the same kind, whose status the copy has."""
    job, remote = _seen(adapter, made), _seen(adapter, made | {"status": (other or made)["status"]})
    _answers(adapter, job)
    _is_submitted(adapter, made)
    _is_described(adapter, job, made)
    _is_copied(adapter, job, made)
    _comes_home(adapter, job, remote)


def _seen(adapter: Adapter, made: Tree) -> AnyJob:
    found: AnyJob = decoder(adapter.kind.type)(json.dumps(made).encode())
    return found


def _answers(adapter: Adapter, job: AnyJob) -> None:
    assert adapter.queue_name(job) == "main"
    assert adapter.unmanaged_reason(job) is None
    assert isinstance(adapter.pod_priority_class(job), str)
    assert adapter.ready_pods(job) >= 0
    assert (adapter.start_patch(job) is None) is not (adapter.stop_patch(job) is None)
    assert (adapter.start_patch(job) is not None) is adapter.is_suspended(job)
    assert isinstance(adapter.is_active(job), bool)
    adapter.finished(job)
    adapter.reset_status_patch(job)


def _is_submitted(adapter: Adapter, made: Tree) -> None:
    """What the webhook adds is the two fields, and nothing else changes."""
    suspend, _managed_by = _places(adapter)
    raw = msgspec.Raw(json.dumps(made).encode())
    job = adapter.submitted(raw)
    adapter.refusal(job)
    adapter.refusal(job, job)
    wanted = json.loads(bytes(raw))
    put(wanted, suspend, True)
    patched = json.loads(bytes(raw))
    for change in json.loads(encode(adapter.defaults(job, is_multikueue_queue=True))):
        *way, last = change["path"].removeprefix("/").split("/")
        there = patched
        for key in way:
            there = there[key.replace("~1", "/").replace("~0", "~")]
        there[last.replace("~1", "/").replace("~0", "~")] = change["value"]
    assert patched["spec"] == wanted["spec"]


def _is_described(adapter: Adapter, job: AnyJob, made: Tree) -> None:
    """The Workload has each pod template with all its fields and what the kind's controller adds, and is the job's."""
    name = adapter.workload_name(job)
    assert len(name) <= 63
    assert NAME.fullmatch(name)
    body = json.loads(encode(adapter.workload_body(job, priority=Priority())))
    assert adapter.is_equivalent(job, stored(body))
    if isinstance(adapter, DeclaredJob) and len(_plain(adapter.declared)) < len(adapter.declared.pods):
        return
    templates = list(_templates(adapter, made))
    assert len(body["spec"]["podSets"]) == len(templates)
    for pod_set, template in zip(body["spec"]["podSets"], templates, strict=True):
        for path, leaf in leaves(template):
            if SINGLE.isdisjoint(path) and not (
                path[:2] == ("metadata", "labels") and path[-1] in ("labels", *_GENERATED)
            ):
                found = at(pod_set["template"], path)
                assert found == leaf or (leaf == {} and isinstance(found, dict)), path


def at(tree: Any, path: Iterable[str | int]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _templates(adapter: Adapter, made: Tree) -> Iterable[Tree]:
    if not isinstance(adapter, DeclaredJob):
        yield made["spec"]["template"]
        return
    for pods in _plain(adapter.declared):
        for each in paths.found(made, pods.at):
            if (template := paths.only(each, pods.template)) is not None:
                yield reduce(lambda so_far, one: one.to(made, so_far), pods.additions, template)


def _is_copied(adapter: Adapter, job: AnyJob, made: Tree) -> None:
    """The copy is the object but for what is declared, each number to the last digit as it was written."""
    copy = exactly(encode(adapter.remote_body(job, workload_name="wl", origin="mk", attempt="now", queue="main")))
    wanted = exactly(json.dumps(made).encode())
    suspend, managed_by = _places(adapter)
    dropped = adapter.declared.dropped if isinstance(adapter, DeclaredJob) else ("spec.ttlSecondsAfterFinished",)
    for path in (managed_by, *dropped):
        drop(wanted, path)
    put(wanted, suspend, True)
    spec = wanted["spec"]
    if not isinstance(adapter, DeclaredJob) and isinstance(spec.get("template", {}).get("spec"), dict):
        spec["template"]["spec"] = with_comparable_containers(spec["template"]["spec"])
    if not isinstance(adapter, DeclaredJob) and spec.get("manualSelector") is not True:
        spec.pop("manualSelector", None)
        spec.pop("selector", None)
    assert copy.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert copy["spec"] == spec
    meta = wanted["metadata"]
    marks = {"kueue.x-k8s.io/multikueue-origin": "mk", "kueue.x-k8s.io/prebuilt-workload-name": "wl"}
    assert copy["metadata"] == {
        "name": meta["name"],
        "namespace": "default",
        "labels": meta["labels"] | marks,
        "annotations": meta["annotations"] | {"multikueue.dev/attempt": "now"},
    }


def _comes_home(adapter: Adapter, local: AnyJob, remote: AnyJob) -> None:
    """The status at home is the remote's after its patch, but for nulls, which no merge patch can write."""
    adapter.status_of_end(local, Condition(type="Finished", status="True", reason="Succeeded", message="so it was"))
    status = adapter.status_to_copy(local, remote)
    if status is None:
        return
    assert bytes(status) == bytes(remote.status) or not isinstance(adapter, DeclaredJob)
    patch = json.loads(encode(adapter.status_patch(local, status)))
    assert patch["metadata"] == {"uid": local.metadata.uid, "resourceVersion": "7"}
    assert merged(json.loads(bytes(local.status)), patch["status"]) == without_nulls(json.loads(bytes(status)))


def merged(tree: Any, patch: Any) -> Any:
    """RFC 7386; what was null before and stays so is none."""
    if not isinstance(patch, dict):
        return patch
    base = tree if isinstance(tree, dict) else {}
    patched = {**base, **{name: merged(base.get(name), value) for name, value in patch.items()}}
    return without_nulls(patched)


def without_nulls(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    return {key: without_nulls(value) for key, value in tree.items() if value is not None}


class _Number(str):
    """A number as it was written."""


def exactly(text: bytes) -> Tree:
    tree: Tree = json.loads(text, parse_int=_Number, parse_float=_Number)
    return tree
