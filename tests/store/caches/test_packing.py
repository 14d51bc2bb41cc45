"""What is packed comes back as it was."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.jobs.job import AnyJob, Job, StatefulSet, job_type
from multikueue.api.kueue.workload import FINISHED, Workload
from multikueue.api.meta import Object, ObjectKey, encode
from multikueue.kube.decode import object_of
from multikueue.store.caches.cache import Cache, Indexer
from multikueue.store.caches.packing import Packing, PackingMap
from tests.api.values.trees import OBJECTS
from tests.builders import job, workload

T = TypeVar("T", bound=Object)

Gadget = job_type("Gadget")
META = {
    "name": "ä\u2028",
    "namespace": "team",
    "uid": "u-1",
    "resourceVersion": "17",
    "generation": 3,
    "creationTimestamp": "2026-01-02T03:04:05.123456+02:00",
    "deletionTimestamp": "0001-01-01T00:00:00Z",
    "labels": {"kueue.x-k8s.io/queue-name": "main", "empty": ""},
    "annotations": {"text": '"{[\\'},
    "finalizers": ["kueue.x-k8s.io/resource-in-use"],
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "b", "controller": True}],
}


def of_server(kind: type[T], **fields: Any) -> T:
    """An object as it is decoded from what a server sends."""
    decoded: T = object_of(kind)(encode({"metadata": META, **fields}))
    return decoded


def same(item: Object) -> Object:
    packing: Packing[Object] = Packing()
    text = packing.packed(item)
    assert text is not None
    return packing.unpacked(text)


@pytest.mark.parametrize("kind", [Job, StatefulSet, Gadget])
@given(spec=OBJECTS, status=OBJECTS, more=OBJECTS)
def test_a_job_comes_back_with_all_that_a_server_sent(kind: type[AnyJob], spec: Any, status: Any, more: Any) -> None:
    job_ = of_server(kind, spec=spec, status=status, more=more)
    assert same(job_) == job_


def test_the_text_of_a_spec_comes_back_byte_for_byte() -> None:
    spec = b'{ "replicas" : 1.50,\t"replicas": null, "name": "\\u00e4" }'
    job_ = object_of(Job)(b'{"metadata":{"name":"a"},"spec":' + spec + b"}")
    found = same(job_)
    assert isinstance(found, Job)
    assert bytes(found.spec) == spec


def test_a_custom_job_keeps_its_other_fields_and_its_runtime() -> None:
    job_ = msgspec.structs.replace(of_server(Gadget, more={"a": 1}), runtime=msgspec.Raw(b'{"b": 2}'))
    found: Any = same(job_)
    assert (bytes(found.others), bytes(found.runtime)) == (b'{"more":{"a":1}}', b'{"b": 2}')


def test_a_workload_comes_back_with_all_of_its_status() -> None:
    at = "2026-01-01T00:00:00Z"
    status = {
        "conditions": [{"type": "Finished", "status": "True", "reason": "", "message": "", "lastTransitionTime": at}],
        "admission": {
            "clusterQueue": "q",
            "podSetAssignments": [{"name": "m", "flavors": {"cpu": "f"}, "count": 0, "topologyAssignment": {"a": [1]}}],
        },
        "admissionChecks": [{"name": "c", "state": "Ready", "message": "", "podSetUpdates": [{"name": "m"}]}],
        "requeueState": {"count": 2, "requeueAt": at},
        "resourceRequests": [{"name": "m", "resources": {"cpu": "1"}}],
        "reclaimablePods": [{"name": "m", "count": 1}],
        "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]},
        "nominatedClusterNames": ["w1"],
        "unhealthyNodes": [{"name": "n"}],
        "preemptionGates": [],
    }
    workload_ = of_server(Workload, spec={"podSets": [{"template": {}}]}, status=status)
    assert same(workload_) == workload_


@given(st.lists(st.text(max_size=40), min_size=2, max_size=5))
def test_each_comes_back_whatever_the_first_one_was(names: list[str]) -> None:
    packing: Packing[Object] = Packing()
    items = [workload("a").labels({"name": name}).build() for name in names]
    texts = [packing.packed(item) for item in items]
    assert [packing.unpacked(text) for text in texts if text is not None] == items


def test_an_object_like_the_first_one_takes_next_to_nothing() -> None:
    packing: Packing[Object] = Packing()
    environment = [{"name": f"VARIABLE_{number}", "value": str(number**9)} for number in range(50)]
    texts = [packing.packed(of_server(Job, spec={"env": environment}, status={"active": n})) for n in range(2)]
    assert texts[0] is not None
    assert texts[1] is not None
    assert len(texts[1]) < 100


@pytest.mark.parametrize("levels", [b"[", b'{"a":'])
def test_one_that_may_be_too_deep_to_be_decoded_again_is_not_packed(levels: bytes) -> None:
    spec = b'{"a":' + levels * 500 + b"1" + (b"]" if levels == b"[" else b"}") * 500 + b"}"
    deep = object_of(Job)(b'{"metadata":{"name":"a"},"spec":' + spec + b"}")
    assert Packing[Object]().packed(deep) is None


def test_one_of_another_type_than_the_first_is_not_packed() -> None:
    packing: Packing[Object] = Packing()
    assert packing.packed(job("a").build()) is not None
    assert packing.packed(workload("a").build()) is None


# --- a cache that packs what is over -----------------------------------------------------------------------------------

TEAM: dict[str, Indexer[Workload]] = {"team": lambda w: w.metadata.labels.values()}


class Told:
    """The names of what changed, and how."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def __call__(self, old: Workload | None, new: Workload | None) -> None:
        kind = "added" if old is None else "gone" if new is None else "changed"
        item = new or old
        assert item is not None
        self.changes.append(f"{kind} {item.metadata.name}")


def ended(name: str = "a", version: int = 1, team: str = "one") -> Workload:
    return workload(name).uid(f"u-{name}").version(version).labels({"team": team}).finished().build()


def packing(told: Told) -> Cache[Workload]:
    return Cache(told, indexes=TEAM, is_over=lambda w: w.has(FINISHED))


def test_one_that_is_over_is_packed_and_looks_as_it_did_to_all_who_ask() -> None:
    cache = packing(Told())
    cache.upsert(ended())
    assert list(cache.going_on()) == []
    assert cache.get(ended().key) == ended()
    assert cache.by("team", "one") == (ended(),)
    assert tuple(cache) == (ended(),)
    assert cache.all_keys() == (ended().key,)
    assert len(cache) == 1


def test_one_that_is_over_no_more_is_unpacked() -> None:
    cache = packing(Told())
    cache.upsert(ended())
    again = workload("a").uid("u-a").version(2).build()
    cache.upsert(again)
    assert list(cache.going_on()) == [again]
    assert cache.by("team", "one") == ()


def test_changes_of_one_that_is_over_are_told_with_what_it_was() -> None:
    changes: list[tuple[Workload | None, Workload | None]] = []
    cache: Cache[Workload] = Cache(lambda old, new: changes.append((old, new)), is_over=lambda w: w.has(FINISHED))
    first, second = ended(), ended(version=2, team="two")
    cache.upsert(first)
    cache.upsert(first)
    cache.upsert(second)
    cache.remove(second)
    assert changes == [(None, first), (first, second), (second, None)]


def test_a_list_of_what_is_over_and_known_tells_nothing() -> None:
    told = Told()
    cache = packing(told)
    cache.replace([ended("a"), ended("b")], 1)
    cache.expect_list()
    cache.replace([ended("b")], 2)
    assert told.changes == ["added a", "added b", "gone a"]


@given(st.lists(st.tuples(st.sampled_from(["live", "over", "gone", "listed"]), st.sampled_from("abc"))))
def test_a_cache_that_packs_holds_and_tells_what_one_that_does_not_does(steps: list[tuple[str, str]]) -> None:
    told, plain = Told(), Told()
    caches = (packing(told), Cache(plain, indexes=TEAM))
    for version, (step, name) in enumerate(steps, 1):
        over = ended(name, version, team=str(version % 3))
        item = over if step != "live" else workload(name).uid(f"u-{name}").version(version).build()
        for cache in caches:
            if step == "gone":
                cache.remove(item)
            elif step == "listed":
                cache.expect_list()
                cache.replace([item], version)
            else:
                cache.upsert(item)
    assert told.changes == plain.changes
    assert tuple(caches[0]) == tuple(caches[1])
    assert {value: caches[0].by("team", value) for value in caches[0].named("team")} == {
        value: caches[1].by("team", value) for value in caches[1].named("team")
    }


def test_the_objects_of_a_list_are_packed_while_it_is_gathered() -> None:
    cache = packing(Told())
    listed = cache.gathering()
    listed.update((item.key, item) for item in (ended("a"), ended("b"), workload("c").build()))
    assert isinstance(listed, PackingMap)
    assert [item.metadata.name for item in listed.going_on()] == ["c"]
    cache.replace(listed.values(), 3)
    assert set(cache.all_keys()) == set(listed)
    assert [item.metadata.name for item in cache.going_on()] == ["c"]
    assert cache.get(ended("b").key) == ended("b")


def test_what_was_just_unpacked_is_not_compressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.store.caches.packing.NEWEST", 1)
    first: PackingMap[Workload] = PackingMap(lambda each: each.has(FINISHED))
    for name in ("a", "b"):
        first[ObjectKey("default", name)] = workload(name).finished().build()
    second = first.another()
    second.update(first.items())
    assert [each.metadata.name for each in second.going_on()] == ["b"]


def test_what_was_over_last_stays_whole_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.store.caches.packing.NEWEST", 2)
    items: PackingMap[Workload] = PackingMap(lambda each: each.has(FINISHED))

    def whole() -> list[str]:
        return [each.metadata.name for each in items.going_on()]

    for name in ("a", "b", "c"):
        items[ObjectKey("default", name)] = workload(name).finished().build()
    assert whole() == ["b", "c"]
    items[ObjectKey("default", "b")] = workload("b").finished().build()
    items[ObjectKey("default", "d")] = workload("d").build()
    assert whole() == ["b", "c", "d"]
    del items[ObjectKey("default", "b")]
    items[ObjectKey("default", "c")] = workload("c").build()
    for name in ("e", "f", "g"):
        items[ObjectKey("default", name)] = workload(name).finished().build()
    assert whole() == ["c", "d", "f", "g"]
    assert [each.metadata.name for each in items.values()] == ["a", "c", "d", "e", "f", "g"]


@pytest.mark.parametrize(
    "fields", [{"spec": {"a": "b" * 2**13}}, {"more": {"a": "b" * 2**13}}], ids=["spec", "elsewhere"]
)
def test_a_long_object_stays_whole(fields: Any) -> None:
    """To pack a list of nothing but long ones would take seconds."""
    packing: Packing[Object] = Packing()
    assert packing.packed(of_server(Gadget, **fields)) is None
    assert packing.packed(of_server(Gadget, spec={"a": "b"})) is not None


def test_a_list_that_is_started_over_leaves_nothing_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.store.caches.packing.NEWEST", 1)
    items: PackingMap[Workload] = PackingMap(lambda each: each.has(FINISHED))
    for name in ("a", "b", "c"):
        items[ObjectKey("default", name)] = workload(name).finished().build()
    items.clear()
    assert (len(items), list(items.going_on())) == (0, [])
    for name in ("d", "e"):
        items[ObjectKey("default", name)] = workload(name).finished().build()
    assert [each.metadata.name for each in items.going_on()] == ["e"]
