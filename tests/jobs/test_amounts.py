"""Whatever is submitted or edited: nothing counts below zero, and a copy asks for exactly what was counted."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fakekube.server.patching.patches import json_patch
from multikueue.api.jobs.job import AnyJob, CustomJob
from multikueue.api.jobs.pod import MANAGED_LABEL, ROLE_HASH_ANNOTATION, Pod, PodGroup
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import decoder, encode
from multikueue.errors import InvalidObject
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.deployment import DEPLOYMENT
from multikueue.jobs.kinds.pods.group import POD_GROUP
from multikueue.jobs.kinds.pods.members import missing
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.quota.requests.amounts import Demand, demand
from tests.jobs import published
from tests.jobs.builders import plain, stored
from tests.jobs.kinds.pods import builders as pods
from tests.jobs.published import RUNTIME, manifest
from tests.project.test_job_kinds import declared

Tree = dict[str, Any]

_NAMED = {"Job": "batch Job"}
ADAPTERS: dict[str, Adapter] = {_NAMED.get(each.kind.kind, each.kind.kind): each for each in FRAMEWORKS.values()}
ADAPTERS |= {"SparkApplication": declared()["SparkApplication"], "Deployment": PLAIN_POD}
KINDS = sorted(ADAPTERS)

AMOUNTS = ("1", "2500m", "-50", "-1m", "9E", "1e30", "-1e30", 0, -3, "x", "", None, "1Gi", 1.5)
COUNTS = (0, 1, 2, 3, 7, -1, -(2**31), 2**31 - 1)
SIZES = {"replicas", "parallelism", "completions", "numNodes", "numOfHosts", "minReplicas", "maxReplicas", "instances"}
FIELDS = {"cores", "coreRequest", "coreLimit", "memory", "memoryOverhead"}
"""Of a kind whose own controller makes requests of them."""


def decoded(adapter: Adapter, made: Tree) -> AnyJob:
    job: AnyJob = decoder(adapter.kind.type)(json.dumps(made).encode())
    return replace(job, runtime=msgspec.Raw(encode(RUNTIME))) if isinstance(job, CustomJob) else job


def submitted(kind: str) -> Tree:
    made: Tree = manifest(kind, "team")
    made["metadata"] |= {"uid": "uid-1", "resourceVersion": "7"}
    return made


def of_pods(tree: Any) -> Iterator[Tree]:
    """The pod specs anywhere in an object."""
    if isinstance(tree, list):
        for each in tree:
            yield from of_pods(each)
    elif isinstance(tree, dict):
        if isinstance(tree.get("containers"), list):
            yield tree
        for each in tree.values():
            yield from of_pods(each)


def named(tree: Any, names: set[str]) -> Iterator[tuple[Tree, str]]:
    """The fields anywhere in an object that have one of these names."""
    if isinstance(tree, list):
        for each in tree:
            yield from named(each, names)
    elif isinstance(tree, dict):
        yield from ((tree, key) for key in tree if key in names)
        for each in tree.values():
            yield from named(each, names)


def amounts(chance: Random) -> Tree:
    return {name: chance.choice(AMOUNTS) for name in ("cpu", "memory", "example.com/gpu") if chance.randrange(2)}


def edited(chance: Random, made: Tree) -> Tree:
    """The same object with other amounts in one to three places."""
    tree = copy.deepcopy(made)
    for _ in range(chance.randint(1, 3)):
        if not (found := list(of_pods(tree))):
            where, key = chance.choice(list(named(tree, FIELDS | SIZES)))
            where[chance.choice(sorted(FIELDS)) if key in FIELDS else key] = chance.choice(
                AMOUNTS if key in FIELDS else COUNTS
            )
            continue
        pod = chance.choice(found)
        match chance.randrange(7):
            case 0:
                chance.choice(pod["containers"])["resources"] = {"requests": amounts(chance), "limits": amounts(chance)}
            case 1:
                sidecar = {"restartPolicy": "Always"} if chance.randrange(2) else {}
                init = {"name": "init", "image": "x", "resources": {"requests": amounts(chance)}}
                pod["initContainers"] = [*pod.get("initContainers", ()), init | sidecar]
            case 2:
                pod["overhead"] = amounts(chance)
            case 3:
                pod["resources"] = {chance.choice(["requests", "limits"]): amounts(chance)}
            case 4:
                pod["runtimeClassName"] = chance.choice(["kata", ""])
            case 5:
                pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": chance.choice(["one", "eight"])}]
            case _:
                where, key = chance.choice(list(named(tree, SIZES)) or [({"": 0}, "")])
                where[key] = chance.choice(COUNTS)
    return tree


def workload(adapter: Adapter, job: AnyJob) -> Workload | None:
    """The Workload of the job; None if the job is refused, or cannot be read."""
    try:
        return None if adapter.waits_for(job) else stored(adapter.workload_body(job, priority=Priority()))
    except (InvalidObject, msgspec.MsgspecError):
        return None


def counted(seen: Workload) -> Demand | None:
    """None if the Workload cannot be read, so that it counts nothing and is never admitted."""
    try:
        return demand(workload_spec(seen))
    except (InvalidObject, msgspec.MsgspecError):
        return None


def asks(adapter: Adapter, job: AnyJob) -> Demand | None:
    """What the copy of the job asks for, looked at as an object of its own."""
    body = adapter.remote_body(job, workload_name="wl", origin="mk", attempt="now")
    made = workload(adapter, decoded(adapter, json.loads(encode(body))))
    return counted(made) if made is not None else None


def amounts_of(found: Demand | None) -> list[tuple[str, int, Tree]] | None:
    return [(each.name, each.count, dict(each.requests)) for each in found.pod_sets] if found is not None else None


def of_deployment(made: Tree) -> Tree:
    """A Pod of a Deployment, as the webhook leaves the two; any other object as it is."""
    if made["kind"] != "Deployment":
        return made
    whole = json_patch(made, plain(DEPLOYMENT.defaults(DEPLOYMENT.submitted(raw(made)), is_multikueue_queue=True)))
    template = whole["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | {"name": "pod", "uid": "uid-1"}} | {
        "spec": template["spec"]
    }
    pod["metadata"] |= {"namespace": "team", "resourceVersion": "7"}
    patched: Tree = json_patch(pod, plain(PLAIN_POD.defaults(PLAIN_POD.submitted(raw(pod)), is_multikueue_queue=True)))
    return patched


def raw(tree: Any) -> msgspec.Raw:
    return msgspec.Raw(encode(tree))


def is_not_below_zero(found: Demand | None) -> None:
    for each in found.pod_sets if found is not None else ():
        assert each.count >= 0
        assert all(amount >= 0 for amount in each.requests.values()), each


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_what_is_sent_is_what_was_counted(kind: str, seed: int) -> None:
    adapter, chance, made = ADAPTERS[kind], Random(seed), submitted(kind)
    before = edited(chance, made) if chance.randrange(2) else made
    first, second = (decoded(adapter, of_deployment(each)) for each in (before, edited(chance, before)))
    was_counted = workload(adapter, first)
    if was_counted is None:
        return
    found = counted(was_counted)
    is_not_below_zero(found)
    assert adapter.as_counted(first, was_counted) is first
    assert amounts_of(asks(adapter, first)) == amounts_of(found)
    sent = adapter.as_counted(second, was_counted)
    if sent is not None:
        assert amounts_of(asks(adapter, sent)) == amounts_of(found)


def members(chance: Random, *, total: int) -> list[Tree]:
    """The Pods of a group, some of which say that they ask for the same as another one."""
    made = published.group("team", total=total)
    for number, each in enumerate(made):
        each["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": "7"}
        each["metadata"]["labels"][MANAGED_LABEL] = "true"
        if chance.randrange(2):
            each["metadata"]["annotations"][ROLE_HASH_ANNOTATION] = chance.choice(["one", "another"])
    return made


def grouped(made: list[Tree]) -> PodGroup | None:
    """None if one of them cannot be read."""
    try:
        return pods.group(*(decoder(Pod)(json.dumps(each).encode()) for each in made))
    except msgspec.MsgspecError:
        return None


def together(found: Demand | None) -> Counter[str]:
    return Counter(
        {
            resource: sum(each.count * each.requests.get(resource, 0) for each in found.pod_sets)
            for resource in {name for each in found.pod_sets for name in each.requests}
        }
        if found is not None
        else {}
    )


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), total=st.integers(1, 4))
def test_the_pods_of_a_group_ask_together_for_what_was_counted(seed: int, total: int) -> None:
    """Whichever of them are edited, and whatever role they say they have."""
    chance, made = Random(seed), members(Random(seed), total=total)
    before = [edited(chance, each) if chance.randrange(2) else each for each in made]
    after = [edited(chance, each) if chance.randrange(2) else each for each in before]
    first, second = grouped(before), grouped(after)
    was_counted = workload(POD_GROUP, first) if first is not None else None
    if first is None or was_counted is None:
        return
    found = counted(was_counted)
    is_not_below_zero(found)
    for group in filter(None, (first, second)):
        if POD_GROUP.as_counted(group, was_counted) is None:
            assert group is not first
            continue
        there = [asks(PLAIN_POD, member) for member in missing(group, None)]
        if found is not None and None not in there:
            assert sum(map(together, there), Counter()) <= together(found)
