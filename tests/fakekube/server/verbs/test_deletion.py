"""Deleting, at once or bit by bit."""

from __future__ import annotations

import pytest

from fakekube.model.wire import Object
from tests.fakekube.builders import (
    JOBS,
    MAPS,
    MERGE,
    NOW,
    PODS,
    TOYS,
    Bench,
    config_map,
    events,
    job,
    pod_spec,
    told,
    toy,
)

HOLD = "example.com/hold"


def pod(bench: Bench, **spec: object) -> Object:
    return bench.make(PODS, {"metadata": {"name": "a"}, "spec": pod_spec(**spec)})


def test_what_nobody_holds_is_gone_at_once(bench: Bench) -> None:
    made = bench.make(MAPS, config_map("a"))
    assert bench.done("DELETE", f"{MAPS}/a") == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    bench.refused(404, "GET", f"{MAPS}/a")
    bench.refused(404, "DELETE", f"{MAPS}/a")


def test_some_kinds_answer_with_the_object(bench: Bench) -> None:
    made = bench.make("/api/v1/namespaces/t/serviceaccounts", {"metadata": {"name": "a"}})
    assert bench.done("DELETE", "/api/v1/namespaces/t/serviceaccounts/a") == made


def test_finalizers_hold_an_object_until_the_last_is_gone(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a", finalizers=[HOLD, "example.com/other"]))
    watch = bench.watch(TOYS, resourceVersion=str(bench.storage.rv))
    dying = bench.done("DELETE", f"{TOYS}/a")
    assert dying["metadata"]["deletionTimestamp"] == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (dying["metadata"]["deletionGracePeriodSeconds"], dying["metadata"]["generation"]) == (0, 2)
    assert bench.done("DELETE", f"{TOYS}/a") == dying, "once is enough"
    bench.patch(f"{TOYS}/a", {"metadata": {"finalizers": [HOLD]}})
    last = bench.patch(f"{TOYS}/a", {"metadata": {"finalizers": None}})
    assert "finalizers" not in last["metadata"]
    assert not bench.is_there(f"{TOYS}/a")
    seen = list(events(watch))
    assert [kind for kind, _ in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert "finalizers" not in seen[-1][1]["metadata"]


def test_nobody_comes_back_to_life(bench: Bench) -> None:
    bench.make(MAPS, config_map("a", finalizers=[HOLD]))
    bench.done("DELETE", f"{MAPS}/a")
    revived = bench.patch(f"{MAPS}/a", {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}})
    assert "deletionTimestamp" in revived["metadata"]


def test_a_dying_object_takes_no_more_finalizers_but_other_changes(bench: Bench) -> None:
    bench.make(MAPS, config_map("a", finalizers=[HOLD]))
    bench.done("DELETE", f"{MAPS}/a")
    body = {"metadata": {"finalizers": [HOLD, "example.com/late"]}}
    refusal = bench.refused(422, "PATCH", f"{MAPS}/a", body, content_type=MERGE)
    assert refusal["details"]["causes"][0]["message"] == (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/late"}'
    )
    assert bench.patch(f"{MAPS}/a", {"data": {"key": "2"}})["data"] == {"key": "2"}


def test_a_living_object_does_not_die_by_an_update(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    body = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    bench.refused(422, "PATCH", f"{MAPS}/a", body, content_type=MERGE)


@pytest.mark.parametrize(
    ("precondition", "message"),
    [
        (
            {"uid": "x"},
            "the UID in the precondition (x) does not match the UID in record (UID). "
            "The object might have been deleted and then recreated",
        ),
        (
            {"resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (RV). "
            "The object might have been modified",
        ),
    ],
)
def test_who_names_another_object_deletes_nothing(bench: Bench, precondition: Object, message: str) -> None:
    made = bench.make(MAPS, config_map("a"))["metadata"]
    refusal = bench.refused(409, "DELETE", f"{MAPS}/a", {"preconditions": precondition})
    said = message.replace("UID)", f"{made['uid']})").replace("RV)", f"{made['resourceVersion']})")
    assert refusal["message"] == f'Operation cannot be fulfilled on ConfigMap "a": {said}'
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    bench.done("DELETE", f"{MAPS}/a", {"preconditions": right})


def test_a_dry_run_deletes_nothing(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    bench.make(MAPS, config_map("held", finalizers=[HOLD]))
    before = bench.storage.rv
    assert bench.done("DELETE", f"{MAPS}/a", dryRun="All")["status"] == "Success"
    assert "deletionTimestamp" in bench.done("DELETE", f"{MAPS}/held", dryRun="All")["metadata"]
    assert bench.storage.rv == before


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Orphan", [HOLD, "orphan"]), ("Foreground", [HOLD, "foregroundDeletion"]), ("Background", [HOLD]), ("", [HOLD])],
)
def test_a_policy_becomes_a_finalizer(bench: Bench, policy: str, finalizers: list[str]) -> None:
    bench.make(MAPS, config_map("a", finalizers=[HOLD]))
    query = {"propagationPolicy": policy} if policy else {}
    assert bench.done("DELETE", f"{MAPS}/a", **query)["metadata"]["finalizers"] == finalizers


def test_a_later_policy_takes_the_place_of_an_earlier(bench: Bench) -> None:
    bench.make(MAPS, config_map("a", finalizers=[HOLD]))
    bench.done("DELETE", f"{MAPS}/a", propagationPolicy="Foreground")
    kept = bench.done("DELETE", f"{MAPS}/a")
    assert kept["metadata"]["finalizers"] == [HOLD, "foregroundDeletion"], "who says nothing changes nothing"
    changed = bench.done("DELETE", f"{MAPS}/a", propagationPolicy="Orphan")
    assert changed["metadata"]["finalizers"] == [HOLD, "orphan"]


def test_the_pods_of_jobs_are_orphaned_unless_one_says_otherwise(bench: Bench) -> None:
    bench.make(JOBS, job("a"))
    answer = bench.ask("DELETE", f"{JOBS}/a")
    assert b'"finalizers":["orphan"]' in answer.body  # type: ignore[union-attr]
    assert "child pods are preserved by default" in answer.headers["Warning"]  # type: ignore[union-attr]
    bench.make(JOBS, job("b"))
    assert bench.done("DELETE", f"{JOBS}/b", propagationPolicy="Background")["status"] == "Success"


def test_events_are_owners_of_nothing(bench: Bench) -> None:
    path = "/api/v1/namespaces/t/events"
    bench.make(path, {"metadata": {"name": "a"}, "involvedObject": {"namespace": "t", "name": "x"}})
    bench.done("DELETE", f"{path}/a", propagationPolicy="Orphan")
    assert not bench.is_there(f"{path}/a")


# --- grace -----------------------------------------------------------------------------------------------------------


def test_a_pod_on_a_node_gets_time(bench: Bench) -> None:
    pod(bench, nodeName="n")
    dying = bench.done("DELETE", f"{PODS}/a")["metadata"]
    assert (dying["deletionTimestamp"], dying["deletionGracePeriodSeconds"]) == ("2026-11-21T12:00:30Z", 30)
    assert dying["generation"] == 2
    bench.clock.turn(5)
    assert bench.done("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 60})["metadata"] == dying
    sooner = bench.done("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 10})["metadata"]
    assert (sooner["deletionTimestamp"], sooner["deletionGracePeriodSeconds"]) == ("2026-11-21T12:00:10Z", 10)
    watch = bench.watch(PODS, resourceVersion=str(bench.storage.rv))
    bench.done("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert told(watch) == [("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
def test_where_nothing_runs_nobody_waits(bench: Bench, phase: str) -> None:
    pod(bench, **({"nodeName": "n"} if phase else {}))
    if phase:
        bench.patch(f"{PODS}/a/status", {"status": {"phase": phase}})
    bench.done("DELETE", f"{PODS}/a")
    assert not bench.is_there(f"{PODS}/a")


def test_a_pod_has_a_grace_period_of_its_own(bench: Bench) -> None:
    pod(bench, nodeName="n", terminationGracePeriodSeconds=5)
    assert bench.done("DELETE", f"{PODS}/a")["metadata"]["deletionGracePeriodSeconds"] == 5


# --- many ------------------------------------------------------------------------------------------------------------


def test_many_at_once(bench: Bench) -> None:
    for name in "abc":
        bench.make(MAPS, config_map(name, labels={"vowel": str(name == "a").lower()}))
    bench.make(MAPS, config_map("held", labels={"vowel": "false"}, finalizers=[HOLD]))
    gone = bench.done("DELETE", MAPS, labelSelector="vowel=false")
    assert (gone["kind"], [item["metadata"]["name"] for item in gone["items"]]) == ("ConfigMapList", ["b", "c", "held"])
    assert "deletionTimestamp" not in gone["items"][2]["metadata"], "as they were"
    assert bench.names(MAPS) == ["a", "held"]
    assert "deletionTimestamp" in bench.get(f"{MAPS}/held")["metadata"]


# --- namespaces and kinds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_some_namespaces_stay(bench: Bench, name: str) -> None:
    refusal = bench.refused(403, "DELETE", f"/api/v1/namespaces/{name}")
    assert refusal["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_a_namespace_ends_slowly(bench: Bench) -> None:
    dying = bench.done("DELETE", "/api/v1/namespaces/t")
    assert dying["status"]["phase"] == "Terminating"
    assert "deletionTimestamp" in dying["metadata"]
    assert "deletionGracePeriodSeconds" not in dying["metadata"]
    assert bench.done("DELETE", "/api/v1/namespaces/t") == dying
