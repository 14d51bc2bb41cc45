"""Filters: what each refuses, and in which words."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from multikueue.strategy import Fleet, Worker, Workload
from multikueue.testing import check_strategy, fleet, strategy_workload
from multikueue_strategies.filters import (
    CLUSTER_NAMES,
    CLUSTER_SELECTOR,
    TAINTS,
    TOLERATIONS,
    ClusterNames,
    Labels,
    Placed,
    Taints,
)

NOBODY = fleet().build()

EU = Worker(name="w1", labels={"region": "eu", "tier": "spot"}, annotations={TAINTS: "gpu=only:NoSchedule, weekend"})


def asking(**annotations: str) -> Workload:
    return strategy_workload().annotations(annotations).build()


@pytest.mark.parametrize(
    "part",
    [Labels(), Labels(match={"region": ("eu",)}, exclude={"tier": ()}), ClusterNames(), Taints(), Placed()],
    ids=["labels without options", "labels", "named", "taints", "placement"],
)
def test_it_keeps_the_contract(part: Labels | ClusterNames | Taints | Placed) -> None:
    check_strategy(part)


@pytest.mark.parametrize(
    ("match", "exclude", "refusal"),
    [
        pytest.param({}, {}, "", id="nothing is asked for"),
        pytest.param({"region": ("eu", "us")}, {}, "", id="one of the values"),
        pytest.param({"region": ("us",)}, {}, "label region is eu", id="another value"),
        pytest.param({"gpu": ()}, {}, "label gpu is missing", id="a label that is not there"),
        pytest.param({"region": ()}, {}, "", id="any value"),
        pytest.param({}, {"tier": ("spot",)}, "label tier is spot", id="an excluded value"),
        pytest.param({}, {"tier": ("reserved",)}, "", id="another than the excluded value"),
        pytest.param({}, {"tier": ()}, "label tier is spot", id="an excluded label"),
        pytest.param({"region": ("us",)}, {"tier": ()}, "label region is eu", id="the first of two reasons"),
    ],
)
def test_labels_narrow(
    match: Mapping[str, tuple[str, ...]], exclude: Mapping[str, tuple[str, ...]], refusal: str
) -> None:
    assert Labels(match=match, exclude=exclude).refuses(asking(), EU, NOBODY) == refusal


@pytest.mark.parametrize(
    ("selector", "refusal"),
    [
        ("", ""),
        ("region=eu", ""),
        ("region == eu , tier", ""),
        ("region=us", "label region is eu"),
        ("region!=eu", "label region is eu"),
        ("zone!=a", ""),
        ("!tier", "label tier is spot"),
        ("! zone", ""),
        ("zone", "label zone is missing"),
        ("region in (eu, us),tier notin (reserved)", ""),
        ("region in (us)", "label region is eu"),
        ("region notin (eu)", "label region is eu"),
        ("region=", "label region is eu"),
    ],
)
def test_a_workload_narrows_by_a_selector_as_kubectl_takes_it(selector: str, refusal: str) -> None:
    assert Labels().refuses(asking(**{CLUSTER_SELECTOR: selector}), EU, NOBODY) == refusal


@pytest.mark.parametrize("selector", ["region in ()", "region in eu", "=eu", "a b", "region=eu)", "region in (eu"])
def test_a_selector_that_cannot_be_read_refuses_all_and_says_so(selector: str) -> None:
    refusal = Labels().refuses(asking(**{CLUSTER_SELECTOR: selector}), EU, NOBODY)
    assert refusal == f"annotation {CLUSTER_SELECTOR}: expected a selector such as region=eu,!spot, got {selector!r}"


def test_a_selector_never_widens_what_the_options_allow() -> None:
    assert (
        Labels(match={"region": ("us",)}).refuses(asking(**{CLUSTER_SELECTOR: "region=eu"}), EU, NOBODY)
        == "label region is eu"
    )


@pytest.mark.parametrize(
    ("names", "refusal"),
    [
        ("", ""),
        ("w1", ""),
        (" w2 , w1,", ""),
        ("w2", "not named by the workload"),
        ("w11", "not named by the workload"),
    ],
)
def test_a_workload_names_its_clusters(names: str, refusal: str) -> None:
    assert ClusterNames().refuses(asking(**{CLUSTER_NAMES: names}), EU, NOBODY) == refusal


@pytest.mark.parametrize(
    ("tolerations", "refusal"),
    [
        ("", "taint gpu=only is not tolerated"),
        ("gpu=only", "taint weekend is not tolerated"),
        ("gpu, weekend", ""),
        ("gpu=other,weekend", "taint gpu=only is not tolerated"),
        ("*", ""),
    ],
)
def test_each_taint_must_be_tolerated(tolerations: str, refusal: str) -> None:
    assert Taints().refuses(asking(**{TOLERATIONS: tolerations}), EU, NOBODY) == refusal


def test_a_worker_without_taints_needs_no_toleration() -> None:
    assert Taints().refuses(asking(), Worker(name="w2"), NOBODY) == ""


def placed(shown: Fleet, *nominated: str) -> dict[str, str]:
    asked = strategy_workload().nominated(*nominated).build()
    return {worker.name: Placed().refuses(asked, worker, shown) for worker in shown.workers}


def test_without_a_placement_nobody_is_refused() -> None:
    assert placed(fleet("a", "b").build()) == {"a": "", "b": ""}


def test_a_placement_refuses_all_but_those_it_decided_for_whoever_has_a_copy() -> None:
    shown = fleet("a", "b", "c").placement("gpu", ("c",), ("a", "elsewhere")).build()
    assert placed(shown, "b") == {"a": "", "b": "not in the decisions of Placement gpu", "c": ""}


def test_while_a_placement_cannot_be_followed_copies_stay_and_nobody_gets_another() -> None:
    shown = fleet("a", "b").placement("gpu", ("b",), problem="Placement gpu: no decisions yet").build()
    assert placed(shown, "a") == {"a": "", "b": "Placement gpu: no decisions yet"}
