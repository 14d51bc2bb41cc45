"""What the doctor finds wrong with clusters, by cause, as far as the manager cluster tells it.

`multikueue doctor` asks the workers too. The console has no credential of theirs: of what only they know it tells what the
manager has written into its conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from multikueue.answers.findings import Finding, Report, diagnoses, of_object
from multikueue.api.meta import ObjectKey
from multikueue_console.model.clusters import ClusterRow
from multikueue_console.model.objects import SeenObjects

__all__ = ["FoundCause", "found_causes"]


class FoundCause(msgspec.Struct, frozen=True, gc=False):
    """What one repair is good for. `level`: failed or warning. `subject`: what was looked at. `clusters`: all that have it."""

    level: str
    subject: str
    detail: str
    clusters: tuple[str, ...]
    repair: str = ""


def found_causes(seen: SeenObjects, rows: Iterable[ClusterRow]) -> tuple[FoundCause, ...]:
    """`rows`: the clusters that may be seen; what keeps most of them from their work first, warnings last."""
    found = diagnoses([Report(row.name, tuple(_findings(seen, row))) for row in rows])
    return tuple(
        FoundCause(each.finding.level, each.finding.subject, each.finding.detail, each.clusters, each.finding.repair)
        for each in found
    )


def _findings(seen: SeenObjects, row: ClusterRow) -> Iterator[Finding]:
    cluster = (seen.clusters or {}).get(ObjectKey("", row.name))
    if cluster is None:
        if row.state == "Gone":
            yield Finding("failed", "MultiKueueCluster", "it is gone, and workloads are still there")
        return
    for each in of_object(cluster, row.configs or ()):
        if each.subject == "configs" and row.configs is None:
            continue
        # The doctor asks an absent worker itself, and fails then. Nobody does so here.
        is_away = row.state == "Away" and each.subject == "manager's connection"
        yield msgspec.structs.replace(each, level="failed") if is_away else each
    for note in row.notes:
        yield Finding("warning", "told by the manager", note)
