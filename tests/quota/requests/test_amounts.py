"""Requests of pods, exactly (quota-engine 1.6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST, Compatibility, Release
from multikueue.api.kueue.workload import PodSetRequest, WorkloadSpec, workload_spec
from multikueue.api.meta import encode
from multikueue.api.values.quantity import NANO
from multikueue.quota.requests.amounts import Accounting, Demand, Transformation, demand, resource_requests, scaled
from tests.builders import WorkloadBuilder, pod_set, workload


def container(restart: str = "", limits: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    policy = {"restartPolicy": restart} if restart else {}
    return {"name": "c", **policy, "resources": {"requests": requests, "limits": limits or {}}}


def of_pod(*, count: int = 1, **pod_spec: Any) -> WorkloadBuilder:
    return workload("wl").pod_sets(pod_set(count=count).template(encode({"spec": pod_spec})))


def requests(builder: WorkloadBuilder, *, excluded: tuple[str, ...] = ()) -> dict[str, int]:
    """What the first pod set requests."""
    return dict(found(builder, excluded=excluded).pod_sets[0].requests)


def found(builder: WorkloadBuilder, *, excluded: tuple[str, ...] = ()) -> Demand:
    value = builder.build()
    return demand(workload_spec(value), value.status.reclaimable_pods, accounting=Accounting(excluded=excluded))


ARITHMETIC = {
    "containers add up": ({"containers": [container(cpu="1"), container(cpu="500m", memory="1Gi")]}, (1500, 2**30)),
    "cpu rounds up to milli, memory to bytes, per pod and before counting pods": (
        {"containers": [container(cpu="0.0001", memory="0.4"), container(cpu="0.0001", memory="0.4")]},
        (1, 1),
    ),
    "exponents, milli-bytes and exabytes are exact": (
        {"containers": [container(cpu="1e3", memory="1500m"), container(memory="1E")]},
        (1_000_000, 10**18 + 2),
    ),
    "a large init container raises the pod, a small one does not": (
        {"containers": [container(cpu="1", memory="3")], "initContainers": [container(cpu="2", memory="1")]},
        (2000, 3),
    ),
    "a sidecar runs beside containers and later init containers": (
        {
            "containers": [container(cpu="1", memory="1")],
            "initContainers": [container("Always", cpu="1", memory="1"), container(cpu="4", memory="0")],
        },
        (5000, 2),
    ),
    "an init container before the sidecar runs without it": (
        {
            "containers": [container(cpu="1", memory="1")],
            "initContainers": [container(cpu="4", memory="0"), container("Always", cpu="1", memory="1")],
        },
        (4000, 2),
    ),
    "overhead comes on top": (
        {"containers": [container(cpu="1", memory="1")], "overhead": {"cpu": "250m", "memory": "10"}},
        (1250, 11),
    ),
    "pod-level requests replace the containers', overhead still adds": (
        {
            "containers": [container(cpu="1", memory="7")],
            "resources": {"requests": {"cpu": "3"}},
            "overhead": {"cpu": "1"},
        },
        (4000, 7),
    ),
    "a limit is the request where none is given": (
        {"containers": [container(limits={"cpu": "2", "memory": "9"}, memory="5")]},
        (2000, 5),
    ),
}


@pytest.mark.parametrize(("pod_spec", "expected"), ARITHMETIC.values(), ids=ARITHMETIC)
def test_the_arithmetic_of_one_pod(pod_spec: dict[str, Any], expected: tuple[int, int]) -> None:
    amounts = requests(of_pod(**pod_spec))

    assert (amounts["cpu"], amounts["memory"]) == expected


def test_pod_level_requests_do_not_replace_other_resources() -> None:
    pod = of_pod(containers=[container(gpu="2")], resources={"requests": {"gpu": "9", "hugepages-2Mi": "4Mi"}})

    assert requests(pod) == {"gpu": 2, "hugepages-2Mi": 2**22}


def test_amounts_are_per_pod_times_pods() -> None:
    assert requests(of_pod(count=3, containers=[container(cpu="0.0001", gpu="0.5")])) == {"cpu": 3, "gpu": 3}


def test_reclaimed_pods_need_nothing_and_cannot_make_a_count_negative() -> None:
    pods = workload("wl").request(cpu=1).count(5)

    assert requests(pods.reclaimable(main=2)) == {"cpu": 3000}
    assert requests(pods.reclaimable(main=9)) == {"cpu": 0}


def test_excluded_resources_are_left_out_by_prefix_exactly() -> None:
    pod = workload("wl").request({"example.com/a": 1, "example.community/b": 1}, cpu=1)

    assert requests(pod, excluded=("example.com/",)) == {"cpu": 1000, "example.community/b": 1}


GPU_SLICES = Transformation(input="gpu", outputs={"credits": 80 * NANO, "memory": 5 * NANO})

TRANSFORMATIONS: dict[str, tuple[list[Transformation], dict[str, Any], dict[str, int]]] = {
    "what is put out is added to what is asked for": (
        [GPU_SLICES],
        {"gpu": "2", "memory": "7"},
        {"gpu": 2, "credits": 160, "memory": 17},
    ),
    "the input can be replaced": (
        [replace(GPU_SLICES, should_replace=True)],
        {"gpu": "2"},
        {"credits": 160, "memory": 10},
    ),
    "several inputs add up in one output": (
        [
            Transformation(input="small", outputs={"credits": 10 * NANO}, should_replace=True),
            Transformation(input="large", outputs={"credits": 15 * NANO}, should_replace=True),
        ],
        {"small": "2", "large": "1"},
        {"credits": 35},
    ),
    "cpu counts in whole cores, rounded up": (
        [Transformation(input="cpu", outputs={"credits": NANO})],
        {"cpu": "1500m"},
        {"cpu": 1500, "credits": 2},
    ),
    "an input can be multiplied by another resource": (
        [Transformation(input="gpu-memory", outputs={"credits": NANO}, should_replace=True, multiply_by="gpu")],
        {"gpu-memory": "20", "gpu": "2"},
        {"gpu": 2, "credits": 40},
    ),
    "without that resource it counts once": (
        [Transformation(input="gpu-memory", outputs={"credits": NANO}, should_replace=True, multiply_by="gpu")],
        {"gpu-memory": "20"},
        {"credits": 20},
    ),
    "what is multiplied and kept counts as it was asked for": (
        [Transformation(input="gpu-memory", outputs={"credits": 1024 * NANO}, multiply_by="gpu")],
        {"gpu-memory": "2", "gpu": "3"},
        {"gpu": 3, "gpu-memory": 2, "credits": 6144},
    ),
    "an output below zero takes nothing from what is asked for": (
        [Transformation(input="gpu", outputs={"cpu": -4 * NANO}, should_replace=True)],
        {"gpu": "1", "cpu": "1"},
        {"cpu": 1000},
    ),
    "nor from what is kept": (
        [Transformation(input="gpu", outputs={"gpu": -4 * NANO})],
        {"gpu": "1"},
        {"gpu": 1},
    ),
    "but from other outputs, down to nothing": (
        [
            Transformation(input="large", outputs={"credits": 15 * NANO, "money": 3 * NANO}, should_replace=True),
            Transformation(input="free", outputs={"credits": -10 * NANO, "money": -10 * NANO}, should_replace=True),
        ],
        {"large": "1", "free": "1"},
        {"credits": 5, "money": 0},
    ),
    "who asks for no input is left alone": ([GPU_SLICES], {"cpu": "1"}, {"cpu": 1000}),
    "what is put out is not put in again": (
        [GPU_SLICES, Transformation(input="credits", outputs={"money": NANO})],
        {"gpu": "1"},
        {"gpu": 1, "credits": 80, "memory": 5},
    ),
}


@pytest.mark.parametrize(("rules", "asked", "counted"), TRANSFORMATIONS.values(), ids=TRANSFORMATIONS)
def test_qe_345_requests_count_by_way_of_transformations(
    rules: list[Transformation], asked: dict[str, Any], counted: dict[str, int]
) -> None:
    spec = workload_spec(of_pod(containers=[container(**asked)]).build())

    (each,) = demand(spec, accounting=Accounting(transformations=tuple(rules))).pod_sets
    assert each.requests == counted


@pytest.mark.parametrize(("release", "kept"), [("0.19", 6), ("0.19.2", 2)])
def test_before_0_19_1_what_is_kept_was_multiplied_too(release: Release, kept: int) -> None:
    rule = Transformation(input="gpu-memory", outputs={"credits": NANO}, multiply_by="gpu")
    rules = Accounting(transformations=(rule,), compatibility=Compatibility.of(release))
    asked: dict[str, Any] = {"gpu-memory": "2", "gpu": "3"}
    spec = workload_spec(of_pod(containers=[container(**asked)]).build())

    (each,) = demand(spec, accounting=rules).pod_sets
    assert each.requests == {"gpu": 3, "gpu-memory": kept, "credits": 6}


@pytest.mark.parametrize(("exact", "counted"), [(True, 300), (False, 1000)])
def test_thousandths_count_as_they_are_or_as_whole_units(exact: bool, counted: int) -> None:
    release = replace(NEWEST, has_exact_products=exact)
    rule = Transformation(input="cpu", outputs={"credits": 1000 * NANO}, should_replace=True)
    spec = workload_spec(of_pod(containers=[container(cpu="300m")]).build())

    (each,) = demand(spec, accounting=Accounting(transformations=(rule,), compatibility=release)).pod_sets
    assert each.requests == {"credits": counted}


def test_limits_of_a_pod_stand_in_for_its_requests_and_bound_them() -> None:
    pod = of_pod(
        containers=[container(cpu="1")], resources={"requests": {"cpu": "3"}, "limits": {"memory": "2", "cpu": "2"}}
    )
    before = Accounting(compatibility=replace(NEWEST, has_pod_limits=False))

    (each,) = found(pod).pod_sets
    assert each.requests == {"cpu": 3000, "memory": 2}
    assert found(pod).problem == (
        'resources validation failed: spec.podSets[0].template.spec.resources: Invalid value: ["cpu"]: '
        "requests must not exceed its limits"
    )
    (each,) = demand(workload_spec(pod.build()), accounting=before).pod_sets
    assert each.requests == {"cpu": 3000}


VGPU = Transformation(input="per-vgpu", outputs={"total": NANO}, should_replace=True, multiply_by="vgpu-count")

EXCLUDED: dict[str, tuple[Transformation, dict[str, int]]] = {
    "an input that is replaced counts by its outputs": (GPU_SLICES, {"cpu": 1000, "credits": 160, "memory": 10}),
    "an input that is kept does so, too, and not by itself": (
        replace(GPU_SLICES, should_replace=False),
        {"cpu": 1000, "credits": 160, "memory": 10},
    ),
    "a multiplier multiplies, and does not count by itself": (VGPU, {"cpu": 1000, "gpu": 2, "total": 40}),
}


@pytest.mark.parametrize(("rule", "counted"), EXCLUDED.values(), ids=EXCLUDED)
def test_qe_346_what_is_excluded_counts_by_what_it_is_transformed_to(
    rule: Transformation, counted: dict[str, int]
) -> None:
    """Else who asks for more of it gets around the quota (kueue#16041, kueue#15954)."""
    excluded = (rule.multiply_by, "per-vgpu") if rule.multiply_by else ("gp", "per-vgpu", "vgpu-count")
    asked: dict[str, Any] = {"cpu": "1", "gpu": "2", "per-vgpu": "20", "vgpu-count": "2"}
    spec = workload_spec(of_pod(containers=[container(**asked)]).build())

    (each,) = demand(spec, accounting=Accounting(excluded=excluded, transformations=(rule,))).pod_sets
    assert each.requests == counted


def test_qe_346_what_is_excluded_and_not_transformed_does_not_count() -> None:
    rules = Accounting(excluded=("example.com/",), transformations=(GPU_SLICES,))
    asked: dict[str, Any] = {"cpu": "1", "example.com/other": "4"}
    spec = workload_spec(of_pod(containers=[container(**asked)]).build())

    (each,) = demand(spec, accounting=rules).pod_sets
    assert each.requests == {"cpu": 1000}


SMALLER: dict[str, tuple[dict[str, Any], int]] = {
    "than its container": ({"containers": [{"cpu": "8"}]}, 8000),
    "than all of them together": ({"containers": [{"cpu": "2"}, {"cpu": "2"}]}, 4000),
    "than an init container": ({"containers": [{"cpu": "1"}], "initContainers": [{"cpu": "5"}]}, 5000),
    "than one with an overhead, which comes on top": (
        {"containers": [{"cpu": "8"}], "overhead": {"cpu": "500m"}},
        8500,
    ),
}


@pytest.mark.parametrize(("pod", "counted"), SMALLER.values(), ids=SMALLER)
@pytest.mark.parametrize("whole", ["0", "1"])
def test_a_pod_as_a_whole_counts_no_less_than_its_containers(pod: dict[str, Any], counted: int, whole: str) -> None:
    """No API server makes such a pod, but a template in a Workload or a custom resource may be so (kueue#16047)."""
    filled: dict[str, Any] = {
        part: [container(**each) for each in given] if isinstance(given, list) else given for part, given in pod.items()
    }

    assert requests(of_pod(**filled, resources={"requests": {"cpu": whole}}))["cpu"] == counted


def test_a_request_above_its_limit_is_a_problem_that_names_the_place() -> None:
    pod = of_pod(containers=[container(cpu="1")], initContainers=[container(limits={"cpu": "1"}, cpu="2")])

    assert found(pod).problem == (
        'resources validation failed: spec.podSets[0].template.spec.initContainers[0]: Invalid value: ["cpu"]: '
        "requests must not exceed its limits"
    )


@pytest.mark.parametrize(
    "template", [{"spec": {"containers": [container(cpu="much")]}}, {"spec": {"containers": 7}}, []]
)
def test_an_unreadable_template_is_a_problem_and_no_error(template: Any) -> None:
    pod = workload("wl").pod_sets(pod_set().template(encode(template)))

    assert found(pod).problem.startswith("resources validation failed: spec.podSets[0].template: ")


def test_pod_sets_of_one_group_are_known() -> None:
    alone: dict[str, Any] = {"name": "a", "template": {"spec": {}}, "topologyRequest": None}
    grouped = {"name": "b", "template": {"spec": {}}, "topologyRequest": {"podSetGroupName": "together"}}
    spec = msgspec.json.decode(encode({"podSets": [alone, grouped]}), type=WorkloadSpec)

    assert [each.group for each in demand(spec).pod_sets] == ["", "together"]


def test_resource_requests_are_rendered_canonically_and_count_pods_where_asked() -> None:
    pod_sets = found(workload("wl").request(cpu="1500m", memory="2048Mi").count(2)).pod_sets

    assert resource_requests(pod_sets, should_count_pods=False) == (
        PodSetRequest(name="main", resources={"cpu": "3", "memory": "4Gi"}),
    )
    assert resource_requests(pod_sets, should_count_pods=True) == (
        PodSetRequest(name="main", resources={"cpu": "3", "memory": "4Gi", "pods": "2"}),
    )


@pytest.mark.parametrize(
    ("total", "of", "to", "expected"), [(10, 5, 2, 4), (11, 5, 2, 4), (11, 5, 5, 11), (0, 0, 0, 0), (9, 0, 3, 9)]
)
def test_scaling_divides_first(total: int, of: int, to: int, expected: int) -> None:
    assert scaled(total, of=of, to=to) == expected
