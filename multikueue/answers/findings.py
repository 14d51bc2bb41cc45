"""What is found on workers, by cause; and what their objects on the manager cluster tell of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import find_condition
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION, MultiKueueCluster, why_cordoned

__all__ = ["Diagnosis", "Finding", "Level", "Report", "cordon_of", "diagnoses", "of_object"]

Level = Literal["ok", "warning", "failed", "unreachable", "unchecked"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report: the subject, its state, and what repairs it. `difference` has what the detail says of an object
    that is not the same on both sides, by field."""

    level: Level
    subject: str
    detail: str
    difference: Mapping[str, str] = {}
    repair: str = ""

    def __str__(self) -> str:
        return f"{self.detail}: {self.repair}" if self.repair else self.detail

    @property
    def cause(self) -> tuple[str, str, str]:
        """What findings have in common that one repair is good for, on whatever worker: of rights, all that a worker lacks."""
        subject = "rights" if self.subject.startswith("rights on ") else self.subject
        return self.level, subject, self.repair or self.detail


class Report(msgspec.Struct, frozen=True):
    """Findings of a check on one cluster."""

    cluster: str
    findings: tuple[Finding, ...]
    identity: str = ""
    """The UID of its kube-system; empty if it was not read, or may not be read."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What one repair is good for: the finding as the first worker has it, and all that have it, or one of the same cause."""

    finding: Finding
    clusters: tuple[str, ...]


def diagnoses(reports: Sequence[Report]) -> list[Diagnosis]:
    """What is not as it should be, by cause: what keeps most workers from their work first, warnings last."""
    causes: dict[tuple[str, str, str], dict[str, Finding]] = {}
    for report in reports:
        for finding in report.findings:
            if finding.level != "ok":
                causes.setdefault(finding.cause, {}).setdefault(report.cluster, finding)
    found = [Diagnosis(next(iter(having.values())), tuple(having)) for having in causes.values()]
    return sorted(found, key=lambda each: (each.finding.level == "warning", -len(each.clusters)))


def of_object(cluster: MultiKueueCluster, configs: Sequence[str]) -> Iterator[Finding]:
    """What its MultiKueueCluster tells. `configs`: the names of the MultiKueueConfigs that name it."""
    active = find_condition(cluster.status.conditions, ACTIVE)
    if active is None:
        yield Finding(
            "warning", "manager's connection", "no manager has looked at the cluster yet", repair="does it run?"
        )
    else:
        level: Level = "ok" if active.status == "True" else "warning"
        yield Finding(level, "manager's connection", f"{active.reason}: {active.message}")
    cordon = cordon_of(cluster)
    if cordon != "no":  # or an annotation that was meant as one
        yield Finding("warning", "cordoned", cordon)
    if configs:
        yield Finding("ok", "configs", ", ".join(configs))
    else:
        why = "no MultiKueueConfig names it, so nothing is sent to it"
        yield Finding("warning", "configs", why, repair="register it with --config-name")


def cordon_of(cluster: MultiKueueCluster) -> str:
    """`yes`, and by what if not by its annotation, `no`, or the invalid value of the annotation."""
    if why := why_cordoned(cluster):
        return why.replace("cordoned", "yes", 1)
    written = cluster.metadata.annotations.get(CORDON_ANNOTATION, "false")
    return "no" if written == "false" else f"no ({written!r} is not 'true')"
