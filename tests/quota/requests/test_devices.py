"""Devices that pods claim: what they count as, what is not counted, and who is looked at again (KEP 2941)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.unadmitted import INADMISSIBLE, MISCONFIGURED
from multikueue.api.kueue.workload import QUOTA_RESERVED, REQUEUED, Workload, workload_spec
from multikueue.api.meta import Object, encode
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.requests.amounts import Accounting, Demand, Transformation, demand
from multikueue.quota.requests.devices import NO_CLASS, DeviceRules, Devices
from multikueue.quota.workload.outcome import Reasons
from tests.builders import cluster_queue, local_queue, pod_set, workload
from tests.quota.builders import EXTENDED, Play, claim_template, claiming, device_class, devices, wants

GPUS = DeviceRules(of_class={"gpu.example.com": "gpu", "big.example.com": "gpu", "nic.example.com": "nic"})
CLAIM = "spec.podSets[0].template.spec.resourceClaims[0]"
ONE = claim_template("one", devices("gpu.example.com"))
TWO = claim_template("two", devices("gpu.example.com", 2))


def found(template: bytes, *known: Object, rules: DeviceRules = GPUS, pods: int = 1, **more: Any) -> Demand:
    """The demand of one pod set, where these ResourceClaimTemplates and DeviceClasses are known."""
    spec = workload_spec(workload("w").pod_sets(pod_set().count(pods).template(template)).build())
    return demand(spec, devices=knowing(known, rules), namespace="default", **more)


def knowing(known: Iterable[Object], rules: DeviceRules) -> Devices:
    seen = Devices(rules)
    for each in known:
        if each.metadata.namespace:
            seen.set_template(each.key, each)  # type: ignore[arg-type]  # a template is namespaced
        else:
            seen.set_class(each.metadata.name, each)  # type: ignore[arg-type]  # a class is not
    return seen


def counted(template: bytes, *known: Object, **more: Any) -> dict[str, int]:
    told = found(template, *known, **more)
    assert told.problem == ""
    return dict(told.pod_sets[0].requests)


COUNTED: dict[str, tuple[bytes, tuple[Object, ...], dict[str, int]]] = {
    "a device beside what the pod requests": (claiming("one"), (ONE,), {"cpu": 1000, "gpu": 1}),
    "as many as the request says": (claiming("two"), (TWO,), {"cpu": 1000, "gpu": 2}),
    "all templates together": (claiming("one", "two"), (ONE, TWO), {"cpu": 1000, "gpu": 3}),
    "a template that two claims name twice": (claiming("two", "two"), (TWO,), {"cpu": 1000, "gpu": 4}),
    "classes that count as one resource together, others apart": (
        claiming("t"),
        (claim_template("t", devices("gpu.example.com"), devices("big.example.com", 3), devices("nic.example.com")),),
        {"cpu": 1000, "gpu": 4, "nic": 1},
    ),
    "beside a request for the same resource": (claiming("one", gpu="4"), (ONE,), {"gpu": 5}),
    "none where a template requests none": (claiming("t"), (claim_template("t"),), {"cpu": 1000}),
    "whatever selectors, constraints and configuration say": (
        claiming("t"),
        (
            claim_template(
                "t",
                devices("gpu.example.com", selectors=[{"cel": {"expression": "true"}}]),
                constraints=[{"matchAttribute": "example.com/numa"}],
                config=[{"opaque": {}}],
            ),
        ),
        {"cpu": 1000, "gpu": 1},
    ),
    "one where the number is left out": (
        claiming("t"),
        (claim_template("t", {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}),),
        {"cpu": 1000, "gpu": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("template", "known", "expected"), COUNTED.values(), ids=COUNTED)
def test_devices_count_as_the_resource_of_their_class(
    template: bytes, known: tuple[Object, ...], expected: dict[str, int]
) -> None:
    assert counted(template, *known) == expected


def test_each_pod_of_a_set_has_devices_of_its_own() -> None:
    assert counted(claiming("two"), TWO, pods=3) == {"cpu": 3000, "gpu": 6}


def test_the_devices_of_a_set_are_not_those_of_another() -> None:
    sets = [pod_set(name).template(template) for name, template in (("a", claiming("two")), ("b", claiming()))]
    spec = workload_spec(workload("w").pod_sets(*sets).build())
    told = demand(spec, devices=knowing([TWO], GPUS), namespace="default")
    assert [dict(each.requests) for each in told.pod_sets] == [{"cpu": 1000, "gpu": 2}, {"cpu": 1000}]


def test_devices_are_neither_excluded_nor_transformed() -> None:
    rules = (Transformation(input="gpu", outputs={"credits": 10**9}, should_replace=True),)
    assert counted(claiming("one"), ONE, accounting=Accounting(excluded=("gp",), transformations=rules))["gpu"] == 1


UNSUPPORTED = {
    "all devices": (
        devices("gpu.example.com", allocationMode="All"),
        ".exactly.allocationMode: Invalid value: \"All\": ResourceClaimTemplate t: AllocationMode 'All' is not supported",
    ),
    "a mode that is new": (
        devices("gpu.example.com", allocationMode="Some"),
        '.exactly.allocationMode: Invalid value: "Some": ResourceClaimTemplate t: '
        "AllocationMode 'Some' is not supported",
    ),
    "access of an administrator": (
        devices("gpu.example.com", adminAccess=True),
        ".exactly.adminAccess: Invalid value: true: ResourceClaimTemplate t: AdminAccess is not supported",
    ),
    "the first of several": (
        {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.example.com"}]},
        ".firstAvailable: Invalid value: null: ResourceClaimTemplate t: FirstAvailable device selection is not supported",
    ),
    "neither of both": ({"name": "r"}, ".exactly: Required value: ResourceClaimTemplate t"),
}


@pytest.mark.parametrize(("request_", "problem"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_cannot_be_counted_is_told_with_its_field(request_: dict[str, Any], problem: str) -> None:
    told = found(claiming("t"), claim_template("t", devices("nic.example.com"), request_))
    assert told.problem == f"{CLAIM}.devices.requests[1]{problem}"
    assert told.has_uncounted


MISSING = {
    "a template that is not there": (
        found(claiming("gone")),
        f'{CLAIM}.resourceClaimTemplateName: Not found: "ResourceClaimTemplate gone of podset main is not there"',
    ),
    "a class that no mapping has": (
        found(claiming("t"), claim_template("t", devices("fpga.example.com"))),
        f"{CLAIM}.resourceClaimTemplateName: Not found: "
        '"DeviceClass fpga.example.com is not mapped in DRA configuration for podset main"',
    ),
    "any class without a mapping": (
        found(claiming("one"), rules=NO_CLASS),
        f"{CLAIM}.resourceClaimTemplateName: Not found: "
        '"ResourceClaimTemplate one: no DeviceClass is mapped in DRA configuration for podset main"',
    ),
    "a claim by its name": (
        found(claiming(named="mine")),
        "KueueDRAIntegration feature does not support use of resource claims: "
        f'{CLAIM}.resourceClaimName: "mine"',
    ),
    "any claim with the gate off": (
        found(claiming("one"), ONE, rules=DeviceRules(is_counting=False)),
        "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("told", "problem"), MISSING.values(), ids=MISSING)
def test_what_is_missing_is_told_with_its_object(told: Demand, problem: str) -> None:
    assert (told.problem, told.has_uncounted) == (problem, True)


def test_a_template_of_another_namespace_is_not_there() -> None:
    elsewhere = msgspec.structs.replace(ONE, metadata=msgspec.structs.replace(ONE.metadata, namespace="other"))
    assert "is not there" in found(claiming("one"), elsewhere).problem


def test_claims_are_ignored_where_nothing_is_counted_nor_refused() -> None:
    off = DeviceRules(is_counting=False, should_refuse=False)
    assert counted(claiming("gone", named="mine"), rules=off) == {"cpu": 1000}


@pytest.mark.parametrize(
    ("request_", "claim", "field"),
    [
        (devices("gpu.example.com", selectors=[{}]), {}, "requests[0].exactly.selectors"),
        (devices("gpu.example.com"), {"constraints": [{}]}, "constraints"),
        (devices("gpu.example.com"), {"config": [{}]}, "config"),
    ],
    ids=["selectors", "constraints", "configuration"],
)
def test_details_were_not_supported_at_first(request_: dict[str, Any], claim: dict[str, Any], field: str) -> None:
    rules = msgspec.structs.replace(GPUS, has_details=False)
    told = found(claiming("t"), claim_template("t", request_, **claim), rules=rules)
    assert told.problem.startswith(f"{CLAIM}.devices.{field}: Invalid value: null: ResourceClaimTemplate t: ")


# --- extended resources ---


BEHIND = device_class("gpu.example.com")


def test_an_extended_resource_counts_as_the_class_behind_it() -> None:
    assert counted(claiming(extended=2), BEHIND, pods=2) == {"gpu": 4}
    assert counted(claiming("one", extended=2), BEHIND, ONE) == {"gpu": 3}


def test_an_extended_resource_without_a_class_behind_it_is_what_it_was() -> None:
    assert counted(claiming(extended=2)) == {EXTENDED: 2}
    assert counted(claiming(extended=2), device_class("nic.example.com", extended="")) == {EXTENDED: 2}


def test_an_extended_resource_with_a_class_without_mapping_has_its_own_name() -> None:
    classes = device_class("aaa.example.com"), device_class("zzz.example.com")
    assert counted(claiming(extended=2), *classes) == {EXTENDED: 2}
    assert counted(claiming(extended=2), *classes, BEHIND) == {"gpu": 2}


def test_extended_resources_are_not_looked_at_with_the_gate_off_or_without_mappings() -> None:
    off = msgspec.structs.replace(GPUS, has_extended=False)
    assert counted(claiming(extended=2), BEHIND, rules=off) == {EXTENDED: 2}
    assert counted(claiming(extended=2), BEHIND, rules=NO_CLASS) == {EXTENDED: 2}


def test_init_containers_need_theirs_one_after_another() -> None:
    each = [{"name": f"c{n}", "resources": {"limits": {EXTENDED: str(n)}}} for n in (1, 2, 3)]
    template = encode({"spec": {"initContainers": [each[2], each[1]], "containers": each[:1]}})
    assert counted(template, BEHIND) == {"gpu": 3}
    template = encode({"spec": {"initContainers": each[:1], "containers": each[:2]}})
    assert counted(template, BEHIND) == {"gpu": 3}


def test_resources_of_kubernetes_are_no_extended_ones() -> None:
    template = encode(
        {"spec": {"containers": [{"resources": {"requests": {"kubernetes.io/batteries": "1", "cpu": "1"}}}]}}
    )
    assert found(template, device_class("gpu.example.com", extended="kubernetes.io/batteries")).names == frozenset()


# --- in the queue ---


def play(*, is_strict: bool = False, rules: DeviceRules = GPUS, **engine: Any) -> Play:
    queue = cluster_queue("cq").quota("default", cpu=9, gpu=2)
    made = queue.strict_fifo() if is_strict else queue
    return Play(made.build(), local_queue("lq", "cq").build(), engine=Engine(EngineRules(devices=rules, **engine)))


def claims(name: str, *templates: str, **more: Any) -> Any:
    return wants(name, **more).pod_sets(pod_set().template(claiming(*templates)))


def told(scene: Play, name: str) -> tuple[str, str]:
    """Reason and message of the condition that says why it has no quota."""
    workload = next(each for key, each in scene.workloads.items() if key.name == name)
    condition = workload.condition(QUOTA_RESERVED)
    assert condition is not None
    return condition.reason, condition.message


def only(scene: Play) -> Workload:
    (found,) = scene.workloads.values()
    return found


def test_quota_of_devices_is_given_out() -> None:
    scene = play()
    scene.apply(ONE, TWO)
    scene.submit(claims("first", "one", age=9), claims("second", "two", age=8), claims("third", "one", age=7))
    assert scene.settle() == ["first", "third"]
    assert "insufficient unused quota for gpu" in told(scene, "second")[1]


def test_who_names_a_template_that_is_not_there_waits_until_it_is() -> None:
    scene = play()
    scene.submit(claims("w", "one"))
    assert scene.settle() == []
    assert told(scene, "w") == (
        INADMISSIBLE,
        f'{CLAIM}.resourceClaimTemplateName: Not found: "ResourceClaimTemplate one of podset main is not there"',
    )

    (requeued,) = (each for each in only(scene).status.conditions if each.type == REQUEUED)
    assert (requeued.status, requeued.reason, requeued.message) == ("False", INADMISSIBLE, told(scene, "w")[1])
    assert scene.engine.view.cluster_queue_status("cq", scene.now).pending_workloads == 0

    scene.apply(TWO)
    assert scene.engine.scheduler.cycle(scene.now).pending == []
    scene.apply(ONE)
    assert scene.engine.scheduler.cycle(scene.now).pending == [only(scene).key]
    assert scene.settle() == ["w"]
    assert only(scene).has(QUOTA_RESERVED)
    assert only(scene).condition(REQUEUED) is None


def test_a_template_that_is_recreated_is_counted_again() -> None:
    scene = play()
    many = claim_template("one", devices("gpu.example.com", 3))
    scene.apply(many)
    scene.submit(claims("w", "one"))
    assert scene.settle() == []

    scene.engine.observe(many, None, scene.now)
    assert scene.settle() == []
    assert "is not there" in told(scene, "w")[1]
    scene.apply(ONE)
    assert scene.settle() == ["w"]


def test_quota_once_given_stays_when_the_template_goes() -> None:
    scene = play()
    scene.apply(TWO)
    scene.submit(claims("first", "two"))
    assert scene.settle() == ["first"]

    scene.engine.observe(TWO, None, scene.now)
    scene.apply(ONE)
    scene.submit(claims("second", "one"))
    assert scene.settle() == []
    assert scene.workloads[next(iter(scene.workloads))].has(QUOTA_RESERVED)


@pytest.mark.parametrize("is_strict", [False, True], ids=["BestEffortFIFO", "StrictFIFO"])
def test_who_claims_what_cannot_be_counted_is_in_nobodys_way(is_strict: bool) -> None:
    scene = play(is_strict=is_strict)
    scene.apply(ONE)
    scene.submit(claims("stuck", "gone", age=9), claims("next", "one"))
    assert scene.settle() == ["next"]
    assert told(scene, "stuck")[0] == INADMISSIBLE


def test_granular_reasons_call_it_misconfigured() -> None:
    scene = play(reasons=Reasons(is_granular=True))
    scene.submit(claims("w", "one"))
    scene.settle()
    assert told(scene, "w")[0] == MISCONFIGURED


def test_an_extended_resource_is_counted_again_when_its_class_comes_or_goes() -> None:
    scene = play()
    scene.submit(wants("w").pod_sets(pod_set().template(claiming(extended=1))))
    assert scene.settle() == []
    assert EXTENDED in told(scene, "w")[1]

    scene.apply(device_class("gpu.example.com", extended="example.com/other"))
    assert scene.settle() == []
    scene.apply(BEHIND)
    assert scene.settle() == ["w"]


def test_a_class_that_stays_as_it_is_makes_nobody_ask_again() -> None:
    seen = Devices(GPUS)
    assert seen.set_class("gpu.example.com", BEHIND) == {EXTENDED}
    assert seen.set_class("gpu.example.com", BEHIND) == set()
    assert seen.set_class("gpu.example.com", None) == {EXTENDED}
    assert seen.set_class("gpu.example.com", None) == set()
