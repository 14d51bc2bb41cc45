"""Worker clusters as rows: whether each can be used, and what races, starts and runs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import Condition, find_condition, natural
from multikueue.api.multikueue.clusters import DRAINED, IN_FLEET, MultiKueueCluster, clusters_of, is_cordoned, prices_of
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.tallies import Load
from multikueue_console.model.worker_figures import WorkerFigures
from multikueue_console.model.workloads import seconds

__all__ = ["ClusterRow", "cluster_rows"]


CONNECTED = "Connected"
"""How the message of a condition begins that a manager of ours writes for a cluster that it reaches."""


class ClusterRow(msgspec.Struct, frozen=True, gc=False):
    """`state`: Active, Away, Cordoned, Unknown as long as no manager has looked at it, or Gone for one that is no object any
    more and still has work. `since`: seconds since 1970, 0 if unknown. `reason`, `message`: those of its condition, while it is
    away. `notes`: what the manager tells of it in its conditions while it can be used, such as the end of its credential, and
    how far it is drained or why it leaves the fleet. `configs`: those that name it, None where they may not be listed.
    `figures`: what its metrics tell, None where nobody reads them."""

    name: str
    state: str
    since: int = 0
    reason: str = ""
    message: str = ""
    notes: tuple[str, ...] = ()
    is_cordoned: bool = False
    configs: tuple[str, ...] | None = ()
    prices: dict[str, float] = {}
    load: Load = msgspec.field(default_factory=Load)
    figures: WorkerFigures | None = None


def cluster_rows(seen: SeenObjects, on: Mapping[str, Load]) -> tuple[ClusterRow, ...]:
    """Clusters by name, those that work is on included, even if they may not be listed."""
    objects = {key.name: each for key, each in (seen.clusters or {}).items()}
    configs: dict[str, list[str]] = {}
    for config in (seen.configs or {}).values():
        for name in clusters_of(config):
            configs.setdefault(name, []).append(config.metadata.name)
    busy = {name for name, load in on.items() if load.racing + load.starting + load.running}
    rows = (
        _row(
            objects[name],
            None if seen.configs is None else tuple(configs.get(name, ())),
            on.get(name, Load()),
            seen.figures.get(name),
        )
        if name in objects
        else ClusterRow(name=name, state="Unknown" if seen.clusters is None else "Gone", load=on[name])
        for name in sorted({*objects, *busy}, key=natural)
    )
    return tuple(rows)


def _row(
    cluster: MultiKueueCluster, configs: tuple[str, ...] | None, load: Load, figures: WorkerFigures | None
) -> ClusterRow:
    active = find_condition(cluster.status.conditions, ACTIVE)
    is_away = active is not None and active.status != "True"
    cordoned = is_cordoned(cluster)
    state = "Unknown" if active is None else "Away" if is_away else "Cordoned" if cordoned else "Active"
    return ClusterRow(
        name=cluster.metadata.name,
        state=state,
        since=seconds(active.last_transition_time) if active is not None else 0,
        reason=active.reason if active is not None and is_away else "",
        message=(active.message or active.reason) if active is not None and is_away else "",
        notes=tuple(_notes(cluster, None if is_away else active)),
        is_cordoned=cordoned,
        configs=configs,
        prices=dict(prices_of(cluster)),
        load=load,
        figures=figures,
    )


def _notes(cluster: MultiKueueCluster, active: Condition | None) -> Iterator[str]:
    """`active`: its condition, if it is not told as a whole."""
    if active is not None and active.status == "True":
        rest = active.message.removeprefix(CONNECTED).removeprefix("; ")
        if rest:
            yield rest
    drained, leaving = (find_condition(cluster.status.conditions, name) for name in (DRAINED, IN_FLEET))
    if drained is not None:
        yield f"{'drained' if drained.status == 'True' else 'is drained'}: {drained.message}"
    if leaving is not None and leaving.status == "False":
        yield f"{'leaves the fleet' if leaving.reason == 'Leaving' else 'stays in the fleet for now'}: {leaving.message}"
