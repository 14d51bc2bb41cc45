"""The admission webhook for jobs: defaults as a JSON patch, and refusals as text (quota-engine 6.1)."""

from __future__ import annotations

import re
from typing import Any, Protocol, Self

import msgspec

from multikueue.api.kueue.workload import (
    MAX_EXEC_TIME_LABEL,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
)
from multikueue.api.meta import OwnerReference, encode
from multikueue.jobs.framework.adapter import MANAGED
from multikueue.jobs.framework.workloads import MIN_PARALLELISM_ANNOTATION
from multikueue.jobs.trees.paths import Keys, fields_of, nested, peek, with_value

Patch = dict[str, Any]

DEFAULT_MANAGERS = (None, "", "kubernetes.io/job-controller")
"""The values of managedBy that are no choice of the user: unset, or the kind's own controller."""

DEFAULT_QUEUE = "default"
"""The LocalQueue of jobs that name none (quota-engine 6.1)."""

COMPLETIONS_ANNOTATION = "kueue.x-k8s.io/job-completions-equal-parallelism"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NUMBER = re.compile(r"[+-]?[0-9]+")
TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class _Gang(msgspec.Struct, frozen=True, rename="camel"):
    min_count: int | None = None


class _SchedulingPolicy(msgspec.Struct, frozen=True):
    gang: _Gang | None = None


class _Scheduling(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_policy: _SchedulingPolicy | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    suspend: bool | None = None
    managed_by: str | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    scheduling: _Scheduling | None = None

    @property
    def gang(self) -> int:
        """The number of pods that start together or not at all (Kubernetes 1.37, alpha); 0 without one."""
        policy = self.scheduling.scheduling_policy if self.scheduling else None
        return (policy.gang.min_count or 0) if policy and policy.gang else 0


class Marked(Protocol):
    """The parts of a submitted job that the rules for all kinds read."""

    @property
    def labels(self) -> dict[str, str]: ...
    @property
    def annotations(self) -> dict[str, str]: ...
    @property
    def queue(self) -> str: ...
    @property
    def is_suspended(self) -> bool: ...


class SubmittedObject(msgspec.Struct, frozen=True):
    """An object as an admission request shows it: not stored yet, with nulls for empty fields."""

    metadata: Metadata = Metadata()

    @property
    def namespace(self) -> str:
        return self.metadata.namespace or ""

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations or {}

    @property
    def queue(self) -> str:
        return self.labels.get(QUEUE_LABEL, "")

    def in_queue(self, name: str) -> Self:
        """A copy of the object with this queue name."""
        labelled = msgspec.structs.replace(self.metadata, labels=self.labels | {QUEUE_LABEL: name})
        return msgspec.structs.replace(self, metadata=labelled)

    def queue_patch(self, name: str) -> Patch:
        """The JSON patch operation that sets this queue name."""
        if self.metadata.labels is None:
            return {"op": "add", "path": "/metadata/labels", "value": {QUEUE_LABEL: name}}
        return {"op": "add", "path": f"/metadata/labels/{QUEUE_LABEL.replace('/', '~1')}", "value": name}

    @property
    def controller(self) -> OwnerReference | None:
        return self.metadata.controller

    @property
    def is_part(self) -> bool:
        """False: an owner exempts a job from the queue only if the owner is in a queue itself."""
        return False


class SubmittedCustom(SubmittedObject, frozen=True):
    """A job of a declared kind; paths find `is_suspended` and `is_managed_by_default`."""

    spec: msgspec.Raw = msgspec.Raw(b"null")
    is_suspended: bool = False
    is_managed_by_default: bool = False


class Submitted(SubmittedObject, frozen=True):
    """A batch Job."""

    spec: _Spec | None = None

    @property
    def fields(self) -> _Spec:
        return self.spec or _Spec()

    @property
    def is_suspended(self) -> bool:
        return bool(self.fields.suspend)

    @property
    def is_managed_by_default(self) -> bool:
        return self.fields.managed_by in DEFAULT_MANAGERS

    @property
    def pods(self) -> int:
        """The number of pods that run at a time."""
        parallelism = 1 if self.fields.parallelism is None else self.fields.parallelism
        return parallelism if self.fields.completions is None else min(parallelism, self.fields.completions)


_read = msgspec.json.Decoder(Submitted).decode
_read_custom = msgspec.json.Decoder(SubmittedCustom).decode


def read_job(raw: bytes | msgspec.Raw) -> Submitted:
    """Decodes a Job; raises msgspec.DecodeError if it is none."""
    return _read(raw)


def read_custom(raw: msgspec.Raw, *, suspend: Keys, managed_by: Keys, managers: tuple[str, ...]) -> SubmittedCustom:
    """Decodes a job of a declared kind, given the paths within its spec; raises as `read_job`.

    `managed_by` empty: the kind has no such field, so its user cannot have chosen another manager.
    """
    job = _read_custom(raw)
    manager = peek(job.spec, managed_by) if managed_by else MANAGED
    return msgspec.structs.replace(
        job,
        is_suspended=peek(job.spec, suspend) is True,
        is_managed_by_default=manager in (None, "", *managers),
    )


def default_custom(job: SubmittedCustom, *, suspend: Keys, managed_by: Keys, is_multikueue_queue: bool) -> list[Patch]:
    """As `default_job`, for a declared kind. Objects missing on the way to a field are created."""
    if not job.queue:
        return []
    wanted: list[tuple[Keys, Any]] = [] if job.is_suspended else [(suspend, True)]
    if is_multikueue_queue and job.is_managed_by_default:
        wanted.append((managed_by, MANAGED))
    patches, tree = [], {"spec": job.spec}
    for path, value in wanted:
        keys = ("spec", *path)
        patches.append(_addition(msgspec.Raw(encode(tree)), keys, value))
        tree = with_value(msgspec.Raw(encode(tree)), keys, value)
    return patches


def _addition(tree: msgspec.Raw, keys: Keys, value: Any) -> Patch:
    for depth in range(1, len(keys)):
        fields = fields_of(tree) or {}
        tree = fields.get(keys[depth - 1], msgspec.Raw(b"null"))
        if fields_of(tree) is None:
            return {"op": "add", "path": "/" + "/".join(keys[:depth]), "value": nested(keys[depth:], value)}
    return {"op": "add", "path": "/" + "/".join(keys), "value": value}


def default_job(job: Submitted | bytes, *, is_multikueue_queue: bool) -> list[Patch]:
    """The JSON patch that suspends a new job, and sets managedBy where its queue is dispatched.

    Empty for a job without a queue, and for one that has both already. A managedBy that the user chose stays.
    """
    job = read_job(job) if isinstance(job, bytes) else job
    if not job.queue:
        return []
    wanted: Patch = {} if job.fields.suspend else {"suspend": True}
    if is_multikueue_queue and job.fields.managed_by in DEFAULT_MANAGERS:
        wanted["managedBy"] = MANAGED
    if job.spec is None:
        return [{"op": "add", "path": "/spec", "value": wanted}] if wanted else []
    # "add" also replaces an existing value.
    return [{"op": "add", "path": f"/spec/{field}", "value": value} for field, value in wanted.items()]


def refusal(job: Submitted, old: Submitted | None = None) -> str | None:
    """Why the job, new or changed from `old`, is refused; None if it is allowed. All reasons at once, joined by `;`."""
    problems = [*_problems(job)]
    if old is not None:
        problems += _label_change_problems(job, old) + _partial_problems(job, old)
    return "; ".join(problems) or None


def refusal_of_any(job: Marked, old: Marked | None = None) -> str | None:
    """Why a job of any kind is refused by the rules that all kinds share; otherwise as `refusal`."""
    problems = [*_label_problems(job), *(_label_change_problems(job, old) if old is not None else ())]
    return "; ".join(problems) or None


def _problems(job: Submitted) -> list[str]:
    found = _label_problems(job)
    fewest = job.annotations.get(MIN_PARALLELISM_ANNOTATION)
    if fewest is not None and not _is_between(fewest, 1, job.pods - 1):
        expected = f"between 1 and {job.pods - 1}" if job.pods > 1 else "none with fewer than two pods"
        found.append(f"metadata.annotations[{MIN_PARALLELISM_ANNOTATION}]: expected {expected}, got {fewest!r}")
    elif fewest is not None and int(fewest) < job.fields.gang:
        # The API server of a worker refuses a parallelism below it, so the job would never start with fewer pods.
        expected = f"at least spec.scheduling.schedulingPolicy.gang.minCount, {job.fields.gang}"
        found.append(f"metadata.annotations[{MIN_PARALLELISM_ANNOTATION}]: expected {expected}, got {fewest!r}")
    return found + _completion_problems(job)


def _label_problems(job: Marked) -> list[str]:
    named = [(f"labels[{QUEUE_LABEL}]", job.labels.get(QUEUE_LABEL)), *prebuilt_marks(job)]
    found = [
        f"metadata.{where}: expected a DNS subdomain name, got {name!r}"
        for where, name in named
        if name is not None and not is_name(name)
    ]
    seconds = job.labels.get(MAX_EXEC_TIME_LABEL)
    if seconds is not None and not _is_between(seconds, 1, 2**31 - 1):
        found.append(f"metadata.labels[{MAX_EXEC_TIME_LABEL}]: expected seconds greater than 0, got {seconds!r}")
    return found


def prebuilt_marks(job: Marked) -> list[tuple[str, str | None]]:
    """Where a job may name its Workload, and the name that it gives there: a label, and for long names an annotation."""
    return [
        (f"labels[{PREBUILT_LABEL}]", job.labels.get(PREBUILT_LABEL)),
        (f"annotations[{PREBUILT_ANNOTATION}]", job.annotations.get(PREBUILT_ANNOTATION)),
    ]


def _completion_problems(job: Submitted) -> list[str]:
    text = job.annotations.get(COMPLETIONS_ANNOTATION)
    if text is None or text in _FALSE:
        return []
    where = f"metadata.annotations[{COMPLETIONS_ANNOTATION}]"
    if text not in TRUE:
        return [f"{where}: expected true or false, got {text!r}"]
    spec = job.fields
    found = [] if spec.completion_mode == "Indexed" else [f"{where}: expected false on a job that is not Indexed"]
    if _or_one(spec.completions) != _or_one(spec.parallelism):
        found.append(f"spec.completions: expected to equal parallelism where {COMPLETIONS_ANNOTATION} is true")
    return found


def _label_change_problems(job: Marked, old: Marked) -> list[str]:
    """Kueue's rules for updates: fields from which a Workload was made are immutable while the job may run."""
    found = []
    running = not job.is_suspended
    if running and job.queue != old.queue:
        found.append(f"metadata.labels[{QUEUE_LABEL}]: immutable while the job is not suspended: suspend it first")
    if running:
        marks = zip(prebuilt_marks(job), prebuilt_marks(old), strict=True)
        found += [
            f"metadata.{new[0]}: immutable while the job is not suspended" for new, former in marks if new != former
        ]
    changed_limit = job.labels.get(MAX_EXEC_TIME_LABEL) != old.labels.get(MAX_EXEC_TIME_LABEL)
    if changed_limit and (running or not old.is_suspended):
        found.append(f"metadata.labels[{MAX_EXEC_TIME_LABEL}]: immutable while the job is not suspended")
    return found + _class_problems(job, old, is_running=running)


def _class_problems(job: Marked, old: Marked, *, is_running: bool) -> list[str]:
    new_class, old_class = job.labels.get(PRIORITY_CLASS_LABEL), old.labels.get(PRIORITY_CLASS_LABEL)
    if old_class and not new_class:
        return [f"metadata.labels[{PRIORITY_CLASS_LABEL}]: can be changed but not removed"]
    if is_running and new_class and not old_class:
        return [f"metadata.labels[{PRIORITY_CLASS_LABEL}]: can't be added while the job is not suspended"]
    return []


def _partial_problems(job: Submitted, old: Submitted) -> list[str]:
    if MIN_PARALLELISM_ANNOTATION not in old.annotations or old.fields.suspend:
        return []
    if _or_one(job.fields.parallelism) == _or_one(old.fields.parallelism):
        return []
    return ["spec.parallelism: can't change while a job with partial admission is not suspended"]


def is_name(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def _is_between(text: str, least: int, most: int) -> bool:
    return len(text) < 12 and _NUMBER.fullmatch(text) is not None and least <= int(text) <= most


def _or_one(number: int | None) -> int:
    return 1 if number is None else number
