"""Which workers there should be, by an inventory of clusters: ManagedClusters of OCM, or ClusterProfiles. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from multikueue.api.kubernetes.builtins import Secret
from multikueue.api.kueue.queues import LabelSelector, LabelSelectorRequirement
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import FLEET_LABEL, KUBECONFIG_KEY, ClusterProfile
from multikueue.api.multikueue.ocm import (
    CLUSTER_SET_LABEL,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterTaint,
    ManagedServiceAccount,
)
from multikueue.quota.requests.matching import is_selected
from multikueue.registration.discovery import managed_problem, profile_problem

__all__ = [
    "CREDENTIAL_ANNOTATION",
    "AccountToken",
    "FleetMember",
    "Inventoried",
    "ManagedInventory",
    "members_of_hub",
    "members_of_profiles",
    "selector_of",
]

CREDENTIAL_ANNOTATION = "multikueue.dev/made-of"
"""On a Secret of the fleet: a digest of the token, address and authority that its kubeconfig was made of."""

OURS = ("multikueue.dev/", "kueue.x-k8s.io/", "app.kubernetes.io/", "feature.open-cluster-management.io/")
"""Prefixes of labels that do not follow: those with a meaning for us, and what OCM writes with each state of an add-on."""


class AccountToken(msgspec.Struct, frozen=True, kw_only=True):
    """The Secret with the token of a ManagedServiceAccount, and the address for it. `authority` is PEM, empty for what the
    system trusts; None: the one in that Secret. `digest` differs whenever the kubeconfig has to be made again."""

    secret: ObjectKey
    server: str
    authority: bytes | None = None
    digest: str


class FleetMember(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that should be a worker.

    `source` is the `clusterSource` of its MultiKueueCluster, `taints` those that nobody tolerates. `problem` is why it cannot
    join now; a worker stays one in spite of it. `token`: of what to make its Secret, if it has to be made.
    """

    name: str
    source: Mapping[str, Any]
    labels: Mapping[str, str] = {}
    taints: str = ""
    problem: str = ""
    token: AccountToken | None = None

    @property
    def place(self) -> tuple[tuple[str, str], ...]:
        """Its source as `source_of` tells that of a MultiKueueCluster."""
        secret, profile = self.source["kubeConfig"], self.source["clusterProfileRef"]
        return (("Secret", secret["location"]),) if secret is not None else (("ClusterProfile", profile["name"]),)


class Inventoried(msgspec.Struct, frozen=True):
    """The members by name. `problem` is why these are not to be believed: then nobody leaves."""

    members: Mapping[str, FleetMember] = {}
    problem: str = ""


class ManagedInventory(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for ManagedClusters, out of the settings of the group `fleet`. `secret` and `server` have a place for the name
    of a cluster; without `server` its own address counts, and without `account` somebody else makes the Secrets, in
    `namespace`."""

    namespace: str
    origin: str
    secret: str
    cluster_set: str = ""
    selector: LabelSelector | None = None
    tolerations: frozenset[str] = frozenset()
    account: str = ""
    server: str = ""


def selector_of(terms: Iterable[tuple[str, str, tuple[str, ...]]]) -> LabelSelector | None:
    """A label selector of its terms; None without any."""
    made = tuple(LabelSelectorRequirement(key, operator, values) for key, operator, values in terms)
    return LabelSelector(match_expressions=made) if made else None


def members_of_hub(
    rules: ManagedInventory,
    clusters: Iterable[ManagedCluster],
    sets: Mapping[str, ManagedClusterSet],
    accounts: Mapping[ObjectKey, ManagedServiceAccount],
    secrets: Mapping[str, Secret],
) -> Inventoried:
    """The ManagedClusters of a set, with labels. `accounts`: by namespace and name; `secrets`: by name, those in the manager's
    namespace."""
    chosen = _of_set(rules.cluster_set, sets)
    if chosen is None:
        return Inventoried(problem=f"the hub has no ManagedClusterSet {rules.cluster_set}")
    found = (each for each in clusters if is_selected(chosen, each.metadata.labels))
    if rules.selector is not None:
        found = (each for each in found if is_selected(rules.selector, each.metadata.labels))
    members = (_managed(rules, each, accounts, secrets) for each in found)
    return Inventoried({each.name: each for each in members})


def _of_set(name: str, sets: Mapping[str, ManagedClusterSet]) -> LabelSelector | None:
    """What a cluster set selects by; None if there is no such set."""
    if not name:
        return LabelSelector()
    found = sets.get(name)
    if found is None:
        return None
    selector = found.spec.cluster_selector
    if selector.selector_type == "LabelSelector":
        return selector.label_selector or LabelSelector()
    return LabelSelector(match_labels={CLUSTER_SET_LABEL: name})


def _managed(
    rules: ManagedInventory,
    cluster: ManagedCluster,
    accounts: Mapping[ObjectKey, ManagedServiceAccount],
    secrets: Mapping[str, Secret],
) -> FleetMember:
    name = cluster.metadata.name
    secret = rules.secret.format(cluster=name)
    taints = [each for each in cluster.spec.taints if each.key not in rules.tolerations]
    token, lacking = _token(rules, cluster, accounts) if rules.account else (None, "")
    new = next((each for each in taints if each.effect == "NoSelectIfNew"), None)
    return FleetMember(
        name=name,
        source={"kubeConfig": {"location": secret, "locationType": "Secret"}, "clusterProfileRef": None},
        labels=_followed(cluster.metadata.labels),
        taints=_text(taints),
        problem=managed_problem(cluster)
        or (f"taint {new} keeps new ones away" if new is not None else "")
        or lacking
        or _secret_problem(rules, secret, secrets.get(secret)),
        token=token,
    )


def _text(taints: Iterable[ManagedClusterTaint]) -> str:
    """Those that keep work away. PreferNoSelect has no effect with OCM either, NoSelectIfNew none on who is there."""
    return ", ".join(sorted(str(each) for each in taints if each.effect == "NoSelect"))


def _followed(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if not key.startswith(OURS)}


def _secret_problem(rules: ManagedInventory, name: str, secret: Secret | None) -> str:
    where = f"Secret {rules.namespace}/{name}"
    if rules.account and secret is not None and secret.metadata.labels.get(FLEET_LABEL) != rules.origin:
        return f"{where} is not the fleet's: hand it over with the label {FLEET_LABEL}={rules.origin}"
    return "" if secret is not None and secret.data.get(KUBECONFIG_KEY) else f"there is no kubeconfig in {where}"


def _token(
    rules: ManagedInventory, cluster: ManagedCluster, accounts: Mapping[ObjectKey, ManagedServiceAccount]
) -> tuple[AccountToken | None, str]:
    """The token of the cluster's account, or why there is none yet."""
    name, ways = cluster.metadata.name, [each for each in cluster.spec.managed_cluster_client_configs if each.url]
    account = accounts.get(ObjectKey(name, rules.account))
    if account is None:
        return None, f"there is no ManagedServiceAccount {name}/{rules.account}"
    reference = account.status.token_secret_ref
    if reference is None:
        return None, f"ManagedServiceAccount {name}/{rules.account} has no token yet"
    if not rules.server and not ways:
        return None, "the hub has no URL of it: set fleet.server"
    server = rules.server.format(cluster=name) if rules.server else ways[0].url
    authority = b"" if rules.server else _pem(ways[0].ca_bundle) or None
    facts = (reference.name, reference.last_refresh_timestamp, account.metadata.uid, server, (authority or b"").hex())
    digest = sha256("\n".join(facts).encode()).hexdigest()[:16]
    secret = ObjectKey(name, reference.name)
    return AccountToken(secret=secret, server=server, authority=authority, digest=digest), ""


def _pem(text: str) -> bytes:
    try:
        return b64decode(text)
    except ValueError:
        return b""


def members_of_profiles(profiles: Iterable[ClusterProfile], selector: LabelSelector | None) -> Inventoried:
    """The ClusterProfiles with labels. Their credentials are the business of the manager's access providers."""
    chosen = (each for each in profiles if selector is None or is_selected(selector, each.metadata.labels))
    return Inventoried(
        {
            each.metadata.name: FleetMember(
                name=each.metadata.name,
                source={"kubeConfig": None, "clusterProfileRef": {"name": each.metadata.name}},
                labels=_followed(each.metadata.labels),
                problem=profile_problem(each),
            )
            for each in chosen
        }
    )
