"""Sinks that keep values in place of objects."""

from __future__ import annotations

from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue_console.watch.tables import KeptTable
from tests.builders.workloads import workload

Told = list[tuple[str, int | None, int | None]]


def table() -> tuple[KeptTable[Workload, int], Told]:
    told: Told = []
    made = KeptTable[Workload, int](
        lambda item: len(item.metadata.labels), lambda key, before, now: told.append((key.name, before, now))
    )
    return made, told


def listed(kept: KeptTable[Workload, int], *items: Workload, namespace: str = "") -> None:
    gathered = kept.gathering()
    gathered.update({each.key: each for each in items})
    for _ in kept.replacing(gathered, 1, namespace):
        pass


def test_changes_of_the_value_are_told_and_no_others() -> None:
    kept, told = table()
    kept.upsert(workload("a").build())
    kept.upsert(workload("a").version(9).build())
    kept.upsert(workload("a").labels(x="y").build())
    kept.remove(workload("a").build())

    assert told == [("a", None, 0), ("a", 0, 1), ("a", 1, None)]


def test_a_list_replaces_what_is_in_its_namespace_and_keeps_what_cannot_be_read() -> None:
    kept, told = table()
    listed(kept, workload("a").build(), workload("b").build(), workload("c", namespace="other").build())
    kept.unreadable[ObjectKey("default", "b")] = "nested too deeply"
    told.clear()
    listed(kept, workload("d").build(), namespace="default")

    assert sorted(key.name for key in kept.values) == ["b", "c", "d"]
    assert told == [("a", 0, None), ("d", None, 0)]
