"""External frameworks: kinds whose Workloads another controller creates (contract 5.5).

That controller suspends and starts the local job; we run the copy, and write its status back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload
from multikueue.jobs.kinds.declared.adapter import DeclaredJob, is_different
from multikueue.jobs.kinds.declared.declaration import Declaration
from multikueue.jobs.trees import paths

__all__ = ["ExternalJob", "external", "plural"]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExternalJob(DeclaredJob):
    """The adapter of an external framework; has no state. `spec.managedBy` is the only known field of its objects."""

    is_external: ClassVar[bool] = True

    @property
    def pod_set_info(self) -> None:
        return None

    def as_counted(self, job: AnyJob, workload: Workload) -> AnyJob:  # noqa: ARG002  # its pods are the other's to count
        return job

    def _remote_spec(self, spec: msgspec.Raw) -> Any:
        return paths.without(spec, ("managedBy",))

    def is_suspended(self, job: AnyJob) -> bool:  # noqa: ARG002
        return False

    def may_be_copied(self, job: AnyJob) -> bool:  # noqa: ARG002  # the other controller decides when
        return True

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """The whole remote status, whenever it differs."""
        return remote.status if not self.unmanaged_reason(local) and is_different(local.status, remote.status) else None

    def reset_status_patch(self, job: AnyJob) -> Tree | None:  # noqa: ARG002
        return None

    def start_patch(self, job: AnyJob) -> Tree | None:  # noqa: ARG002
        return None

    def stop_patch(self, job: AnyJob) -> Tree | None:  # noqa: ARG002
        return None


def external(name: str) -> ExternalJob:
    """The adapter of the kind of that name, written Kind.version.group."""
    kind, version, group = name.split(".", 2)
    return ExternalJob(
        Declaration(framework=name, group=group, version=version, plural=plural(kind), kind=kind, pods=())
    )


def plural(kind: str) -> str:
    """The plural of a kind in URLs, as the generators of CustomResourceDefinitions guess it."""
    name = kind.lower()
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"
