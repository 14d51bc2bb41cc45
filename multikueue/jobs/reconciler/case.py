"""What is known of one job, and the questions and steps that several branches of the decision share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec

from multikueue.api.job import AnyJob
from multikueue.api.meta import Condition
from multikueue.api.pod import is_of_stateful_set
from multikueue.api.queues import ResourceFlavor
from multikueue.api.workload import FAILED, FINISHED, SUCCEEDED, Workload
from multikueue.jobs.framework.actions import Action, DeleteJob, JobDecision, JobEvent, PatchJob, PatchJobStatus
from multikueue.jobs.framework.adapter import MANAGED, Adapter
from multikueue.jobs.framework.nesting import Nested, is_whole
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import is_owned
from multikueue.jobs.reconciler import labels, where

LOOK_FOR_NAME_AFTER = timedelta(minutes=1)
NOTHING = JobDecision()
_NO_CLASS = Priority()
_STRANDED = (
    "Nobody runs the job: it is managed by MultiKueue, and its ClusterQueue has no MultiKueue check. "
    f"Give the queue one, or recreate the job without `managedBy: {MANAGED}`"
)


def _never(_name: str) -> bool:
    return False


def is_over(job: AnyJob, adapter: Adapter) -> bool:
    """Whether a job has ended, or is being deleted: then all that counts is the job itself."""
    return job.metadata.deletion_timestamp is not None or adapter.finished(job) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What is known of one job on the manager.

    `workloads` are those the job controls (by UID), and the one it names as prebuilt. `remote` is the winner's job as
    last seen, as long as it may still say something about this job; `remote_lost` says that its worker is lost, so
    that its pods no longer count as running. `may_run` says that some worker runs, or may run unseen, what a Workload
    that is being deleted was dispatched for. `dispatched` says that a Workload has our AdmissionCheck; one that has not
    starts here, where its `flavors`, by name, say. `undispatched` says that no queue of it has one, so that what is managed
    by us runs nowhere. `priority` is the answer of `resolve_priority`. An `elastic` job may
    change its size while it runs. `label_keys` name the labels that its Workload gets too. `nested` says that it belongs to
    another job, and how that stands. `is_taken` says whether there is a Workload of that name beside it. `hidden` says, in
    words, that one is there which may be the job's, and cannot be read.
    """

    job: AnyJob
    workloads: tuple[Workload, ...] = ()
    remote: AnyJob | None = None
    remote_lost: bool = False
    may_run: bool = False
    priority: Priority | str = _NO_CLASS
    queue_is_multikueue: bool = True
    dispatched: bool = True
    undispatched: bool = False
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    local_queue_exists: bool = True
    elastic: bool = False
    label_keys: tuple[str, ...] = ()
    nested: Nested | None = None
    is_taken: Callable[[str], bool] = _never
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A view with the adapter of its kind: the questions that several branches ask."""

    view: JobView
    adapter: Adapter

    def is_ours(self) -> bool:
        return bool(self.adapter.queue_name(self.view.job)) and not self.is_over()

    def is_over(self) -> bool:
        return is_over(self.view.job, self.adapter)

    def released(self) -> JobDecision:
        """What is over, or being deleted, is let go."""
        job = self.view.job
        patch = self.adapter.release_patch(job) if self.adapter.queue_name(job) else None
        return JobDecision(actions=(PatchJob(patch),)) if patch is not None else NOTHING

    def undispatchable(self) -> str | None:
        """Why no worker can ever run the job, and the way out; None if one can."""
        if self.is_stranded():
            return _STRANDED
        reason = self.adapter.unmanaged_reason(self.view.job)
        if reason is None or not self.view.queue_is_multikueue:
            return None
        return (
            f"The job can't be dispatched. {reason}, and the field is immutable: "
            f"recreate the job with `suspend: true` and `managedBy: {MANAGED}`, "
            "or enable the webhook, which sets both, and recreate it"
        )

    def is_stranded(self) -> bool:
        """Whether nobody would run the job: its own controller leaves it to us, and its queue to nobody. What runs on a
        worker already stays there; what only the gates of its Pods hold runs here."""
        if not self.view.undispatched or any(w.status.cluster_name for w in self.view.workloads):
            return False
        return is_whole(self.adapter) and self.adapter.unmanaged_reason(self.view.job) is None

    def final_status(self) -> tuple[Action, ...]:
        """Brings the result home: whatever else is going on, it comes first (invariant I8)."""
        remote = self.view.remote
        if remote is None or self.adapter.finished(remote) is None:
            return ()
        return self.copied_status(remote)

    def end(self) -> Condition | None:
        """That the job's Workload is finished."""
        finished = (w for w in self.view.workloads if w.has(FINISHED))
        return next((w.condition(FINISHED) for w in finished if self.adapter.matches(self.view.job, w)), None)

    def told_end(self) -> tuple[Action, ...]:
        """The job's end as its Workload tells it, if nothing is left that could tell more: whoever deletes the copy
        before its last status came home must not leave a job that never ends."""
        end = self.end()
        if end is None or end.reason not in (SUCCEEDED, FAILED) or self.view.remote is not None:
            return ()
        return self._written(self.adapter.status_of_end(self.view.job, end), is_all=False)

    def copied_status(self, remote: AnyJob) -> tuple[Action, ...]:
        """An end has consequences; how far it has come is for people to read."""
        is_all = self.adapter.finished(remote) is None
        return self._written(self.adapter.status_to_copy(self.view.job, remote), is_all=is_all)

    def _written(self, status: msgspec.Raw | None, *, is_all: bool) -> tuple[Action, ...]:
        if status is None:
            return ()
        return (PatchJobStatus(self.adapter.status_patch(self.view.job, status), is_all),)

    def labelled(self, body: dict[str, Any]) -> dict[str, Any]:
        """A new Workload of the job with those of the job's labels that it gets too."""
        return labels.labelled(body, self.view.job, self.view.label_keys)

    def stop(self, why: str) -> JobDecision:
        if not self.adapter.resumes:
            return NOTHING if self.adapter.is_suspended(self.view.job) else self.delete_job(why)
        patch = self.adapter.stop_patch(self.view.job)
        if patch is None:
            return self.restored()
        if self.adapter.placing is not None:
            patch = self.adapter.placing.stop_patch(self.view.job, patch, self._before())
        stop = PatchJob(where.forgotten(patch, self.view.job))
        return JobDecision(actions=(stop,), events=(JobEvent("Normal", "Stopped", why),))

    def suspend(self, why: str) -> JobDecision:
        """Stops a job that is not to run yet, as Kueue does with what belongs to others."""
        patch = self.adapter.stop_patch(self.view.job)
        if patch is None:
            return NOTHING
        held = PatchJob(where.forgotten(patch, self.view.job))
        return JobDecision(actions=(held,), events=(JobEvent("Normal", "Suspended", why),))

    def restored(self) -> JobDecision:
        """A held job gets back, step by step, what it was before it was started where its flavors said."""
        if not self.is_placed() or self.adapter.placing is None:
            return NOTHING
        step = self.adapter.placing.restoration(self.view.job, self._before())
        return JobDecision(actions=(step,)) if step is not None else NOTHING

    def _before(self) -> Workload | None:
        """The Workload that says what the job was before it was started: its own, or that of before it was changed."""
        owned = [w for w in self.view.workloads if is_owned(w, self.view.job)]
        matching = (w for w in owned if self.adapter.matches(self.view.job, w))
        return next(matching, owned[0] if len(owned) == 1 else None)

    def is_held(self) -> bool:
        """Whether it is held, and says what its user wrote."""
        return self.adapter.is_suspended(self.view.job) and not self.is_placed()

    def is_placed(self) -> bool:
        """Whether the job still says where it ran."""
        return self.adapter.placing is not None and bool(self.adapter.placing.placed_for(self.view.job))

    def delete_job(self, why: str) -> JobDecision:
        """Stops for good a job that cannot be held again."""
        action = DeleteJob(self.view.job.metadata.uid)
        return JobDecision(actions=(action,), events=(JobEvent("Normal", "Stopped", why),))

    def runs_elsewhere(self, workload: Workload) -> bool:
        """Whether the job never starts here: it is dispatched, and has nothing like managedBy to keep it from running."""
        view = self.view
        return not self.adapter.resumes and bool(
            view.queue_is_multikueue or view.dispatched or workload.status.cluster_name
        )

    def awaits_winner(self, workload: Workload) -> bool:
        """Whether it was admitted before its queue had a check, and no worker has it yet: once started it may not be copied."""
        ours = self.view.dispatched and self.adapter.unmanaged_reason(self.view.job) is None
        return ours and not workload.status.cluster_name

    def queues_again(self) -> bool:
        """Whether there is any use for the job without its Workload: what could not be queued again goes with that."""
        return self.adapter.resumes or is_of_stateful_set(self.view.job)

    def settle(self, why: str) -> JobDecision:
        """Stops the job, then makes its status say that nothing runs, as soon as nothing does."""
        stopped = self.stop(why)
        if stopped.actions:
            return stopped
        remote = self.running_remote()
        if remote is not None:
            return JobDecision(actions=self.copied_status(remote))
        patch = self.adapter.reset_status_patch(self.view.job)
        return JobDecision(actions=(PatchJobStatus(patch),) if patch is not None else ())

    def running_remote(self) -> AnyJob | None:
        """The remote as long as it has pods."""
        remote = self.view.remote
        return remote if remote is not None and not self.view.remote_lost and self.adapter.is_active(remote) else None

    def is_quiet(self) -> bool:
        """Nothing of the job runs, here or there."""
        runs = self.adapter.is_active(self.view.job) or self.running_remote() is not None or self.view.may_run
        return self.is_held() and not runs
