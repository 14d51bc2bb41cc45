"""MultiKueue's own objects, and the Secrets they lean on."""

from __future__ import annotations

from base64 import b64decode

from multikueue.api.kueue.admission_checks import Parameters
from multikueue.api.meta import is_true
from multikueue.api.multikueue.clusters import ClusterProfileRef, ClusterSource, KubeConfigSource
from tests.builders import admission_check, multikueue_cluster, multikueue_config, secret


def test_a_check_of_ours_points_at_its_config() -> None:
    built = admission_check("mk").config("fleet").active().build()
    assert built.spec.controller_name == "kueue.x-k8s.io/multikueue"
    assert built.spec.parameters == Parameters(api_group="kueue.x-k8s.io", kind="MultiKueueConfig", name="fleet")
    assert is_true(built.status.conditions, "Active")


def test_a_check_of_somebody_else() -> None:
    built = admission_check("prov").controller("example.com/p").parameters(api_group="g", kind="K", name="n").build()
    assert built.spec.controller_name == "example.com/p"
    assert built.spec.parameters == Parameters(api_group="g", kind="K", name="n")


def test_a_check_without_parameters() -> None:
    assert admission_check().build().spec.parameters is None


def test_a_config_keeps_the_order_of_its_clusters() -> None:
    assert multikueue_config("fleet", "b", "a").build().spec.clusters == ("b", "a")


def test_a_cluster_has_one_source() -> None:
    cluster = multikueue_cluster("w1")
    assert cluster.build().spec.cluster_source == ClusterSource(kube_config=KubeConfigSource(location="w1"))
    assert cluster.secret("s").build().spec.cluster_source == ClusterSource(kube_config=KubeConfigSource(location="s"))
    assert cluster.path("/f").build().spec.cluster_source == ClusterSource(
        kube_config=KubeConfigSource(location="/f", location_type="Path")
    )
    assert cluster.profile("p").build().spec.cluster_source == ClusterSource(
        cluster_profile_ref=ClusterProfileRef(name="p")
    )


def test_a_cluster_may_be_lost() -> None:
    [active] = (
        multikueue_cluster("w1")
        .active(False, reason="ClientConnectionFailed", message="refused")
        .build()
        .status.conditions
    )
    assert (active.status, active.reason, active.message) == ("False", "ClientConnectionFailed", "refused")


def test_a_secret_holds_a_kubeconfig() -> None:
    built = secret("w1").kubeconfig(b"apiVersion: v1").data(token=b"t").build()
    assert {name: b64decode(text) for name, text in built.data.items()} == {
        "kubeconfig": b"apiVersion: v1",
        "token": b"t",
    }
