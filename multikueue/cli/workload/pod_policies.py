"""What a cluster goes by when it makes pods, as far as the caller may read it there, and what that means for one workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from multikueue.cli.terminal.output import heading, note
from multikueue.errors import Forbidden, NotFound
from multikueue.quota.visibility.differences import COMPARED, PodPolicies

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.quota.requests.devices import DeviceRules
    from multikueue.quota.visibility.differences import Difference
    from multikueue.settings import Settings

__all__ = ["Elsewhere", "elsewhere", "not_compared", "print_elsewhere", "read_policies", "unread"]


class Elsewhere(msgspec.Struct, frozen=True):
    """Where the pods of a workload are others on a worker than those that are counted."""

    cluster: str
    difference: Difference

    def __str__(self) -> str:
        return f"On {self.cluster}, {self.difference.subject}: {self.difference}."

    def document(self) -> dict[str, Any]:
        return {"cluster": self.cluster, **msgspec.structs.asdict(self.difference)}


def elsewhere(
    workload: Workload, ours: PodPolicies, theirs: Mapping[str, PodPolicies], settings: Settings | None
) -> Iterator[Elsewhere]:
    """What the workload meets on each of these workers that the manager does not count."""
    from multikueue.cli.workload.explanation import demand_by
    from multikueue.quota.visibility.differences import differences_for

    devices = _devices(settings) if settings is not None else None
    count = partial(demand_by, workload=workload, settings=settings)
    for name, policies in theirs.items():
        for difference in differences_for(workload, ours, policies, count, devices):
            yield Elsewhere(name, difference)


def _devices(settings: Settings) -> DeviceRules:
    from multikueue.manager.engine import device_rules  # loads all settings, for a quarter of what the command costs

    return device_rules(settings.quota)


def print_elsewhere(found: Sequence[Elsewhere], uncompared: Iterable[str]) -> None:
    if found:
        heading("Where its pods are others")
    for each in found:
        print(f"  {each}")
    for text in uncompared:
        note(text)


def not_compared(ours: PodPolicies, theirs: Mapping[str, PodPolicies]) -> Iterator[str]:
    """The kinds that may not be listed, in words."""
    for name, policies in theirs.items():
        if forbidden := unread(policies):
            yield f"Not compared with {name}: {', '.join(forbidden)}, because the account may not list them there"
    if forbidden := unread(ours):
        yield f"Not compared: {', '.join(forbidden)}, because you may not list them on the manager"


async def read_policies(client: ClusterClient, namespaces: Sequence[str]) -> PodPolicies:
    """The objects of these namespaces (an empty name: of all), and those without one. A kind that is not served has none,
    one that may not be listed is None. Raises ClusterUnreachable and ApiError."""
    found: dict[str, Any] = {}
    for field, kind in COMPARED.items():
        try:
            places = namespaces if kind.namespaced else ("",)
            found[field] = [each for place in places for each in (await client.list(kind, namespace=place)).items]
        except NotFound:
            found[field] = []
        except Forbidden:
            found[field] = None
    return PodPolicies(**found)


def unread(policies: PodPolicies) -> list[str]:
    """The plurals of the kinds that may not be listed."""
    return [kind.plural for field, kind in COMPARED.items() if getattr(policies, field) is None]
