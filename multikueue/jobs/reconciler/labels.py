"""Labels copied from a job to its Workload, by the keys in the settings (Kueue's labelKeysToCopy).

They are copied when the Workload is created, and not updated later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multikueue.api.jobs.job import AnyJob
from multikueue.jobs.kinds.pods.members import members_of

__all__ = ["copied", "disagreement", "labelled"]

Tree = dict[str, Any]


def copied(job: AnyJob, keys: Sequence[str]) -> dict[str, str]:
    """The labels with these keys that the job has; a group has those of all its members, even of deleted ones."""
    members = [member.metadata.labels for member in members_of(job)]
    return {key: labels[key] for key in keys for labels in reversed(members) if key in labels}


def disagreement(job: AnyJob, keys: Sequence[str]) -> str:
    """A sentence about the labels that differ among the members of a group that have them; empty if none do."""
    members = [member.metadata.labels for member in members_of(job)]
    differing = [key for key in keys if len({labels[key] for labels in members if key in labels}) > 1]
    return (
        f"the pods of group '{job.metadata.name}' have different values of {', '.join(differing)}" if differing else ""
    )


def labelled(body: Tree, job: AnyJob, keys: Sequence[str]) -> Tree:
    """The Workload with these labels added. Its own labels take precedence."""
    labels = copied(job, keys) | body["metadata"].get("labels", {})
    return body | {"metadata": body["metadata"] | {"labels": labels}} if labels else body
