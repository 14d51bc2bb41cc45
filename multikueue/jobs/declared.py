"""Kinds of jobs that need no code: a declaration says where in the object things are, one adapter does the rest.

What holds for all of them (contract 5.2, 5.6): the copy is the object without its managedBy, suspended for the worker's
Kueue to start it; its status comes home whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from multikueue.api.canonical import canonical
from multikueue.api.job import AnyJob, CustomJob, job_type
from multikueue.api.kinds import Kind
from multikueue.api.meta import Condition, encode
from multikueue.api.workload import (
    FAILED,
    QUEUE_LABEL,
    SUCCEEDED,
    Finish,
    PodSet,
    ReclaimablePod,
    Workload,
    workload_spec,
)
from multikueue.jobs import defaulting, paths, workloads
from multikueue.jobs.adapter import MANAGED, Runtimes
from multikueue.jobs.canonical import merge_patch
from multikueue.jobs.declared_placing import DeclaredPlacing
from multikueue.jobs.placement import Placing
from multikueue.jobs.pods import Pods, PodsOf, number
from multikueue.jobs.priority import Priority
from multikueue.jobs.states import State, condition, state_of, told
from multikueue.jobs.templates import is_same_template, part, tree_of

__all__ = ["Declaration", "DeclaredJob", "Pods", "Rule", "State", "condition", "differ", "state_of"]

Tree = dict[str, Any]

MOST_POD_SETS = 8
"""A Workload has no more."""


@dataclass(frozen=True, slots=True)
class Rule:
    """That a job in a queue must not be in this state (or must, if it is `needed`), and why, for its user."""

    state: State
    why: str
    needed: bool = False

    def problem(self, job: Tree) -> str | None:
        return f"{self.state.at}: {self.why}" if self.state.holds(job) != self.needed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One kind. All paths start at the object.

    `framework` is the name of its integration in Kueue's configuration; `managers` are the values of managedBy that nobody
    chose; a kind that has no managedBy, `managed_by` empty, is always ours, so its own controller must not run here.
    `succeeded` and `failed` say when it is over; `active_counts` count the pods that run, `active_states` say that
    some do. Its pods are all ready in the state `ready`, or when the `ready_counts` together reach the sum of what is found
    at `ready_of`; where nothing is said of it, as soon as something runs. `priority` is where a PriorityClass is named,
    before those of the pods count. `dropped` is what no copy gets. `rules` are what the webhook holds a job in a queue to.
    `runtimes`: where its jobs only name what says what their pods are like.
    """

    framework: str
    group: str
    version: str
    plural: str
    kind: str
    pods: tuple[PodsOf, ...]
    suspend: str = "spec.suspend"
    managed_by: str = "spec.managedBy"
    managers: tuple[str, ...] = ()
    succeeded: State | None = None
    failed: State | None = None
    active_counts: tuple[str, ...] = ()
    active_states: tuple[State, ...] = ()
    ready: State | None = None
    ready_counts: tuple[str, ...] = ()
    ready_of: str = ""
    priority: str = ""
    dropped: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    runtimes: Runtimes | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for what is no path."""
        for path in (self.suspend, *filter(None, (self.managed_by,)), *self.dropped):
            if paths.keys_of(path)[0] != "spec":
                raise ValueError(f"expected a field of the spec, got {path}")
        for path in self._paths():
            paths.only({}, path)

    def _paths(self) -> Iterator[str]:
        for pods in self.pods:
            yield from pods.paths()
        for state in (
            self.succeeded,
            self.failed,
            self.ready,
            *self.active_states,
            *(rule.state for rule in self.rules),
        ):
            yield from state.paths() if state is not None else ()
        yield from (*self.active_counts, *self.ready_counts)
        yield from filter(None, (self.priority, self.ready_of))


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """The adapter of a declared kind; has no state."""

    selector: ClassVar[str] = ""
    external: ClassVar[bool] = False
    resumes: ClassVar[bool] = True
    mirrors: ClassVar[bool] = True

    declared: Declaration
    kind: Kind[Any] = field(init=False)

    def __post_init__(self) -> None:
        own = self.declared
        kind = Kind(own.group, own.version, own.plural, own.kind, True, job_type(own.kind))
        object.__setattr__(self, "kind", kind)

    @property
    def runtimes(self) -> Runtimes | None:
        return self.declared.runtimes

    @property
    def placing(self) -> Placing | None:
        return DeclaredPlacing(self.declared.pods)

    def submitted(self, raw: msgspec.Raw) -> defaulting.SubmittedCustom:
        own = self.declared
        return defaulting.read_custom(
            raw, suspend=_in_spec(own.suspend), managed_by=self._managed_by(), managers=own.managers
        )

    def refusal(self, job: defaulting.SubmittedCustom, old: defaulting.SubmittedCustom | None = None) -> str | None:
        """By the rules for all kinds and by its own; what was wrong before is no news, or nothing could be mended."""
        known = self._problems(old) if old is not None else []
        own = [problem for problem in self._problems(job) if problem not in known]
        return "; ".join(filter(None, (defaulting.refusal_of_any(job, old), *own))) or None

    def _problems(self, job: defaulting.SubmittedCustom) -> list[str]:
        if not job.queue or paths.fields_of(job.spec) is None:
            return []
        tree = {"metadata": {"name": ""}, "spec": tree_of(job.spec)}
        found = [problem for rule in self.declared.rules if (problem := rule.problem(tree))]
        names = [each["name"] for pods in self.declared.pods for each in pods.pod_sets(tree)]
        if len(names) > MOST_POD_SETS:
            found.append(f"expected at most {MOST_POD_SETS} different groups of pods, got {len(names)}")
        twice = sorted({name for name in names if names.count(name) > 1})
        return [*found, *(f"expected a name of its own for each group of pods, got {name!r} twice" for name in twice)]

    def defaults(self, job: defaulting.SubmittedCustom, *, queue_uses_multikueue: bool) -> list[Tree]:
        return defaulting.default_custom(
            job,
            suspend=_in_spec(self.declared.suspend),
            managed_by=self._managed_by(),
            queue_uses_multikueue=queue_uses_multikueue,
        )

    def queue_name(self, job: AnyJob) -> str:
        return job.metadata.labels.get(QUEUE_LABEL, "")

    def managed_by(self, job: AnyJob) -> str | None:
        path = self.declared.managed_by
        found = self._peek(job, path) if path else MANAGED
        return found if isinstance(found, str) else None

    def unmanaged_reason(self, job: AnyJob) -> str | None:
        manager = self.managed_by(job) or ""
        return None if manager == MANAGED else f'Expecting {self.declared.managed_by} to be "{MANAGED}" not "{manager}"'

    def pod_priority_class(self, job: AnyJob) -> str:
        own = paths.only(_tree(job), self.declared.priority) if self.declared.priority else None
        named = (part(pods["template"], "spec").get("priorityClassName") for pods in self._pod_sets(job))
        return str(own or next(filter(None, named), ""))

    # --- the Workload ------------------------------------------------------------------------------------------------

    def workload_name(self, job: AnyJob) -> str:
        return workloads.prebuilt_name(job) or workloads.workload_name(self.kind, job.metadata)

    def waits_for(self, job: AnyJob) -> str:  # noqa: ARG002  # one object is all there is to it
        return ""

    def workload_body(self, job: AnyJob, *, priority: Priority) -> Tree:
        return workloads.workload_body(self.kind, job, pod_sets=list(self._pod_sets(job)), priority=priority)

    def matches(self, job: AnyJob, workload: Workload) -> bool:
        spec = workload_spec(workload)
        if not workloads.may_be_of(workload, spec, job):
            return False
        if self.runtimes is not None and self.runtimes.problem(job) is not None:
            return True  # what it was made of is not to be seen now, which is no reason to stop what runs
        ours, admitted = list(self._pod_sets(job)), workload.has("Admitted")
        return len(ours) == len(spec.pod_sets) and all(
            _is_same(own, seen, ignore_tolerations=admitted) for own, seen in zip(ours, spec.pod_sets, strict=True)
        )

    def _pod_sets(self, job: AnyJob) -> Iterator[Tree]:
        tree = _tree(job)
        for pods in self.declared.pods:
            yield from pods.pod_sets(tree)

    # --- the copy on a worker ----------------------------------------------------------------------------------------

    def remote_body(
        self, job: AnyJob, *, workload_name: str, origin: str, attempt: str, queue: str | None = None
    ) -> Tree:
        """The object to create on the winner: every field as it is, but for what is declared to be dropped."""
        others = paths.fields_of(job.others) if isinstance(job, CustomJob) else None
        return {
            **(others or {}),
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": workloads.remote_metadata(
                job, workload_name=workload_name, origin=origin, attempt=attempt, queue=queue
            ),
            "spec": self._remote_spec(job.spec),
        }

    def _remote_spec(self, spec: msgspec.Raw) -> Any:
        for path in filter(None, (self.declared.managed_by, *self.declared.dropped)):
            spec = _raw(paths.without(spec, _in_spec(path)))
        return paths.with_value(spec, _in_spec(self.declared.suspend), True)

    # --- the status --------------------------------------------------------------------------------------------------

    def finished(self, job: AnyJob) -> Finish | None:
        tree: Tree | None = None
        for state, reason in ((self.declared.succeeded, SUCCEEDED), (self.declared.failed, FAILED)):
            if state is None:
                continue
            tree = tree or {"status": tree_of(job.status)}
            if state.holds(tree):
                return Finish(reason=reason, message=str(paths.only(tree, state.message, "") if state.message else ""))
        return None

    def is_suspended(self, job: AnyJob) -> bool:
        return self._peek(job, self.declared.suspend) is True

    def may_be_copied(self, job: AnyJob) -> bool:
        return self.is_suspended(job)

    def is_active(self, job: AnyJob) -> bool:
        tree = {"status": tree_of(job.status)}
        counts = (count for path in self.declared.active_counts for count in paths.found(tree, path))
        return any(isinstance(count, int) and count > 0 for count in counts) or any(
            state.holds(tree) for state in self.declared.active_states
        )

    def ready_pods(self, job: AnyJob) -> int:
        return sum(each["count"] for each in self._pod_sets(job)) if self._is_ready(job) else 0

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:
        told = [pods for pods in self.declared.pods if pods.over]
        if not told:
            return ()
        tree = _with_status(job)
        return tuple(freed for pods in told for freed in pods.reclaimed(tree))

    def _is_ready(self, job: AnyJob) -> bool:
        own, tree = self.declared, _with_status(job)
        if own.ready is not None:
            return own.ready.holds(tree)
        if not own.ready_counts:
            return self.is_active(job)
        counted = sum(number(each, 0) for path in own.ready_counts for each in paths.found(tree, path))
        return counted >= sum(number(each) for each in paths.found(tree, own.ready_of))

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """Whole, whenever it says something new. While the local job is held, only an end is news; and a remote that has
        not begun has nothing to say to a job that has not either."""
        if self.unmanaged_reason(local) or self.finished(local):
            return None
        if not self.finished(remote):
            not_begun = self._is_idle(remote) and not canonical(tree_of(local.status))
            if not_begun or self._is_idle(local):
                return None
        return remote.status if differ(local.status, remote.status) else None

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        state = self.declared.succeeded if end.reason == SUCCEEDED else self.declared.failed
        if state is None or self.unmanaged_reason(local) or self.finished(local):
            return None
        return _raw(told(tree_of(local.status), state, end))

    def status_patch(self, local: AnyJob, status: msgspec.Raw) -> Tree:
        return workloads.precisely(local) | {"status": merge_patch(tree_of(local.status), tree_of(status))}

    def release_patch(self, job: AnyJob) -> Tree | None:  # noqa: ARG002  # nothing of Kueue's keeps it
        return None

    def reset_status_patch(self, job: AnyJob) -> Tree | None:
        """Nothing of what it says holds for the next run."""
        if self.unmanaged_reason(job) or self.finished(job) or not self.is_suspended(job):
            return None
        return workloads.precisely(job) | {"status": None} if canonical(tree_of(job.status)) else None

    # --- start and stop ----------------------------------------------------------------------------------------------

    def start_patch(self, job: AnyJob) -> Tree | None:
        return workloads.precisely(job) | self._suspended(False) if self.is_suspended(job) else None

    def stop_patch(self, job: AnyJob) -> Tree | None:
        return None if self.is_suspended(job) else {"metadata": {"uid": job.metadata.uid}} | self._suspended(True)

    def _suspended(self, suspend: bool) -> Tree:
        return paths.nested(paths.keys_of(self.declared.suspend), suspend)

    def _is_idle(self, job: AnyJob) -> bool:
        return self.is_suspended(job) and not self.is_active(job)

    def _managed_by(self) -> paths.Keys:
        return _in_spec(self.declared.managed_by) if self.declared.managed_by else ()

    def _peek(self, job: AnyJob, path: str) -> Any:
        return paths.peek(job.spec, _in_spec(path))


def _tree(job: AnyJob) -> Tree:
    """As much of the object as declarations look at before it runs, and its runtime, if it has one."""
    runtime = msgspec.json.decode(job.runtime) if isinstance(job, CustomJob) else None
    known = {"runtime": runtime} if runtime is not None else {}
    return {"metadata": {"name": job.metadata.name}, "spec": tree_of(job.spec), **known}


def _with_status(job: AnyJob) -> Tree:
    return _tree(job) | {"status": tree_of(job.status)}


def _in_spec(path: str) -> paths.Keys:
    return paths.keys_of(path)[1:]


def _raw(tree: Any) -> msgspec.Raw:
    return tree if isinstance(tree, msgspec.Raw) else msgspec.Raw(encode(tree))


def _is_same(own: Tree, seen: PodSet, *, ignore_tolerations: bool) -> bool:
    if (own["name"], own["count"]) != (seen.name, seen.count):
        return False
    return is_same_template(encode(own["template"]), bytes(seen.template), ignore_tolerations)


def differ(ours: msgspec.Raw, theirs: msgspec.Raw) -> bool:
    return bytes(ours) != bytes(theirs) and bool(canonical(tree_of(ours)) != canonical(tree_of(theirs)))
