"""Who goes with whom."""

from __future__ import annotations

import pytest

from fakekube.model.wire import Object
from tests.fakekube.builders import DEFINITIONS, JOBS, MAPS, MERGE, TOYS, Bench, config_map, job, owned_by, told, toy

HOLD = "example.com/hold"


def made(bench: Bench, name: str, *owners: Object, block: bool = False, **metadata: object) -> Object:
    references = {"ownerReferences": owned_by(*owners, block=block)} if owners else {}
    return bench.make(MAPS, config_map(name, **references, **metadata))


def gone(bench: Bench, name: str, policy: str = "Background") -> None:
    bench.done("DELETE", f"{MAPS}/{name}", propagationPolicy=policy)


def settled(bench: Bench) -> list[str]:
    bench.clock.turn(5)
    assert bench.cluster.controllers.is_idle
    return bench.names(MAPS)


def test_dependents_go_after_their_owner_and_never_at_once(bench: Bench) -> None:
    owner = made(bench, "owner")
    child = made(bench, "child", owner)
    made(bench, "grandchild", child)
    made(bench, "stranger")
    gone(bench, "owner")
    assert bench.names(MAPS) == ["child", "grandchild", "stranger"]
    assert settled(bench) == ["stranger"]


def test_of_several_owners_one_is_enough(bench: Bench) -> None:
    one, other = made(bench, "one"), made(bench, "other")
    made(bench, "child", one, other)
    gone(bench, "one")
    assert settled(bench) == ["child", "other"]
    [left] = bench.get(f"{MAPS}/child")["metadata"]["ownerReferences"]
    assert left["name"] == "other"
    gone(bench, "other")
    assert settled(bench) == []


def test_an_owner_of_the_same_name_is_another(bench: Bench) -> None:
    owner = made(bench, "owner")
    gone(bench, "owner")
    made(bench, "owner")
    made(bench, "late", owner)
    assert settled(bench) == ["owner"]


def test_an_owner_in_another_namespace_is_none(bench: Bench) -> None:
    bench.namespace("u")
    owner = bench.make("/api/v1/namespaces/u/configmaps", config_map("owner"))
    made(bench, "child", owner)
    assert settled(bench) == []


def test_of_a_kind_that_nobody_serves_nothing_is_known(bench: Bench) -> None:
    reference = {"apiVersion": "nobody.example.com/v1", "kind": "Thing", "name": "x", "uid": "1"}
    bench.make(MAPS, config_map("child", ownerReferences=[reference]))
    assert settled(bench) == ["child"]


def test_an_owner_without_a_namespace_is_one_everywhere(bench: Bench) -> None:
    node = bench.make("/api/v1/nodes", {"metadata": {"name": "n"}})
    made(bench, "child", node)
    assert settled(bench) == ["child"]
    bench.done("DELETE", "/api/v1/nodes/n")
    assert settled(bench) == []


def test_orphans_stay_without_their_tie(bench: Bench) -> None:
    owner = made(bench, "owner")
    made(bench, "child", owner)
    gone(bench, "owner", "Orphan")
    assert bench.is_there(f"{MAPS}/owner"), "until the ties are cut"
    assert settled(bench) == ["child"]
    assert "ownerReferences" not in bench.get(f"{MAPS}/child")["metadata"]


def test_in_the_foreground_the_owner_goes_last(bench: Bench) -> None:
    owner = made(bench, "owner")
    child = made(bench, "child", owner, block=True)
    made(bench, "grandchild", child, block=True, finalizers=[HOLD])
    watch = bench.watch(MAPS, resourceVersion=str(bench.storage.rv))
    gone(bench, "owner", "Foreground")
    assert settled(bench) == ["child", "grandchild", "owner"]
    bench.patch(f"{MAPS}/grandchild", {"metadata": {"finalizers": None}})
    assert settled(bench) == []
    assert [name for kind, name in told(watch) if kind == "DELETED"] == ["grandchild", "child", "owner"]


def test_who_does_not_block_is_not_waited_for(bench: Bench) -> None:
    owner = made(bench, "owner")
    made(bench, "child", owner, finalizers=[HOLD])
    gone(bench, "owner", "Foreground")
    assert settled(bench) == ["child"]
    assert "deletionTimestamp" in bench.get(f"{MAPS}/child")["metadata"]


def test_a_tie_that_is_cut_is_not_waited_for(bench: Bench) -> None:
    owner = made(bench, "owner")
    made(bench, "child", owner, block=True, finalizers=[HOLD])
    gone(bench, "owner", "Foreground")
    assert settled(bench) == ["child", "owner"]
    bench.patch(f"{MAPS}/child", {"metadata": {"ownerReferences": None}})
    assert settled(bench) == ["child"]


def test_a_second_owner_keeps_a_dependent_of_one_that_waits(bench: Bench) -> None:
    one, other = made(bench, "one", finalizers=[HOLD]), made(bench, "other")
    made(bench, "child", one, other, block=True)
    gone(bench, "one", "Foreground")
    assert settled(bench) == ["child", "one", "other"]
    assert [each["name"] for each in bench.get(f"{MAPS}/child")["metadata"]["ownerReferences"]] == ["other"]
    assert bench.get(f"{MAPS}/one")["metadata"]["finalizers"] == [HOLD]


def test_finalizers_hold_dependents_too(bench: Bench) -> None:
    owner = made(bench, "owner")
    made(bench, "child", owner, finalizers=[HOLD])
    gone(bench, "owner")
    assert settled(bench) == ["child"]
    bench.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}})
    assert settled(bench) == []


def test_what_custom_kinds_own_goes_too(bench: Bench) -> None:
    bench.define()
    owner = bench.make(TOYS, toy("owner"))
    bench.make(JOBS, {**job("child"), "metadata": {"name": "child", "ownerReferences": owned_by(owner)}})
    bench.done("DELETE", f"{TOYS}/owner")
    bench.clock.turn(5)
    # A Job orphans its own unless told otherwise; the collector tells it otherwise.
    assert bench.names(JOBS) == []


def test_a_namespace_goes_with_all_that_is_in_it(bench: Bench) -> None:
    bench.define()
    made(bench, "a")
    bench.make(TOYS, toy("b"))
    bench.namespace("other")
    bench.make("/api/v1/namespaces/other/configmaps", config_map("c"))
    bench.done("DELETE", "/api/v1/namespaces/t")
    assert bench.is_there(f"{MAPS}/a")
    bench.clock.turn(5)
    assert not bench.is_there("/api/v1/namespaces/t")
    assert bench.names("/api/v1/configmaps") == ["c"]
    assert bench.names(TOYS) == []
    bench.namespace("t")


def test_an_empty_namespace_goes(bench: Bench) -> None:
    bench.done("DELETE", "/api/v1/namespaces/t")
    bench.clock.turn(5)
    assert not bench.is_there("/api/v1/namespaces/t")


def test_a_namespace_waits_for_what_is_held(bench: Bench) -> None:
    made(bench, "held", finalizers=[HOLD])
    bench.done("DELETE", "/api/v1/namespaces/t")
    bench.clock.turn(5)
    assert bench.is_there("/api/v1/namespaces/t")
    assert "deletionTimestamp" in bench.get(f"{MAPS}/held")["metadata"]
    bench.patch(f"{MAPS}/held", {"metadata": {"finalizers": None}})
    bench.clock.turn(5)
    assert not bench.is_there("/api/v1/namespaces/t")


def test_a_namespace_may_be_held_itself(bench: Bench) -> None:
    bench.patch("/api/v1/namespaces/t", {"metadata": {"finalizers": [HOLD]}})
    bench.done("DELETE", "/api/v1/namespaces/t")
    bench.clock.turn(5)
    assert bench.get("/api/v1/namespaces/t")["spec"] == {}
    bench.patch("/api/v1/namespaces/t", {"metadata": {"finalizers": None}})
    assert not bench.is_there("/api/v1/namespaces/t")


def test_with_its_definition_a_kind_goes(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a", finalizers=[HOLD]))
    bench.make(TOYS, toy("b"))
    definition = f"{DEFINITIONS}/toys.example.com"
    dying = bench.done("DELETE", definition)
    assert dying["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    bench.clock.turn(5)
    assert bench.names(TOYS) == ["a"]
    bench.patch(f"{TOYS}/a", {"metadata": {"finalizers": None}})
    bench.clock.turn(5)
    assert not bench.is_there(definition)
    assert b"404 page not found" in bench.ask("GET", TOYS).body  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_all_comes_to_rest(bench: Bench, policy: str) -> None:
    owner = made(bench, "owner")
    for number in range(20):
        made(bench, f"child-{number}", owner, block=number % 2 == 0)
    gone(bench, "owner", policy)
    settled(bench)
    before = bench.storage.rv
    bench.clock.turn(60)
    assert bench.storage.rv == before
    assert not bench.is_there(f"{MAPS}/owner")


def test_who_is_closed_does_nothing(bench: Bench) -> None:
    owner = made(bench, "owner")
    made(bench, "child", owner)
    bench.cluster.controllers.close()
    gone(bench, "owner")
    bench.clock.turn(5)
    assert bench.names(MAPS) == ["child"]
    assert bench.refused(404, "PATCH", f"{MAPS}/owner", {}, content_type=MERGE)


def test_who_has_dependents_goes_as_its_owner_went(bench: Bench) -> None:
    owner = made(bench, "owner")
    child = made(bench, "child", owner)
    made(bench, "grandchild", child, block=True, finalizers=[HOLD])
    gone(bench, "owner", "Foreground")
    assert settled(bench) == ["child", "grandchild"]
    assert bench.get(f"{MAPS}/child")["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_who_comes_late_is_left_until_the_owner_is_looked_at_again(bench: Bench) -> None:
    """So does the real collector: a new dependent of an owner that is there is no work."""
    owner = made(bench, "owner")
    made(bench, "child", owner, block=True, finalizers=[HOLD])
    gone(bench, "owner", "Foreground")
    settled(bench)
    made(bench, "late", owner, block=True)
    assert settled(bench) == ["child", "late", "owner"]
    bench.patch(f"{MAPS}/child", {"metadata": {"finalizers": None}})
    assert settled(bench) == []


def test_writes_that_change_no_tie_make_no_work(bench: Bench) -> None:
    owner = made(bench, "owner")
    made(bench, "child", owner)
    settled(bench)
    bench.patch(f"{MAPS}/child", {"data": {"key": "2"}})
    assert bench.cluster.controllers.is_idle
