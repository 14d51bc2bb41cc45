"""The manager cluster, as far as what we serve needs one: with a namespace for what we keep for ourselves."""

from __future__ import annotations

from datetime import UTC, datetime

from multikueue.api.kinds import NAMESPACES
from tests.cluster import Cluster


def manager() -> Cluster:
    """Its clock stands still: certificates are made by the clocks of the tests."""
    cluster = Cluster("manager", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    cluster.put(NAMESPACES, {"metadata": {"name": "ours"}})
    return cluster
