"""Where a worker makes something else of pods than the manager counts: one file, as it is two tables of cases."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kubernetes.builtins import (
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    Overhead,
    PriorityClass,
    RuntimeClass,
)
from multikueue.api.kueue.queues import WorkloadPriorityClass
from multikueue.api.kueue.workload import workload_spec
from multikueue.api.meta import ObjectMeta, encode
from multikueue.quota.requests.amounts import Demand, demand
from multikueue.quota.requests.devices import DeviceRules, Devices
from multikueue.quota.requests.limits import LimitsByNamespace
from multikueue.quota.visibility.differences import COMPARED, PodPolicies, differences, differences_for
from tests.builders import WorkloadBuilder, pod_set, workload
from tests.quota.builders import claim_template, device_class, devices

GPUS = DeviceRules(of_class={"gpu.example.com": "gpus", "big.example.com": "gpus"})

Told = tuple[str, str, str, str]
"""Subject, field, manager's value, worker's value."""


def limit_range(
    *, of: str = "Container", name: str = "limits", namespace: str = "default", **bounds: Any
) -> PodPolicies:
    item = LimitRangeItem(type=of, **bounds)
    return PodPolicies(
        limit_ranges=[
            LimitRange(metadata=ObjectMeta(name=name, namespace=namespace), spec=LimitRangeSpec(limits=(item,)))
        ]
    )


def together(*policies: PodPolicies) -> PodPolicies:
    return PodPolicies(**{field: [each for some in policies for each in getattr(some, field)] for field in COMPARED})


def runtime_class(name: str, **overhead: Any) -> PodPolicies:
    fixed = Overhead(pod_fixed=overhead) if overhead else None
    return PodPolicies(runtime_classes=[RuntimeClass(metadata=ObjectMeta(name=name), overhead=fixed)])


def priority_class(name: str, value: int, *, is_default: bool = False) -> PodPolicies:
    found = PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=is_default)
    return PodPolicies(priority_classes=[found])


def workload_class(name: str, value: int) -> PodPolicies:
    return PodPolicies(workload_priority_classes=[WorkloadPriorityClass(metadata=ObjectMeta(name=name), value=value)])


def template(name: str, *requests: Any) -> PodPolicies:
    return PodPolicies(claim_templates=[claim_template(name, *requests)])


def of_devices(name: str, extended: str = "") -> PodPolicies:
    return PodPolicies(device_classes=[device_class(name, extended=extended)])


NOTHING = PodPolicies()

THERE = ("object", "there", "missing")
GPU, TWO_GPUS = devices("gpu.example.com"), devices("gpu.example.com", 2)

CASES: dict[str, tuple[PodPolicies, PodPolicies, list[Told]]] = {
    "nothing on either side": (NOTHING, NOTHING, []),
    "the same amount in other words": (
        limit_range(default_request={"cpu": "1000m", "memory": "1Gi"}, default={"cpu": 2}),
        limit_range(default_request={"cpu": 1, "memory": "1024Mi"}, default={"cpu": "2000m"}),
        [],
    ),
    "two LimitRanges that say what one does": (
        together(limit_range(name="a", default_request={"cpu": 1}), limit_range(name="b", max={"cpu": 4})),
        limit_range(default_request={"cpu": 1}, max={"cpu": 4}),
        [],
    ),
    "another default request": (
        limit_range(default_request={"cpu": 1}),
        limit_range(default_request={"cpu": 2}),
        [("LimitRange default/limits", "defaultRequest.cpu of type Container", "1", "2")],
    ),
    "a default request on the worker only": (
        NOTHING,
        limit_range(default_request={"cpu": 2}, name="theirs"),
        [("LimitRange default/theirs", "defaultRequest.cpu of type Container", "none", "2")],
    ),
    "a default request on the manager only": (
        limit_range(default_request={"cpu": 2}, name="ours"),
        NOTHING,
        [("LimitRange default/ours", "defaultRequest.cpu of type Container", "2", "none")],
    ),
    "a default request of nothing, which is none": (NOTHING, limit_range(default_request={"cpu": 0}), []),
    "a default limit, which is the request as well": (
        NOTHING,
        limit_range(default={"cpu": 2}),
        [
            ("LimitRange default/limits", "defaultRequest.cpu of type Container", "none", "2"),
            ("LimitRange default/limits", "default.cpu of type Container", "none", "2"),
        ],
    ),
    "another default limit alone": (
        limit_range(default={"cpu": 4}, default_request={"cpu": 1}),
        limit_range(default={"cpu": 2}, default_request={"cpu": 1}),
        [("LimitRange default/limits", "default.cpu of type Container", "4", "2")],
    ),
    "other bounds": (
        limit_range(max={"cpu": 4}, min={"memory": "1Gi"}),
        limit_range(max={"cpu": 2}, min={"memory": "2Gi"}),
        [
            ("LimitRange default/limits", "max.cpu of type Container", "4", "2"),
            ("LimitRange default/limits", "min.memory of type Container", "1Gi", "2Gi"),
        ],
    ),
    "the stricter of two bounds counts": (
        together(limit_range(name="a", max={"cpu": 4}), limit_range(name="b", max={"cpu": 2})),
        limit_range(max={"cpu": 2}),
        [],
    ),
    "bounds of pods are not those of containers": (
        limit_range(max={"cpu": 4}),
        limit_range(of="Pod", max={"cpu": 4}),
        [
            ("LimitRange default/limits", "max.cpu of type Container", "4", "none"),
            ("LimitRange default/limits", "max.cpu of type Pod", "none", "4"),
        ],
    ),
    "a LimitRange of a namespace whose jobs do not go there": (
        NOTHING,
        limit_range(namespace="another", default_request={"cpu": 1}),
        [],
    ),
    "LimitRanges that nobody could see": (PodPolicies(limit_ranges=None), limit_range(default_request={"cpu": 2}), []),
    "an overhead in other words": (runtime_class("kata", cpu="250m"), runtime_class("kata", cpu=0.25), []),
    "another overhead": (
        runtime_class("kata", cpu="250m"),
        runtime_class("kata", cpu="250m", memory="120Mi"),
        [("RuntimeClass kata", "overhead.podFixed.memory", "none", "120Mi")],
    ),
    "an overhead that the manager knows nothing of": (
        NOTHING,
        runtime_class("kata", cpu="250m"),
        [("RuntimeClass kata", "overhead.podFixed.cpu", "none", "250m")],
    ),
    "a RuntimeClass without overhead that the manager lacks": (NOTHING, runtime_class("nvidia"), []),
    "a RuntimeClass that the worker lacks": (
        runtime_class("kata", cpu="250m"),
        NOTHING,
        [("RuntimeClass kata", *THERE)],
    ),
    "a PriorityClass of another value": (
        priority_class("high", 100),
        priority_class("high", 50),
        [("PriorityClass high", "value", "100", "50")],
    ),
    "a PriorityClass that the worker lacks": (priority_class("high", 100), NOTHING, [("PriorityClass high", *THERE)]),
    "a PriorityClass of the worker's own": (NOTHING, priority_class("local", 100), []),
    "another default class": (
        NOTHING,
        priority_class("usual", 10, is_default=True),
        [("PriorityClass (pods without a class)", "globalDefault", "0 (no class)", "10 (usual)")],
    ),
    "another default class of the same value": (
        together(priority_class("a", 5, is_default=True), priority_class("b", 5)),
        together(priority_class("a", 5), priority_class("b", 5, is_default=True)),
        [],
    ),
    "a default class of another value is one difference": (
        priority_class("usual", 10, is_default=True),
        priority_class("usual", 20, is_default=True),
        [("PriorityClass usual", "value", "10", "20")],
    ),
    "a WorkloadPriorityClass of another value": (
        workload_class("high", 100),
        workload_class("high", 50),
        [("WorkloadPriorityClass high", "value", "100", "50")],
    ),
    "a WorkloadPriorityClass that the worker lacks": (
        workload_class("high", 100),
        NOTHING,
        [("WorkloadPriorityClass high", *THERE)],
    ),
    "a template that claims more": (
        template("one", GPU),
        template("one", TWO_GPUS),
        [("ResourceClaimTemplate default/one", "gpus", "1", "2")],
    ),
    "a template that claims as much of another class that counts as the same": (
        template("one", GPU),
        template("one", devices("big.example.com")),
        [],
    ),
    "a template with a class that counts as nothing": (
        template("one", GPU),
        template("one", devices("other.example.com")),
        [
            ("ResourceClaimTemplate default/one", "gpus", "1", "0"),
            ("ResourceClaimTemplate default/one", "other.example.com", "0", "1"),
        ],
    ),
    "a template that the worker lacks": (
        template("one", GPU),
        NOTHING,
        [("ResourceClaimTemplate default/one", *THERE)],
    ),
    "a template of the worker's own": (NOTHING, template("one", GPU), []),
    "a DeviceClass that the worker lacks": (
        of_devices("gpu.example.com"),
        NOTHING,
        [("DeviceClass gpu.example.com", *THERE)],
    ),
    "a DeviceClass behind another extended resource": (
        of_devices("gpu.example.com", "example.com/gpu"),
        of_devices("gpu.example.com"),
        [("DeviceClass gpu.example.com", "spec.extendedResourceName", "example.com/gpu", "none")],
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "told"), CASES.values(), ids=CASES)
def test_what_changes_amounts_is_told_and_nothing_else(
    ours: PodPolicies, theirs: PodPolicies, told: list[Told]
) -> None:
    found = differences(ours, theirs, ("default",), GPUS)

    assert [(each.subject, each.field, each.manager, each.worker) for each in found] == told
    assert all(each.meaning and each.advice for each in found)


def test_equal_sides_differ_in_nothing() -> None:
    for ours, theirs, _ in CASES.values():
        for side in (ours, theirs):
            assert differences(side, side, ("default",), GPUS) == ()


def test_a_template_that_cannot_be_counted_there_says_why() -> None:
    every = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "All"}}

    found = differences(template("one", GPU), template("one", every), ("default",), GPUS)

    assert [each.field for each in found] == ["devices", "gpus"]
    assert "AllocationMode 'All' is not supported" in found[0].worker


MEANINGS = {
    "a smaller maximum": (NOTHING, limit_range(max={"cpu": 2}), "a container with more cpu than 2 is refused there"),
    "a larger one": (limit_range(max={"cpu": 2}), NOTHING, "a container with more cpu than 2 waits here"),
    "a larger minimum": (NOTHING, limit_range(min={"cpu": 2}), "a container with less cpu than 2 is refused there"),
    "a smaller one": (
        limit_range(of="Pod", min={"cpu": 2}),
        limit_range(of="Pod", min={"cpu": 1}),
        "a pod with less cpu than 2 waits here",
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "words"), MEANINGS.values(), ids=MEANINGS)
def test_a_bound_says_which_side_refuses(ours: PodPolicies, theirs: PodPolicies, words: str) -> None:
    (found,) = differences(ours, theirs, ("default",))
    assert found.meaning.startswith(words)


# --- one workload ----------------------------------------------------------------------------------------------------


def asking(*, pods: int = 1, **spec: Any) -> WorkloadBuilder:
    body = {"containers": [{"name": "c"}], **spec}
    return workload("w").pod_sets(pod_set(count=pods).template(encode({"spec": body})))


def told(job: WorkloadBuilder, ours: PodPolicies, theirs: PodPolicies) -> list[Told]:
    built = job.build()

    def count(policies: PodPolicies) -> Demand:
        limits, known = LimitsByNamespace(), Devices(GPUS)
        for each in policies.limit_ranges or ():
            limits.set_range(each.key, each)
        for runtime in policies.runtime_classes or ():
            limits.set_class(runtime.metadata.name, runtime)
        for claimed in policies.claim_templates or ():
            known.set_template(claimed.key, claimed)
        for device in policies.device_classes or ():
            known.set_class(device.metadata.name, device)
        rules = limits.of("default")
        return demand(workload_spec(built), rules=rules, devices=known, namespace="default")

    found = differences_for(built, ours, theirs, count, GPUS)
    return [(each.subject, each.field, each.manager, each.worker) for each in found]


def requests(**resources: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": resources}}]}


LIMITS = "LimitRanges of default"
CLAIM: dict[str, Any] = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "one"}]}

OF_ONE: dict[str, tuple[WorkloadBuilder, PodPolicies, PodPolicies, list[Told]]] = {
    "all its pods get a default request there": (
        asking(pods=3),
        limit_range(default_request={"cpu": 1}),
        limit_range(default_request={"cpu": 2}),
        [(LIMITS, "cpu of pod set main", "3", "6")],
    ),
    "it says itself what it requests": (
        asking(**requests(cpu=1)),
        NOTHING,
        limit_range(default_request={"cpu": 2}),
        [],
    ),
    "it is refused there": (
        asking(**requests(cpu=3)),
        NOTHING,
        limit_range(max={"cpu": 2}),
        [(LIMITS, "what becomes of its pods", "accepted", "refused")],
    ),
    "a default limit there is below its request": (
        asking(**requests(cpu=3)),
        NOTHING,
        limit_range(default={"cpu": 2}),
        [(LIMITS, "what becomes of its pods", "accepted", "refused")],
    ),
    "an overhead of its class": (
        asking(runtimeClassName="kata", **requests(cpu=1)),
        runtime_class("kata", cpu="250m"),
        runtime_class("kata", cpu="500m"),
        [("RuntimeClasses", "cpu of pod set main", "1250m", "1500m")],
    ),
    "an overhead of another class": (asking(), NOTHING, runtime_class("kata", cpu=1), []),
    "its own overhead goes before that of the class": (
        asking(runtimeClassName="kata", overhead={"cpu": "1"}),
        runtime_class("kata", cpu=1),
        runtime_class("kata", cpu=2),
        [],
    ),
    "its class is missing there": (
        asking(runtimeClassName="kata", **requests(cpu=1)),
        runtime_class("kata", cpu="250m"),
        NOTHING,
        [("RuntimeClass kata", *THERE)],
    ),
    "the priority class of its pods is missing there": (
        asking(priorityClassName="high"),
        together(priority_class("high", 100), priority_class("other", 1)),
        NOTHING,
        [("PriorityClass high", *THERE)],
    ),
    "its pods have no class, and another default there": (
        asking(),
        NOTHING,
        priority_class("usual", 10, is_default=True),
        [("PriorityClass (pods without a class)", "globalDefault", "0 (no class)", "10 (usual)")],
    ),
    "its pods have no class, and the default has another value there": (
        asking().priority(100, workload_class="high"),
        priority_class("usual", 10, is_default=True),
        priority_class("usual", 20, is_default=True),
        [("PriorityClass usual", "value", "10", "20")],
    ),
    "its pods have a class, so no default": (
        asking(priorityClassName="high"),
        priority_class("high", 100),
        together(priority_class("high", 100), priority_class("usual", 10, is_default=True)),
        [],
    ),
    "its WorkloadPriorityClass has another value there": (
        asking().priority(100, workload_class="high"),
        together(workload_class("high", 100), workload_class("low", 1)),
        workload_class("high", 50),
        [("WorkloadPriorityClass high", "value", "100", "50")],
    ),
    "its template claims more there": (
        asking(**CLAIM),
        together(template("one", GPU), template("two", GPU)),
        template("one", TWO_GPUS),
        [("ResourceClaimTemplate default/one", "gpus", "1", "2")],
    ),
    "its devices are missing there": (
        asking(**CLAIM),
        together(template("one", GPU), of_devices("gpu.example.com"), of_devices("other.example.com")),
        template("one", GPU),
        [("DeviceClass gpu.example.com", *THERE)],
    ),
    "what it requests is a device here only": (
        asking(**requests(**{"example.com/gpu": 1})),
        of_devices("gpu.example.com", "example.com/gpu"),
        NOTHING,
        [
            ("DeviceClasses", "example.com/gpu of pod set main", "0", "1"),
            ("DeviceClasses", "gpus of pod set main", "1", "0"),
        ],
    ),
    "nobody could see its classes there": (
        asking(runtimeClassName="kata", priorityClassName="high"),
        together(runtime_class("kata", cpu=1), priority_class("high", 1)),
        PodPolicies(runtime_classes=None, priority_classes=None),
        [],
    ),
}


@pytest.mark.parametrize(("job", "ours", "theirs", "expected"), OF_ONE.values(), ids=OF_ONE)
def test_one_workload_is_told_what_it_would_meet(
    job: WorkloadBuilder, ours: PodPolicies, theirs: PodPolicies, expected: list[Told]
) -> None:
    assert told(job, ours, theirs) == expected
