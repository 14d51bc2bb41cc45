"""A fleet to look at: two queues of a cohort, two clusters, and workloads in several states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.workload import PodSetRequest, Workload
from multikueue.api.meta import ObjectKey
from multikueue.testing import NOW
from multikueue_console.model.lines import lines_of, places_in
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.stories import Story, story_of
from multikueue_console.model.tallies import Tally
from multikueue_console.model.workloads import Observer, WorkloadRow
from tests.builders.clusters import multikueue_cluster
from tests.builders.queues import cluster_queue, limits, local_queue
from tests.builders.workloads import workload

__all__ = ["FixedFleet", "a_fleet"]

LATER = NOW + timedelta(minutes=90)


class FixedFleet:
    """What was seen at one moment; `show` adds a workload."""

    def __init__(self, seen: SeenObjects) -> None:
        self.seen, self.version = seen, 1
        self.health: Mapping[str, str] = {}

    def show(self, *workloads: Workload) -> None:
        self.seen.workloads = {**self.seen.workloads, **{each.key: each for each in workloads}}
        self.version += 1

    @property
    def feed(self) -> Iterable[WorkloadRow]:
        observer = Observer(self.seen, self.now())
        return [observer.row(each) for each in self.seen.workloads.values()]

    @property
    def tallies(self) -> Mapping[str, Tally]:
        return {"all": Tally(self.feed)}

    def now(self) -> datetime:
        return LATER

    def line(self, cluster_queue: str) -> tuple[ObjectKey, ...]:
        return lines_of(self.seen).get(cluster_queue, ())

    def place(self, row: WorkloadRow) -> int:
        return places_in(self.line(row.cluster_queue)).get(ObjectKey(row.namespace, row.workload), 0)

    def story(self, key: ObjectKey) -> Story | None:
        found = self.seen.workloads.get(key)
        if found is None:
            return None
        observer = Observer(self.seen, self.now())
        row = observer.row(found)
        line = len(self.line(row.cluster_queue))
        return story_of(found, row, observer.answer(found), place=self.place(row), line=line)


def a_fleet() -> FixedFleet:
    queues = [
        cluster_queue("research").cohort("all").quota("a100", {"nvidia.com/gpu": limits(8)}).active().build(),
        cluster_queue("product").cohort("all").quota("a100", {"nvidia.com/gpu": limits(4)}).stopped().build(),
    ]
    locals_ = [
        local_queue("train", "research", namespace="team-a").build(),
        local_queue("serve", "product", namespace="team-b").build(),
    ]
    clusters = [multikueue_cluster("east").build(), multikueue_cluster("west").build()]
    fleet = FixedFleet(
        SeenObjects(
            cluster_queues={each.key: each for each in queues},
            local_queues={each.key: each for each in locals_},
            clusters={each.key: each for each in clusters},
            cohorts={},
            checks={},
            configs={},
        )
    )
    gpus = {"nvidia.com/gpu": 4}
    fleet.show(
        *(_waiting(f"llama-{number}", NOW + timedelta(minutes=number)) for number in range(3)),
        workload("bert", namespace="team-a")
        .queue("train")
        .owner_job("bert")
        .request(gpus)
        .created(NOW)
        .reserved("research", flavors={"nvidia.com/gpu": "a100"}, at=NOW + timedelta(minutes=2))
        .cluster_name("east")
        .admitted(at=NOW + timedelta(minutes=3))
        .build(),
        workload("eval", namespace="team-b")
        .queue("serve")
        .owner_job("eval")
        .created(NOW)
        .cluster_name("west")
        .admitted(at=NOW)
        .finished(at=NOW + timedelta(minutes=30))
        .build(),
    )
    return fleet


def _waiting(name: str, created: datetime) -> Workload:
    """As the manager has looked at it: its status tells what it asks for."""
    made = workload(name, namespace="team-a").queue("train").owner_job(name).created(created).build()
    asked = (PodSetRequest(name="main", resources={"nvidia.com/gpu": "4"}),)
    return replace(made, status=replace(made.status, resource_requests=asked))
