"""The built-in kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fakekube.builtins.builtin_schemas import schema_of
from fakekube.builtins.rules import core as core_rules
from fakekube.builtins.rules import groups as group_rules
from fakekube.builtins.rules.groups import SYSTEM_PRIORITIES
from fakekube.builtins.rules.jobs import CronJobRules, JobRules
from fakekube.builtins.rules.pods import PodRules
from fakekube.builtins.rules.rules import Rules
from fakekube.model.resources import Resource

__all__ = ["CRDS", "DEFAULT_NAMESPACES", "RULES", "SYSTEM_PRIORITIES", "resources"]

DEFAULT_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
"""The storage key of CustomResourceDefinitions."""

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

RULES: Mapping[str, Rules] = {
    "configmaps.": core_rules.DataRules(),
    "cronjobs.batch": CronJobRules(),
    "endpoints.": core_rules.EndpointsRules(),
    "events.": core_rules.EventRules(),
    "events.events.k8s.io": core_rules.NewEventRules(),
    "jobs.batch": JobRules(),
    "leases.coordination.k8s.io": group_rules.LeaseRules(),
    "limitranges.": core_rules.LimitRangeRules(),
    "namespaces.": core_rules.NamespaceRules(),
    "nodes.": core_rules.NodeRules(),
    "pods.": PodRules(),
    "priorityclasses.scheduling.k8s.io": group_rules.PriorityClassRules(),
    "resourceclaimtemplates.resource.k8s.io": group_rules.ClaimTemplateRules(),
    "resourcequotas.": core_rules.ResourceQuotaRules(),
    "runtimeclasses.node.k8s.io": group_rules.RuntimeClassRules(),
    "secrets.": core_rules.SecretRules(),
    "serviceaccounts.": core_rules.ServiceAccountRules(),
    "services.": core_rules.ServiceRules(),
    "apiservices.apiregistration.k8s.io": group_rules.APIServiceRules(),
    "certificatesigningrequests.certificates.k8s.io": group_rules.SigningRequestRules(),
    f"clusterrolebindings.{_RBAC}": group_rules.BindingRules(),
    f"clusterroles.{_RBAC}": group_rules.RoleRules(),
    f"rolebindings.{_RBAC}": group_rules.BindingRules(),
    f"roles.{_RBAC}": group_rules.RoleRules(),
    f"mutatingwebhookconfigurations.{_ADMISSION}": group_rules.MutatingWebhookRules(),
    f"validatingwebhookconfigurations.{_ADMISSION}": group_rules.WebhookRules(),
    CRDS: group_rules.DefinitionRules(),
}
"""Rules of kinds by `Resource.storage`; the others have `rules.PLAIN`."""

_NOT_COLLECTED = ("create", "delete", "get", "list", "patch", "update", "watch")


def resources() -> tuple[Resource, ...]:
    """The built-in kinds, the core group first."""
    return _RESOURCES


def _kind(
    group: str, kind: str, *short_names: str, plural: str = "", namespaced: bool = False, **more: Any
) -> Resource:
    singular = kind.lower()
    subresources = frozenset(more.pop("subresources", ()))
    return Resource(
        group=group,
        version="v1",
        plural=plural or f"{singular}s",
        singular=singular,
        kind=kind,
        namespaced=namespaced,
        subresources=subresources,
        short_names=short_names,
        schema=_schema(group, kind),
        **more,
    )


def _schema(group: str, kind: str) -> Mapping[str, Any]:
    try:
        return schema_of(group, "v1", kind)
    except LookupError:
        return {}


def _review(group: str, kind: str, *, namespaced: bool = False) -> Resource:
    return _kind(group, kind, namespaced=namespaced, verbs=("create",))


_STATUS = ("status",)

_RESOURCES: tuple[Resource, ...] = (
    _kind("", "ConfigMap", "cm", namespaced=True),
    _kind("", "Endpoints", "ep", plural="endpoints", namespaced=True),
    _kind("", "Event", "ev", namespaced=True),
    _kind("", "LimitRange", "limits", namespaced=True),
    _kind("", "Namespace", "ns", subresources=("status", "finalize"), verbs=_NOT_COLLECTED),
    _kind("", "Node", "no", subresources=_STATUS),
    _kind("", "Pod", "po", namespaced=True, subresources=("status", "log"), categories=("all",)),
    _kind("", "ResourceQuota", "quota", namespaced=True, subresources=_STATUS),
    _kind("", "Secret", namespaced=True),
    _kind("", "ServiceAccount", "sa", namespaced=True, subresources=("token",)),
    _kind("", "Service", "svc", namespaced=True, subresources=_STATUS, categories=("all",)),
    _kind(_ADMISSION, "MutatingWebhookConfiguration", categories=("api-extensions",)),
    _kind(_ADMISSION, "ValidatingWebhookConfiguration", categories=("api-extensions",)),
    _kind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        *("crd", "crds"),
        subresources=_STATUS,
        categories=("api-extensions",),
    ),
    _kind("apiregistration.k8s.io", "APIService", subresources=_STATUS, categories=("api-extensions",)),
    _review("authentication.k8s.io", "SelfSubjectReview"),
    _review("authentication.k8s.io", "TokenReview"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", namespaced=True),
    _review("authorization.k8s.io", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "SubjectAccessReview"),
    _kind("batch", "CronJob", "cj", namespaced=True, subresources=_STATUS, categories=("all",)),
    _kind("batch", "Job", namespaced=True, subresources=_STATUS, categories=("all",)),
    _kind("certificates.k8s.io", "CertificateSigningRequest", "csr", subresources=("status", "approval")),
    _kind("coordination.k8s.io", "Lease", namespaced=True),
    _kind("events.k8s.io", "Event", "ev", namespaced=True, kept_with=""),
    _kind("node.k8s.io", "RuntimeClass", plural="runtimeclasses"),
    _kind(_RBAC, "ClusterRoleBinding"),
    _kind(_RBAC, "ClusterRole"),
    _kind(_RBAC, "RoleBinding", namespaced=True),
    _kind(_RBAC, "Role", namespaced=True),
    _kind("resource.k8s.io", "DeviceClass", plural="deviceclasses"),
    _kind("resource.k8s.io", "ResourceClaimTemplate", namespaced=True),
    _kind("scheduling.k8s.io", "PriorityClass", "pc", plural="priorityclasses"),
)
