"""The ClusterProfile of SIG Multicluster (v1alpha1) that a MultiKueueCluster may name."""

from __future__ import annotations

import msgspec

from multikueue.api.meta import Object, Value


class AccessProvider(Value):
    """One way to reach a cluster; `cluster` has the fields of a cluster in a kubeconfig, in the same spelling."""

    name: str = ""
    cluster: msgspec.Raw = msgspec.Raw(b"{}")


class ClusterProfileStatus(Value):
    access_providers: tuple[AccessProvider, ...] = ()
    credential_providers: tuple[AccessProvider, ...] = ()


class ClusterProfile(Object):
    """`multicluster.x-k8s.io`: a cluster as its inventory knows it."""

    status: ClusterProfileStatus = ClusterProfileStatus()

    @property
    def providers(self) -> tuple[AccessProvider, ...]:
        """All ways to reach it. Of two with one name, the one in the field that is not deprecated comes first."""
        return (*self.status.access_providers, *self.status.credential_providers)
