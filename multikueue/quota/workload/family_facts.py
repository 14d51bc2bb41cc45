"""What a step of a parent, or of a variant, has to know of the rest of its family (KEP 8691)."""

from __future__ import annotations

from msgspec.structs import replace

from multikueue.api.kueue.workload import FINISHED, PODS_READY, QUOTA_RESERVED, Finish, Workload
from multikueue.quota.workload.family import Family, admission_of, gate_to_open, holder, loss_of
from multikueue.quota.workload.lifecycle import Facts, VariantFacts

__all__ = ["of_parent", "of_variant"]


def of_parent(facts: Facts, family: Family) -> Facts:
    """No cycle looks at a parent: it has the quota of its variant, for as long as the variant has it."""
    scheduling = replace(
        facts.scheduling,
        reservation=admission_of(family),
        loss=loss_of(family),
        verdict=None,
        misconfiguration="",
    )
    return replace(facts, scheduling=scheduling)


def of_variant(facts: Facts, variant: Workload, family: Family | None) -> Facts:
    """A variant has no job: it keeps its quota while its parent has it, and ends with its parent. Without a family its parent
    is gone, and so will it be."""
    parent = family.parent if family is not None else None
    end = parent.condition(FINISHED) if parent is not None and parent.has(FINISHED) else None
    held = holder(family) if family is not None else None
    is_holder = parent is not None and parent.has(QUOTA_RESERVED) and held is not None and held.key == variant.key
    job = replace(
        facts.job,
        job_finished=Finish(reason=end.reason, message=end.message) if end is not None else None,
        is_holding=is_holder,
        is_run_by_others=False,
        reclaimable=parent.status.reclaimable_pods if parent is not None and is_holder else (),
    )
    opened, again_after = gate_to_open(family, facts.now) if family is not None else (None, None)
    own = VariantFacts(
        opens_gate=opened is not None and opened.key == variant.key,
        gates_again_after=again_after,
        pods_ready=parent.condition(PODS_READY) if parent is not None and is_holder else None,
    )
    return replace(facts, job=job, variant=own, wait_for_pods_ready=None)
