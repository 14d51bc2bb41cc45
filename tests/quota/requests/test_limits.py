"""LimitRanges and RuntimeClasses: what pods get, and what is found wrong with them (quota-engine 1.6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from multikueue.api.kubernetes.builtins import LimitRange, LimitRangeItem, LimitRangeSpec, Overhead, RuntimeClass
from multikueue.api.kueue.queues import BACKFILL_ANNOTATION
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import ObjectKey, ObjectMeta, encode
from multikueue.quota.queueing.queue_manager import OUTDATED_AT_A_TIME
from multikueue.quota.requests.amounts import AS_IT_IS, Demand, demand
from multikueue.quota.requests.devices import NO_CLASS
from multikueue.quota.requests.limits import Counting, Limits, LimitsByNamespace, combined
from tests.builders import cluster_queue, flavor, local_queue, pod_set, workload
from tests.quota.builders import Play, wants

MAX = "requests must not be above the limitRange max"
MIN = "requests must not be below the limitRange min"
POD = "spec.podSets[0].template.spec"


def limit_range(*items: LimitRangeItem, name: str = "limits") -> LimitRange:
    return LimitRange(metadata=ObjectMeta(name=name, namespace="default"), spec=LimitRangeSpec(limits=items))


def heavy(cpu: str) -> RuntimeClass:
    overhead = Overhead(pod_fixed={"cpu": cpu})
    return RuntimeClass(metadata=ObjectMeta(name="heavy"), overhead=overhead)


def of_containers(**bounds: dict[str, str]) -> LimitRangeItem:
    return LimitRangeItem(type="Container", **bounds)  # type: ignore[arg-type]  # texts are quantities too


def limits(*items: LimitRangeItem) -> Limits:
    return combined([limit_range(*items)], {})


def container(limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits or {}}}


def found(rules: Limits, *containers: dict[str, Any], **pod: Any) -> Demand:
    template = encode({"spec": {"containers": list(containers), **pod}})
    return demand(workload_spec(workload("w").pod_sets(pod_set().template(template)).build()), rules=rules)


def requests(rules: Limits, *containers: dict[str, Any], **pod: Any) -> dict[str, int]:
    (each,) = found(rules, *containers, **pod).pod_sets
    return dict(each.requests)


DEFAULTS = limits(of_containers(default={"cpu": "3"}, default_request={"cpu": "2"}))


@pytest.mark.parametrize(
    ("asks", "cpu"),
    [
        (container(), 2000),
        (container(cpu="1"), 1000),
        (container(limits={"cpu": "5"}), 5000),
        (container(limits={"cpu": "5"}, cpu="4"), 4000),
    ],
    ids=["nothing", "a request", "a limit", "both"],
)
def test_a_default_request_goes_after_what_a_container_says_itself(asks: dict[str, Any], cpu: int) -> None:
    assert requests(DEFAULTS, asks) == {"cpu": cpu}
    assert requests(DEFAULTS, container(cpu="0"), initContainers=[asks]) == {"cpu": cpu}


def test_each_resource_of_each_container_is_completed_by_itself() -> None:
    rules = limits(of_containers(default_request={"cpu": "1", "memory": "256Mi"}))
    limited = container(limits={"cpu": "3", "memory": "5Gi"})
    half = container(limits={"cpu": "3"}, memory="1Gi")

    assert requests(rules, limited, limited) == {"cpu": 6000, "memory": 10 * 2**30}
    assert requests(rules, half, container()) == {"cpu": 4000, "memory": 2**30 + 256 * 2**20}
    assert requests(rules, container(), initContainers=[{**limited, "restartPolicy": "Always"}]) == {
        "cpu": 4000,
        "memory": 5 * 2**30 + 256 * 2**20,
    }


def test_a_default_limit_is_the_request_where_there_is_no_default_request() -> None:
    assert requests(limits(of_containers(default={"cpu": "3"})), container()) == {"cpu": 3000}


def test_a_pod_as_a_whole_has_a_default_request_without_a_default_limit() -> None:
    rules = limits(LimitRangeItem(type="Pod", default_request={"cpu": "2"}))

    assert requests(rules, container(cpu="1"), resources={"requests": {"memory": "1Gi"}})["cpu"] == 2000
    assert requests(rules, container(cpu="1"))["cpu"] == 1000, "and none without resources of its own"


def test_init_containers_get_defaults_too() -> None:
    assert requests(DEFAULTS, container(cpu="1"), initContainers=[container()]) == {"cpu": 2000}


def test_section_12_8_a_default_limit_can_be_less_than_what_is_asked_for() -> None:
    assert found(DEFAULTS, container(cpu="4")).problem == (
        f'resources validation failed: {POD}.containers[0]: Invalid value: ["cpu"]: requests must not exceed its limits'
    )


BOUNDS = limits(of_containers(max={"cpu": "4", "memory": "1Gi"}, min={"cpu": "500m"}))


@pytest.mark.parametrize(
    ("asks", "problem"),
    [
        (container(cpu="500m", memory="1Gi"), ""),
        (container(gpu="9"), ""),
        (container(cpu="499m"), f'{POD}.containers[0]: Invalid value: ["cpu"]: {MIN}'),
        (container(cpu="5", memory="2Gi"), f'{POD}.containers[0]: Invalid value: ["cpu","memory"]: {MAX}'),
        (container(limits={"cpu": "5"}, cpu="1"), f'{POD}.containers[0]: Invalid value: ["cpu"]: {MAX}'),
    ],
    ids=["on the bounds", "something else", "too little", "too much of two", "a limit counts too"],
)
def test_a_container_out_of_bounds_is_a_problem(asks: dict[str, Any], problem: str) -> None:
    prefix = "resources didn't satisfy LimitRange constraints: " if problem else ""

    assert found(BOUNDS, asks).problem == f"{prefix}{problem}"


def test_a_pod_is_measured_by_the_sum_of_its_containers() -> None:
    rules = limits(LimitRangeItem(type="Pod", max={"cpu": "3"}))

    assert found(rules, container(cpu="1"), container(cpu="2")).problem == ""
    assert found(rules, container(cpu="2"), container(cpu="2")).problem.endswith(
        f'{POD}: Invalid value: ["cpu"]: {MAX}'
    )


@pytest.mark.parametrize(("has_pod_defaults", "expected"), [(True, {"cpu": 2000, "memory": 5}), (False, {"cpu": 2000})])
def test_defaults_for_pods_are_for_those_with_resources_of_their_own(
    has_pod_defaults: bool, expected: dict[str, int]
) -> None:
    item = LimitRangeItem(type="Pod", default={"cpu": "4"}, default_request={"cpu": "3", "memory": "5"})
    known = LimitsByNamespace(has_pod_defaults=has_pod_defaults)
    known.set_range(ObjectKey("default", "limits"), limit_range(item))

    assert requests(known.of("default"), container(cpu="1"), resources={"requests": {"cpu": "2"}}) == expected
    assert requests(known.of("default"), container(cpu="1")) == {"cpu": 1000}


def test_several_findings_are_told_together() -> None:
    both = found(BOUNDS, container(cpu="5"), container(cpu="1m")).problem

    assert both == (
        "resources didn't satisfy LimitRange constraints: "
        f'[{POD}.containers[0]: Invalid value: ["cpu"]: {MAX}, {POD}.containers[1]: Invalid value: ["cpu"]: {MIN}]'
    )


def test_of_several_ranges_the_strictest_bounds_and_the_first_defaults_hold() -> None:
    second = limit_range(of_containers(max={"cpu": "2"}, min={"cpu": "1"}, default_request={"cpu": "9"}), name="b")
    first = limit_range(
        of_containers(max={"cpu": "4"}, min={"cpu": "500m"}, default_request={"cpu": "1500m"}), name="a"
    )
    rules = combined([second, first], {})

    assert requests(rules, container()) == {"cpu": 1500}
    assert MAX in found(rules, container(cpu="3")).problem
    assert MIN in found(rules, container(cpu="700m")).problem


def test_the_overhead_of_a_class_counts_unless_the_pod_has_its_own() -> None:
    rules = combined([], {"heavy": {"cpu": "250m"}})

    assert requests(rules, container(cpu="1"), runtimeClassName="heavy") == {"cpu": 1250}
    assert requests(rules, container(cpu="1"), runtimeClassName="heavy", overhead={"cpu": "1"}) == {"cpu": 2000}
    assert requests(rules, container(cpu="1"), runtimeClassName="unknown") == {"cpu": 1000}


def test_what_holds_in_a_namespace_follows_what_is_there() -> None:
    known, key = LimitsByNamespace(), ObjectKey("default", "limits")
    known.set_range(key, limit_range(of_containers(default_request={"cpu": "2"})))
    assert requests(known.of("default"), container()) == {"cpu": 2000}
    assert requests(known.of("elsewhere"), container()) == {}

    known.set_class("heavy", RuntimeClass(overhead=Overhead(pod_fixed={"cpu": "1"})))
    assert requests(known.of("default"), container(), runtimeClassName="heavy") == {"cpu": 3000}

    known.set_range(key, None)
    known.set_class("heavy", None)
    assert requests(known.of("default"), container(), runtimeClassName="heavy") == {}


def test_qe_347_those_who_wait_are_looked_at_again_when_their_limits_change() -> None:
    play = Play.with_queue(cpu=4)
    play.submit(wants("greedy", cpu=5).count(1), wants("small", cpu=1))
    play.run()
    rules = limit_range(of_containers(min={"cpu": "2"}))

    play.apply(rules)
    play.submit(wants("tiny", cpu=1))
    play.run()
    assert play.verdict("greedy").endswith("maximum capacity (4)")
    assert MIN in play.verdict("tiny")

    play.engine.observe(rules, None, play.now)
    assert play.run() == ["tiny"]


def test_those_who_wait_are_asked_again_some_at_a_time() -> None:
    play = Play.with_queue(cpu=0)
    play.submit(*(wants(f"w{number}", cpu=1) for number in range(OUTDATED_AT_A_TIME + 9)))
    play.run()

    play.apply(limit_range(of_containers(min={"cpu": "2"})))
    assert asked_anew(play) == 0
    play.cycle()
    assert OUTDATED_AT_A_TIME <= asked_anew(play) < OUTDATED_AT_A_TIME + 9
    assert play.engine.scheduler.next_look(play.now) == play.now
    play.run()
    assert asked_anew(play) == OUTDATED_AT_A_TIME + 9


def asked_anew(play: Play) -> int:
    return sum(MIN in each.demand.problem for each in play.engine.view.waiting_in("cq"))


def test_nobody_gets_quota_for_what_it_asked_for_before() -> None:
    play = Play.with_queue(cpu=0)
    play.submit(*(wants(f"w{number}", cpu=9) for number in range(OUTDATED_AT_A_TIME + 9)))
    play.submit(wants("first", cpu=1).priority(9))
    play.run()

    play.apply(limit_range(of_containers(min={"cpu": "2"})), cluster_queue("cq").quota("default", cpu=1).build())
    play.wait(1)
    assert play.run() == []
    assert MIN in play.verdict("first")


def test_nobody_passes_a_head_with_what_it_asked_for_before() -> None:
    queue = cluster_queue("cq").quota("default", cpu=1).quota("gpus", gpu=0).strict_fifo()
    play = Play(flavor("gpus").build(), queue.build(), local_queue("lq", "cq").build())
    play.submit(wants("head", age=9, gpu=1), *(wants(f"w{n}", gpu=1, age=5) for n in range(OUTDATED_AT_A_TIME + 9)))
    play.submit(wants("small", cpu=1, age=8))
    play.run()

    play.apply(limit_range(of_containers(min={"cpu": "2"})))
    play.apply(queue.annotations({BACKFILL_ANNOTATION: "SpareQuota"}).build())
    assert play.run() == []


def test_qe_347_a_class_changes_what_is_asked_for() -> None:
    play = Play.with_queue(cpu=4)
    play.apply(heavy("2"))
    template = encode({"spec": {"containers": [container(cpu="3")], "runtimeClassName": "heavy"}})
    play.submit(wants("w").pod_sets(pod_set().template(template)))
    assert play.run() == []

    play.apply(heavy("1"))
    assert play.run() == ["w"]
    assert play.used() == "4"


Tree = dict[str, Any]


def pod(*, side: str = "", whole: str = "", overhead: str = "", cpu: str = "1") -> Tree:
    """A Pod with one container, and what else it asks for."""
    spec: Tree = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}} if cpu else {}}]}
    if side:
        spec["initContainers"] = [{"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": side}}}]
    return (
        spec
        | ({"resources": {"requests": {"cpu": whole}}} if whole else {})
        | ({"overhead": {"cpu": overhead}} if overhead else {})
    )


def surplus(asked: Tree, counted: Tree | None = None, *, default: str = "") -> str:
    counting = Counting(AS_IT_IS, NO_CLASS)
    pod_set = {"name": "main", "count": 3, "template": {"spec": counted or pod()}}
    workload = Workload(
        metadata=ObjectMeta(name="w", namespace="team"), spec=msgspec.Raw(encode({"podSets": [pod_set]}))
    )
    if default:
        spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": default}}]}
        made = {"metadata": {"name": "l", "namespace": "team"}, "spec": spec}
        seen = msgspec.json.decode(encode(made), type=LimitRange)
        counting.limits.set_range(seen.key, seen)
    return counting.surplus(workload, msgspec.Raw(encode({"spec": asked})))


CASES: dict[str, tuple[str, str]] = {
    "nothing": (surplus(pod()), ""),
    "less": (surplus(pod(cpu="500m")), ""),
    "another container": (surplus(pod(side="1")), "cpu 2, and 1 is counted"),
    "resources as a whole": (surplus(pod(whole="1000")), "cpu 1k, and 1 is counted"),
    "an overhead": (surplus(pod(overhead="250m")), "cpu 1250m, and 1 is counted"),
    "what cannot be counted": (
        surplus(pod(cpu="-5")),
        "resources validation failed: spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: "
        'Invalid value: "-5": must be greater than or equal to 0',
    ),
    "what a LimitRange has filled in": (surplus(pod(cpu="2"), pod(cpu=""), default="2"), ""),
    "more than a LimitRange fills in": (surplus(pod(cpu="3"), pod(cpu=""), default="2"), "cpu 3, and 2 is counted"),
}


@pytest.mark.parametrize(("found", "words"), CASES.values(), ids=CASES)
def test_a_pod_asks_beyond_its_workload_for(found: str, words: str) -> None:
    assert found == words
