"""Kueue's Topology: the levels of a data center, by node label."""

from __future__ import annotations

from fakekube.schemas.notation import QUALIFIED, Kind, Version, array, record, text
from multikueue_simulator.definitions import rules

__all__ = ["TOPOLOGY"]

TOPOLOGY = Kind(
    group="kueue.x-k8s.io",
    kind="Topology",
    plural="topologies",
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            status=False,
            schema=record(
                spec=record(
                    needs=("levels",),
                    levels=array(
                        record(needs=("nodeLabel",), nodeLabel=text(316, QUALIFIED, shortest=1)),
                        kind="atomic",
                        least=1,
                        most=16,
                        rules=rules.LEVELS,
                    ),
                )
            ),
        ),
    ),
)
