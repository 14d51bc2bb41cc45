"""The state of one job, and the questions and steps that several branches of the decision share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import is_of_stateful_set
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.queues import ResourceFlavor
from multikueue.api.kueue.workload import CLUSTER_LABEL, FAILED, FINISHED, SUCCEEDED, Workload
from multikueue.api.meta import Condition, Object
from multikueue.api.values.foreign import answer_or
from multikueue.jobs.framework.actions import Action, DeleteJob, JobDecision, PatchJob, PatchJobStatus
from multikueue.jobs.framework.adapter import MANAGED, Adapter
from multikueue.jobs.framework.difference import difference
from multikueue.jobs.framework.nesting import Nested, is_whole
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import is_owned
from multikueue.jobs.kinds.pods.members import members_of

LOOK_FOR_NAME_AFTER = timedelta(minutes=1)
"""A Workload that is another job's, or cannot be decoded, does not wake this job when it goes
(`store.event_handlers.triggers`)."""

NOTHING = JobDecision()
_NO_CLASS = Priority()
_STRANDED = (
    "Nobody runs the job: it is managed by MultiKueue, and its ClusterQueue has no MultiKueue check. "
    f"Give the queue one, or recreate the job without `managedBy: {MANAGED}`"
)

_FOR_WORKERS_ALONE = (
    "Nobody would run the job on the manager cluster, which is a worker of its queue too: it is managed by MultiKueue. "
    f"Recreate it without `managedBy: {MANAGED}`"
)


def _one_place(adapter: Adapter) -> str:
    return (
        f"The manager cluster is a worker of its queue too, and no {adapter.kind.kind} can run on either: "
        f"{adapter.why_one_place}. Recreate it in a queue whose MultiKueue check is one of all its flavors, or that has none"
    )


def _is_never(_name: str) -> bool:
    return False


def is_over(job: AnyJob, adapter: Adapter) -> bool:
    """Whether a job has ended, or is being deleted: then all that counts is the job itself."""
    return job.metadata.deletion_timestamp is not None or adapter.finished(job) is not None


class JobRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decisions on jobs read.

    - `label_keys`: the labels that a job's Workload gets too.
    - `should_count_system_classes`: PriorityClasses of the system count as any other.
    - `tell_suspended_after`: how long a job waits until its status says so; None: it never does.
    """

    label_keys: tuple[str, ...] = ()
    should_count_system_classes: bool = False
    tell_suspended_after: timedelta | None = None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job on the manager cluster.

    - `workloads`: the Workloads that the job controls (by UID), and the prebuilt one that it names.
    - `remote`: the winner's job as last seen, while its status may still be copied to this job.
    - `is_remote_lost`: the winner's worker is lost, so that its pods no longer count as running.
    - `may_run`: some worker runs, or may run unseen, the job of a Workload that is being deleted.
    - `priority`: the answer of `resolve_priority`.
    - `is_dispatched`: a Workload has our AdmissionCheck, or had it when a worker was asked for the job. Otherwise the job
      starts here, as its `flavors` (by name) demand.
    - `is_undispatched`: no queue of the job has our check, and no worker has the job, so that one managed by us runs nowhere.
    - `may_run_here`: the manager cluster is a place of its queue, beside workers.
    - `is_elastic`: the job may change its size while it runs.
    - `label_keys`: the labels that its Workload gets too.
    - `nested`: the state of the job that owns this one; None if none does.
    - `is_taken`: whether a Workload of that name exists beside it.
    - `unreadable`: a sentence about a Workload that may be the job's and cannot be decoded.
    - `tell_suspended_after`: how long it waits until its status says so; None: it never does.
    """

    job: AnyJob
    workloads: tuple[Workload, ...] = ()
    remote: AnyJob | None = None
    is_remote_lost: bool = False
    may_run: bool = False
    priority: Priority | str = _NO_CLASS
    is_queue_multikueue: bool = True
    is_dispatched: bool = True
    is_undispatched: bool = False
    may_run_here: bool = False
    flavors: Mapping[str, ResourceFlavor] = {}
    has_local_queue: bool = True
    is_elastic: bool = False
    label_keys: tuple[str, ...] = ()
    nested: Nested | None = None
    is_taken: Callable[[str], bool] = _is_never
    unreadable: str = ""
    tell_suspended_after: timedelta | None = None


class JobCase(msgspec.Struct, frozen=True):
    """A view with the adapter of its kind: the questions that several branches share."""

    view: JobView
    adapter: Adapter

    def is_ours(self) -> bool:
        return bool(self.adapter.queue_name(self.view.job)) and not self.is_over()

    def is_over(self) -> bool:
        return is_over(self.view.job, self.adapter)

    def released(self) -> JobDecision:
        """The release of a job that has ended or is being deleted."""
        job = self.view.job
        patch = self.adapter.release_patch(job) if self.adapter.queue_name(job) else None
        return JobDecision(actions=(PatchJob(patch),)) if patch is not None else NOTHING

    def undispatchable(self) -> str | None:
        """Why no worker can ever run the job, and what the user can do; None if one can."""
        if self.is_stranded():
            return _STRANDED
        reason = self.adapter.unmanaged_reason(self.view.job)
        if self.view.may_run_here and is_whole(self.adapter):
            if self.adapter.why_one_place:
                return _one_place(self.adapter)
            return _FOR_WORKERS_ALONE if reason is None else None
        if reason is None or not self.view.is_queue_multikueue:
            return None
        return (
            f"The job can't be dispatched. {reason}, and the field is immutable: "
            f"recreate the job with `suspend: true` and `managedBy: {MANAGED}`, "
            "or enable the webhook, which sets both, and recreate it"
        )

    def is_stranded(self) -> bool:
        """Whether no controller would run the job: its own leaves it to us, and its queue has no MultiKueue check. A
        job already on a worker stays there; a job that only the gates of its Pods hold runs here."""
        if not self.view.is_undispatched or any(w.status.cluster_name for w in self.view.workloads):
            return False
        return is_whole(self.adapter) and self.adapter.unmanaged_reason(self.view.job) is None

    def final_status(self) -> tuple[Action, ...]:
        """Copies the remote job's final status, first of all: the Workload is finished only after it (invariant I8)."""
        remote = self.view.remote
        if remote is None or self.adapter.finished(remote) is None:
            return ()
        return self.copied_status(remote)

    def end(self) -> Condition | None:
        """The Finished condition of the job's Workload; None if it is not finished."""
        finished = (w for w in self.view.workloads if w.has(FINISHED))
        return next((w.condition(FINISHED) for w in finished if self.adapter.is_equivalent(self.view.job, w)), None)

    def end_from_workload(self) -> tuple[Action, ...]:
        """Writes the job's end from its Workload if there is no remote left to copy it from: a user who deletes the
        copy before its last status was copied must not leave a job that never ends."""
        end = self.end()
        if end is None or end.reason not in (SUCCEEDED, FAILED) or self.view.remote is not None:
            return ()
        return self._written(self.adapter.status_of_end(self.view.job, end), is_all=False)

    def copied_status(self, remote: AnyJob) -> tuple[Action, ...]:
        """Copies the remote status. Only an end needs another reconcile; progress is for people to read."""
        is_all = self.adapter.finished(remote) is None
        return self._written(self.adapter.status_to_copy(self.view.job, remote), is_all=is_all)

    def _written(self, status: msgspec.Raw | None, *, is_all: bool) -> tuple[Action, ...]:
        if status is None:
            return ()
        return (PatchJobStatus(self.adapter.status_patch(self.view.job, status), is_all),)

    def labelled(self, body: dict[str, Any]) -> dict[str, Any]:
        """A new Workload of the job with the labels copied from the job."""
        return labelled(body, self.view.job, self.view.label_keys)

    def stop(self, why: str) -> JobDecision:
        if not self.adapter.may_resume:
            return NOTHING if self.adapter.is_suspended(self.view.job) else self.delete_job(why)
        patch = self.adapter.stop_patch(self.view.job)
        if patch is None:
            return self.restored()
        if self.adapter.pod_set_info is not None:
            patch = self.adapter.pod_set_info.stop_patch(self.view.job, patch, self._before())
        stop = PatchJob(forgotten(patch, self.view.job))
        return JobDecision(actions=(stop,), events=(Event("Normal", "Stopped", why),))

    def suspend(self, why: str) -> JobDecision:
        """Suspends a job that is not to run yet, with Kueue's event for nested jobs."""
        patch = self.adapter.stop_patch(self.view.job)
        if patch is None:
            return NOTHING
        held = PatchJob(forgotten(patch, self.view.job))
        return JobDecision(actions=(held,), events=(Event("Normal", "Suspended", why),))

    def restored(self) -> JobDecision:
        """The next step that removes the pod set info from a suspended job."""
        if not self.is_placed() or self.adapter.pod_set_info is None:
            return NOTHING
        step = self.adapter.pod_set_info.restoration(self.view.job, self._before())
        return JobDecision(actions=(step,)) if step is not None else NOTHING

    def _before(self) -> Workload | None:
        """The Workload with the job's original templates: the matching one, or the only one of a job changed since."""
        owned = [w for w in self.view.workloads if is_owned(w, self.view.job)]
        matching = (w for w in owned if self.adapter.is_equivalent(self.view.job, w))
        return next(matching, owned[0] if len(owned) == 1 else None)

    def difference(self, workload: Workload) -> str:
        """In which field the job differs from a Workload, in words; empty if that is unknown."""
        return answer_or(lambda: difference(self.adapter, self.view.job, workload), otherwise="")

    def is_held(self) -> bool:
        """Whether the job is suspended and has only what its user wrote."""
        return self.adapter.is_suspended(self.view.job) and not self.is_placed()

    def is_placed(self) -> bool:
        """Whether the job still has the pod set info of a run."""
        return self.adapter.pod_set_info is not None and bool(self.adapter.pod_set_info.pod_set_info_of(self.view.job))

    def delete_job(self, why: str) -> JobDecision:
        """Deletes a job to stop it, since it cannot be suspended again."""
        action = DeleteJob(self.view.job.metadata.uid)
        return JobDecision(actions=(action,), events=(Event("Normal", "Stopped", why),))

    def is_run_elsewhere(self, workload: Workload) -> bool:
        """Whether the job never starts here: it is dispatched, with nothing like managedBy to keep it from running."""
        view = self.view
        if self.adapter.may_resume and not view.may_run_here:
            return False
        return bool(view.is_queue_multikueue or view.is_dispatched or workload.status.cluster_name)

    def is_awaiting_winner(self, workload: Workload) -> bool:
        """Whether the job was admitted before its queue had a check, and has no winner: a job started here could not be
        copied any more. The check may be in the queue, and not yet in its Workload; or the queue is gone for a moment. What is
        for workers alone, and waits where none of that comes, gets a message that says so (`is_stranded`)."""
        is_dispatched = self.view.is_dispatched or self.view.is_queue_multikueue or is_whole(self.adapter)
        ours = is_dispatched and self.adapter.unmanaged_reason(self.view.job) is None
        return ours and not workload.status.cluster_name

    def may_queue_again(self) -> bool:
        """Whether the job can queue again without its Workload; a job that cannot is deleted with it."""
        return self.adapter.may_resume or is_of_stateful_set(self.view.job)

    def settle(self, why: str) -> JobDecision:
        """Stops the job, then resets its status, as soon as nothing of it runs."""
        stopped = self.stop(why)
        if stopped.actions:
            return stopped
        remote = self.running_remote()
        if remote is not None:
            return JobDecision(actions=self.copied_status(remote))
        patch = self.adapter.reset_status_patch(self.view.job)
        return JobDecision(actions=(PatchJobStatus(patch),) if patch is not None else ())

    def running_remote(self) -> AnyJob | None:
        """The remote job while it has pods; None if its worker is lost."""
        remote = self.view.remote
        return (
            remote if remote is not None and not self.view.is_remote_lost and self.adapter.is_active(remote) else None
        )

    def is_quiet(self) -> bool:
        """Whether nothing of the job runs, here or on a worker."""
        runs = self.adapter.is_active(self.view.job) or self.running_remote() is not None or self.view.may_run
        return self.is_held() and not runs


Tree = dict[str, Any]

_LONGEST = 63
"""Characters of a label's value; only the Workload has a cluster with a longer name."""


def with_cluster_label(patch: Tree, cluster: str | None) -> Tree:
    """The patch that starts a job, with the cluster where it starts, if it is one.

    With the label `kubectl get jobs -L multikueue.dev/cluster` needs nothing of ours. It rides on the patch that starts the
    job, and goes with the one that stops it, so it costs no write.
    """
    return _labelled(patch, cluster) if cluster and len(cluster) <= _LONGEST else patch


def forgotten(patch: Tree, job: Object) -> Tree:
    """The patch that stops a job, which is on no cluster then."""
    return _labelled(patch, None) if CLUSTER_LABEL in job.metadata.labels else patch


def _labelled(patch: Tree, value: str | None) -> Tree:
    meta = patch.get("metadata", {})
    return patch | {"metadata": meta | {"labels": meta.get("labels", {}) | {CLUSTER_LABEL: value}}}


def copied(job: AnyJob, keys: Sequence[str]) -> dict[str, str]:
    """The labels with these keys that the job has; a group has those of all its members, even of deleted ones.

    These are Kueue's labelKeysToCopy: copied when the Workload is created, and not updated later.
    """
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
