"""The visible state of a world: counts and times, from the changes of its objects alone. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping

from fakekube.model.wire import Object
from multikueue.api.kueue.workload import ORIGIN_LABEL, QUEUE_LABEL, SLICE_REPLACED
from multikueue.api.values.quantity import NANO, parse
from multikueue_simulator.demo.board import words
from multikueue_simulator.demo.board.courses import Course, Moment, Stand
from multikueue_simulator.world.world import MANAGER

__all__ = ["Board"]

MEMORY = 200
"""The number of moments that are kept."""

NEWS_SECONDS = 6.0
"""How long an act is news."""


class Board:
    """Counts and times of a world, from each change of an object (`see`). Workers have the names of their hosts."""

    def __init__(self, queues: Iterable[str], workers: Mapping[str, int]) -> None:
        self.queues = tuple(queues)
        self.stands = {name: Stand(cpu) for name, cpu in workers.items()}
        self.courses: dict[str, Course] = {}
        self.moments: deque[Moment] = deque(maxlen=MEMORY)
        self.noted = 0
        """How many moments there have been."""
        self.act, self._acted_at = "", 0.0
        self._jobs: dict[str, str] = {}  # by the workload's name, which its copies share
        self._begun: set[str] = set()  # UIDs of the remote jobs that have started

    # Input.

    def note(self, at: float, text: str, style: str = "") -> None:
        self.moments.append(Moment(at, text, style))
        self.noted += 1

    def announce(self, at: float, text: str) -> None:
        """Announce the next act."""
        self.act, self._acted_at = text, at
        self.note(at, text, "bold yellow")

    def headline(self, at: float) -> str:
        """The act while it is news: what it foretells has happened soon after it."""
        return self.act if at - self._acted_at <= NEWS_SECONDS else ""

    def see(self, site: str, change: str, body: Object, at: float) -> None:
        """Process a change of an object: ADDED, MODIFIED or DELETED."""
        match site == MANAGER, body["kind"]:
            case True, "Job":
                self._local_job(change, body, at)
            case True, "Workload":
                self._local_workload(change, body, at)
            case True, "MultiKueueCluster":
                self._cluster(body, at)
            case False, "Workload":
                self._copy(self.stands[site], site, change, body)
            case False, "Job":
                self._remote_job(change, body, at)

    def _local_job(self, change: str, body: Object, at: float) -> None:
        name = body["metadata"]["name"]
        if change == "ADDED":
            labels = body["metadata"].get("labels") or {}
            self.courses[name] = Course(labels.get(QUEUE_LABEL, ""), at)
        course = self.courses[name]
        if course.finished is None and change == "DELETED":
            course.finished = at
            self.note(at, f"somebody deletes {name}")
        elif course.finished is None and (end := _end(body)):
            course.finished, course.failed = at, end == "Failed"

    def _local_workload(self, change: str, body: Object, at: float) -> None:
        name = body["metadata"]["name"]
        owners = body["metadata"].get("ownerReferences")
        if owners:
            self._jobs[name] = owners[0]["name"]
        course = self.courses.get(self._jobs.get(name, ""))
        if course is None or change == "DELETED":
            return
        self._reservation(name, course, body.get("status") or {}, at)

    def _reservation(self, name: str, course: Course, status: Object, at: float) -> None:
        """A workload of a job has quota or not, and a winner or not."""
        job = self._jobs[name]
        course.retry = _retry(status) or course.retry
        if _reason(status, "Finished") == SLICE_REPLACED:
            course.holding.discard(name)
            course.places.pop(name, None)
        elif _is_true(status, "QuotaReserved"):
            course.holding.add(name)
            course.places[name] = status.get("clusterName", "")
        elif name in course.holding and course.finished is None:
            course.holding.discard(name)
            course.places.pop(name, None)
            self._evicted(job, course, status, at)
        self._winner(job, course, next(filter(None, course.places.values()), ""), at)

    def _evicted(self, job: str, course: Course, status: Object, at: float) -> None:
        course.evictions += 1
        course.left = at
        course.raced.clear()
        lost, course.retry = "remote lost" in course.retry, ""
        reason, message = _reason(status, "Evicted"), _message(status, "Evicted")
        self.note(at, words.evicted(job, course, lost=lost, reason=reason, message=message), "red")

    def _winner(self, job: str, course: Course, winner: str, at: float) -> None:
        if winner == course.winner:
            return
        course.winner = winner
        if not winner:
            course.won = None
            return
        course.won = at
        self.stands[winner].won += 1
        losers = sorted(course.raced - {winner})
        for loser in losers:
            self.stands[loser].lost += 1
        self.note(at, words.won(job, course, at, losers), "green" if course.left is not None else "")
        course.last = winner

    def _cluster(self, body: Object, at: float) -> None:
        stand = self.stands.get(body["metadata"]["name"])
        status = body.get("status") or {}
        if stand is None or not status.get("conditions"):
            return
        reachable = _is_true(status, "Active")
        if reachable is stand.reachable:
            return
        stand.reachable = reachable
        name = body["metadata"]["name"]
        if reachable:
            self.note(at, words.back(name), "green")
        else:
            self.note(at, words.gone(name, _message(status, "Active")), "red")

    def _copy(self, stand: Stand, site: str, change: str, body: Object) -> None:
        name, gone = body["metadata"]["name"], change == "DELETED"
        ours = ORIGIN_LABEL in (body["metadata"].get("labels") or {})
        status = body.get("status") or {}
        holds = not gone and _is_true(status, "QuotaReserved") and not _is_true(status, "Finished")
        books = stand.used if ours else stand.others
        if holds:
            books[name] = _cpu(status)
        else:
            books.pop(name, None)
        course = self.courses.get(self._jobs.get(name, "")) if ours else None
        if course is None:
            return
        if gone:
            course.copies.discard(site)
        else:
            course.copies.add(site)
            course.raced.add(site)

    def _remote_job(self, change: str, body: Object, at: float) -> None:
        course = self.courses.get(body["metadata"]["name"])
        labels = body["metadata"].get("labels") or {}
        if course is None or ORIGIN_LABEL not in labels or change == "DELETED":
            return
        began = (body.get("status") or {}).get("startTime")
        uid = body["metadata"]["uid"]
        if began and uid not in self._begun:
            self._begun.add(uid)
            course.starts += 1
            course.started = at if course.started is None else course.started

    # Output.

    @property
    def finished(self) -> int:
        return sum(course.finished is not None for course in self.courses.values())

    @property
    def failed(self) -> int:
        return sum(course.failed for course in self.courses.values())

    @property
    def repeated(self) -> int:
        """The jobs that ran once more than they had to."""
        return sum(course.is_repeated for course in self.courses.values())

    def is_over(self, jobs: int) -> bool:
        """Whether `jobs` jobs were submitted and all have finished."""
        return len(self.courses) >= jobs and self.finished == len(self.courses)

    def counts(self, queue: str) -> Counter[str]:
        """The jobs of a queue by stage; running jobs by worker."""
        found: Counter[str] = Counter()
        for course in self.courses.values():
            if course.queue == queue:
                found[course.winner if course.stage == "running" else course.stage] += 1
        return found

    def running(self, worker: str) -> int:
        return sum(course.stage == "running" and course.winner == worker for course in self.courses.values())

    def racing(self, worker: str) -> int:
        return sum(course.stage == "racing" and worker in course.copies for course in self.courses.values())

    def rate(self, at: float, *, over: float = 10.0) -> float:
        """Jobs per second that got a winner in the last `over` seconds."""
        span = min(over, at)
        won = sum(course.won is not None and course.won > at - span for course in self.courses.values())
        return won / span if span > 0 else 0.0

    def waits(self) -> list[float]:
        """Seconds from submission to the first start, sorted, of all started jobs."""
        return sorted(c.started - c.submitted for c in self.courses.values() if c.started is not None)


def _conditions(status: Object) -> Iterable[Object]:
    return status.get("conditions") or ()


def _is_true(status: Object, type_: str) -> bool:
    return any(each["type"] == type_ and each["status"] == "True" for each in _conditions(status))


def _retry(status: Object) -> str:
    """Why our check wants the workload to be evicted; empty if it does not."""
    checks = status.get("admissionChecks") or ()
    return next((each.get("message", "") for each in checks if each.get("state") == "Retry"), "")


def _reason(status: Object, type_: str) -> str:
    found = (each for each in _conditions(status) if each["type"] == type_ and each["status"] == "True")
    return next((each.get("reason", "") for each in found), "")


def _message(status: Object, type_: str) -> str:
    return next((each.get("message", "") for each in _conditions(status) if each["type"] == type_), "")


def _end(job: Object) -> str:
    status = job.get("status") or {}
    return next((type_ for type_ in ("Complete", "Failed") if _is_true(status, type_)), "")


def _cpu(status: Object) -> float:
    assignments = (status.get("admission") or {}).get("podSetAssignments") or ()
    usages = [(each.get("resourceUsage") or {}).get("cpu", "0") for each in assignments]
    return sum(parse(usage) for usage in usages) / NANO
