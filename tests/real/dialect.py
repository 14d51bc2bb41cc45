"""What the releases of Kueue and of its Kubernetes do differently: the one place where a test learns which it runs against.

A line for each difference that a test meets, by the release that has it first. The sandbox's workers play `PLAYED`.
"""

from __future__ import annotations

from testbed.programs import Release
from tests.real.skipping import SIMULATED

__all__ = ["PLAYED", "defined_since", "judged_otherwise", "release", "served", "spoken"]

PLAYED = Release("0.16.2")
"""What the sandbox plays: its definitions, webhooks and workers."""

SINCE = {
    "queue labels on pods": "0.17.0",
    "every kind": "0.18.0",
    "stateful sets by UID": "0.17.0",
    "annotations are identifiers": "0.18.0",
    "orphans finish": "0.18.0",
    "pods of copies are labelled": "0.18.0",
    "failed checks are quoted": "0.18.0",
    "pods are watched": "0.19.0",
    "what is emptied is null": "0.19.0",
    "counts what it dispatches": "0.19.0",
    "nominations end by policy": "0.19.2",
}
"""
- queue labels on pods: the pods of what runs bear the names of their queues (#9348). Ours and the sandbox's do always.
- every kind: it integrates RayServices, comes with the definitions of SparkApplications and of Trainer 2.2, and its elastic
  jobs are on by default.
- stateful sets by UID: the name of their Workload is made of their UID, too (#9091). Ours is made of the name.
- annotations are identifiers: they name the Workload of a job and the group of a Pod, before labels (#10311).
- orphans finish: a Workload whose job is deleted is Finished as OwnerNotFound (#11296), where it was evicted or deleted before.
- pods of copies are labelled: the pods of a copy's job bear `kueue.x-k8s.io/multikueue-worker-workload-pod` (#10242).
- failed checks are quoted: the message of an eviction by checks has their names and messages (#10623).
- pods are watched: Workloads have the condition PodsReady, since `waitForPodsReady` is on by default.
- what is emptied is null: an applier that gives an empty map for one that it filled is refused where null is not allowed.
  So is the API server that is built with this release, since Kueue asks for structured-merge-diff 6.4.2, where Kubernetes
  1.36.3 itself has 6.3.3. Before, and in the sandbox, the map becomes empty.
- counts what it dispatches: its MultiKueue has two counters of its own.
- nominations end by policy: an admission policy, which its chart leaves off, empties the nomination of a workload that gets its
  cluster or is evicted (#14643).
"""

SERVED_SINCE = {"a status owns no metadata": "1.36.0"}
"""
By the Kubernetes that goes with the release:

- a status owns no metadata: who writes the status of a custom kind owns none of its metadata by that.
"""

VERDICTS = {
    "nine pod sets": "0.18.0",
    "fewer pods than reserved for": "0.18.0",
    "no queue while quota is reserved": "0.19.0",
    "a queue while quota is reserved": "0.19.0",
    "a cluster twice": "0.19.0",
}
"""
Cases that later releases judge otherwise than the one that is played:

- nine pod sets: 10 are allowed, and 18 from 0.19 on.
- fewer pods than reserved for: elastic jobs are on by default, so what is reserved may shrink.
- no queue, a queue while quota is reserved: neither may come or go (#12594).
- a cluster twice: refused for the whole list, since its order counts (#13041).
"""


DEFINED = {
    r"^clusterqueues\..*\.concurrentAdmissionPolicy\b": "0.17.0",
    r"^workloads\..*\.(podSets|podSetAssignments|podSetUpdates|reclaimablePods|resourceRequests) maxItems$": "0.18.0",
    r"^workloads\..*\.podsetSliceRequiredTopologyConstraints\b": "0.17.0",
    r"^workloads\..* selectable$": "0.18.0",
    r"^localqueues\..*\.(flavors|flavorUsage|flavorsUsage|flavorsReservation)(\[\]\.resources)? maxItems$": "0.18.0",
    r"^resourceflavors\..* \.spec rules$": "0.18.0",
    r"^multikueueconfigs\..*\.clusters (rules|x-kubernetes-list-type)$": "0.19.0",
    r" names shortNames$": "0.18.0",
    r"^clusterprofiles\..*\.status\.\w+ x-kubernetes-list-(type|map-keys)$": "0.18.0",
}
"""Facts of definitions that later releases have otherwise than the one that is played, or in addition."""


def release() -> Release:
    """That of the workers' Kueue."""
    return PLAYED if SIMULATED else Release.chosen()


def spoken(difference: str) -> bool:
    """Whether the workers' Kueue is of a release that has this difference."""
    return release().version >= Release(SINCE[difference]).version


def served(difference: str) -> bool:
    """Whether the API servers are of a Kubernetes that has this difference."""
    return _numbers(release().kubernetes.removeprefix("v")) >= _numbers(SERVED_SINCE[difference])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def judged_otherwise(sentence: str) -> bool:
    """Whether that release judges a case otherwise than the one that is played."""
    return sentence in VERDICTS and release().version >= Release(VERDICTS[sentence]).version


def defined_since() -> list[str]:
    """Patterns of the facts of definitions that this release has otherwise than the one that is played."""
    return [pattern for pattern, since in DEFINED.items() if release().version >= Release(since).version]
