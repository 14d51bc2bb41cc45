"""Kueue's AdmissionCheck, MultiKueueConfig, MultiKueueCluster, and ProvisioningRequestConfig for other checks."""

from __future__ import annotations

from fakekube.schemas.notation import (
    LABEL,
    QUALIFIED,
    SUBDOMAIN,
    Kind,
    Version,
    array,
    column,
    conditions,
    number,
    of,
    record,
    table,
    text,
)
from multikueue.api.kueue import admission_checks
from multikueue.api.multikueue import clusters
from multikueue_simulator.definitions import rules

__all__ = ["ADMISSION_CHECK", "MULTIKUEUE_CLUSTER", "MULTIKUEUE_CONFIG", "PROVISIONING_REQUEST_CONFIG"]

_STATUS = of(admission_checks.ConditionedStatus, conditions=conditions(16))

ADMISSION_CHECK = Kind(
    group="kueue.x-k8s.io",
    kind="AdmissionCheck",
    plural="admissionchecks",
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(
                spec=of(
                    admission_checks.AdmissionCheckSpec,
                    needs=("controllerName",),
                    controllerName=text(253, shortest=1, rules=rules.FIXED),
                    parameters=of(
                        admission_checks.Parameters,
                        needs=("apiGroup", "kind", "name"),
                        apiGroup=text(253, SUBDOMAIN, shortest=1),
                        kind=text(63, "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$", shortest=1),
                        name=text(63, LABEL, shortest=1),
                    ),
                ),
                status=_STATUS,
            ),
        ),
    ),
)

MULTIKUEUE_CONFIG = Kind(
    group="kueue.x-k8s.io",
    kind="MultiKueueConfig",
    plural="multikueueconfigs",
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            status=False,
            schema=record(
                spec=of(
                    clusters.MultiKueueConfigSpec,
                    needs=("clusters",),
                    clusters=array(text(256), kind="set", least=1, most=20),
                )
            ),
        ),
    ),
)

MULTIKUEUE_CLUSTER = Kind(
    group="kueue.x-k8s.io",
    kind="MultiKueueCluster",
    plural="multikueueclusters",
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(
                spec=of(
                    clusters.MultiKueueClusterSpec,
                    needs=("clusterSource",),
                    clusterSource=of(
                        clusters.ClusterSource,
                        rules=rules.CLUSTER_SOURCE,
                        kubeConfig=of(
                            clusters.KubeConfigSource,
                            needs=("location",),
                            location=text(256, shortest=1),
                            locationType=text(one_of=("Secret", "Path"), default="Secret"),
                        ),
                        clusterProfileRef=of(clusters.ClusterProfileRef, needs=("name",), name=text(256, shortest=1)),
                    ),
                ),
                status=_STATUS,
            ),
            columns=(
                column("Connected", ".status.conditions[?(@.type=='Active')].status"),
                column("Age", ".metadata.creationTimestamp", "date"),
            ),
        ),
    ),
)

PROVISIONING_REQUEST_CONFIG = Kind(
    group="kueue.x-k8s.io",
    kind="ProvisioningRequestConfig",
    plural="provisioningrequestconfigs",
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            status=False,
            schema=record(
                spec=record(
                    needs=("provisioningClassName",),
                    provisioningClassName=text(253, SUBDOMAIN, shortest=1),
                    parameters=table(text(255), most=100),
                    managedResources=array(text(), kind="set", most=100),
                    retryStrategy=record(
                        backoffLimitCount=number(default=3),
                        backoffBaseSeconds=number(default=60),
                        backoffMaxSeconds=number(default=1800),
                        default={"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
                    ),
                    podSetMergePolicy=text(one_of=("IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements")),
                    podSetUpdates=record(
                        nodeSelector=array(
                            record(
                                needs=("key", "valueFromProvisioningClassDetail"),
                                key=text(317, QUALIFIED, shortest=1),
                                valueFromProvisioningClassDetail=text(32768, shortest=1),
                            ),
                            keys=("key",),
                            most=8,
                        )
                    ),
                )
            ),
        ),
    ),
)
