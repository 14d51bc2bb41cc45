"""What the strategy of a job thinks of each worker: as the manager says, and before there is a job."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from multikueue.cli.access.connection import now
from multikueue.cli.terminal.output import Column

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.multikueue.clusters import MultiKueueCluster
    from multikueue.cli.workload.seen import Tree
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.settings import Settings
    from multikueue.strategy import Fleet, Worker
    from multikueue.workload.nomination.choice import ExplainedChoice, WorkerChoice

__all__ = ["CHOICES", "choice_row", "foreseen_choice"]

CHOICES = (Column("WORKER"), Column("COPY"), Column("TOTAL"), Column("WHY"))


def choice_row(found: WorkerChoice) -> tuple[str, ...]:
    total = "" if found.total is None or found.refused else f"{found.total:.2f}"
    return (found.worker, "yes" if found.nominated else "", total, found.words)


async def foreseen_choice(
    client: ClusterClient, workload: Workload, job: Tree, settings: Settings | None
) -> ExplainedChoice | None:
    """The choice for a workload that was not submitted, by what the objects of the manager cluster say: states, labels and
    prices. Parts that read room, waits or spend know nothing yet and say so. None where no workers are behind its queue, or no
    strategy is known: without `settings` only that of the AdmissionCheck is.

    Raises Forbidden where queues, checks or clusters may not be listed.
    """
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
    from multikueue.api.kueue.workload import queue_of
    from multikueue.api.multikueue.strategies import strategy_of
    from multikueue.errors import ConfigurationError
    from multikueue.registration.preflight import routes
    from multikueue.strategy import Fleet
    from multikueue.workload.nomination.choice import ExplainedChoice

    way = await routes(client)
    queue = way.behind(queue_of(workload))
    check = way.check_of(queue) if queue is not None else None
    if queue is None or check is None:
        return None
    known = {each.metadata.name: each for each in (await client.list(MULTIKUEUE_CLUSTERS)).items}
    fleet = Fleet(
        workers=tuple(_worker(known[name]) for name in way.clusters_of(queue) or () if name in known), now=now()
    )
    name = ""
    try:
        named = strategy_of(check)
        if named is None and settings is not None:
            named = settings.dispatch.strategy.name, settings.dispatch.strategy.options
        if named is None:
            return None
        name, options = named
        return _chosen(name, options, _told(workload, job, queue.metadata.name, settings), fleet)
    except ConfigurationError as error:
        return ExplainedChoice(strategy=name, problem=str(error))


def _chosen(name: str, options: Any, workload: Any, fleet: Fleet) -> ExplainedChoice:
    from dataclasses import replace

    from multikueue import registry
    from multikueue.errors import StrategyError
    from multikueue.workload.nomination.choice import ExplainedChoice, choice
    from multikueue.workload.strategy_call import PLACEMENTS, call_strategy, explain_strategy

    strategy = registry.load(name, options)
    if PLACEMENTS in registry.reads(strategy):
        return ExplainedChoice(
            strategy=name, problem="it follows a Placement, which the manager reads once there is a job"
        )
    try:
        first = call_strategy(strategy, workload, fleet)
        opinions = explain_strategy(strategy, workload, fleet)
    except StrategyError as error:
        return ExplainedChoice(strategy=name, problem=str(error))
    asked = replace(workload, nominated_clusters=first.clusters, told=first.reason)
    return choice(name, asked, fleet, opinions, registry.part_name)


def _told(workload: Workload, job: Tree, cluster_queue: str, settings: Settings | None) -> Any:
    """The workload as a strategy sees it with its first reservation."""
    from multikueue.api.kueue.workload import workload_spec
    from multikueue.cli.workload.explanation import demand_by
    from multikueue.quota.visibility.differences import PodPolicies
    from multikueue.strategy import Workload as Told

    requests = Counter[str]()
    for each in demand_by(PodPolicies(), workload, settings).pod_sets:
        requests.update(each.requests)
    meta, spec = workload.metadata, workload_spec(workload)
    annotations: dict[str, str] = job.get("metadata", {}).get("annotations") or {}
    return Told(
        namespace=meta.namespace,
        name=meta.name,
        queue=spec.queue_name,
        cluster_queue=cluster_queue,
        priority=spec.priority,
        labels=meta.labels,
        annotations={**annotations, **meta.annotations},
        requests=requests,
        created_at=meta.creation_timestamp,
        reserved_at=now(),
    )


def _worker(cluster: MultiKueueCluster) -> Worker:
    from multikueue.api.kueue.admission_checks import ACTIVE
    from multikueue.api.meta import find_condition
    from multikueue.api.multikueue.clusters import prices_of, why_cordoned
    from multikueue.strategy import Worker

    meta, active = cluster.metadata, find_condition(cluster.status.conditions, ACTIVE)
    why = why_cordoned(cluster)
    if not why and (active is None or active.status != "True"):
        why = f"not connected ({active.message})" if active is not None and active.message else "not connected"
    return Worker(
        name=meta.name,
        usable=not why,
        why=why,
        labels=meta.labels,
        annotations=meta.annotations,
        prices=prices_of(cluster),
    )
