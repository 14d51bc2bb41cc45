from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import encode
from multikueue.jobs.framework.actions import PatchJob
from multikueue.jobs.framework.pod_set_info import BadPodSetInfo, placement
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.integrations.declarations import DECLARATIONS
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.kinds.declared.pod_sets import AddedOverhead, DeclaredContainer, Pods
from multikueue.jobs.kinds.declared.state_rules import StateRule
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.jobs.trees import paths
from tests.builders import NOW, WorkloadBuilder
from tests.jobs.all_kinds import body, put, template, value
from tests.jobs.builders import become, stored, tree
from tests.jobs.places import FLAVORS, admitted, applied

JOB = {
    "spec": {
        "mode": "on",
        "groups": [
            {"name": "Big", "replicas": 3, "hosts": 2, "template": template("big")},
            {"name": "bare", "hosts": 5},
        ],
    }
}
EACH = "spec.groups[*]"


def _bare(part: dict[str, Any]) -> dict[str, Any]:
    return template(f"made of {part['name']}")


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(Pods(at=EACH, name_at="name"), [("big", 3, "big")], id="one per part with a template"),
        pytest.param(
            Pods(at=EACH, name_at="name", each=("hosts",), otherwise=_bare),
            [("big", 6, "big"), ("bare", 5, "made of bare")],
            id="a template made where there is none",
        ),
        pytest.param(Pods(at=EACH, otherwise=lambda _: None), [("main", 3, "big")], id="or none"),
        pytest.param(
            Pods(at=EACH, when=StateRule(at="spec.mode", values=("on",))), [("main", 3, "big")], id="when it is so"
        ),
        pytest.param(Pods(at=EACH, when=StateRule(at="spec.mode", values=("off",))), [], id="not when it is not"),
        pytest.param(Pods(at="spec.none[*]"), [], id="nothing there"),
        pytest.param(
            Pods(at=EACH, template="", otherwise=_bare),
            [("main", 3, "made of Big"), ("main", 1, "made of bare")],
            id="no templates, whatever is called so",
        ),
    ],
)
def test_the_pod_sets_of_a_job(pods: Pods, expected: list[tuple[str, int, str]]) -> None:
    found = [
        (each["name"], each["count"], each["template"]["spec"]["containers"][0]["image"]) for each in pods.pod_sets(JOB)
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("written", "asked"),
    [("512m", "512Mi"), ("4g", "4Gi"), ("2tb", "2Ti"), ("1Gi", "1Gi"), ("100", "100"), (5, "5"), ("1.5g", "1.5g")],
)
def test_memory_in_small_letters_is_javas(written: Any, asked: str) -> None:
    container = DeclaredContainer(requests=(("memory", "heap"),), limits=(("cpu", "cores"), ("gpu", "none")))
    (made,) = container({"heap": written, "cores": "500m"})["spec"]["containers"]
    assert made["resources"] == {"requests": {"memory": asked}, "limits": {"cpu": "500m"}}


OVERHEAD = AddedOverhead(resource="memory", at="overhead", share="0.1", least="384Mi")

OVERHEADS: dict[str, tuple[dict[str, Any], str | None]] = {
    "the least, where the share is less": ({"heap": "512m"}, "896Mi"),
    "a share of it": ({"heap": "10g"}, "11Gi"),
    "what the job says": ({"heap": "512m", "overhead": "1g"}, "1536Mi"),
    "nothing, where it says so": ({"heap": "512m", "overhead": "0"}, "512Mi"),
    "never less than nothing": ({"heap": "1g", "overhead": "-5g"}, "1Gi"),
    "nothing to what is not requested": ({}, None),
    "nothing to what is no quantity": ({"heap": "much"}, "much"),
    "nothing, where it is no quantity itself": ({"heap": "1g", "overhead": "much"}, "1Gi"),
}


@pytest.mark.parametrize(("said", "asked"), OVERHEADS.values(), ids=OVERHEADS)
def test_what_the_controller_adds_is_requested_too(said: dict[str, Any], asked: str | None) -> None:
    container = DeclaredContainer(requests=(("memory", "heap"),), overhead=OVERHEAD)
    (made,) = container(said)["spec"]["containers"]

    assert made["resources"].get("requests", {}).get("memory") == asked
    assert set(container.paths()) == {"heap", "overhead"}


Tree = dict[str, Any]

KINDS = [DeclaredJob(each) for each in DECLARATIONS]
JOB_SET = next(each for each in KINDS if each.kind.kind == "JobSet")
UNPLACED = {"TrainJob", "AppWrapper"}
"""Kinds whose objects do not have the templates of their pods themselves."""


def held(adapter: DeclaredJob) -> AnyJob:
    return value(adapter, body(adapter, managed=False))


def workload_of(adapter: DeclaredJob, seen: AnyJob) -> Workload:
    return admitted(stored(adapter.workload_body(seen, priority=Priority())))


def started(adapter: DeclaredJob, seen: AnyJob) -> AnyJob:
    (action,) = decide(view(seen, workload_of(adapter, seen)), NOW, adapter).actions
    assert isinstance(action, PatchJob)
    assert action.patch["metadata"]["resourceVersion"] == "7"
    found: AnyJob = applied(seen, action.patch)
    return found


def view(seen: AnyJob, workload: Workload, **more: Any) -> JobView:
    local = {"is_queue_multikueue": False, "is_dispatched": False, "flavors": FLAVORS}
    return JobView(job=seen, workloads=(workload,), **local | more)  # type: ignore[arg-type]


def selectors(adapter: DeclaredJob, seen: AnyJob) -> list[Any]:
    """The node selector of each template that the job has."""
    found = []
    for pods in adapter.declared.pods:
        for _, each in pods.templates({"metadata": {"name": ""}, "spec": tree(seen.spec)}):
            found.append(each["spec"].get("nodeSelector"))
    return found


@pytest.mark.parametrize("adapter", KINDS, ids=lambda each: each.kind.kind)
def test_each_template_is_told_where_its_pods_go_and_told_no_more_when_it_is_stopped(adapter: DeclaredJob) -> None:
    seen = held(adapter)
    runs = started(adapter, seen)
    assert not adapter.is_suspended(runs)
    assert [each for each in selectors(adapter, runs) if each != {"pool": "blue"}] == []
    assert bool(selectors(adapter, runs)) is (adapter.kind.kind not in UNPLACED)
    workload = workload_of(adapter, seen)
    assert adapter.is_equivalent(runs, workload)
    evicted = become(workload, WorkloadBuilder.evicted)
    (stop,) = decide(view(runs, evicted), NOW, adapter).actions
    assert isinstance(stop, PatchJob)
    found = applied(runs, stop.patch)
    assert decide(view(found, evicted), NOW, adapter).actions == ()
    assert without_empty(tree(found.spec)) == without_empty(tree(seen.spec))


def without_empty(shown: Any) -> Any:
    """Templates of API servers always have metadata."""
    if isinstance(shown, dict):
        return {key: without_empty(each) for key, each in shown.items() if (key, each) != ("metadata", {})}
    return [without_empty(each) for each in shown] if isinstance(shown, list) else shown


def test_a_job_that_others_hold_gets_its_templates_back_all_the_same() -> None:
    seen = held(JOB_SET)
    evicted = become(workload_of(JOB_SET, seen), WorkloadBuilder.evicted)
    suspended = applied(started(JOB_SET, seen), {"spec": {"suspend": True}})
    (action,) = decide(view(suspended, evicted), NOW, JOB_SET).actions
    assert isinstance(action, PatchJob)
    assert action.patch["metadata"] == {"uid": "uid-job", "resourceVersion": "7"}
    assert selectors(JOB_SET, applied(suspended, action.patch)) == [None, None]


def test_a_job_that_is_dispatched_is_left_as_it_is() -> None:
    seen = value(JOB_SET, body(JOB_SET))
    won = become(workload_of(JOB_SET, seen), lambda w: w.cluster_name("w1"))
    (action,) = decide(view(seen, won, is_dispatched=True), NOW, JOB_SET).actions
    assert isinstance(action, PatchJob)
    assert action.patch["spec"] == {"suspend": False}


def test_one_that_says_otherwise_cannot_be_started() -> None:
    made = body(JOB_SET, managed=False)
    made["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "green"}
    seen = value(JOB_SET, made)
    places = placement(workload_of(JOB_SET, seen), FLAVORS).places
    with pytest.raises(BadPodSetInfo, match="value1=green, value2=blue"):
        JOB_SET.pod_set_info.start_patch(seen, {}, places)  # type: ignore[union-attr]
    assert decide(view(seen, workload_of(JOB_SET, seen)), NOW, JOB_SET).actions == ()


def test_a_pod_set_without_a_place_is_left_as_it_is() -> None:
    seen = held(JOB_SET)
    places = placement(workload_of(JOB_SET, seen), FLAVORS).places
    patch = JOB_SET.pod_set_info.start_patch(seen, {}, {"worker": places["worker"]})  # type: ignore[union-attr]
    assert selectors(JOB_SET, applied(seen, patch)) == [None, {"pool": "blue"}]


def test_what_was_never_placed_is_left_alone() -> None:
    seen = held(JOB_SET)
    pod_set_info = JOB_SET.pod_set_info
    assert pod_set_info is not None
    assert not pod_set_info.pod_set_info_of(seen)
    assert pod_set_info.restoration(seen, workload_of(JOB_SET, seen)) is None


def test_a_user_may_edit_a_template_without_any_of_it() -> None:
    """What is next to a marked template is nobody's to restore."""
    seen = held(JOB_SET)
    runs = started(JOB_SET, seen)
    spec = tree(runs.spec)
    first, second = paths.found({"spec": spec}, "spec.replicatedJobs[*].template.spec.template")
    first["metadata"] = {}
    first["spec"]["nodeSelector"] = {"own": "wish"}
    edited = value(JOB_SET, body(JOB_SET, managed=False) | {"spec": spec})
    step = JOB_SET.pod_set_info.restoration(edited, workload_of(JOB_SET, seen))  # type: ignore[union-attr]
    assert step is not None
    assert selectors(JOB_SET, applied(edited, step.patch)) == [{"own": "wish"}, None]
    assert second["spec"]["nodeSelector"] == {"pool": "blue"}


def test_parts_without_a_template_of_their_own_are_left_as_they_are() -> None:
    ray_job = next(each for each in KINDS if each.kind.kind == "RayJob")
    made = body(ray_job, managed=False)
    assert "submitterPodTemplate" not in made["spec"]
    runs = started(ray_job, value(ray_job, made))
    assert "submitterPodTemplate" not in tree(runs.spec)
    put(made, "spec.submitterPodTemplate", {"spec": {"containers": [{"name": "own"}]}})
    runs = started(ray_job, value(ray_job, made))
    assert tree(runs.spec)["submitterPodTemplate"]["spec"]["nodeSelector"] == {"pool": "blue"}
    assert encode(runs)
