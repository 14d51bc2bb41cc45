"""Worker clusters as rows: whether each can be used, and what races, starts and runs there."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import find_condition, natural
from multikueue.api.multikueue.clusters import MultiKueueCluster, clusters_of, is_cordoned, prices_of
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.tallies import Load
from multikueue_console.model.workloads import seconds

__all__ = ["ClusterRow", "cluster_rows"]


class ClusterRow(msgspec.Struct, frozen=True, gc=False):
    """`state`: Active, Away, Cordoned, Unknown as long as no manager has looked at it, or Gone for one that is no object any
    more and still has work. `since`: seconds since 1970, 0 if unknown."""

    name: str
    state: str
    since: int = 0
    message: str = ""
    is_cordoned: bool = False
    configs: tuple[str, ...] = ()
    prices: dict[str, float] = {}
    load: Load = msgspec.field(default_factory=Load)


def cluster_rows(seen: SeenObjects, on: Mapping[str, Load]) -> tuple[ClusterRow, ...]:
    """Clusters by name, those that work is on included, even if they may not be listed."""
    objects = {key.name: each for key, each in (seen.clusters or {}).items()}
    configs: dict[str, list[str]] = {}
    for config in (seen.configs or {}).values():
        for name in clusters_of(config):
            configs.setdefault(name, []).append(config.metadata.name)
    busy = {name for name, load in on.items() if load.racing + load.starting + load.running}
    rows = (
        _row(objects[name], tuple(configs.get(name, ())), on.get(name, Load()))
        if name in objects
        else ClusterRow(name=name, state="Unknown" if seen.clusters is None else "Gone", load=on[name])
        for name in sorted({*objects, *busy}, key=natural)
    )
    return tuple(rows)


def _row(cluster: MultiKueueCluster, configs: tuple[str, ...], load: Load) -> ClusterRow:
    active = find_condition(cluster.status.conditions, ACTIVE)
    is_away = active is not None and active.status != "True"
    cordoned = is_cordoned(cluster)
    state = "Unknown" if active is None else "Away" if is_away else "Cordoned" if cordoned else "Active"
    return ClusterRow(
        name=cluster.metadata.name,
        state=state,
        since=seconds(active.last_transition_time) if active is not None else 0,
        message=(active.message or active.reason) if active is not None and is_away else "",
        is_cordoned=cordoned,
        configs=configs,
        prices=dict(prices_of(cluster)),
        load=load,
    )
