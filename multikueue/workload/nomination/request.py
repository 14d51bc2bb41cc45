"""The request for a nomination: the input of a strategy, while the workload waits for a worker to admit a copy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from multikueue import strategy as contract
from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import (
    FAILED_ON,
    NOMINATED,
    QUOTA_RESERVED,
    Workload,
    any_owner_of,
    granted,
    workload_spec,
)
from multikueue.api.meta import render_time
from multikueue.workload.case import MAX_NOMINATED, Case
from multikueue.workload.strategy_call import NominationRequest

__all__ = ["failure_note", "failures", "may_be_on", "nominated_before", "nomination_request", "usable"]

_MAX_FAILURES = 20
_AT = " at "


def nomination_request(case: Case, job: AnyJob | None = None) -> NominationRequest:
    """The strategy's input for a workload that waits for a worker. People annotate what they write: the annotations of its
    job are shown, too."""
    return NominationRequest(_workload(case, job), contract.Fleet(workers=case.shown.workers, now=case.now))


def nominated_before(case: Case) -> tuple[str, ...]:
    """The present nomination in full: the recorded names; if the status is full, those of strategy and copies too."""
    assert case.workload is not None
    recorded = case.workload.status.nominated_cluster_names
    if len(recorded) < MAX_NOMINATED:
        return recorded
    answered = case.nomination.clusters if case.nomination else ()
    holding = (r.cluster for r in case.remotes if r.is_configured and case.is_current(r.workload))
    return tuple(dict.fromkeys((*recorded, *answered, *holding)))


def usable(case: Case) -> tuple[str, ...]:
    """The workers usable for the workload now."""
    return case.shown.usable


def failures(text: str) -> dict[str, datetime]:
    """When earlier attempts ended, by cluster, parsed from the text of `failure_note`. Other text is ignored."""
    found: dict[str, datetime] = {}
    for part in text.split(";", _MAX_FAILURES)[:_MAX_FAILURES]:
        cluster, _, when = part.strip().rpartition(_AT)
        at = _time(when)
        if cluster and at is not None:
            found[cluster] = at
    return found


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def may_be_on(local: Workload, cluster: str) -> bool:
    """Whether a workload may have left something on a cluster, by its status: it won or is nominated there, or an
    attempt ended there, while no other cluster has won since."""
    status, failed = local.status, local.condition(FAILED_ON)
    if status.cluster_name:
        return status.cluster_name == cluster
    named = status.nominated_cluster_names
    return (
        cluster in named or len(named) == MAX_NOMINATED or (failed is not None and cluster in failures(failed.message))
    )


def failure_note(known: Mapping[str, datetime], cluster: str, now: datetime) -> str:
    """The message of a FailedOn condition: `w2 at 2026-01-01T12:00:00Z; w1 at …`, the latest first, 20 at most."""
    latest = {cluster: now} | {name: at for name, at in known.items() if name != cluster}
    return "; ".join(f"{name}{_AT}{render_time(at)}" for name, at in list(latest.items())[:_MAX_FAILURES])


def _workload(case: Case, job: AnyJob | None) -> contract.Workload:
    local = case.workload
    assert local is not None
    spec = workload_spec(local)
    admission = local.status.admission
    reserved, nominated = local.condition(QUOTA_RESERVED), local.condition(NOMINATED)
    failed = local.condition(FAILED_ON)
    own, jobs = local.metadata.annotations, job.metadata.annotations if job is not None else {}
    owner, clusters = any_owner_of(local), nominated_before(case)
    return contract.Workload(
        namespace=local.metadata.namespace,
        name=local.metadata.name,
        kind=owner.kind if owner is not None else "",
        queue=spec.queue_name,
        cluster_queue=admission.cluster_queue if admission else "",
        priority=spec.priority,
        labels=local.metadata.labels,
        annotations={**jobs, **own} if jobs else own,
        requests=granted(local),
        created_at=local.metadata.creation_timestamp,
        reserved_at=reserved.last_transition_time if reserved else None,
        nominated_clusters=clusters,
        nominated_at=nominated.last_transition_time if nominated and clusters else None,
        told=nominated.message if nominated and clusters else "",
        failed_on=failures(failed.message) if failed else {},
    )
