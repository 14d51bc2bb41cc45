"""The rights that the manager's account on a worker lacks, given back without taking any away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from multikueue.kube.cluster_client import ClusterClient
from multikueue.registration.ownership import Side, is_ours
from multikueue.registration.plan import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Registration,
    Right,
    Wanted,
    role_rules,
    worker_objects,
)
from multikueue.registration.preflight import Place

__all__ = ["role_repairs"]

_ROLES = (CLUSTER_ROLES, ROLES)
_BINDINGS = (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


async def role_repairs(
    worker: ClusterClient, registration: Registration, missing: Mapping[Place, tuple[str, ...]]
) -> tuple[tuple[Wanted, ...], dict[str, str]]:
    """The roles and bindings that give the account what it lacks, by namespace of the roles; and why one cannot be changed.

    A role that is there keeps its rules, and gets those that it lacks: nobody knows with which options it was registered. A
    binding is made where it is missing, and stays as it is elsewhere.
    """
    lacking: dict[str, list[Right]] = {}
    for place, verbs in missing.items():
        if verbs:
            lacking.setdefault(place.namespace, []).append(place.right)
    side = Side(client=worker, where="", report=lambda _: None)
    wanted, refused = list[Wanted](), dict[str, str]()
    for one in worker_objects(registration):
        if one.kind not in (*_ROLES, *_BINDINGS) or one.key.name != registration.account.name:
            continue
        if one.key.namespace not in lacking:
            continue
        found = await side.find(one.kind, one.key)
        if found is None:
            wanted.append(replace(one, is_shared=True))
        elif not is_ours(found):
            refused[str(one)] = "it belongs to somebody else: rename or delete it"
        elif one.kind in _ROLES and (rules := _added(found.get("rules") or (), lacking[one.key.namespace])):
            wanted.append(Wanted(one.kind, {"metadata": one.body["metadata"], "rules": rules}))
    return tuple(wanted), refused


def _added(rules: Collection[Mapping[str, Any]], rights: Iterable[Right]) -> list[Mapping[str, Any]]:
    """The rules, and behind them those for rights that none of them gives in full; empty if they give all of them."""
    lacking = [right for right in rights if not any(_gives(rule, right) for rule in rules)]
    return [*rules, *role_rules(lacking)] if lacking else []


def _gives(rule: Mapping[str, Any], right: Right) -> bool:
    named = rule.get("resourceNames") or ()
    return (
        right.group in rule.get("apiGroups", ())
        and right.resource in rule.get("resources", ())
        and set(right.verbs) <= set(rule.get("verbs", ()))
        and (not named or right.name in named)
    )
