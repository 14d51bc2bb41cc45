"""The world of a play: its clusters with the objects of their administrators."""

from __future__ import annotations

from collections.abc import Sequence

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kueue.workload import ELASTIC_ANNOTATION, PRIORITY_CLASS_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.ocm import PLACEMENT_LABEL
from multikueue.runtime import Clock
from multikueue.store.caches.placements import PLACEMENT_ANNOTATION
from multikueue_simulator import definitions
from multikueue_simulator.demo.scripts.values import Play, Submission
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, ClusterHandle, World

__all__ = ["body_of", "decide", "scene"]

PLACEMENT = "demo"


def scene(play: Play, *, clock: Clock, seed: int, strategy: str) -> World:
    """The furnished world of a play."""
    world = World(play.layout, clock=clock, seed=seed)
    follows_ocm = (play.strategy or strategy) == "external"
    world.apply_fixtures(annotations={PLACEMENT_ANNOTATION: PLACEMENT} if follows_ocm else None)
    if follows_ocm:
        _place(world.manager, namespace=play.layout.secrets)
        decide(world, play.placement or tuple(world.workers))
    for queue in play.layout.queues if play.queue_fields else ():
        world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", queue.name), {"spec": dict(play.queue_fields)})
    for name, value in play.priorities.items():
        metadata = {"apiVersion": kinds.WORKLOAD_PRIORITY_CLASSES.api_version, "kind": "WorkloadPriorityClass"}
        world.manager.create(kinds.WORKLOAD_PRIORITY_CLASSES, {**metadata, "metadata": {"name": name}, "value": value})
    return world


def _place(manager: ClusterHandle, *, namespace: str) -> None:
    """Create OCM's Placement, without a decision."""
    manager.cluster.install(definitions.ocm())
    metadata = {"name": PLACEMENT, "namespace": namespace}
    placement = {"apiVersion": kinds.PLACEMENTS.api_version, "kind": kinds.PLACEMENTS.kind, "metadata": metadata}
    manager.create(kinds.PLACEMENTS, {**placement, "spec": {}})
    body = {
        "apiVersion": kinds.PLACEMENT_DECISIONS.api_version,
        "kind": kinds.PLACEMENT_DECISIONS.kind,
        "metadata": {"name": f"{PLACEMENT}-decision-1", "namespace": namespace, "labels": {PLACEMENT_LABEL: PLACEMENT}},
    }
    manager.create(kinds.PLACEMENT_DECISIONS, body)


def decide(world: World, workers: Sequence[str]) -> None:
    """Set the decision of OCM's placement controller."""
    key = ObjectKey(world.layout.secrets, f"{PLACEMENT}-decision-1")
    world.manager.patch(kinds.PLACEMENT_DECISIONS, key, objects.decisions(workers), subresource="status")


def body_of(job: Submission, *, speed: float, managed: bool) -> Object:
    """A Job as a user writes it, with only a queue label, as the webhook does the rest; or `managed` as the webhook would
    make it."""
    body = objects.job(
        job.name, NAMESPACE, queue=job.queue, cpu=job.cpu, parallelism=job.pods, seconds=job.seconds / speed
    )
    if not managed:
        body["spec"] = {name: value for name, value in body["spec"].items() if name not in ("suspend", "managedBy")}
    if job.completions:
        body["spec"]["completions"] = job.completions
    if job.priority:
        body["metadata"]["labels"][PRIORITY_CLASS_LABEL] = job.priority
    if job.elastic:
        body["metadata"]["annotations"][ELASTIC_ANNOTATION] = "true"
    return body
