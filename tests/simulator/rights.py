"""API servers of a world that mind roles, and count what one account asks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fakekube.cluster import Cluster
from fakekube.front_end.attributes import attributes
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.rbac import MASTERS, Authorizer
from fakekube.model.wire import Request, Response, User, Watch
from fakekube.network.transport import Host
from multikueue_simulator.world.processes import Process

__all__ = ["Asked", "Verb", "account", "guard", "verbs", "without"]

Object = dict[str, Any]

REVIEWS = ("authorization.k8s.io", "authentication.k8s.io")
"""Questions that everybody may ask."""


class Verb(NamedTuple):
    """One verb on one resource, as RBAC counts them."""

    group: str
    resource: str
    verb: str


@dataclass
class Asked:
    """What the account asked: what was let through, and what was refused for want of a right."""

    used: set[Verb] = field(default_factory=set)
    refused: set[Verb] = field(default_factory=set)


@dataclass
class _Guard:
    gate: AuthorizationFilter
    account: User
    asked: Asked

    async def handle(self, request: Request) -> Response | Watch:
        answer = await self.gate.handle(request)
        about = attributes(request)
        if request.user == self.account and about.resource and about.group not in REVIEWS:
            refused = isinstance(answer, Response) and answer.status == 403
            (self.asked.refused if refused else self.asked.used).add(Verb(about.group, about.qualified, about.verb))
        return answer


def account(namespace: str, name: str) -> User:
    """Whom a ServiceAccount speaks for."""
    return User(f"system:serviceaccount:{namespace}:{name}", ("system:authenticated",))


def guard(host: Host, cluster: Cluster, token: str, user: User, asked: Asked, *, others: Iterable[Process]) -> None:
    """Mind roles from now on. Who has the token is the user; the programs of the cluster itself may do everything."""
    host.api = _Guard(AuthorizationFilter(cluster.api, Authorizer(cluster.storage, enforced=True)), user, asked)
    host.users = {f"Bearer {each.name}": User(each.name, (MASTERS,)) for each in others} | {f"Bearer {token}": user}
    host.stranger = None


def verbs(rules: Iterable[Object]) -> set[Verb]:
    """What the rules of roles allow."""
    return {
        Verb(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def without(rules: Iterable[Object], taken: Verb | None) -> Iterator[Object]:
    """These rules but for one verb."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                left = [verb for verb in rule["verbs"] if Verb(group, resource, verb) != taken]
                yield {**rule, "apiGroups": [group], "resources": [resource], "verbs": left}
