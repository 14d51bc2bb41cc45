"""Labels of a job that its Workload gets too: those whose keys the settings name (Kueue's labelKeysToCopy).

They are copied when the Workload is made, and stay as they were then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multikueue.api.job import AnyJob
from multikueue.jobs.pods.members import members_of

__all__ = ["copied", "disagreement", "labelled"]

Tree = dict[str, Any]


def copied(job: AnyJob, keys: Sequence[str]) -> dict[str, str]:
    """Those of these labels that the job has; a group has what any of its members has, leaving ones too."""
    members = [member.metadata.labels for member in members_of(job)]
    return {key: labels[key] for key in keys for labels in reversed(members) if key in labels}


def disagreement(job: AnyJob, keys: Sequence[str]) -> str:
    """On which of these labels the members of a group differ, as a sentence; empty if on none. One without it agrees."""
    members = [member.metadata.labels for member in members_of(job)]
    differing = [key for key in keys if len({labels[key] for labels in members if key in labels}) > 1]
    return (
        f"the pods of group '{job.metadata.name}' have different values of {', '.join(differing)}" if differing else ""
    )


def labelled(body: Tree, job: AnyJob, keys: Sequence[str]) -> Tree:
    """The Workload made for the job, with these labels; those that it has anyhow are its own."""
    labels = copied(job, keys) | body["metadata"].get("labels", {})
    return body | {"metadata": body["metadata"] | {"labels": labels}} if labels else body
