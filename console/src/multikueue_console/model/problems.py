"""What is wrong now, the worst first, each with what helps and who may do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from multikueue.answers.answer import JobAnswer
from multikueue.answers.obstacle import ADMINISTRATOR
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import find_condition
from multikueue_console.model.clusters import ClusterRow
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.queues import LocalRow, QueueNode
from multikueue_console.model.workloads import WorkloadRow

__all__ = ["Problem", "of_clusters", "of_queues", "of_workloads"]


class Problem(msgspec.Struct, frozen=True, gc=False):
    """`level`: error or warning. `about`: what it is about as the page finds it, `cluster/NAME`, `queue/NAME`,
    `localqueue/NAMESPACE/NAME` or `code/CODE`. `count`: how many workloads have it. `commands`: what helps, as typed; `by`:
    who may run them. `namespace`: whose business it is; empty for the whole cluster's."""

    level: str
    about: str
    text: str
    commands: tuple[str, ...] = ()
    by: str = ""
    count: int = 0
    namespace: str = ""
    since: int = 0


def of_clusters(rows: Iterable[ClusterRow]) -> Iterator[Problem]:
    """Clusters that are away, with how many workloads they hold; and what the manager tells of those that are not."""
    for row in rows:
        held = row.load.starting + row.load.running
        if row.state == "Away":
            text = f"{row.name} cannot be used: {row.message}"
            commands = (f"multikueue clusters check {row.name}",)
            yield Problem("error", f"cluster/{row.name}", text, commands, ADMINISTRATOR, held, since=row.since)
        elif row.state == "Gone":
            text = f"{row.name} is no MultiKueueCluster any more, and {held} workloads are still there"
            yield Problem("error", f"cluster/{row.name}", text, count=held)
        elif row.is_cordoned:
            commands = (f"multikueue clusters uncordon {row.name}",)
            text = f"{row.name} is cordoned: it gets no new workloads"
            yield Problem("warning", f"cluster/{row.name}", text, commands, ADMINISTRATOR, held)
        if row.notes and row.state != "Away":
            commands = (f"multikueue doctor {row.name}",)
            yield Problem(
                "warning", f"cluster/{row.name}", f"{row.name}: {'; '.join(row.notes)}", commands, ADMINISTRATOR
            )


def of_queues(seen: SeenObjects, queues: Iterable[QueueNode], local: Iterable[LocalRow]) -> Iterator[Problem]:
    """Queues that admit nothing though somebody waits, or though nobody stopped them; admission checks that are not active."""
    for check in (seen.checks or {}).values():
        active = find_condition(check.status.conditions, ACTIVE)
        if active is not None and active.status == "False":
            name = check.metadata.name
            yield Problem("error", f"check/{name}", f"AdmissionCheck {name} is not active: {active.message}")
    for queue in queues:
        if queue.is_held:
            commands = (f"multikueue queues resume clusterqueue/{queue.name}",)
            text = f"ClusterQueue {queue.name} is held"
            yield Problem("warning", f"queue/{queue.name}", text, commands, ADMINISTRATOR, queue.pending)
        elif queue.problem:
            text = f"ClusterQueue {queue.name} admits nothing: {queue.problem}"
            yield Problem("error", f"queue/{queue.name}", text, count=queue.pending)
    for row in local:
        about = f"localqueue/{row.namespace}/{row.name}"
        if row.is_held:
            commands = (f"multikueue queues resume -n {row.namespace} {row.name}",)
            text = f"LocalQueue {row.namespace}/{row.name} is held"
            yield Problem("warning", about, text, commands, ADMINISTRATOR, row.pending, row.namespace)


def of_workloads(stuck: Iterable[tuple[WorkloadRow, JobAnswer, int]]) -> Iterator[Problem]:
    """Reasons that do not pass by themselves, each with the words and the repair of one of the workloads that have it, and how
    many they are."""
    for row, answer, count in stuck:
        heaviest = answer.heaviest
        repair = heaviest.repair if heaviest is not None else None
        who = row.name if count == 1 else f"{count} workloads, such as {row.name}"
        yield Problem(
            "error",
            f"code/{row.code}",
            f"{who} in {row.namespace}: {row.reason}",
            repair.commands if repair is not None else (),
            repair.by if repair is not None else "",
            count,
            row.namespace,
            row.since,
        )
