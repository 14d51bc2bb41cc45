"""Which jobs a list has, and each of them as a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from multikueue.cli.access.completion import clusters, queues
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.nearest import there_are
from multikueue.cli.terminal.output import Column, age, since
from multikueue.cli.workload.lookup import named, refuse_unknown

if TYPE_CHECKING:
    from multikueue.api.kueue.queues import LabelSelector
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.workload.overview import ListedJob
    from multikueue.kube.cluster_client import ClusterClient

__all__ = [
    "AGE",
    "RUN_TIME",
    "Selection",
    "SelectionOptions",
    "columns",
    "refuse_unknown_filters",
    "row",
    "selector_of",
    "with_labels",
]

NAMESPACE = Column("NAMESPACE")
RUN_TIME, AGE = Column("RUN TIME"), Column("AGE", is_wide=True)

COLUMNS = (
    Column("JOB"),
    Column("STATUS"),
    Column("WHERE"),
    RUN_TIME,
    Column("POSITION"),
    Column("REASON"),
    Column("QUEUE", is_wide=True),
    AGE,
    Column("PRIORITY", is_wide=True),
    Column("NOMINATED", is_wide=True),
    Column("ATTEMPT", is_wide=True),
    Column("WORKLOAD", is_wide=True),
    Column("MESSAGE", is_wide=True),
)
"""A column for the namespace stands before these if there are several. Six fit on a screen of 80 characters, except for the
longest reasons."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of jobs: by name, labels, queue, state and cluster."""

    names: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    queue: str = ""
    status: str = ""
    cluster: str = ""

    def is_selected(self, job: ListedJob) -> bool:
        """Whether the job passes; `of` tests the names, since an unknown name is an error."""
        on: tuple[str | None, ...] = ()
        if job.workload is not None:
            on = job.workload.status.cluster_name, *job.workload.status.nominated_cluster_names
        return (
            self._has_labels(job)
            and self.queue in ("", job.queue)
            and self.status.lower() in ("", job.answer.state.lower())
            and self.cluster in ("", *on)
        )

    def _has_labels(self, job: ListedJob) -> bool:
        """The API server does not select: what a Workload has of its job's labels is chosen by the settings."""
        if self.selector is None:
            return True
        from multikueue.quota.requests.matching import is_selected

        return is_selected(self.selector, job.labels)

    def is_named(self, job: ListedJob) -> bool:
        """Whether it has one of the names, or none is asked for."""
        return not self.names or any(is_named(job, word) for word in self.names)

    def of(self, jobs: Iterable[ListedJob], where: str) -> list[ListedJob]:
        """The selected ones. Raises CommandFailed for a name that no job or workload has."""
        jobs = list(jobs)
        for word in self.names:
            if not any(is_named(job, word) for job in jobs):
                what = f"in namespace {where}" if where else "at all"
                there = there_are(word, (job.name.removeprefix("workload/") for job in jobs))
                raise CommandFailed(f"there is no workload or job {word!r} {what}; {there}")
        return [job for job in jobs if self.is_named(job) and self.is_selected(job)]


def is_named(job: ListedJob, word: str) -> bool:
    """Whether NAME or KIND/NAME is this job or its workload."""
    if job.workload is not None:
        return bool(named([(job.item, job.workload)], word))
    kind, _, name = word.rpartition("/")
    own, _, called = job.name.partition("/")
    return name == called and kind.lower().partition(".")[0] in ("", own, f"{own}s")


def _status(text: str) -> str:
    if text and text.lower() not in map(str.lower, _states()):
        raise typer.BadParameter(f"there is no status {text!r}; {there_are(text, _states())}")
    return text


def _states() -> list[str]:
    from multikueue.answers.answer import STATES

    return list(STATES)


@dataclass(frozen=True)
class SelectionOptions:
    """The options that say which workloads are meant."""

    selector: Annotated[
        str,
        typer.Option(
            "--selector", "-l", help="Only those with these labels, of the job or its workload.", show_default=False
        ),
    ] = ""
    queue: Annotated[
        str,
        typer.Option("--queue", "-q", help="Only those of this LocalQueue.", show_default=False, autocompletion=queues),
    ] = ""
    status: Annotated[
        str,
        typer.Option(
            help="Only those in this state, such as Pending, Running or Failed.",
            show_default=False,
            callback=_status,
            autocompletion=_states,
        ),
    ] = ""
    cluster: Annotated[
        str,
        typer.Option(help="Only those that are on this cluster or may get there.", autocompletion=clusters),
    ] = ""

    def of(self, names: tuple[str, ...]) -> Selection:
        selector = selector_of(self.selector)
        return Selection(names=names, selector=selector, queue=self.queue, status=self.status, cluster=self.cluster)


def selector_of(text: str) -> LabelSelector | None:
    """The selector as kubectl takes it; None for an empty one. Raises BadParameter."""
    if not text:
        return None
    from multikueue.api.kueue.queues import LabelSelector, LabelSelectorRequirement
    from multikueue.settings.values import label_terms

    try:
        terms = label_terms(text)
    except ValueError as error:
        raise typer.BadParameter(f"-l: {error}") from error
    return LabelSelector(match_expressions=tuple(LabelSelectorRequirement(*term) for term in terms))


async def with_labels(client: ClusterClient, where: str, selector: str) -> list[str]:
    """The jobs with these labels, as names: of those that have no Workload the ones that name a queue. None for an empty
    selector."""
    from multikueue.cli.workload.overview import look_over

    if not selector:
        return []
    choice = Selection(selector=selector_of(selector))
    found = [job for job in (await look_over(client, where)).listed() if choice.is_selected(job)]
    return [
        f"workload/{job.workload.metadata.name}" if job.workload else job.name
        for job in found
        if job.workload or job.queue
    ]


async def refuse_unknown_filters(client: ClusterClient, choice: Selection, where: str) -> None:
    """Raises CommandFailed for a filter by a queue or a cluster that does not exist: nothing passes it."""
    from multikueue.api.kinds import LOCAL_QUEUES, MULTIKUEUE_CLUSTERS

    if choice.queue:
        await refuse_unknown(client, LOCAL_QUEUES, choice.queue, where)
    if choice.cluster:
        await refuse_unknown(client, MULTIKUEUE_CLUSTERS, choice.cluster)


def columns(where: str) -> tuple[Column, ...]:
    return COLUMNS if where else (NAMESPACE, *COLUMNS)


def row(job: ListedJob, where: str, moment: datetime, *, is_gone: bool = False) -> tuple[str, ...]:
    """One job as a row of `columns`."""
    told, first = job.answer, job.answer.heaviest
    return (
        *(() if where else (job.namespace,)),
        job.name,
        "Gone" if is_gone else told.state,
        told.cluster,
        _run_time(job, moment),
        str(job.position or ""),
        first.code if first else "",
        job.queue,
        age(job.created, moment),
        *_of_workload(job.workload),
        first.text if first else told.summary,
    )


def _of_workload(workload: Workload | None) -> tuple[str, str, str, str]:
    """Priority, nominated workers, attempt, name."""
    from multikueue.api.kueue.workload import workload_spec
    from multikueue.cli.workload.history import attempt

    if workload is None:
        return "", "", "", ""
    nominated = ",".join(workload.status.nominated_cluster_names)
    return str(workload_spec(workload).priority), nominated, attempt(workload), workload.metadata.name


def _run_time(job: ListedJob, moment: datetime) -> str:
    """Since it was admitted, while it runs or until it ended; empty for one that does not run."""
    from multikueue.api.kueue.workload import ADMITTED, FINISHED

    if job.workload is None or job.answer.state in ("Pending", "Starting", "Held"):
        return ""
    began, ended = job.workload.condition(ADMITTED), job.workload.condition(FINISHED)
    end = ended.last_transition_time if ended and ended.status == "True" else moment
    if began is None or began.status != "True" or began.last_transition_time is None or end is None:
        return ""
    return since(end - began.last_transition_time)
