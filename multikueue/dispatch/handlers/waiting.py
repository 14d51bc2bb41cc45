"""Phases in which no copy is made yet, or none ever: no quota, another check not ready, an undispatchable job."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from multikueue.api.event import Event
from multikueue.api.workload import ADMITTED, EVICTED, without_nomination
from multikueue.dispatch.group import words
from multikueue.dispatch.group.phases import View
from multikueue.dispatch.handlers.outcome import Outcome, unchanged, with_check
from multikueue.dispatch.handlers.removal import removals


def unreserved(v: View) -> Outcome:
    """Without quota, clear nominations and `clusterName`: a stale name would block the next winner (CX-17)."""
    status = msgspec.structs.replace(without_nomination(v.local.status), cluster_name=None)
    return replace(waiting(v), status=status)


def waiting(v: View) -> Outcome:
    """Remove the workload from all workers, except that a slice not yet admitted leaves the job of the slice before it
    running. An evicted slice has no such job to keep."""
    keeps = v.group.slice.elastic and not v.local.has(EVICTED) and not v.local.has(ADMITTED)
    inherited = tuple(r.cluster for r in v.group.remotes if r.job_state.inherited) if keeps else ()
    return unchanged(v, desired=removals(inherited, v.group.remotes))


def undispatchable(v: View) -> Outcome:
    status = with_check(v, "Rejected", words.with_state_before(v.group, v.group.problem))
    return replace(unchanged(v), status=status, events=(Event("Warning", "MultiKueue", v.group.problem),))
