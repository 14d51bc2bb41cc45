"""What `why` answers of a workload's quota: the manager's explanation, else one computed here of what the user may read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multikueue.api.kueue.workload import queue_of, waits_for_quota, workload_spec
from multikueue.cli.access.connection import fetch_pairs, now

if TYPE_CHECKING:
    from multikueue.answers.answer import JobAnswer
    from multikueue.api.kind import Kind
    from multikueue.api.kueue.queues import LocalQueue
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import ObjectKey
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.quota.engine import Engine
    from multikueue.quota.requests.amounts import Demand
    from multikueue.quota.visibility.differences import PodPolicies
    from multikueue.quota.visibility.explain import Explanation
    from multikueue.settings import Settings
    from multikueue.workload.nomination.choice import ExplainedChoice
    from multikueue.workload.nomination.prospects import Prospect

__all__ = [
    "ManagerExplanation",
    "Objects",
    "demand_by",
    "explained",
    "fetch_explanation",
    "fetch_objects",
    "lines",
]


@dataclass(frozen=True, slots=True)
class ManagerExplanation:
    """`quota` is None unless the workload waits for quota; `workers` is empty once it is over. `answer` is None if the manager
    gives none, as one of an earlier release. `choice` is None unless it waits for a worker."""

    quota: Explanation | None = None
    workers: tuple[Prospect, ...] = ()
    answer: JobAnswer | None = None
    choice: ExplainedChoice | None = None


async def fetch_explanation(client: ClusterClient, key: ObjectKey) -> ManagerExplanation:
    """The manager's, by its aggregated API (docs/metrics.md). Raises ApiError without such an API, a right to it, or a
    readable answer, and errors of `Client.request`."""
    import msgspec

    from multikueue.answers.answer import JobAnswer
    from multikueue.errors import ApiError
    from multikueue.quota.visibility.explain import Explanation
    from multikueue.workload.nomination.choice import ExplainedChoice
    from multikueue.workload.nomination.prospects import Prospect

    path = f"/apis/visibility.multikueue.dev/v1alpha1/namespaces/{key.namespace}/workloads/{key.name}/explanation"
    answer = await client.request("GET", path)
    try:
        told = msgspec.json.decode(answer, type=dict[str, Any])
        quota = msgspec.convert(told.get("quota"), Explanation | None)
        workers = msgspec.convert(told.get("workers", ()), tuple[Prospect, ...])
        answered = msgspec.convert(told.get("answer"), JobAnswer | None)
        return ManagerExplanation(quota, workers, answered, msgspec.convert(told.get("choice"), ExplainedChoice | None))
    except msgspec.DecodeError as error:
        raise ApiError(502, "BadGateway", f"an explanation of another form: {error}") from None


Objects = dict[str, list[tuple[dict[str, Any], Any]]]
"""Objects by the plural of their kind: each as the server sent it, and as a value."""


async def fetch_objects(client: ClusterClient, where: str, settings: Settings | None) -> tuple[Objects, list[str]]:
    """Objects that quota depends on, and the kinds that may not be listed; workloads of the own namespace at least."""
    from multikueue.api import kinds
    from multikueue.errors import Forbidden

    found, forbidden = Objects(), list[str]()
    for kind in (
        kinds.NAMESPACES,
        kinds.LIMIT_RANGES,
        kinds.RUNTIME_CLASSES,
        *_of_devices(_empty_engine(settings)),
        kinds.RESOURCE_FLAVORS,
        kinds.ADMISSION_CHECKS,
        kinds.COHORTS,
        kinds.CLUSTER_QUEUES,
        kinds.LOCAL_QUEUES,
        kinds.WORKLOADS,
    ):
        try:
            found[kind.plural] = await fetch_pairs(client, kind)
        except Forbidden:
            forbidden.append(f"{kind.plural} of all namespaces" if kind.namespaced else kind.plural)
    if kinds.WORKLOADS.plural not in found:
        found[kinds.WORKLOADS.plural] = await fetch_pairs(client, kinds.WORKLOADS, namespace=where)
    return found, forbidden


def _of_devices(engine: Engine) -> list[Kind[Any]]:
    """The kinds that devices are counted by, if they are."""
    from multikueue.api.kinds import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES

    templates = [RESOURCE_CLAIM_TEMPLATES] if engine.devices.needs_templates else []
    return [*templates, DEVICE_CLASSES] if engine.devices.needs_classes else [*templates]


def explained(objects: Objects, workload: Workload, settings: Settings | None) -> Explanation | None:
    from multikueue.quota.visibility.explain import explain

    return explain(_engine(objects, settings).view, workload.key, now())


def demand_by(policies: PodPolicies, workload: Workload, settings: Settings | None) -> Demand:
    """What a workload demands, as the manager counts while it waits, if pods are made by these policies."""
    from msgspec.structs import replace

    from multikueue.api.kueue.workload import WorkloadStatus
    from multikueue.quota.requests.amounts import Demand
    from multikueue.quota.visibility.differences import COUNTED

    rules: Objects = {field: [({}, each) for each in getattr(policies, field) or ()] for field in COUNTED}
    unjudged = replace(workload, status=WorkloadStatus())
    waiting = _engine({**rules, "workloads": [({}, unjudged)]}, settings).view.pending_workload(workload.key)
    return waiting.demand if waiting is not None else Demand()


def _engine(objects: Objects, settings: Settings | None) -> Engine:
    engine = _empty_engine(settings)
    for values in objects.values():
        for _, value in values:
            engine.observe(None, value, now())
    return engine


def _empty_engine(settings: Settings | None) -> Engine:
    from multikueue.quota.engine import Engine

    if settings is None:
        return Engine()
    from multikueue.manager.engine import engine_of

    return engine_of(settings.quota)


def lines(queues: Iterable[LocalQueue], workloads: Iterable[Workload]) -> dict[str, list[Workload]]:
    """The workloads that wait for quota, by ClusterQueue, in the order in which they come."""
    from multikueue.quota.workload.ordering import queue_rank

    behind = {queue.key: queue.spec.cluster_queue for queue in queues}
    found: dict[str, list[Workload]] = {}
    for each in workloads:
        if waits_for_quota(each):
            found.setdefault(behind.get(queue_of(each), ""), []).append(each)
    found.pop("", None)
    for line in found.values():
        line.sort(key=lambda each: queue_rank(each, workload_spec(each).priority))
    return found
