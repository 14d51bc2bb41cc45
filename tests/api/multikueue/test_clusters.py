"""What the objects of a MultiKueue setup refer to."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.multikueue.clusters import (
    CLUSTERS_ANNOTATION,
    CORDON_ANNOTATION,
    DRAIN_ANNOTATION,
    HUB_TAINTS_ANNOTATION,
    PRICES_ANNOTATION,
    ClusterProfileRef,
    ClusterSource,
    KubeConfigSource,
    MultiKueueCluster,
    MultiKueueClusterSpec,
    clusters_of,
    drain_of,
    drain_problem,
    file_of,
    is_cordoned,
    prices_of,
    prices_problem,
    source_of,
    why_cordoned,
)
from multikueue.durations import Drain
from tests.builders import multikueue_cluster, multikueue_config


def test_more_clusters_than_a_configuration_may_hold_come_from_its_annotation() -> None:
    config = multikueue_config("mk", "w1", "w2").annotations({CLUSTERS_ANNOTATION: "w2, w3 ,,w4"}).build()
    assert clusters_of(config) == ("w1", "w2", "w3", "w4")


@pytest.mark.parametrize(
    ("source", "read_from", "file"),
    [
        (ClusterSource(kube_config=KubeConfigSource("w1")), (("Secret", "w1"),), ()),
        (ClusterSource(kube_config=KubeConfigSource("/etc/w1", "Path")), (("Path", "/etc/w1"),), ("/etc/w1",)),
        (ClusterSource(cluster_profile_ref=ClusterProfileRef("w1")), (("ClusterProfile", "w1"),), ()),
        (ClusterSource(), (), ()),
    ],
    ids=["a Secret", "a file", "a ClusterProfile", "nothing"],
)
def test_a_cluster_is_read_from_one_source(
    source: ClusterSource, read_from: tuple[tuple[str, str], ...], file: tuple[str, ...]
) -> None:
    cluster = MultiKueueCluster(
        metadata=multikueue_cluster("w1").build().metadata, spec=MultiKueueClusterSpec(cluster_source=source)
    )
    assert (source_of(cluster), file_of(cluster)) == (read_from, file)


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("", {}),
        ("cpu=0.04, h100/nvidia.com/gpu=2.5,", {"cpu": 0.04, "h100/nvidia.com/gpu": 2.5}),
        ("cpu=0", {"cpu": 0.0}),
    ],
)
def test_prices_are_in_an_annotation(text: str, prices: dict[str, float]) -> None:
    cluster = multikueue_cluster("w1").annotations({PRICES_ANNOTATION: text}).build()
    assert (prices_of(cluster), prices_problem(cluster)) == (prices, "")


@pytest.mark.parametrize("wrong", ["cpu", "=1", "cpu=", "cpu=-1", "cpu=1e5", "cpu=nan", "cpu=1 memory=2", "cpu=1_0"])
def test_prices_that_cannot_be_read_count_not_at_all_and_are_told(wrong: str) -> None:
    cluster = multikueue_cluster("w1").annotations({PRICES_ANNOTATION: f"memory=1,{wrong}"}).build()
    assert prices_of(cluster) == {}
    assert prices_problem(cluster).startswith(
        "MultiKueueCluster w1: annotation multikueue.dev/prices: expected resources or flavors with their price for an hour"
    )


@pytest.mark.parametrize(
    ("text", "drain"),
    [
        pytest.param("requeue", Drain(timedelta()), id="at once"),
        pytest.param("wait", Drain(), id="to the end"),
        pytest.param("wait=8h", Drain(timedelta(hours=8)), id="for some hours"),
        pytest.param(" wait=30m ", Drain(timedelta(minutes=30)), id="with spaces around"),
        pytest.param("signal=15m", Drain(timedelta(minutes=15), should_signal=True), id="and pods are told"),
    ],
)
def test_a_drain_that_is_asked_for(text: str, drain: Drain) -> None:
    cluster = multikueue_cluster("w1").annotations({DRAIN_ANNOTATION: text}).build()
    assert (drain_of(cluster), drain_problem(cluster)) == (drain, "")
    assert drain_of(multikueue_cluster("w1").annotations({DRAIN_ANNOTATION: str(drain)}).build()) == drain


@pytest.mark.parametrize("text", ["", "requeue=1h", "wait=", "wait=-1h", "signal", "signal=", "stop"])
def test_no_drain_follows_from(text: str) -> None:
    cluster = multikueue_cluster("w1").annotations({DRAIN_ANNOTATION: text}).build()
    assert drain_of(cluster) is None
    assert drain_problem(cluster).endswith("it is cordoned until then")
    assert why_cordoned(cluster) == "cordoned (it is drained)"


@pytest.mark.parametrize(
    ("annotations", "unschedulable", "why"),
    [
        ({}, False, ""),
        ({CORDON_ANNOTATION: "true"}, False, "cordoned"),
        ({CORDON_ANNOTATION: "yes"}, False, ""),
        ({}, True, "cordoned (spec.unschedulable)"),
        ({DRAIN_ANNOTATION: "wait"}, False, "cordoned (it is drained)"),
        ({HUB_TAINTS_ANNOTATION: "a=b:NoSelect"}, False, "cordoned (taint a=b:NoSelect)"),
    ],
    ids=["nothing", "the annotation", "a word that is none", "the field", "a drain", "a taint"],
)
def test_a_worker_is_cordoned_by(annotations: dict[str, str], unschedulable: bool, why: str) -> None:
    built = multikueue_cluster("w1").annotations(annotations).build()
    cluster = replace(built, spec=replace(built.spec, unschedulable=unschedulable))
    assert why_cordoned(cluster) == why
    assert is_cordoned(cluster) is bool(why)
