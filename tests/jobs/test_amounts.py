"""Whatever is submitted or edited: nothing counts below zero, and a copy asks for exactly what was counted."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob, CustomJob
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import decoder, encode
from multikueue.errors import InvalidObject
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.quota.requests.amounts import Demand, demand
from tests.jobs.builders import stored
from tests.jobs.published import RUNTIME, manifest

Tree = dict[str, Any]

_NAMED = {"Job": "batch Job"}
ADAPTERS: dict[str, Adapter] = {_NAMED.get(each.kind.kind, each.kind.kind): each for each in FRAMEWORKS.values()}
KINDS = sorted(ADAPTERS)

AMOUNTS = ("1", "2500m", "-50", "-1m", "9E", "1e30", "-1e30", 0, -3, "x", "", None, "1Gi", 1.5)
COUNTS = (0, 1, 2, 3, 7, -1, -(2**31), 2**31 - 1)
SIZES = {"replicas", "parallelism", "completions", "numNodes", "numOfHosts", "minReplicas", "maxReplicas"}


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


def sized(tree: Any) -> Iterator[tuple[Tree, str]]:
    """The fields anywhere in an object that say how many pods there are."""
    if isinstance(tree, list):
        for each in tree:
            yield from sized(each)
    elif isinstance(tree, dict):
        yield from ((tree, key) for key in tree if key in SIZES)
        for each in tree.values():
            yield from sized(each)


def amounts(chance: Random) -> Tree:
    return {name: chance.choice(AMOUNTS) for name in ("cpu", "memory", "example.com/gpu") if chance.randrange(2)}


def edited(chance: Random, made: Tree) -> Tree:
    """The same object with other amounts in one to three places."""
    tree = copy.deepcopy(made)
    for _ in range(chance.randint(1, 3)):
        pod = chance.choice(list(of_pods(tree)))
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
                where, key = chance.choice(list(sized(tree)) or [({"": 0}, "")])
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


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_what_is_sent_is_what_was_counted(kind: str, seed: int) -> None:
    adapter, chance, made = ADAPTERS[kind], Random(seed), submitted(kind)
    before = edited(chance, made) if chance.randrange(2) else made
    first, second = decoded(adapter, before), decoded(adapter, edited(chance, before))
    was_counted = workload(adapter, first)
    if was_counted is None:
        return
    found = counted(was_counted)
    for pods in found.pod_sets if found is not None else ():
        assert pods.count >= 0
        assert all(amount >= 0 for amount in pods.requests.values()), pods
    assert adapter.as_counted(first, was_counted) is first
    assert amounts_of(asks(adapter, first)) == amounts_of(found)
    sent = adapter.as_counted(second, was_counted)
    if sent is not None:
        assert amounts_of(asks(adapter, sent)) == amounts_of(found)
