"""The story of each job of the demo, from the clusters' objects. Pure: changes of objects in, lines of text out."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed import objects
from testbed.objects import JOB, Object

__all__ = ["COLUMNS", "Line", "Story"]

MANAGER = "manager"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened to one job; `at` is in seconds since the first submission."""

    at: float
    job: str
    text: str


@dataclass(slots=True)
class Chapter:
    """The facts about one job so far."""

    admitted: dict[str, str] = field(default_factory=dict)  # worker to time, in whole seconds as Kubernetes has them
    times: dict[str, float] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    winner: str = ""


@dataclass(slots=True)
class Story:
    """Turns changes of objects into lines: feed it with `see`; `rows` is the summary."""

    chapters: dict[str, Chapter] = field(default_factory=dict)
    _jobs: dict[str, str] = field(default_factory=dict)  # by the name of the workload, which the copies share

    def submitted(self, job: str, at: float) -> Line:
        self.chapters[job] = Chapter(times={"submitted": at})
        return Line(at, job, "submitted")

    def see(self, cluster: str, change: str, body: Object, *, at: float) -> list[Line]:
        """New lines from a change of a Job or Workload in a cluster."""
        name = body["metadata"]["name"]
        if body["kind"] == JOB.kind:
            job, teller = name, self._local_job if cluster == MANAGER else self._remote_job
        else:
            job, teller = self._job_of(cluster, body), self._local if cluster == MANAGER else self._copy
        chapter = self.chapters.get(job)
        if chapter is None:
            return []
        texts = [text for text in teller(chapter, cluster, change, body) if text not in chapter.said]
        chapter.said.update(texts)
        for text in texts:
            _stamp(chapter, text, at)
        return [Line(at, job, text) for text in texts]

    def rows(self) -> list[list[str]]:
        """One row per job: where it ran, and seconds from submission to each step."""
        return [[job, chapter.winner or "-", *_times(chapter)] for job, chapter in self.chapters.items()]

    def _job_of(self, cluster: str, body: Object) -> str:
        name = body["metadata"]["name"]
        owners = body["metadata"].get("ownerReferences")
        if cluster == MANAGER and owners:
            self._jobs[name] = owners[0]["name"]
        return self._jobs.get(name, "")

    def _local(self, chapter: Chapter, _cluster: str, _change: str, body: Object) -> list[str]:
        status = body.get("status", {})
        texts = [QUEUED.format(body["metadata"]["name"])]
        reserved = objects.condition(body, "QuotaReserved")
        if reserved is not None:
            texts.append(RESERVED if reserved["status"] == "True" else f"waits in the queue: {reserved['message']}")
        if nominated := status.get("nominatedClusterNames"):
            texts.append(f"nominated: {', '.join(nominated)}")
        if won := status.get("clusterName"):
            chapter.winner = won
            texts.append(_victory(chapter, won))
        return [*texts, FINISHED] if _true(body, "Finished") else texts

    def _copy(self, chapter: Chapter, cluster: str, change: str, body: Object) -> list[str]:
        if change == "DELETED":
            why = "all is done" if COMPLETE in chapter.said else "it lost"
            return [f"{cluster}: its copy is removed, {why}"]
        texts = [f"{cluster}: a copy queues there"]
        if admitted := _true(body, "Admitted"):
            chapter.admitted.setdefault(cluster, admitted["lastTransitionTime"])
            texts.append(f"{cluster}: admitted")
        elif (reserved := objects.condition(body, "QuotaReserved")) and reserved["status"] == "False":
            texts.append(f"{cluster}: no room yet: {reserved['message']}")
        return texts

    def _local_job(self, chapter: Chapter, _cluster: str, _change: str, body: Object) -> list[str]:  # noqa: ARG002
        texts = [MARKED] if body["spec"].get("managedBy") == objects.MULTIKUEUE_CONTROLLER else []
        return [*texts, COMPLETE] if _true(body, "Complete") else texts

    def _remote_job(self, chapter: Chapter, cluster: str, change: str, body: Object) -> list[str]:  # noqa: ARG002
        if change == "DELETED":
            return [f"{cluster}: the job is removed"]
        return [] if body["spec"].get("suspend") else [f"{cluster}: {RUNS}"]


QUEUED = "queued as Workload {}"
MARKED = "suspended, and marked as MultiKueue's, by the webhook"
RESERVED = "quota reserved"
RUNS = "the job runs"
COMPLETE = "the job you submitted is Complete"
FINISHED = "its Workload is Finished"

COLUMNS = ("job", "ran on", "nominated", "runs", "complete", "clean")
STEPS = {"nominated": "nominated:", "runs": RUNS, "complete": COMPLETE, "clean": "removed"}
"""Columns of the summary, each with words of its line; for `clean` the last such line counts."""


def _victory(chapter: Chapter, winner: str) -> str:
    """The manager compares admissions by their times; of equal ones it takes the one it saw, or the one named first."""
    when = chapter.admitted.get(winner)
    ties = [cluster for cluster, at in chapter.admitted.items() if at == when and cluster != winner]
    also = f", in the same second as {' and '.join(ties)}" if ties else ""
    return f"{winner} won: admitted first{also}"


def _true(body: Object, name: str) -> Object | None:
    found = objects.condition(body, name)
    return found if found is not None and found["status"] == "True" else None


def _stamp(chapter: Chapter, text: str, at: float) -> None:
    for step, words in STEPS.items():
        if words in text and (step == "clean" or step not in chapter.times):
            chapter.times[step] = at


def _times(chapter: Chapter) -> list[str]:
    began = chapter.times["submitted"]
    return [f"{chapter.times[step] - began:.2f} s" if step in chapter.times else "-" for step in STEPS]
