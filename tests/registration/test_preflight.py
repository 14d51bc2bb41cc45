from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from multikueue.api.kind import Kind
from multikueue.api.kinds import LOCAL_QUEUES
from multikueue.api.meta import Object, ObjectKey
from multikueue.errors import Unauthorized
from multikueue.registration.plan import RIGHTS
from multikueue.registration.preflight import Routes, missing_rights, preflight
from tests.builders import admission_check, cluster_queue, local_queue, multikueue_config
from tests.cli.cluster import SERVED, Cluster, Fake

MAIN = ObjectKey("team-a", "main")


def queue(active: str | None) -> dict[str, object]:
    conditions = [{"type": "Active", "status": active, "reason": "R", "message": "the queue is stopped"}]
    status = {"conditions": conditions if active else []}
    return {"metadata": {"namespace": MAIN.namespace, "name": MAIN.name}, "spec": {}, "status": status}


@pytest.mark.anyio
async def test_a_fit_worker_has_nothing_to_complain_about() -> None:
    worker = Cluster("w")
    worker.add(LOCAL_QUEUES, queue("True"))

    findings = await preflight(Fake(worker), [MAIN])

    assert {finding.level for finding in findings} == {"ok"}
    assert [finding.subject for finding in findings] == [
        "API server",
        "kind Workload",
        "kind ClusterQueue",
        "kind LocalQueue",
        "Kueue's definitions",
        "kind Job",
        *(f"rights on {right}" for right in RIGHTS),
        "identity",
        "LocalQueue team-a/main",
    ]
    assert worker.sent == []


@pytest.mark.anyio
async def test_without_kueue_each_kind_of_it_fails_and_a_kind_of_jobs_is_a_warning() -> None:
    findings = await preflight(Fake(Cluster("w", served={})))

    levels = {finding.subject: finding.level for finding in findings if finding.subject.startswith("kind")}
    assert levels == {
        "kind Workload": "failed",
        "kind ClusterQueue": "failed",
        "kind LocalQueue": "failed",
        "kind Job": "warning",
    }


@pytest.mark.anyio
async def test_each_missing_verb_is_named() -> None:
    worker = Cluster("w", denied={("jobs", "patch"), ("jobs", "watch"), ("workloads/status", "patch")})

    missing = {str(right): verbs for right, verbs in (await missing_rights(Fake(worker))).items() if verbs}
    failed = {finding.subject: str(finding) for finding in await preflight(Fake(worker)) if finding.level == "failed"}

    assert missing == {"jobs.batch": ("watch", "patch"), "workloads/status.kueue.x-k8s.io": ("patch",)}
    assert failed == {
        "rights on jobs.batch": "lacks watch, patch: register the cluster again",
        "rights on workloads/status.kueue.x-k8s.io": "lacks patch: register the cluster again",
    }


@pytest.mark.anyio
async def test_rights_are_looked_at_in_each_namespace_that_is_offered() -> None:
    worker = Cluster("w", denied={("jobs", "patch", "b")})
    worker.add(LOCAL_QUEUES, queue("True"))

    async def found(*namespaces: str) -> dict[str, tuple[str, str]]:
        findings = await preflight(Fake(worker), [MAIN], namespaces=namespaces)
        return {each.subject: (each.level, str(each)) for each in findings}

    both = await found("b", MAIN.namespace)
    assert both["rights on jobs.batch in b"] == ("failed", "lacks patch: register the cluster again")
    assert both["rights on jobs.batch in team-a"][0] == "ok"
    assert both["rights on clusterqueues.kueue.x-k8s.io"][0] == "ok"
    assert both["namespaces"] == ("ok", "offers b, team-a")
    assert both[f"LocalQueue {MAIN}"][0] == "ok"
    assert f"LocalQueue {MAIN}" not in await found("b")
    for names, words in ((("b",), "offers b: no LocalQueue"), ((), "offers none: no LocalQueue")):
        level, detail = (await found(*names))["namespaces"]
        assert (level, words in detail) == ("warning", True)


@pytest.mark.anyio
async def test_a_worker_that_was_registered_without_the_right_to_its_identity_is_a_warning() -> None:
    worker = Cluster("w", denied={("namespaces", "get")})

    (found,) = [finding for finding in await preflight(Fake(worker)) if finding.subject == "identity"]

    assert found.level == "warning"
    assert "register the cluster again" in str(found)


SETS = Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", True, Object)
OWN = Kind("example.com", "v1", "simulations", "Simulation", True, Object)


def furnished(*kinds: Kind[Any], denied: Iterable[tuple[str, str]] = ()) -> Cluster:
    """A worker that serves these kinds too."""
    further = {f"/apis/{kind.api_version}": {kind.plural} for kind in kinds}
    return Cluster("w", served={**SERVED, **further}, denied=set(denied))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("worker", "level", "detail"),
    [
        (furnished(SETS), "ok", "served as jobset.x-k8s.io/v1alpha2"),
        (
            furnished(SETS, denied=[("jobsets", "delete"), ("jobsets", "create")]),
            "warning",
            "lacks create, delete on jobsets.jobset.x-k8s.io: jobs of this kind cannot go there until you register the"
            " cluster again",
        ),
    ],
    ids=["with rights", "without"],
)
async def test_a_kind_of_jobs_that_is_there_should_be_allowed(worker: Cluster, level: str, detail: str) -> None:
    (found,) = [each for each in await preflight(Fake(worker)) if each.subject == "kind JobSet"]
    assert (found.level, str(found)) == (level, detail)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("worker", "level", "words"),
    [
        (furnished(OWN), "ok", "served as example.com/v1"),
        (furnished(), "warning", "example.com/v1 is not served"),
        (furnished(OWN, denied=[("simulations", "watch")]), "warning", "with --run-kind simulations.example.com"),
    ],
    ids=["with rights", "not there", "without rights"],
)
async def test_so_should_a_declared_kind(worker: Cluster, level: str, words: str) -> None:
    (found,) = [each for each in await preflight(Fake(worker), declared=[OWN]) if each.subject == "kind Simulation"]
    assert found.level == level
    assert words in str(found)


@pytest.mark.anyio
async def test_a_refused_credential_is_one_error_and_not_a_group() -> None:
    with pytest.raises(Unauthorized):
        await missing_rights(Fake(Cluster("w"), token="wrong"))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("there", "level", "words"),
    [
        (None, "failed", "create namespace team-a"),
        ({"metadata": {"namespace": "team-a", "name": "other"}}, "failed", "under the same name"),
        (queue(None), "warning", "does Kueue run there?"),
        (queue("False"), "warning", "not active: the queue is stopped"),
    ],
    ids=["nothing in that namespace", "another queue there", "nobody looks at it", "inactive"],
)
async def test_a_queue_the_manager_leads_to(there: dict[str, object] | None, level: str, words: str) -> None:
    worker = Cluster("w")
    if there is not None:
        worker.add(LOCAL_QUEUES, there)

    finding = (await preflight(Fake(worker), [MAIN]))[-1]

    assert (finding.subject, finding.level) == ("LocalQueue team-a/main", level)
    assert words in str(finding)


def test_queues_lead_to_a_cluster_by_queue_check_and_config() -> None:
    routes = Routes(
        local_queues=[
            local_queue("main", "there", namespace="b").build(),
            local_queue("main", "there", namespace="a").build(),
            local_queue("local", "here", namespace="a").build(),
            local_queue("far", "elsewhere", namespace="a").build(),
        ],
        cluster_queues=[
            cluster_queue("there").checks("mk").build(),
            cluster_queue("here").build(),
            cluster_queue("elsewhere").checks("mk-other").build(),
        ],
        checks=[admission_check("mk").config("all").build(), admission_check("mk-other").config("others").build()],
        configs=[multikueue_config("all", "w1", "w2").build(), multikueue_config("others", "w2").build()],
    )

    assert routes.queues_to("w1") == (ObjectKey("a", "main"), ObjectKey("b", "main"))
    assert routes.queues_to("w2") == (ObjectKey("a", "far"), ObjectKey("a", "main"), ObjectKey("b", "main"))
    assert routes.queues_to("w3") == ()
    assert routes.configs_with("w2") == ("all", "others")
