"""Filters and scorers that ship, on real clusters: what the fleet and the job say, and which workers get a copy.

The release of a Kueue that runs as a process is not known, so `versions` refuses none here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from multikueue_strategies.filters import CLUSTER_NAMES, CLUSTER_SELECTOR, TAINTS, TOLERATIONS
from multikueue_strategies.scorers import DATA
from testbed import objects
from testbed.client import eventually
from testbed.objects import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, MULTIKUEUE_CLUSTER
from tests.real.harness import Manager, Team

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("calm"),
]

STRATEGY, OPTIONS = "multikueue.dev/strategy", "multikueue.dev/strategy-options"
GROUP, PRICES, MAX_SPEND = (f"multikueue.dev/{name}" for name in ("group", "prices", "max-spend"))
PARTS = tuple[Any, ...]


@dataclass(frozen=True)
class Story:
    """What is said of the workers, the queue and the job, and which workers have a copy then. `NS` is the team's namespace."""

    expected: str
    """The numbers of workers that have a copy while no queue admits anything; where a story is about room, of the winner."""
    filters: PARTS = ()
    scorers: PARTS = ()
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    annotations: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[int, str] = field(default_factory=dict)
    """Cores of the worker's queue."""
    job: Mapping[str, str] = field(default_factory=dict)
    group: bool = False
    """An earlier job of the same group is on worker 1."""
    bound: str = ""
    """What the LocalQueue may spend."""

    @property
    def options(self) -> dict[str, Any]:
        copies = 3 if self.filters and not self.scorers else 1
        return {"filters": self.filters, "scorers": self.scorers, "copies": copies, "patience": None}


REGIONS = {1: {"region": "eu", "zone": "a"}, 2: {"region": "us", "zone": "a"}, 3: {"region": "eu", "zone": "b"}}
CHEAP_IS_2 = {1: {PRICES: "cpu=4"}, 2: {PRICES: "cpu=1"}, 3: {PRICES: "cpu=2"}}
GPUS_ARE_DEAR = {1: {PRICES: "cpu=4"}, 2: {PRICES: "cpu=1"}}

STORIES = {
    "labels: only workers of a region": Story(
        "13", filters=({"labels": {"match": {"region": ["eu"]}}},), labels=REGIONS
    ),
    "labels: the job's selector narrows further": Story(
        "3",
        filters=({"labels": {"match": {"region": ["eu"]}}},),
        labels=REGIONS,
        job={CLUSTER_SELECTOR: "zone notin (a)"},
    ),
    "named: only the workers that the job names": Story(
        "23", filters=("named",), job={CLUSTER_NAMES: "NS-worker2, NS-worker3"}
    ),
    "taints: a taint that the job does not tolerate": Story(
        "13", filters=("taints",), annotations={2: {TAINTS: "spot=true:NoSchedule"}}
    ),
    "taints: one that it tolerates": Story(
        "123",
        filters=("taints",),
        annotations={2: {TAINTS: "spot=true:NoSchedule"}},
        job={TOLERATIONS: "spot=true"},
    ),
    "room: no copy where there is no room now": Story("2", filters=("room",), scorers=("order",), quotas={1: "0"}),
    "versions: a release that nobody knows is not refused": Story("123", filters=({"versions": {"least": "0.14"}},)),
    "apart: not where another one of the group is": Story("23", filters=("apart",), group=True),
    "together: only where the group is": Story("1", filters=("together",), group=True),
    "spend: only where it costs nothing, once the queue has spent what it may": Story(
        "3", filters=("spend",), annotations=GPUS_ARE_DEAR, bound="0/7d"
    ),
    "order: the first of the configuration": Story("1", scorers=("order",)),
    "preferred: the label that weighs most": Story(
        "2", scorers=({"preferred": {"labels": {"region=us": 3, "zone=b": 1}}},), labels=REGIONS
    ),
    "tiers: the first of the order that there is": Story(
        "3",
        scorers=({"tiers": {"order": ["on-premises", "spot"]}},),
        labels={1: {"multikueue.dev/tier": "spot"}, 3: {"multikueue.dev/tier": "on-premises"}},
    ),
    "price: the cheapest": Story("2", scorers=("price",), annotations=CHEAP_IS_2),
    "data: where most of what it reads lies": Story(
        "3",
        scorers=({"data": {"places": {"s3://small": ["NS-worker1"], "s3://large": ["NS-worker3"]}}},),
        job={DATA: "s3://large/a=12Ti, s3://small=1Gi"},
    ),
    "room: where most is free": Story("2", scorers=("room",), quotas={1: "2", 2: "50", 3: "4"}),
    "room: the tightest fit": Story("1", scorers=({"room": {"fit": "tight"}},), quotas={1: "1", 2: "50", 3: "4"}),
    "quota: where there is any": Story("3", scorers=("quota",), quotas={1: "0", 2: "0", 3: "4"}),
    "spread: a zone without any of the group": Story(
        "3", scorers=({"spread": {"label": "zone"}},), labels=REGIONS, group=True
    ),
    "together: the worker where most of the group are": Story("1", scorers=("together",), group=True),
    "spend: the cheapest, once the queue has spent what it may": Story(
        "2", scorers=("spend",), annotations=CHEAP_IS_2, bound="0/7d"
    ),
    "by weight: what is twice as heavy outweighs the other": Story(
        "2",
        scorers=({"price": {}, "weight": 2}, {"tiers": {"order": ["spot", "reserved"]}, "weight": 1}),
        labels={2: {"multikueue.dev/tier": "reserved"}, 1: {"multikueue.dev/tier": "spot"}},
        annotations=CHEAP_IS_2,
    ),
}


async def say(crew: Team, story: Story) -> None:
    for number, quota in story.quotas.items():
        await have(crew, f"worker{number}", quota)
    for worker in crew.clients:
        number = int(worker.removeprefix("worker"))
        said = {"labels": story.labels.get(number, {}), "annotations": story.annotations.get(number, {})}
        await crew.manager.patch(MULTIKUEUE_CLUSTER, crew.cluster(worker), {"metadata": said})
    if story.bound:
        await crew.manager.patch(
            LOCAL_QUEUE, "main", {"metadata": {"annotations": {MAX_SPEND: story.bound}}}, crew.namespace
        )
    await choose(crew, **story.options)


async def choose(crew: Team, **options: Any) -> None:
    text = json.dumps(options).replace("NS-", f"{crew.namespace}-")
    annotations = {STRATEGY: "composed", OPTIONS: text}
    await crew.manager.patch(ADMISSION_CHECK, crew.namespace, {"metadata": {"annotations": annotations}})


async def have(crew: Team, worker: str, cpu: str) -> None:
    """A worker's queue has so many cores, and is stopped."""
    client = crew.clients[worker]
    body = await client.get(CLUSTER_QUEUE, crew.namespace)
    resources = body["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    next(each for each in resources if each["name"] == "cpu")["nominalQuota"] = cpu
    await client.patch(CLUSTER_QUEUE, crew.namespace, {"spec": {"resourceGroups": body["spec"]["resourceGroups"]}})


async def submit(crew: Team, name: str, annotations: Mapping[str, str], *, group: bool = False) -> None:
    body = objects.job(
        name,
        crew.namespace,
        managed_by=objects.MULTIKUEUE_CONTROLLER,
        requests={"cpu": "1", "memory": "100Mi"},
        labels={GROUP: "g"} if group else None,
    )
    body["metadata"]["annotations"] = {
        key: value.replace("NS-", f"{crew.namespace}-") for key, value in annotations.items()
    }
    await crew.manager.create(body)


async def copied(crew: Team, name: str, workers: str) -> None:
    """Waits until the workload has copies on exactly these workers, and its nomination names them."""

    async def there() -> bool:
        found = "".join(worker.removeprefix("worker") for worker in sorted(await crew.copies(name)))
        assert found == workers, f"copies on {found}: {(await crew.check(name)).get('message')}"
        return True

    await eventually(there, timeout=20)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_a_part_chooses(crew: Team, story: Story) -> None:
    if story.group:
        await choose(crew, scorers=["order"], patience=None)
        await submit(crew, "mate", {}, group=True)
        assert await crew.winner("mate") == "worker1"
    if not story.quotas:
        await crew.stop()  # a queue that is stopped has no room
    await say(crew, story)
    await submit(crew, "job", story.job, group=story.group)
    if story.quotas:
        assert await crew.winner("job") == f"worker{story.expected}"
    else:
        await copied(crew, "job", story.expected)


async def test_a_choice_outlives_the_manager(crew: Team, manager: Manager) -> None:
    """What speaks against it by then moves no copy."""
    await crew.stop()
    await choose(crew, scorers=[{"preferred": {"labels": {"best": 1}}}], patience=None)
    await prefer(crew, "worker2")
    await submit(crew, "job", {})
    await copied(crew, "job", "2")
    manager.kill()
    await prefer(crew, "worker3")
    manager.start()
    await manager.ready()
    await submit(crew, "later", {})
    await copied(crew, "later", "3")
    await copied(crew, "job", "2")
    await crew.go()
    assert (await crew.runs_on(), await crew.runs_on("later")) == ("worker2", "worker3")


async def prefer(crew: Team, worker: str) -> None:
    for each in crew.clients:
        labels = {"best": "true" if each == worker else None}
        await crew.manager.patch(MULTIKUEUE_CLUSTER, crew.cluster(each), {"metadata": {"labels": labels}})
