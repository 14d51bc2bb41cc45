"""What must hold of parents and their variants (KEP 8691), but for a while after each change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from fakekube.model.wire import Object
from multikueue.api.kueue.concurrent_admission import FLAVORS_ANNOTATION
from multikueue.api.kueue.workload import EVICTED, FINISHED, QUOTA_RESERVED
from multikueue_simulator.simulation import seen

__all__ = ["amiss"]


def amiss(workloads: list[Object], queue: Object) -> Iterator[tuple[str, str]]:
    """The UIDs of workloads that are not as they should be, and what is wrong. `queue` is the one with flavors and a policy,
    unless that was taken away."""
    yield from _strays(workloads)
    mine = [each for each in workloads if each["spec"].get("queueName") == queue["metadata"]["name"]]
    if queue["spec"].get("concurrentAdmissionPolicy") is not None:
        yield from _unfounded(mine)
        return
    for each in filter(_is_open, mine):
        yield each["metadata"]["uid"], f"variant {each['metadata']['name']} is there without a policy"


def _strays(workloads: list[Object]) -> Iterator[tuple[str, str]]:
    """The UIDs of variants that should not be there, and what is wrong."""
    parents = {workload["metadata"]["uid"]: workload for workload in workloads if not seen.is_variant(workload)}
    variants = [workload for workload in workloads if seen.is_variant(workload)]
    flavors = {(seen.family(each), _only(each)): each["metadata"]["uid"] for each in variants}
    for each in variants:
        uid, name, parent = each["metadata"]["uid"], each["metadata"]["name"], parents.get(seen.family(each))
        if parent is None:
            yield uid, f"the parent of variant {name} is gone"
        elif seen.is_true(parent, FINISHED) and not seen.is_true(each, FINISHED):
            yield uid, f"the parent of variant {name} is over, and it is not"
        if flavors[seen.family(each), _only(each)] != uid:
            yield uid, f"{name} is not the only variant for its flavor"


def _only(variant: Object) -> str:
    """The flavor that a variant is for."""
    return str((variant["metadata"].get("annotations") or {}).get(FLAVORS_ANNOTATION))


def _is_open(workload: Object) -> bool:
    """Whether it is a variant that is not over."""
    return seen.is_variant(workload) and not seen.is_true(workload, FINISHED)


def _unfounded(workloads: list[Object]) -> Iterator[tuple[str, str]]:
    """The UIDs of parents with a quota that none of their variants has, or whose variants have more than that."""
    having: defaultdict[str, set[str]] = defaultdict(set)
    for each in workloads:
        if _is_open(each) and seen.is_true(each, QUOTA_RESERVED):
            having[seen.family(each)] |= _flavors(each)
    for each in workloads:
        is_over = seen.is_true(each, FINISHED) or seen.is_true(each, EVICTED)
        if seen.is_variant(each) or is_over or not seen.is_true(each, QUOTA_RESERVED):
            continue
        uid, name = each["metadata"]["uid"], each["metadata"]["name"]
        mine, theirs = _flavors(each), having[uid]
        if mine != theirs:
            yield uid, f"{name} has quota in {sorted(mine)}, and its variants in {sorted(theirs)}"


def _flavors(workload: Object) -> set[str]:
    """The flavors of the quota that a Workload has."""
    found: set[str] = set()
    for assigned in (workload["status"].get("admission") or {}).get("podSetAssignments") or ():
        found |= set((assigned.get("flavors") or {}).values())
    return found
