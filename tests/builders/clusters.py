"""Builders of MultiKueue's own objects, and of the namespaces and Secrets they need."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from multikueue.api.kubernetes.builtins import Namespace, Secret
from multikueue.api.kueue.admission_checks import (
    ACTIVE,
    CONTROLLER_NAME,
    AdmissionCheck,
    AdmissionCheckSpec,
    Parameters,
)
from multikueue.api.meta import Condition
from multikueue.api.multikueue.clusters import (
    KUBECONFIG_KEY,
    ClusterProfileRef,
    ClusterSource,
    KubeConfigSource,
    MultiKueueCluster,
    MultiKueueClusterSpec,
    MultiKueueConfig,
    MultiKueueConfigSpec,
)
from multikueue.testing import NOW
from tests.builders.objects import Builder, active_condition, metadata_of


@dataclass(frozen=True, slots=True)
class AdmissionCheckBuilder(Builder[AdmissionCheck]):
    """An AdmissionCheck of MultiKueue without parameters."""

    def config(self, name: str) -> Self:
        """Refers to that MultiKueueConfig."""
        return self._with_spec(parameters=Parameters(api_group="kueue.x-k8s.io", kind="MultiKueueConfig", name=name))

    def parameters(self, *, api_group: str, kind: str, name: str) -> Self:
        return self._with_spec(parameters=Parameters(api_group=api_group, kind=kind, name=name))

    def controller(self, name: str) -> Self:
        """Makes it a check of another controller."""
        return self._with_spec(controller_name=name)

    def active(self, yes: bool = True, *, reason: str = ACTIVE, message: str = "", at: datetime = NOW) -> Self:
        """Sets the condition Active."""
        return self._with_condition(active_condition(yes, reason, message), at)


@dataclass(frozen=True, slots=True)
class MultiKueueClusterBuilder(Builder[MultiKueueCluster]):
    """A MultiKueueCluster whose kubeconfig is in the Secret of its own name."""

    def secret(self, name: str) -> Self:
        """Takes the kubeconfig from that Secret."""
        return self._with_source(ClusterSource(kube_config=KubeConfigSource(location=name)))

    def path(self, path: str) -> Self:
        """Takes the kubeconfig from that file."""
        return self._with_source(ClusterSource(kube_config=KubeConfigSource(location=path, location_type="Path")))

    def profile(self, name: str) -> Self:
        """Takes the kubeconfig from that ClusterProfile."""
        return self._with_source(ClusterSource(cluster_profile_ref=ClusterProfileRef(name=name)))

    def active(self, yes: bool = True, *, reason: str = ACTIVE, message: str = "Connected", at: datetime = NOW) -> Self:
        """Sets the condition Active."""
        return self._with_condition(active_condition(yes, reason, message), at)

    def told(
        self, type_: str, yes: bool = True, *, reason: str = "Told", message: str = "", at: datetime = NOW
    ) -> Self:
        """Sets a condition of ours."""
        condition = Condition(type=type_, status="True" if yes else "False", reason=reason, message=message)
        return self._with_condition(condition, at)

    def _with_source(self, source: ClusterSource) -> Self:
        return self._with_spec(cluster_source=source)


@dataclass(frozen=True, slots=True)
class SecretBuilder(Builder[Secret]):
    """An empty Secret."""

    def data(self, entries: Mapping[str, bytes] | None = None, **more: bytes) -> Self:
        """Adds entries, given without base64."""
        coded = {name: b64encode(raw).decode() for name, raw in {**(entries or {}), **more}.items()}
        return self._with(data={**self.value.data, **coded})

    def kubeconfig(self, raw: bytes) -> Self:
        return self.data({KUBECONFIG_KEY: raw})


def admission_check(name: str = "mk") -> AdmissionCheckBuilder:
    spec = AdmissionCheckSpec(controller_name=CONTROLLER_NAME)
    return AdmissionCheckBuilder(AdmissionCheck(metadata=metadata_of("admissioncheck", name), spec=spec))


def multikueue_config(name: str, *clusters: str) -> Builder[MultiKueueConfig]:
    spec = MultiKueueConfigSpec(clusters=clusters)
    return Builder(MultiKueueConfig(metadata=metadata_of("multikueueconfig", name), spec=spec))


def multikueue_cluster(name: str) -> MultiKueueClusterBuilder:
    value = MultiKueueCluster(metadata=metadata_of("multikueuecluster", name), spec=MultiKueueClusterSpec())
    return MultiKueueClusterBuilder(value).secret(name)


def secret(name: str, *, namespace: str = "kueue-system") -> SecretBuilder:
    return SecretBuilder(Secret(metadata=metadata_of("secret", name, namespace)))


def namespace(name: str) -> Builder[Namespace]:
    return Builder(Namespace(metadata=metadata_of("namespace", name)))
