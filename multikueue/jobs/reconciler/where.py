"""Where a job runs, as a label on it: `kubectl get jobs -L multikueue.dev/cluster` needs nothing of ours.

It rides on the patch that starts the job, and goes with the one that stops it, so it costs no write.
"""

from __future__ import annotations

from typing import Any

from multikueue.api.kueue.workload import CLUSTER_LABEL
from multikueue.api.meta import Object

__all__ = ["forgotten", "with_cluster_label"]

Tree = dict[str, Any]

_LONGEST = 63
"""Characters of a label's value; a cluster with a longer name is told by the Workload only."""


def with_cluster_label(patch: Tree, cluster: str | None) -> Tree:
    """The patch that starts a job, with the cluster where it starts, if it is one."""
    return _labelled(patch, cluster) if cluster and len(cluster) <= _LONGEST else patch


def forgotten(patch: Tree, job: Object) -> Tree:
    """The patch that stops a job, which is on no cluster then."""
    return _labelled(patch, None) if CLUSTER_LABEL in job.metadata.labels else patch


def _labelled(patch: Tree, value: str | None) -> Tree:
    meta = patch.get("metadata", {})
    return patch | {"metadata": meta | {"labels": meta.get("labels", {}) | {CLUSTER_LABEL: value}}}
