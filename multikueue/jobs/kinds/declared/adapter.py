"""The adapter of declared kinds: a declaration says where the fields are.

For all these kinds (contract 5.2, 5.6), the copy is the object without its managedBy, suspended so that the worker's
Kueue starts it, and the copy's whole status is written back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob, CustomJob, job_type
from multikueue.api.kind import Kind
from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.workload import FAILED, SUCCEEDED, Finish, ReclaimablePod, Workload, workload_spec
from multikueue.api.meta import Condition, encode
from multikueue.api.values.canonical import canonical
from multikueue.jobs.framework import webhook, workloads
from multikueue.jobs.framework.adapter import MANAGED, Runtimes
from multikueue.jobs.framework.default_adapter import DefaultAdapter
from multikueue.jobs.framework.pod_set_info import PodSetInfoWriter
from multikueue.jobs.kinds.declared.declaration import Declaration
from multikueue.jobs.kinds.declared.pod_sets import DeclaredPodSetInfoWriter, Pods, number
from multikueue.jobs.kinds.declared.state_rules import with_end
from multikueue.jobs.trees import paths, templates
from multikueue.jobs.trees.templates import tree_of

__all__ = ["DeclaredJob", "is_different"]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredJob(DefaultAdapter):
    """The adapter of a declared kind; has no state. `compatibility` is the release of Kueue that it follows."""

    declared: Declaration
    compatibility: Compatibility = NEWEST
    kind: Kind[Any] = field(init=False)

    def __post_init__(self) -> None:
        own = self.declared
        kind = Kind(own.group, own.version, own.plural, own.kind, True, job_type(own.kind))
        object.__setattr__(self, "kind", kind)

    def of(self, compatibility: Compatibility) -> DeclaredJob:
        """The adapter as another release of Kueue has it."""
        pods = (each.of(compatibility) if isinstance(each, Pods) else each for each in self.declared.pods)
        return DeclaredJob(replace(self.declared, pods=tuple(pods)), compatibility)

    @property
    def runtimes(self) -> Runtimes | None:
        return self.declared.runtimes

    @property
    def why_one_place(self) -> str:
        if not self.declared.managed_by:
            return "without a field like managedBy its controller must not run on the manager cluster"
        return self.declared.why_one_place

    @property
    def pod_set_info(self) -> PodSetInfoWriter | None:
        return DeclaredPodSetInfoWriter(self.declared.pods)

    def submitted(self, raw: msgspec.Raw) -> webhook.SubmittedCustom:
        own = self.declared
        return webhook.read_custom(
            raw, suspend=_in_spec(own.suspend), managed_by=self._managed_by(), managers=own.managers
        )

    def refusal(self, job: webhook.SubmittedCustom, old: webhook.SubmittedCustom | None = None) -> str | None:
        """Refused by the rules for all kinds and those of its own. Violations that `old` has too are allowed, or it
        could not be repaired step by step."""
        known = self._problems(old) if old is not None else []
        own = [problem for problem in self._problems(job) if problem not in known]
        return "; ".join(filter(None, (webhook.refusal_of_any(job, old), *own))) or None

    def _problems(self, job: webhook.SubmittedCustom) -> list[str]:
        if not job.queue or paths.fields_of(job.spec) is None:
            return []
        tree = {"metadata": {"name": ""}, "spec": tree_of(job.spec)}
        found = [problem for rule in self.declared.rules if (problem := rule.problem(tree))]
        sets = [each for pods in self.declared.pods for each in pods.pod_sets(tree)]
        found += _problems_of_pods(sets)
        found += (problem for pods in self.declared.pods for problem in pods.uncounted(tree))
        names = [each["name"] for each in sets]
        if len(names) > self.compatibility.most_pod_sets:
            most = self.compatibility.most_pod_sets
            found.append(f"expected at most {most} different groups of pods, got {len(names)}")
        twice = sorted({name for name in names if names.count(name) > 1})
        return [*found, *(f"expected a name of its own for each group of pods, got {name!r} twice" for name in twice)]

    def defaults(self, job: webhook.SubmittedCustom, *, is_multikueue_queue: bool) -> list[Tree]:
        return webhook.default_custom(
            job,
            suspend=_in_spec(self.declared.suspend),
            managed_by=self._managed_by(),
            is_multikueue_queue=is_multikueue_queue,
        )

    def unmanaged_reason(self, job: AnyJob) -> str | None:
        path = self.declared.managed_by
        found = self._peek(job, path) if path else MANAGED
        manager = found if isinstance(found, str) else ""
        return None if manager == MANAGED else f'Expecting {path} to be "{MANAGED}" not "{manager}"'

    def pod_priority_class(self, job: AnyJob) -> str:
        own = paths.only(_tree(job), self.declared.priority) if self.declared.priority else None
        return str(own) if own else DefaultAdapter.pod_priority_class(self, job)

    def waits_for(self, job: AnyJob) -> str | None:
        """A change of what no pod of it may have, where no webhook refused that."""
        uncounted = (problem for pods in self.declared.pods for problem in pods.uncounted(_tree(job)))
        return "; ".join((*_problems_of_pods(self.pod_sets(job)), *uncounted))

    # --- the Workload ------------------------------------------------------------------------------------------------

    def is_equivalent(self, job: AnyJob, workload: Workload) -> bool:
        if self.runtimes is not None and self.runtimes.problem(job) is not None:
            # The runtime is not in the store now, which is no reason to stop a running job.
            return workloads.may_be_of(workload, workload_spec(workload), job)
        return DefaultAdapter.is_equivalent(self, job, workload)

    def pod_sets(self, job: AnyJob) -> list[Tree]:
        tree = _tree(job)
        return [each for pods in self.declared.pods for each in pods.pod_sets(tree)]

    # --- the copy on a worker ----------------------------------------------------------------------------------------

    def remote_fields(self, job: AnyJob) -> Tree:
        """All fields, except those that the declaration drops."""
        others = paths.fields_of(job.others) if isinstance(job, CustomJob) else None
        return (others or {}) | {"spec": self._remote_spec(job.spec)}

    def resized(self, job: AnyJob, remote: AnyJob, *, pods: int) -> Tree | None:
        own = self.declared.sized
        if own is None:
            return None
        is_of_size = sum(each["count"] for each in self.pod_sets(job)) == pods
        return own.patch(tree_of(job.spec), tree_of(remote.spec)) if is_of_size else {}

    def _remote_spec(self, spec: msgspec.Raw) -> Any:
        for path in filter(None, (self.declared.managed_by, *self.declared.dropped)):
            spec = _raw(paths.without(spec, paths.place_of(path)[1:]))
        return paths.with_value(spec, _in_spec(self.declared.suspend), True)

    # --- the status --------------------------------------------------------------------------------------------------

    def finished(self, job: AnyJob) -> Finish | None:
        tree: Tree | None = None
        for state, reason in ((self.declared.succeeded, SUCCEEDED), (self.declared.failed, FAILED)):
            if state is None:
                continue
            tree = tree or {"status": tree_of(job.status)}
            if state.is_true(tree):
                message = paths.only(tree, state.message, "") if state.message else state.words
                return Finish(reason=reason, message=str(message))
        return None

    def is_suspended(self, job: AnyJob) -> bool:
        return self._peek(job, self.declared.suspend) is True

    def is_active(self, job: AnyJob) -> bool:
        tree = {"status": tree_of(job.status)}
        counts = (count for path in self.declared.active_counts for count in paths.found(tree, path))
        return any(isinstance(count, int) and count > 0 for count in counts) or any(
            state.is_true(tree) for state in self.declared.active_states
        )

    def ready_pods(self, job: AnyJob) -> int:
        return sum(each["count"] for each in self.pod_sets(job)) if self._is_ready(job) else 0

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:
        told = [pods for pods in self.declared.pods if pods.over]
        if not told:
            return ()
        tree = _with_status(job)
        return tuple(freed for pods in told for freed in pods.reclaimed(tree))

    def _is_ready(self, job: AnyJob) -> bool:
        own, tree = self.declared, _with_status(job)
        if own.ready is not None:
            return own.ready.is_true(tree)
        if not own.ready_counts:
            return self.is_active(job)
        counted = sum(number(each, 0) for path in own.ready_counts for each in paths.found(tree, path))
        return counted >= sum(number(each) for each in paths.found(tree, own.ready_of))

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """The whole remote status whenever it is new, as in Kueue also that of a copy which is still held. While the
        local job is suspended and idle, only an end is written."""
        if not self.may_be_told(local) or (self.is_idle(local) and not self.finished(remote)):
            return None
        return remote.status if is_different(local.status, remote.status) else None

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        state = self.declared.succeeded if end.reason == SUCCEEDED else self.declared.failed
        if state is None or not self.may_be_told(local):
            return None
        return _raw(with_end(tree_of(local.status), state, end))

    def reset_status_patch(self, job: AnyJob) -> Tree | None:
        """Clears the whole status: nothing of it holds for the next run."""
        if self.unmanaged_reason(job) or self.finished(job) or not self.is_suspended(job):
            return None
        return workloads.precisely(job) | {"status": None} if canonical(tree_of(job.status)) else None

    # --- start and stop ----------------------------------------------------------------------------------------------

    def start_patch(self, job: AnyJob) -> Tree | None:
        return workloads.precisely(job) | self._suspended(False) if self.is_suspended(job) else None

    def stop_patch(self, job: AnyJob) -> Tree | None:
        return None if self.is_suspended(job) else {"metadata": {"uid": job.metadata.uid}} | self._suspended(True)

    def _suspended(self, should_suspend: bool) -> Tree:
        return paths.nested(paths.keys_of(self.declared.suspend), should_suspend)

    def _managed_by(self) -> paths.Keys:
        return _in_spec(self.declared.managed_by) if self.declared.managed_by else ()

    def _peek(self, job: AnyJob, path: str) -> Any:
        return paths.peek(job.spec, _in_spec(path))


def _tree(job: AnyJob) -> Tree:
    """The parts of the object that declarations read before it runs, and its runtime, if it has one."""
    runtime = msgspec.json.decode(job.runtime) if isinstance(job, CustomJob) else None
    known = {"runtime": runtime} if runtime is not None else {}
    metadata = {"name": job.metadata.name, "annotations": dict(job.metadata.annotations)}
    return {"metadata": metadata, "spec": tree_of(job.spec), **known}


def _problems_of_pods(pod_sets: list[Tree]) -> list[str]:
    """What the API server would refuse in Pods, and takes in a template of a CustomResourceDefinition."""
    looks = (templates.metadata_problems, templates.negative_amounts)
    return [problem for each in pod_sets for look in looks for problem in look(each)]


def _with_status(job: AnyJob) -> Tree:
    return _tree(job) | {"status": tree_of(job.status)}


def _in_spec(path: str) -> paths.Keys:
    return paths.keys_of(path)[1:]


def _raw(tree: Any) -> msgspec.Raw:
    return tree if isinstance(tree, msgspec.Raw) else msgspec.Raw(encode(tree))


def is_different(ours: msgspec.Raw, theirs: msgspec.Raw) -> bool:
    return bytes(ours) != bytes(theirs) and bool(canonical(tree_of(ours)) != canonical(tree_of(theirs)))
