"""The invariants of `faithful` for Pods and groups of them, which are held by a gate and have nothing like managedBy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from fakekube.server.patching.patches import json_patch
from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import GROUP_COUNT_ANNOTATION, GROUP_LABEL, Pod, PodGroup
from multikueue.api.meta import Condition, decoder, encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.pods.group import POD_GROUP
from multikueue.jobs.kinds.pods.members import missing, parts, replaceable
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.jobs.trees.templates import with_comparable_containers
from tests.jobs.all_kinds import leaves
from tests.jobs.builders import stored
from tests.jobs.faithful import NAME, SINGLE, at, exactly, merged, without_nulls
from tests.jobs.kinds.pods.builders import GATES, body, group
from tests.jobs.shapes import of_schema

__all__ = ["drawn_pod", "is_faithful_group", "is_faithful_pod"]

Tree = dict[str, Any]

_ALWAYS: dict[str, Sequence[str]] = {
    "containers": (),
    "name": (),
    "schedulingGates": (),
    "requests": (),
    "phase": ("Pending", "Running", "Succeeded", "Failed", "Unknown"),
    "conditions": (),
    "type": ("PodScheduled", "Ready", "Other"),
    "status": ("True", "False", "Unknown"),
    "reason": ("Unschedulable", "SchedulingGated", ""),
    "qosClass": ("Guaranteed", "Burstable", "BestEffort"),
}
_END = Condition(type="Finished", status="True", reason="Succeeded", message="so it was")


def drawn_pod(chance: Random, schema: Tree, *, name: str = "pod", members: int = 0) -> Tree:
    """A Pod as its API server may hold it once the webhook has held it; in the group `g`, if that has `members`."""
    labels = {"x.y/z": chance.choice(["", "v" * 63])}
    notes = {"note": chance.choice(["", '"\\\u2028', "n" * 1000])}
    made = body(name, labels=labels | ({GROUP_LABEL: "g"} if members else {}))
    made["metadata"]["annotations"] = notes | ({GROUP_COUNT_ANNOTATION: str(members)} if members else {})
    made |= {part: of_schema(chance, schema["properties"][part], always=_ALWAYS) for part in ("spec", "status")}
    gates = [*made["spec"].get("schedulingGates", ()), *GATES[: chance.randrange(3)]]
    made["spec"]["schedulingGates"] = [{"name": name} for name in dict.fromkeys(gate.get("name", "") for gate in gates)]
    return made


def seen(made: Tree) -> Pod:
    return decoder(Pod)(json.dumps(made).encode())


def is_faithful_pod(made: Tree, *, other: Tree) -> None:
    """Asserts all of them for the Pod; the copy has the status of `other`, and runs."""
    pod, free = seen(made), made["spec"] | {"schedulingGates": []}
    remote = seen(made | {"spec": free, "status": other["status"]})
    _answers(pod)
    _is_submitted(made)
    _is_described(pod, made)
    _is_copied(pod, made)
    _comes_home(pod, remote, made, other)


def is_faithful_group(made: Sequence[Tree], *, others: Sequence[Tree]) -> None:
    """The same for the Pods of a group."""
    whole = group(*map(seen, made))
    for adapter_answer in (POD_GROUP.is_active(whole), POD_GROUP.is_suspended(whole)):
        assert isinstance(adapter_answer, bool)
    assert POD_GROUP.queue_name(whole) == "main"
    assert POD_GROUP.ready_pods(whole) in (0, len(made))
    POD_GROUP.finished(whole)
    _group_is_described(whole, made)
    for member in missing(whole, None):
        _is_copied(member, next(each for each in made if each["metadata"]["name"] == member.metadata.name))
    copies = [
        each | {"spec": each["spec"] | {"schedulingGates": []}, "status": other["status"]}
        for each, other in zip(made, others, strict=True)
    ]
    _group_comes_home(whole, group(*map(seen, copies)))


def _answers(pod: Pod) -> None:
    assert PLAIN_POD.queue_name(pod) == "main"
    assert isinstance(PLAIN_POD.pod_priority_class(pod), str)
    assert PLAIN_POD.ready_pods(pod) in (0, 1)
    assert (PLAIN_POD.start_patch(pod) is not None) is PLAIN_POD.is_suspended(pod)
    assert not (PLAIN_POD.is_active(pod) and PLAIN_POD.finished(pod))
    PLAIN_POD.reset_status_patch(pod)
    assert PLAIN_POD.release_patch(pod) is not None


def _is_submitted(made: Tree) -> None:
    """What the webhook adds to the spec is gates, at the end."""
    raw = msgspec.Raw(json.dumps(made).encode())
    job = PLAIN_POD.submitted(raw)
    PLAIN_POD.refusal(job)
    PLAIN_POD.refusal(job, job)
    changes = json.loads(encode(PLAIN_POD.defaults(job, is_multikueue_queue=True)))
    patched = json_patch(json.loads(bytes(raw)), changes)
    before, after = made["spec"]["schedulingGates"], patched["spec"]["schedulingGates"]
    assert {"name": "kueue.x-k8s.io/admission"} in after
    assert [gate for gate in after if gate in before or gate not in GATES] == before
    assert patched["spec"] | {"schedulingGates": before} == made["spec"]


def _is_described(pod: Pod, made: Tree) -> None:
    name = PLAIN_POD.workload_name(pod)
    assert len(name) <= 63
    assert NAME.fullmatch(name)
    body = json.loads(encode(PLAIN_POD.workload_body(pod, priority=Priority())))
    assert PLAIN_POD.is_equivalent(pod, stored(body))
    (pod_set,) = body["spec"]["podSets"]
    _has_spec(pod_set["template"], made)


def _group_is_described(whole: PodGroup, made: Sequence[Tree]) -> None:
    """Each pod set is like one of the members, and there is room for all that count."""
    if POD_GROUP.waits_for(whole):
        return
    body = json.loads(encode(POD_GROUP.workload_body(whole, priority=Priority())))
    assert POD_GROUP.is_equivalent(whole, stored(body))
    assert replaceable(whole, stored(body)) == 0
    pod_sets = body["spec"]["podSets"]
    assert sum(each["count"] for each in pod_sets) == len(missing(whole, None))
    firsts = [each for each in made if any(_is_like(pod_set["template"], each) for pod_set in pod_sets)]
    assert len(firsts) >= len(pod_sets)


def _is_like(template: Tree, made: Tree) -> bool:
    try:
        _has_spec(template, made)
    except (AssertionError, LookupError, TypeError):
        return False
    return True


def _has_spec(template: Tree, made: Tree) -> None:
    for path, leaf in leaves({"spec": made["spec"]}):
        if SINGLE.isdisjoint(path):
            found = at(template, path)
            assert found == leaf or (leaf == {} and isinstance(found, dict)), path


def _is_copied(pod: AnyJob, made: Tree) -> None:
    """The copy is the Pod but for what its own API server finds out, each number as it was written."""
    copy = exactly(encode(PLAIN_POD.remote_body(pod, workload_name="wl", origin="mk", attempt="now", queue="main")))
    wanted = exactly(json.dumps(made).encode())
    assert copy.keys() == {"apiVersion", "kind", "metadata", "spec"}
    spec = with_comparable_containers(wanted["spec"])
    assert copy["spec"] == {k: v for k, v in spec.items() if k not in ("priority", "preemptionPolicy")}
    marks = {"kueue.x-k8s.io/multikueue-origin": "mk", "kueue.x-k8s.io/prebuilt-workload-name": "wl"}
    assert copy["metadata"] == {
        "name": made["metadata"]["name"],
        "namespace": "default",
        "labels": made["metadata"]["labels"] | marks,
        "annotations": made["metadata"]["annotations"] | {"multikueue.dev/attempt": "now"},
    }


def _comes_home(local: Pod, remote: Pod, made: Tree, other: Tree) -> None:
    """The status at home is the remote's after its patch, but for the class of service, and the word for no node."""
    PLAIN_POD.status_of_end(local, _END)
    status = PLAIN_POD.status_to_copy(local, remote)
    if status is None:
        return
    patch = json.loads(encode(PLAIN_POD.status_patch(local, status)))
    assert patch["metadata"] == {"uid": made["metadata"]["uid"], "resourceVersion": "7"}
    found, wanted = merged(made["status"], patch["status"]), without_nulls(other["status"])
    assert found.pop("qosClass", None) == made["status"].get("qosClass")
    wanted.pop("qosClass", None)
    for each in wanted.get("conditions", ()):
        if each.get("type") == "PodScheduled" and each.get("status") != "True":
            each["reason"] = "SchedulingGated"
    assert found == wanted


def _group_comes_home(whole: PodGroup, remote: PodGroup) -> None:
    """Each member gets what it would get by itself, and its part of the patch is its own."""
    POD_GROUP.status_of_end(whole, _END)
    status = POD_GROUP.status_to_copy(whole, remote)
    alone = {
        local.metadata.name: PLAIN_POD.status_to_copy(local, copy)
        for local, copy in zip(whole.members, remote.members, strict=True)
    }
    told = {name: each for name, each in alone.items() if each is not None}
    assert (status is None) is (not told)
    if status is None:
        return
    patches = {member.metadata.name: patch for member, patch in parts(whole, POD_GROUP.status_patch(whole, status))}
    assert patches.keys() == told.keys()
    for member in whole.members:
        if member.metadata.name in told:
            own = PLAIN_POD.status_patch(member, told[member.metadata.name])
            assert encode(patches[member.metadata.name]) == encode(own)
