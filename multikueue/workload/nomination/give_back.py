"""How long a workload may keep quota without a worker. Then it is evicted, to let others go first, and requeued."""

from __future__ import annotations

from datetime import datetime, timedelta

from multikueue.api.kueue.workload import NOMINATED, QUOTA_RESERVED
from multikueue.strategy import Strategy
from multikueue.workload.case import Case

__all__ = ["give_back_after_of", "give_back_at", "give_back_message"]


def give_back_after_of(strategy: Strategy | None, default: timedelta | None) -> timedelta | None:
    """The strategy's option `give_back_after`, if it has one that is set; else the default."""
    own = getattr(strategy, "give_back_after", None)
    return own if isinstance(own, timedelta) and own > timedelta() else default


def give_back_at(case: Case) -> datetime | None:
    """When its quota is given back if no worker has admitted it by then; None: never.

    A strategy that wants to be called again has more to nominate, or gives back by itself. Otherwise the time counts
    from the latest of three events: the reservation of quota, the nomination, and a change of another check. A time that
    is still to come by our clock is not believed as long as there is another one.
    """
    local, nomination = case.workload, case.nomination
    if case.give_back_after is None or local is None or case.slice.stays:
        return None
    if nomination is not None and nomination.revisit_after is not None:
        return None
    told = (local.condition(type_) for type_ in (QUOTA_RESERVED, NOMINATED))
    others = (check for check in local.status.admission_checks if check.name != case.check)
    since = [each.last_transition_time for each in (*told, *others) if each is not None and each.last_transition_time]
    past = [each for each in since if each <= case.now]
    return max(past or since) + case.give_back_after if since else None


def give_back_message(case: Case) -> str:
    """The message of the eviction."""
    return f"No worker admitted it within {case.give_back_after}"
