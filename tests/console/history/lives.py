"""Workloads at the moments of their lives, as a watch shows them; minutes count from the submission."""

from __future__ import annotations

from datetime import datetime, timedelta

from multikueue.api.kueue.workload import Workload
from multikueue.testing import NOW
from tests.builders.workloads import WorkloadBuilder, workload

__all__ = ["at", "evicted", "finished", "readmitted", "running", "submitted"]


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def submitted(name: str = "train", *, namespace: str = "team", gpus: int = 2) -> WorkloadBuilder:
    fresh = workload(name, namespace=namespace).uid(f"uid-{name}").queue("main").created(at(0))
    return fresh.request({"nvidia.com/gpu": gpus}, cpu="1500m")


def running(
    name: str = "train", *, start: float = 10, cluster: str = "east", namespace: str = "team"
) -> WorkloadBuilder:
    """Reserved a minute before it starts there."""
    reserved = submitted(name, namespace=namespace).reserved("cq", at=at(start - 1))
    return reserved.cluster_name(cluster).admitted(at=at(start))


def evicted(name: str = "train", *, end: float = 30, reason: str = "Preempted") -> WorkloadBuilder:
    """Evicted a minute before its quota is given back."""
    going = running(name).evicted(reason, at=at(end - 1))
    return going.unreserved(at=at(end))


def readmitted(name: str = "train", *, start: float = 40) -> WorkloadBuilder:
    back = evicted(name).condition("Evicted", "False", reason="QuotaReserved", at=at(start - 1))
    return back.reserved("cq", at=at(start - 1)).cluster_name("west").admitted(at=at(start))


def finished(name: str = "train", *, end: float = 100, reason: str = "Succeeded") -> Workload:
    return running(name).finished(reason, at=at(end)).build()
