"""No amount below zero: usage never falls by what anybody submits, or writes into a status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kubernetes.builtins import LimitRange, RuntimeClass
from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.api.kueue.workload import Admission, PodSetAssignment, ReclaimablePod, Workload
from multikueue.api.meta import decoder, encode
from multikueue.api.values import quantity
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.requests.amounts import Accounting, Transformation
from tests.builders import WorkloadBuilder, pod_set, workload
from tests.quota.builders import Play, key_of, wants

RESOURCES = ("cpu", "memory", "pods", "gpu", "hugepages-2Mi", "credits")
QUOTA = dict.fromkeys(RESOURCES, "100")
ODD = ("-50", "-1", "-0.5", "-1n", "-1m", "-90Gi", "-9E", "-1e30", -7, -0.5, "0", "-0", "1", "300m", 2, "1Ki", "3E")
RELEASES: tuple[Release, ...] = ("0.16", "0.18", "0.19", "0.19.2")

odd = st.sampled_from(ODD)
amounts = st.dictionaries(st.sampled_from(RESOURCES), odd, max_size=3)
resources = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})


@st.composite
def containers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to three, each maybe a sidecar where it is an init container."""
    policies = st.sampled_from(["", "Always"])
    return [
        {"name": f"c{n}", "restartPolicy": draw(policies), "resources": draw(resources)}
        for n in range(draw(st.integers(0, 3)))
    ]


pods = st.fixed_dictionaries(
    {"containers": containers()},
    optional={
        "initContainers": containers(),
        "overhead": amounts,
        "resources": resources,
        "runtimeClassName": st.just("heavy"),
    },
)


@st.composite
def templates(draw: st.DrawFn) -> WorkloadBuilder:
    """Up to two pod sets of odd pods in odd numbers, some of which are said to be over."""
    sets = []
    for n in range(draw(st.integers(1, 2))):
        made = pod_set(f"set{n}", count=draw(st.integers(-3, 3)))
        if draw(st.booleans()):
            made = made.min_count(draw(st.integers(-3, 3)))
        sets.append(made.template(encode({"spec": draw(pods)})))
    gone = {f"set{n}": draw(st.integers(-4, 4)) for n in range(draw(st.integers(0, 2)))}
    return workload("odd").pod_sets(*sets).queue("lq").reclaimable(**gone)


@st.composite
def admitted(draw: st.DrawFn) -> Workload:
    """A status as anybody may have written it who may write statuses."""
    seen = draw(templates()).reserved("cq").build()
    assignments = tuple(
        PodSetAssignment(
            name=f"set{n}",
            flavors=dict.fromkeys(RESOURCES, "default"),
            resource_usage={name: str(amount) for name, amount in draw(amounts).items()},
            count=draw(st.none() | st.integers(-3, 3)),
        )
        for n in range(draw(st.integers(0, 3)))
    )
    gone = tuple(ReclaimablePod(name=f"set{n}", count=draw(st.integers(-4, 4))) for n in range(draw(st.integers(0, 3))))
    status = msgspec.structs.replace(
        seen.status,
        admission=Admission(cluster_queue="cq", pod_set_assignments=assignments),
        reclaimable_pods=gone,
    )
    return msgspec.structs.replace(seen, status=status)


def limit_range(**item: Any) -> LimitRange:
    body = {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"limits": [item]}}
    return decoder(LimitRange)(encode(body))


def runtime_class(**pod_fixed: Any) -> RuntimeClass:
    return decoder(RuntimeClass)(encode({"metadata": {"name": "heavy"}, "overhead": {"podFixed": pod_fixed}}))


def play_of(release: Release, accounting: Accounting = Accounting()) -> Play:  # noqa: B008  # a value
    rules = msgspec.structs.replace(accounting, compatibility=Compatibility.of(release))
    engine = Engine(EngineRules(compatibility=rules.compatibility, accounting=rules))
    return Play.with_queue(engine, **QUOTA)


def used(play: Play) -> dict[str, int]:
    return {
        name: quantity.amount(name, quantity.parse(text))
        for name in RESOURCES
        if (text := play.used(resource=name)) is not None
    }


def falls(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """The resources of which less is used than before, or less than nothing."""
    return {name: after[name] for name in RESOURCES if after[name] < max(0, before[name])}


transformations = st.builds(
    lambda outputs, replaces, multiply, given: Transformation(
        input=given,
        outputs={name: quantity.parse(text) for name, text in outputs.items()},
        should_replace=replaces,
        multiply_by=multiply,
    ),
    amounts,
    st.booleans(),
    st.sampled_from(("", *RESOURCES)),
    st.sampled_from(RESOURCES),
)


@settings(max_examples=300)
@given(
    odd_one=templates() | admitted(),
    rules=st.lists(transformations, max_size=2),
    item=st.none()
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["Container", "Pod"])}, optional={"default": amounts, "defaultRequest": amounts}
    ),
    overhead=amounts,
    release=st.sampled_from(RELEASES),
)
def test_usage_never_falls_by_what_anybody_submits(
    odd_one: WorkloadBuilder | Workload,
    rules: list[Transformation],
    item: dict[str, Any] | None,
    overhead: dict[str, Any],
    release: Release,
) -> None:
    play = play_of(release, Accounting(transformations=tuple(rules)))
    play.apply(runtime_class(**overhead), *([limit_range(**item)] if item else []))
    play.submit(wants("honest", age=9, cpu=3, memory=7, gpu=1))
    play.settle()
    before = used(play)

    play.see(odd_one if isinstance(odd_one, Workload) else odd_one.build())
    play.settle()

    assert falls(before, used(play)) == {}


NEGATIVE: dict[str, dict[str, Any]] = {
    "a container's request": {"containers": [{"resources": {"requests": {"cpu": "-50"}}}]},
    "a number": {"containers": [{"resources": {"requests": {"cpu": -50}}}]},
    "a container's limit": {"containers": [{"resources": {"limits": {"cpu": "-50"}}}]},
    "one of two containers": {
        "containers": [{"resources": {"requests": {"cpu": "3"}}}, {"resources": {"requests": {"cpu": "-50"}}}]
    },
    "an init container": {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"resources": {"requests": {"cpu": "-50"}}}],
    },
    "a sidecar": {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "-50"}}}],
    },
    "the overhead": {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "overhead": {"cpu": "-50"}},
    "the pod's request": {"containers": [], "resources": {"requests": {"cpu": "-50"}}},
    "the pod's limit": {"containers": [], "resources": {"limits": {"cpu": "-50"}}},
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("spec", NEGATIVE.values(), ids=NEGATIVE)
def test_who_asks_for_less_than_nothing_makes_no_room_and_is_told(spec: dict[str, Any], release: Release) -> None:
    play = play_of(release)
    play.submit(workload("odd").queue("lq").pod_sets(pod_set(count=2).template(encode({"spec": spec}))))
    play.settle()
    play.submit(*(wants(f"job{n}", cpu="90") for n in range(2)))

    assert len(play.settle()) == 1
    assert used(play)["cpu"] == 90_000
    assert play.verdict("odd").endswith('Invalid value: "-50": must be greater than or equal to 0')
    assert play.workloads[key_of("odd")].status.admission is None
