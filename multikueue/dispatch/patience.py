"""How long a workload may keep quota without a worker: others may go first then, and it is tried again after its back-off."""

from __future__ import annotations

from datetime import datetime, timedelta

from multikueue.api.workload import NOMINATED, QUOTA_RESERVED
from multikueue.dispatch.group import Group
from multikueue.strategy import Strategy

__all__ = ["gives_up_at", "gives_up_for", "patience_of"]


def patience_of(strategy: Strategy | None, default: timedelta | None) -> timedelta | None:
    """That of the strategy's option `give_back_after`, if it has one that is set."""
    own = getattr(strategy, "give_back_after", None)
    return own if isinstance(own, timedelta) and own > timedelta() else default


def gives_up_at(group: Group) -> datetime | None:
    """When its quota goes back if no worker has admitted it by then; None: never.

    A strategy that wants to be asked again has more to come, or gives back by itself. Else the time runs since the newest
    worker was named, or since the last thing that came before it: quota, and the other checks.
    """
    local, nomination = group.local, group.answer.nomination if group.answer is not None else None
    if group.patience is None or local is None or group.slice.stays:
        return None
    if nomination is not None and nomination.revisit_after is not None:
        return None
    told = (local.condition(type_) for type_ in (QUOTA_RESERVED, NOMINATED))
    others = (check for check in local.status.admission_checks if check.name != group.check)
    since = [each.last_transition_time for each in (*told, *others) if each is not None and each.last_transition_time]
    return max(since) + group.patience if since else None


def gives_up_for(group: Group) -> str:
    """Why, in words."""
    return f"No worker admitted it within {group.patience}"
