from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.jobs.integrations.frameworks import FRAMEWORKS
from multikueue.jobs.kinds.app_wrapper.pod_sets import KNOWN, Components, completed
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.reconciler.decide import JobView, decide
from multikueue.testing import NOW
from tests.jobs.all_kinds import RAY, SPECS, body, ended, template, value
from tests.jobs.builders import with_status

Tree = dict[str, Any]


def pod_sets(*components: Any) -> list[Tree]:
    return list(Components().pod_sets({"metadata": {"name": "Aw"}, "spec": {"components": list(components)}}))


def wrapped(api_version: str, kind: str, spec: Any) -> Tree:
    return {"template": {"apiVersion": api_version, "kind": kind, "spec": spec}}


def images(found: list[Tree]) -> list[tuple[int, str]]:
    return [(each["count"], each["template"]["spec"]["containers"][0]["image"]) for each in found]


@pytest.mark.parametrize("api_version", ["v1", "example.com/v1"])
def test_what_nobody_knows_has_no_pods(api_version: str) -> None:
    assert pod_sets(wrapped(api_version, "Job", {"template": template("x")})) == []


def test_they_are_numbered_over_all_components() -> None:
    pod = wrapped("v1", "Pod", template("p")["spec"])
    assert [each["name"] for each in pod_sets(pod, wrapped("v1", "ConfigMap", {}), pod)] == ["aw-0", "aw-1"]


SWEEP = wrapped("example.com/v1", "Sweep", {"jobs": [{}, {"template": template("second")}]})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("template.spec.jobs[1].template", [(4, "second")]),
        ("template.spec.jobs[2].template", []),
        ("template.spec.jobs[0].template", []),
        ("template.spec.jobs.template", []),
        ("spec.jobs[1].template", []),
        ("template.spec.jobs[*].template", []),
        ("", []),
    ],
)
def test_where_its_author_says_they_are_they_are(path: str, expected: list[tuple[int, str]]) -> None:
    assert images(pod_sets(SWEEP | {"podSets": [{"replicas": 4, "path": path}]})) == expected


def test_the_author_says_what_numbers_them() -> None:
    prefix = "workload.codeflare.dev.appwrapper/tas-"
    annotations = {
        f"{prefix}pod-index-label": "i",
        f"{prefix}sub-group-index-label": "g",
        f"{prefix}sub-group-count": "2",
    }
    own = {"path": "template.spec.jobs[1].template", "annotations": annotations}
    (found,) = pod_sets(SWEEP | {"podSets": [own]})
    assert found["topologyRequest"] == {"podIndexLabel": "i", "subGroupIndexLabel": "g", "subGroupCount": 2}
    assert found["count"] == 1


@pytest.mark.parametrize("size", ["", "two", "-1", "9" * 5000, str(2**31)])
def test_a_size_that_is_none_makes_no_groups(size: str) -> None:
    prefix = "workload.codeflare.dev.appwrapper/tas-"
    annotations = {f"{prefix}sub-group-index-label": "g", f"{prefix}sub-group-count": size}
    own = {"path": "template.spec.jobs[1].template", "annotations": annotations}
    (found,) = pod_sets(SWEEP | {"podSets": [own]})
    assert "subGroupCount" not in found.get("topologyRequest", {})


def test_a_template_goes_without_what_decides_nothing_and_with_the_usual_defaults() -> None:
    container = {"name": "c", "image": "c:1", "env": [{"name": "A"}], "ports": [{"containerPort": 1}]}
    spec = {"containers": [container], "volumes": [{"name": "v"}], "schedulerName": "own", "nodeSelector": {"a": "b"}}
    (found,) = pod_sets({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}})
    assert found["template"] == {
        "metadata": {},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "c:1",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "own",
            "preemptionPolicy": "PreemptLowerPriority",
            "nodeSelector": {"a": "b"},
            "terminationGracePeriodSeconds": 30,
        },
    }


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "template", "metadata", "annotations", "containers", "env", "ports", "resources", "name"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=150)
@given(spec=_json, path=st.sampled_from(["template", "template.spec", "template.spec.template", "template[0]"]))
def test_no_template_breaks_anything(spec: Any, path: str) -> None:
    """Its schema lets through whatever there is."""
    known = [wrapped(api_version, kind, spec) for api_version, kind in (("v1", "Pod"), ("batch/v1", "Job"))]
    pod_sets(*known, {"podSets": [{"path": path}], **known[0]}, spec)


def test_one_that_failed_is_over_once_nothing_of_it_is_left() -> None:
    adapter = FRAMEWORKS["workload.codeflare.dev/appwrapper"]
    job = value(adapter, body(adapter))  # type: ignore[arg-type]
    failed = {"phase": "Failed"}
    assert adapter.finished(with_status(job, failed | ended("ResourcesDeployed"))) is None
    assert adapter.finished(with_status(job, failed)) is not None


# --- sidecars ----------------------------------------------------------------------------------------------------------------


def with_init(**fields: Any) -> Tree:
    made = template("x")
    made["spec"]["initContainers"] = [{"name": "init", "image": "i"} | fields]
    return made


MUCH = {"requests": {"cpu": "10"}}
SIDECARS: dict[str, tuple[Tree, bool]] = {
    "a sidecar that asks for something": (with_init(restartPolicy="Always", resources=MUCH), True),
    "one that has a limit alone": (with_init(restartPolicy="Always", resources={"limits": MUCH["requests"]}), True),
    "one that asks for nothing": (with_init(restartPolicy="Always"), False),
    "a container that ends": (with_init(resources=MUCH), False),
}


@pytest.mark.parametrize(("pod", "is_told"), SIDECARS.values(), ids=SIDECARS)
@pytest.mark.parametrize("is_declared", [True, False], ids=["declared pod sets", "a kind that is known"])
def test_what_would_run_beside_the_containers_uncounted_is_told_with_its_field(
    pod: Tree, *, is_told: bool, is_declared: bool
) -> None:
    component = wrapped("batch/v1", "Job", {"template": pod})
    if is_declared:
        component["podSets"] = [{"replicas": 1, "path": "template.spec.template"}]
    told = list(Components().uncounted({"metadata": {"name": "aw"}, "spec": {"components": [{}, component]}}))
    where = (
        "spec.components[1]: initContainers[0].restartPolicy: expected none where it asks for resources, got 'Always'"
    )
    assert [each.startswith(where) for each in told] == ([True] if is_told else [])


def test_such_an_appwrapper_does_not_queue_and_says_why() -> None:
    adapter = FRAMEWORKS["workload.codeflare.dev/appwrapper"]
    assert isinstance(adapter, DeclaredJob)
    made = body(adapter)
    made["spec"]["components"] = [wrapped("v1", "Pod", with_init(restartPolicy="Always", resources=MUCH)["spec"])]
    decision = decide(JobView(job=value(adapter, made)), NOW, adapter)
    assert decision.actions == ()
    (event,) = decision.events
    assert "initContainers[0].restartPolicy" in event.message


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "expected"),
    [
        ("v1", "Pod", template("p")["spec"], [(1, "p")]),
        ("apps/v1", "Deployment", {"replicas": 3, "template": template("d")}, [(3, "d")]),
        ("apps/v1", "StatefulSet", {"template": template("s")}, [(1, "s")]),
        ("batch/v1", "Job", {"parallelism": 4, "completions": 2, "template": template("j")}, [(2, "j")]),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", SPECS["JobSet"], [(1, "Driver"), (6, "worker")]),
        ("kubeflow.org/v1", "PyTorchJob", SPECS["PyTorchJob"], [(1, "Master"), (3, "Worker")]),
        ("ray.io/v1", "RayCluster", RAY, [(1, "head"), (2, "small"), (1, "big")]),
        ("ray.io/v1", "RayJob", SPECS["RayJob"], [(1, "head"), (2, "small"), (1, "big")]),
    ],
)
def test_the_pods_of_known_kinds_are_found(
    api_version: str, kind: str, spec: Tree, expected: list[tuple[int, str]]
) -> None:
    component = {"template": {"apiVersion": api_version, "kind": kind, "spec": spec}}
    found = [each for pods in KNOWN[api_version, kind] for each in pods.pod_sets({"component": component})]
    assert [(each["count"], each["template"]["spec"]["containers"][0]["image"]) for each in found] == expected


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("host:5000/x", "Always"),
        ("host:5000/x:1", "IfNotPresent"),
        ("x@sha256:abc", "IfNotPresent"),
        ("x:latest@sha256:abc", "Always"),
    ],
)
def test_what_may_be_another_image_tomorrow_is_pulled_again(image: str, policy: str) -> None:
    assert completed(template(image))["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_what_is_said_stays_and_patience_of_its_own_goes() -> None:
    found = completed({"metadata": {"labels": {"a": "b"}, "name": "x"}, "spec": {"terminationGracePeriodSeconds": 5}})
    assert found["metadata"] == {"labels": {"a": "b"}}
    assert "terminationGracePeriodSeconds" not in found["spec"]
    assert completed({"spec": {"schedulerName": "own"}})["spec"]["schedulerName"] == "own"


def test_init_containers_are_completed_too() -> None:
    spec = {"initContainers": [{"name": "i", "terminationMessagePolicy": "FallbackToLogsOnError"}], "containers": []}
    (container,) = completed({"spec": spec})["spec"]["initContainers"]
    assert (container["terminationMessagePolicy"], container["resources"]) == ("FallbackToLogsOnError", {})
