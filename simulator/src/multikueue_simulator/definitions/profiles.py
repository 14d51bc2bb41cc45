"""ClusterProfile of SIG Multicluster: a cluster in an inventory, with its access providers (ocm.md 2.2)."""

from __future__ import annotations

from fakekube.schemas.notation import (
    UNTYPED,
    Kind,
    Schema,
    Version,
    array,
    conditions,
    flag,
    record,
    rule,
    text,
    time,
)

__all__ = ["CLUSTER_PROFILE"]

_PROVIDERS: Schema = array(
    record(
        needs=("name",),
        name=text(),
        cluster=record(
            {
                "tls-server-name": text(),
                "insecure-skip-tls-verify": flag(),
                "certificate-authority": text(),
                "certificate-authority-data": text() | {"format": "byte"},
                "proxy-url": text(),
                "disable-compression": flag(),
                "extensions": array(
                    record(needs=("extension", "name"), name=text(), extension={"type": "object"} | UNTYPED)
                ),
            },
            needs=("server",),
            server=text(),
        ),
    )
)

CLUSTER_PROFILE = Kind(
    group="multicluster.x-k8s.io",
    kind="ClusterProfile",
    plural="clusterprofiles",
    namespaced=True,
    versions=(
        Version(
            name="v1alpha1",
            storage=True,
            schema=record(
                needs=("spec",),
                spec=record(
                    needs=("clusterManager",),
                    displayName=text(),
                    clusterManager=record(
                        needs=("name",), rules=[rule("self == oldSelf", "clusterManager is immutable")], name=text()
                    ),
                ),
                status=record(
                    conditions=conditions(keyed=False),
                    version=record(kubernetes=text()),
                    properties=array(
                        record(
                            needs=("name", "value"),
                            name=text(253, shortest=1),
                            value=text(1024, shortest=1),
                            lastObservedTime=time(),
                        ),
                    ),
                    accessProviders=_PROVIDERS,
                    credentialProviders=_PROVIDERS,
                ),
            ),
        ),
    ),
)
