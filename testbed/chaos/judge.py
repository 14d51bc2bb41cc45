"""What must never happen, whatever fails: told from what the API servers showed. Pure.

All control planes of a testbed write into one etcd, so resource versions tell what came before what on all of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from testbed.chaos.schedule import CLUSTERS
from testbed.objects import Object, condition

__all__ = ["GRACE_SECONDS", "Closed", "Glimpse", "Judgement", "Term", "glimpse", "judge", "longest_way"]

MANAGER = CLUSTERS[0]
LOST = re.compile(r'worker cluster "([^"]+)" is out of reach for too long')
PREEMPTED = "Preempted"

GRACE_SECONDS = 15.0
"""Who could reach a worker for so long without a break must have noticed, on a busy machine, too."""

ENDS = ("Complete", "Completed", "Failed")


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A Job, JobSet or Workload after one write. `at` is in seconds of the run, `name` the job's.

    Of a local Workload: its winner, the number of its evictions, and the words of the last one.
    """

    at: float
    revision: int
    cluster: str
    kind: str
    name: str
    uid: str
    gone: bool = False
    runs: bool = False
    finished: bool = False
    winner: str = ""
    evictions: int = 0
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Closed:
    """A way from a replica to a cluster that was closed for a time; an empty word means all of them."""

    replica: str
    cluster: str
    since: float
    until: float = float("inf")


@dataclass(frozen=True, slots=True)
class Term:
    """From this second on a replica leads; nobody does, if it is empty."""

    since: float
    replica: str


@dataclass(slots=True)
class Judgement:
    """`complaints` in words; `starts` of jobs, jobs over on the manager cluster, and evictions by cause."""

    complaints: list[str] = field(default_factory=list)
    starts: int = 0
    over: set[str] = field(default_factory=set)
    evictions: Counter[str] = field(default_factory=Counter)


def glimpse(at: float, cluster: str, kind: str, change: str, body: Object) -> Glimpse | None:
    """What a change of an object shows; None for a Workload of no job."""
    meta, status = body["metadata"], body.get("status", {})
    seen = Glimpse(at, int(meta["resourceVersion"]), cluster, kind, meta["name"], meta["uid"], change == "DELETED")
    if kind != "Workload":
        finished = any(_is_true(body, end) for end in ENDS)
        return replace(seen, finished=finished, runs=not finished and not body["spec"].get("suspend"))
    owner = next((each["name"] for each in meta.get("ownerReferences") or []), "")
    if not owner:
        return None
    evicted = condition(body, "Evicted") or {}
    counts = (status.get("schedulingStats") or {}).get("evictions") or []
    return replace(
        seen,
        name=owner,
        finished=_is_true(body, "Finished"),
        winner=status.get("clusterName") or "",
        evictions=sum(each["count"] for each in counts),
        reason=evicted.get("reason", ""),
        message=evicted.get("message", ""),
    )


def judge(story: Iterable[Glimpse], closed: Sequence[Closed], terms: Sequence[Term], *, lost_after: float) -> Judgement:
    """What was wrong in a run. `lost_after` is `dispatch.worker_lost_timeout` in seconds."""
    result = Judgement()

    def reached(worker: str, at: float) -> list[str]:
        return _in_reach(worker, at, closed, terms, lost_after)

    lives: defaultdict[str, _Life] = defaultdict(lambda: _Life(reached))
    for seen in sorted(story, key=lambda each: each.revision):
        life = lives[seen.name]
        if seen.cluster != MANAGER:
            said = life.remote(seen)
        elif seen.kind == "Workload":
            said = life.local(seen, result.evictions)
        else:
            said = []
            if seen.finished:
                result.over.add(seen.name)
        result.complaints += [f"{seen.at:7.1f} s  {seen.name}: {each}" for each in said]
    result.starts = sum(len(life.starts) for life in lives.values())
    return result


@dataclass(slots=True)
class _Start:
    """A job that a worker was allowed to run."""

    worker: str
    revision: int
    is_there: bool = True
    is_over: bool = False


@dataclass(slots=True)
class _Life:
    """One job on all clusters. `reached` says whether a leader could reach a worker shortly before a second of the run."""

    reached: Callable[[str, float], list[str]]
    starts: dict[str, _Start] = field(default_factory=dict)
    evicted: list[int] = field(default_factory=list)
    released: list[tuple[int, float]] = field(default_factory=list)
    """When quota was given back, which waits for what runs: revision and second. Until then the winner stays recorded."""
    winner: str = ""
    evictions: int = 0
    is_over: bool = False

    def local(self, seen: Glimpse, causes: Counter[str]) -> list[str]:
        said = []
        if seen.evictions > self.evictions:
            self.evicted.append(seen.revision)
            if found := LOST.search(seen.message):
                causes["with a lost worker"] += 1
                said += self.reached(found[1], seen.at)
            elif seen.reason == PREEMPTED:
                causes["preempted"] += 1
            else:
                causes["without need"] += 1
                said.append(f"evicted without need: {seen.reason}: {seen.message}")
        if self.winner and not seen.winner:
            self.released.append((seen.revision, seen.at))
        self.winner = seen.winner
        self.evictions = max(self.evictions, seen.evictions)
        self.is_over |= seen.finished and not seen.gone
        return said

    def remote(self, seen: Glimpse) -> list[str]:
        start = self.starts.get(seen.uid)
        if seen.gone:
            return self._removed(start, seen) if start is not None else []
        if start is None and seen.runs:
            said = self._started(seen)
            self.starts[seen.uid] = _Start(seen.cluster, seen.revision)
            return said
        if start is not None:
            start.is_over |= seen.finished
        return []

    def _started(self, seen: Glimpse) -> list[str]:
        said = [f"started on {seen.cluster} after it was over"] if self.is_over else []
        for other in self.starts.values():
            if not any(revision > other.revision for revision in self.evicted):
                said.append(f"started on {seen.cluster}, and was not evicted since its start on {other.worker}")
            elif self._was_lost(other):
                continue  # it may run twice: the price of `worker_lost_timeout`
            elif other.is_over:
                said.append(f"started on {seen.cluster} after it had finished on {other.worker}")
            elif other.is_there:
                said.append(f"started on {seen.cluster} while it ran on {other.worker}")
        return said

    def _was_lost(self, start: _Start) -> bool:
        """Whether its worker was lost when quota was given back, whatever the eviction was for."""
        later = [at for revision, at in self.released if revision > start.revision]
        return bool(later) and not self.reached(start.worker, later[0])

    def _removed(self, start: _Start, seen: Glimpse) -> list[str]:
        start.is_there = False
        if start.is_over or self.is_over or any(revision > start.revision for revision in self.evicted):
            return []
        return [f"removed from {seen.cluster} while it ran there, and was not evicted"]


def _in_reach(worker: str, at: float, closed: Sequence[Closed], terms: Sequence[Term], lost_after: float) -> list[str]:
    """Whether a leader could reach a worker shortly before that second, in which it counted as lost.

    The present leader, in all the time that counts; the one before, until the present one took over, for that one counts
    the loss from then on if nothing was written down.
    """
    past = [term for term in terms if term.since <= at]
    if not past:
        return []
    now, before = past[-1], past[-2] if len(past) > 1 else None
    spans = [(now.replica, max(at - lost_after, now.since), at)]
    if before is not None and now.since > at - lost_after:
        spans.append((before.replica, max(now.since - GRACE_SECONDS - 1, before.since), now.since))
    return [
        f"{worker} was given up as lost, which {replica} could reach from {way[0]:.1f} to {way[1]:.1f} s"
        for replica, since, until in spans
        if (way := longest_way(closed, replica, worker, since, until))[1] - way[0] >= GRACE_SECONDS
    ]


def longest_way(
    closed: Sequence[Closed], replica: str, cluster: str, since: float, until: float
) -> tuple[float, float]:
    """The longest time in that span, from and to, in which nothing closed the way from the replica to the cluster."""
    ours = sorted(
        (each.since, each.until)
        for each in closed
        if each.replica in ("", replica) and each.cluster in ("", cluster) and each.until > since and each.since < until
    )
    best, at = (since, since), since
    for begin, end in [*ours, (until, until)]:
        best = max(best, (at, begin), key=lambda way: way[1] - way[0])
        at = max(at, end)
    return best


def _is_true(body: Object, name: str) -> bool:
    found: Mapping[str, str] | None = condition(body, name)
    return found is not None and found["status"] == "True"
