"""Questions to the visibility API, and its documents."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.web.visibility import (
    EXPLANATIONS,
    GROUP,
    MOST,
    Discovery,
    Look,
    Pending,
    PodLog,
    Refused,
    parse_request,
    pending_summary,
    relatives,
    status,
)
from tests.builders import NOW, workload
from tests.quota.builders import waiting_of

BASE = f"/apis/{GROUP}/v1beta2"
CLUSTER_QUEUE = f"{BASE}/clusterqueues/cq/pendingworkloads"
LOCAL_QUEUE = f"{BASE}/namespaces/team/localqueues/lq/pendingworkloads"


def waiting(name: str, *, namespace: str = "team", queue: str = "lq", priority: int = 0) -> PendingWorkload:
    builder = workload(name, namespace=namespace).queue(queue).priority(priority).created(NOW - timedelta(seconds=3))
    return waiting_of(builder.request(cpu="1").build())


LINE = (
    waiting("a", priority=5),
    waiting("b", queue="other"),
    waiting("c"),
    waiting("d", namespace="others"),
    waiting("e", queue="other"),
)

ROUTES = {ObjectKey("team", "lq"): "cq", ObjectKey("team", "other"): "cq", ObjectKey("team", "dangling"): "gone"}


def places(cluster_queue: str, local_queue: ObjectKey) -> list[tuple[PendingWorkload, int]]:
    assert cluster_queue == "cq"
    return [(each, place) for place, each in enumerate(LINE) if each.local_queue == local_queue]


def ask(path: str, **query: str) -> list[tuple[str, int, int]]:
    asked = parse_request(path, query)
    assert isinstance(asked, Pending)
    found = pending_summary(asked, lines={"cq": LINE}.get, places=places, routes=ROUTES.get)
    return [(i["metadata"]["name"], i["positionInClusterQueue"], i["positionInLocalQueue"]) for i in found["items"]]


def test_a_cluster_queue_shows_its_line_with_both_places() -> None:
    assert ask(CLUSTER_QUEUE) == [("a", 0, 0), ("b", 1, 0), ("c", 2, 1), ("d", 3, 0), ("e", 4, 1)]


def test_a_local_queue_shows_its_own_with_their_places_in_the_whole_line() -> None:
    assert ask(LOCAL_QUEUE) == [("a", 0, 0), ("c", 2, 1)]


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        pytest.param(CLUSTER_QUEUE, {"limit": "2"}, ["a", "b"], id="no more than the limit"),
        pytest.param(CLUSTER_QUEUE, {"offset": "3"}, ["d", "e"], id="from the offset on"),
        pytest.param(CLUSTER_QUEUE, {"offset": "1", "limit": "2"}, ["b", "c"], id="both"),
        pytest.param(CLUSTER_QUEUE, {"offset": "9"}, [], id="beyond the end"),
        pytest.param(CLUSTER_QUEUE, {"limit": "0"}, ["a", "b", "c", "d", "e"], id="a limit of 0 is the usual one"),
        pytest.param(LOCAL_QUEUE, {"offset": "1"}, ["c"], id="an offset counts within the LocalQueue"),
        pytest.param(CLUSTER_QUEUE, {"pretty": "true"}, ["a", "b", "c", "d", "e"], id="others mean nothing"),
    ],
)
def test_a_part_of_the_line(path: str, query: dict[str, str], names: list[str]) -> None:
    assert [name for name, _, _ in ask(path, **query)] == names


def test_an_answer_has_an_end_whatever_is_asked_for() -> None:
    asked = parse_request(CLUSTER_QUEUE, {"limit": "999999999"})
    assert isinstance(asked, Pending)
    assert asked.limit == MOST


def test_the_places_are_those_in_the_whole_line_whatever_part_is_shown() -> None:
    assert ask(CLUSTER_QUEUE, offset="4") == [("e", 4, 1)]


def test_an_item_says_whose_it_is_and_since_when() -> None:
    asked = parse_request(CLUSTER_QUEUE, {"limit": "1"})
    assert isinstance(asked, Pending)
    found = pending_summary(asked, lines={"cq": LINE}.get, places=places, routes=ROUTES.get)
    assert (found["kind"], found["apiVersion"]) == ("PendingWorkloadsSummary", f"{GROUP}/v1beta2")
    [item] = found["items"]
    assert item["metadata"]["namespace"] == "team"
    assert item["metadata"]["creationTimestamp"] == "2026-01-01T11:59:57Z"
    assert (item["priority"], item["localQueueName"]) == (5, "lq")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(CLUSTER_QUEUE.replace("cq", "nowhere"), id="no such ClusterQueue"),
        pytest.param(LOCAL_QUEUE.replace("/lq/", "/nowhere/"), id="no such LocalQueue"),
        pytest.param(LOCAL_QUEUE.replace("/lq/", "/dangling/"), id="a LocalQueue without ClusterQueue"),
    ],
)
def test_an_unknown_queue_is_not_found(path: str) -> None:
    with pytest.raises(Refused) as refused:
        ask(path)
    body = status(refused.value)
    assert (body["code"], body["reason"], body["kind"]) == (404, "NotFound", "Status")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        f"/apis/{GROUP}/v1",
        f"{BASE}/clusterqueues",
        f"{BASE}/clusterqueues/cq",
        f"{BASE}/clusterqueues//pendingworkloads",
        f"{BASE}/namespaces//localqueues/lq/pendingworkloads",
        f"{CLUSTER_QUEUE}/more",
        f"/apis/{EXPLANATIONS}/v1alpha1/namespaces/team/workloads/a/secrets",
        f"/apis/{EXPLANATIONS}/v1alpha1/namespaces/team/workloads//pods",
        "/openapi/v2",
    ],
)
def test_other_paths_are_not_found(path: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_request(path, {})
    assert refused.value.code == 404


@pytest.mark.parametrize("number", ["-1", "x", "1.5", "²", "9" * 40, " 1", str(2**63)])
@pytest.mark.parametrize("name", ["offset", "limit"])
def test_a_bad_number_is_told(name: str, number: str) -> None:
    with pytest.raises(Refused, match=rf"{name}: expected a whole number") as refused:
        parse_request(CLUSTER_QUEUE, {name: number})
    assert refused.value.code == 400


def test_discovery_leads_from_the_group_to_the_resources() -> None:
    groups = parse_request("/apis", {})
    assert isinstance(groups, Discovery)
    group, _ = groups.document["groups"]
    assert group["name"] == GROUP
    assert [version["version"] for version in group["versions"]] == ["v1beta2", "v1beta1"]
    for version in group["versions"]:
        resources = parse_request(f"/apis/{version['groupVersion']}/", {})
        assert isinstance(resources, Discovery)
        askable = {r["name"]: r["namespaced"] for r in resources.document["resources"] if r["verbs"]}
        assert askable == {"clusterqueues/pendingworkloads": False, "localqueues/pendingworkloads": True}


def test_an_explanation_is_found_by_discovery_too() -> None:
    resources = parse_request(f"/apis/{EXPLANATIONS}/v1alpha1", {})
    assert isinstance(resources, Discovery)
    askable = {r["name"]: r["namespaced"] for r in resources.document["resources"] if r["verbs"]}
    assert askable == {
        "workloads/explanation": True,
        "workloads/pods": True,
        "workloads/events": True,
        "workloads/log": True,
        "answers": True,
    }


LOG = f"/apis/{EXPLANATIONS}/v1alpha1/namespaces/team/workloads/a/log"


@pytest.mark.parametrize(
    ("query", "passed_on"),
    [
        pytest.param({}, {}, id="all there is"),
        pytest.param({"container": "c", "tailLines": "5", "sinceSeconds": "60"}, None, id="a part of it"),
        pytest.param({"follow": "true", "previous": "true", "timestamps": "true"}, None, id="in other ways"),
        pytest.param({"follow": "false", "container": "", "limitBytes": "7"}, {}, id="what means nothing"),
    ],
)
def test_a_log_is_asked_for_as_of_an_api_server(query: dict[str, str], passed_on: dict[str, str] | None) -> None:
    asked = parse_request(LOG, {"pod": "p-0", **query})
    assert asked == PodLog(
        namespace="team", name="a", pod="p-0", query=tuple((query if passed_on is None else passed_on).items())
    )


@pytest.mark.parametrize(
    "query",
    [
        pytest.param({}, id="no pod"),
        pytest.param({"pod": "../secrets"}, id="a path"),
        pytest.param({"pod": "p", "container": "a/b"}, id="a container that is none"),
        pytest.param({"pod": "p" * 254}, id="a long name"),
        pytest.param({"pod": "p", "tailLines": "-1"}, id="a number that is none"),
        pytest.param({"pod": "p", "follow": "yes"}, id="neither true nor false"),
    ],
)
def test_a_log_of_nonsense_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(Refused, match="expected") as refused:
        parse_request(LOG, query)
    assert refused.value.code == 400


@pytest.mark.parametrize("subresource", ["pods", "events"])
def test_what_is_on_a_worker_is_asked_by_the_plural(subresource: str) -> None:
    path = f"/apis/{EXPLANATIONS}/v1alpha1/namespaces/team/workloads/a/{subresource}"
    assert parse_request(path, {}) == Look(namespace="team", name="a", subresource=subresource)


def test_what_was_not_seen_is_told_and_what_is_nowhere_has_no_cluster() -> None:
    asked = Look(namespace="team", name="a", subresource="pods")
    kind = {"kind": "WorkloadPods", "apiVersion": f"{EXPLANATIONS}/v1alpha1"}
    head = {**kind, "metadata": {"name": "a", "namespace": "team"}}
    assert relatives(asked, "", (), ()) == {**head, "items": ()}
    assert relatives(asked, "w1", (), ["more"]) == {**head, "cluster": "w1", "items": (), "unseen": ["more"]}


OF_LINES = (GROUP, "v1beta2", "clusterqueues", "cq")
OF_REASONS = (EXPLANATIONS, "v1alpha1", "workloads", "explanation", "pods", "events", "log")
PARTS = ["", "apis", "namespaces", *OF_LINES, *OF_REASONS, "\x00", "..", "é"]


@given(
    st.lists(st.sampled_from(PARTS)),
    st.dictionaries(st.sampled_from(["offset", "limit"]), st.text()),
)
def test_whatever_is_asked_is_answered_or_refused(parts: list[str], query: dict[str, str]) -> None:
    try:
        asked: object = parse_request("/".join(parts), query)
    except Refused as refused:
        asked = refused.code
    assert isinstance(asked, Discovery) or asked in (400, 404) or (isinstance(asked, Pending) and asked.limit > 0)
