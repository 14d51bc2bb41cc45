"""The input of a decision, built from the store: a workload's case, and the fleet as one value for all workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from multikueue import strategy as contract
from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.jobs.pod import PodGroup
from multikueue.api.kinds import POD_GROUPS, PODS
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.slices import is_elastic
from multikueue.api.kueue.workload import EVICTED, FINISHED, Workload, any_owner_of, owner_kind, queue_of
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import config_of, drain_of, prices_of, why_cordoned
from multikueue.api.values.foreign import answer_or, excerpt
from multikueue.dispatch.remote import NO_JOB, JobState, Link, Reach, Remote, attempt_of
from multikueue.dispatch.slices import Slice
from multikueue.jobs.framework.adapter import OwnJob
from multikueue.jobs.framework.difference import difference
from multikueue.jobs.kinds.batch_job.slices import remote_patch
from multikueue.jobs.kinds.pods.members import has_missing
from multikueue.quota.cache.budgets import non_preemptible_problem
from multikueue.store.life_facts import LifeFacts
from multikueue.store.state import workers_named_by
from multikueue.store.store import Store
from multikueue.store.workers.watch_scope import EVERYWHERE, WatchFailure
from multikueue.workload.case import MAX_NOMINATED, NO_FLEET, Case, Fleet, JobFacts, Queues, Scheduling
from multikueue.workload.decision_rules import (
    NO_RETENTION,
    CopyRetention,
    DecisionRules,
    asked_retention,
    copy_retention,
    copy_retention_problem,
    time_to_live,
)

__all__ = ["Views"]


_NAME = attrgetter("name")


class _Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The part that is the same for all workers: the key of the workload's `job`, the slices `before` it whose job may
    still exist, and whether jobs of its kind are not visible now."""

    key: ObjectKey
    local: Workload | None
    job: JobKey | None
    before: tuple[ObjectKey, ...]
    is_unseen: bool


class Views(msgspec.Struct, frozen=True):
    """Read-only views of the store."""

    store: Store

    def case(self, key: ObjectKey, rules: DecisionRules) -> Case:
        """All that is known of one workload. Where its life is ours (`rules.has_life`) that includes what the scheduler, its
        queues and its job say."""
        store, workload = self.store, self.store.workloads.get(key)
        if store.slices is not None and workload is not None:
            workload = store.slices.as_asked(workload)
        job_key, job = store.key_and_job(workload) if workload is not None else (None, None)
        own = OwnJob(job, store.adapters.of(job)) if job is not None else None
        facts = LifeFacts.of(store, rules, workload) if rules.has_life and workload is not None else None
        scheduling = facts.scheduling(key, workload) if facts is not None and workload is not None else Scheduling()
        listed = workload.status.admission_checks if workload is not None else ()
        # Our check of the workload: one in its status, or one that it will have with its reservation.
        check = store.first_of_ours([*map(_NAME, listed), *scheduling.required_checks])
        attempt = attempt_of(workload) if workload else ""
        of = self._of(key, workload, job_key)
        fleet = self._fleet(check, of.job, key.namespace)
        may_be_anywhere = not rules.has_life and workload is not None and workload.condition(EVICTED) is not None
        slices, is_reserved = store.slices, scheduling.reservation is not None
        takes_over = slices.stays(workload) if slices is not None and workload is not None and is_reserved else None
        concerned = self._concerned(of, fleet, may_be_anywhere=may_be_anywhere, takes_over=takes_over)
        remotes = tuple([self._seen(of, name, fleet) for name in concerned])

        asked = asked_retention(workload, job) if workload is not None else ""
        retention = self._copy_retention(key, workload, asked, rules) if workload is not None else NO_RETENTION
        is_over = workload is not None and own is not None and own.finished is not None
        if workload is not None and own is not None and own.adapter.is_external:
            is_over = _is_as_there(workload, own, remotes)

        def slice_of(local: Workload | None) -> Slice:
            has_ended = local is not None and local.has(FINISHED)
            assert slices is not None, "only then it is asked"
            return slices.of(key, local, is_job_running=has_ended and self._is_running(job))

        return Case(
            now=store.now(),
            key=key,
            workload=workload,
            rules=rules,
            is_unreadable=key in store.workloads.unreadable,
            check=check.metadata.name if check else "",
            remotes=remotes,
            fleet=fleet,
            closed=store.closed_queues.of(queue_of(workload)) if workload is not None and store.closed_queues else {},
            problem=self._problem(workload, own) if workload and not rules.is_dispatcher_only else "",
            own_job=job,
            job_key=job_key,
            # Not before the pod set info of the same Workload is restored. That of another Workload may never be: with Kueue
            # beside us, a job started by the Workload of an earlier job of its name keeps its demands.
            may_copy_job=own is not None and own.adapter.may_be_copied(own.job) and own.pod_set_info != key.name,
            is_job_finished=is_over,
            choice=store.plans.choice(key, attempt),
            opening=store.plans.opening(key, attempt) if rules.is_preemption_sequential else "",
            slice_of=slice_of if slices is not None else None,
            copy_retention=retention.within(time_to_live(job)) if is_over and job is not None else retention,
            may_be_anywhere=may_be_anywhere,
            scheduling=scheduling,
            queues=facts.queues() if facts is not None else Queues(),
            job=facts.job(workload, own, remotes) if facts is not None and workload is not None else JobFacts(),
            successor=slices.successor(workload)
            if rules.has_life and slices is not None and workload is not None
            else None,
            takes_over=takes_over,
            has_ceiling_news=key in store.ceilings.news,
            class_value=facts.class_value(workload) if facts is not None and workload is not None else None,
            waits_for_its_job=workload is not None
            and workload.metadata.deletion_timestamp is not None
            and store.job_to_stop(workload) is not None,
            misread=self._misread(workload, asked, rules) if facts is not None and workload is not None else (),
        )

    def scheduled_anew(self, case: Case) -> Case:
        """The case after a write of ours, which the scheduler has seen."""
        scheduling = LifeFacts(self.store, case.rules, case.queues.local_queue).scheduling(case.key, case.local)
        return case.scheduled(scheduling, self.store.now())

    def _copy_retention(self, key: ObjectKey, local: Workload, asked: str, rules: DecisionRules) -> CopyRetention:
        """None where the name of its winner is about to stand for another cluster, or its winner is drained: that waits until
        nothing of ours is left. None either where too many of its namespace ended there after it."""
        name = local.status.cluster_name or ""
        winner, cluster = self.store.workers.get(name), self.store.clusters.get(ObjectKey("", name))
        is_drained = cluster is not None and drain_of(cluster) is not None
        if (
            is_drained
            or (winner is not None and winner.leaving)
            or not self.store.ended.is_among(key, rules.most_copies)
        ):
            return NO_RETENTION
        return copy_retention(asked, rules) if asked else rules.copies

    def _misread(self, local: Workload, asked: str, rules: DecisionRules) -> tuple[str, ...]:
        own = non_preemptible_problem(local) if rules.may_be_non_preemptible else ""
        return tuple(filter(None, (own, copy_retention_problem(asked, rules) if asked else "")))

    def widened(self, case: Case, clusters: Iterable[str]) -> Case:
        """The case with these clusters of its fleet added."""
        found, order = {remote.cluster: remote for remote in case.remotes}, case.fleet.order
        more = order.keys() & set(clusters) - found.keys()
        if not more:
            return case
        of = self._of(case.key, case.workload, case.job_key)
        for name in clusters:
            if name in more:
                found[name] = self._seen(of, name, case.fleet)
        inside, outside = _by_place(found, order)
        return replace(case, remotes=tuple([found[name] for name in (*inside, *outside)]))

    def shown(self, name: str, kind: str, namespace: str) -> contract.Worker:
        """The strategy's view of a worker, for all jobs of a kind in a namespace."""
        worker, cluster = self.store.worker(name), self.store.clusters.get(ObjectKey("", name))
        cordoned = why_cordoned(cluster) if cluster is not None else ""
        failure = worker.watch_scope.failure(kind, namespace) or worker.watch_scope.namespace_failure(namespace)
        why = cordoned or worker.leaving or (failure.why if failure is not None else "")
        if not why and not worker.link.is_connected:
            why = f"not connected ({excerpt(worker.why)})" if worker.why else "not connected"
        return contract.Worker(
            name=name,
            usable=not why,
            why=excerpt(why),
            labels=cluster.metadata.labels if cluster else {},
            annotations=cluster.metadata.annotations if cluster else {},
            prices=prices_of(cluster) if cluster else {},
            kueue=worker.kueue,
        )

    def seen(self, key: ObjectKey, name: str) -> Remote:
        """The state of a workload on one worker."""
        local = self.store.workloads.get(key)
        return self._seen(self._of(key, local, self.store.owner(local) if local is not None else None), name, NO_FLEET)

    def _fleet(self, check: AdmissionCheck | None, job: JobKey | None, namespace: str) -> Fleet:
        """The fleet of a MultiKueueConfig for jobs of a kind: one value for all, until a part of it changes. If some
        workers offer only some namespaces, there is one per namespace."""
        config = next(iter(config_of(check)), "") if check else ""
        kind = "" if job is None else PODS.name if job.kind == POD_GROUPS.name else job.kind
        for place in ("", namespace):
            known = self.store.fleets.get((config, kind, place))
            if known is not None:
                return known
        names = self.store.clusters_for(check)
        everywhere = all(self.store.worker(name).watch_scope.namespaces == EVERYWHERE for name in names)
        missing = {name: self._missing(name, kind, namespace) for name in names}
        made = Fleet(
            tuple(self.shown(name, kind, namespace) for name in names),
            missing={name: why for name, why in missing.items() if why},
        )
        self.store.fleets[config, kind, "" if everywhere else namespace] = made
        return made

    def _missing(self, name: str, kind: str, namespace: str) -> str:
        worker = self.store.worker(name)
        return worker.watch_scope.why_missing(kind, namespace) if worker.link.is_connected else ""

    def _of(self, key: ObjectKey, local: Workload | None, job: JobKey | None) -> _Workload:
        slices = self.store.slices
        return _Workload(
            key=key,
            local=local,
            job=job,
            before=slices.before(local) if slices is not None and local is not None else (),
            is_unseen=job is not None and not self.store.jobs.is_on(job.kind),
        )

    def _concerned(
        self, of: _Workload, fleet: Fleet, *, may_be_anywhere: bool = False, takes_over: str | None = None
    ) -> tuple[str, ...]:
        """The workers that concern a workload, in the order of the fleet."""
        local, found = of.local, dict[str, None]()
        if local is not None and len(local.status.nominated_cluster_names) == MAX_NOMINATED:
            found |= dict.fromkeys(fleet.order)
        if may_be_anywhere:
            found |= dict.fromkeys([name for name in fleet.order if not self.store.worker(name).link.is_known])
        if local is not None:
            found |= dict.fromkeys(workers_named_by(local))
        if takes_over:
            found[takes_over] = None
        found |= dict.fromkeys(self.store.places(of.key))
        for earlier in of.before:
            found |= dict.fromkeys(self.store.with_job(earlier))
        recorded = local.status.cluster_name if local is not None else None
        inside, outside = _by_place(found, fleet.order)
        if not outside:
            return tuple(inside)
        return (*inside, *[name for name in outside if name == recorded or name in self.store.workers])

    def _seen(self, of: _Workload, name: str, fleet: Fleet) -> Remote:
        store, worker, key = self.store, self.store.workers.get(name) or self.store.worker(name), of.key
        failure = worker.watch_scope.namespace_failure(key.namespace)
        held, copy = worker.job_of(key), worker.workloads.get(key)
        asked, read_at, is_passed_over = worker.expectations.about(key)
        remote = Remote(
            cluster=name,
            is_configured=name in fleet.order,
            link=worker.link if failure is None else _isolated(worker.link, failure),
            workload=copy,
            never=store.ceilings.lack(name, copy) if copy is not None else "",
            job=held,
            job_state=self._job_state(held, of.job) if held is not None else NO_JOB,
            asked=asked,
            read_at=read_at,
            unfit=worker.expectations.unfit(key, store.now()) if is_passed_over else None,
            failing=store.refusals.told(key, name),
        )
        if of.local is not None and store.slices is not None and is_elastic(of.local):
            remote = self._elastic(remote, of.local, of.before)
        is_unreadable = key in worker.workloads.unreadable or (
            of.job is not None and worker.jobs.has_unreadable(of.job)
        )
        return _unreadable(remote) if of.is_unseen or is_unreadable else remote

    def _difference(self, job: AnyJob, workload: Workload) -> str:
        return difference(self.store.adapters.of(job), job, workload)

    def _job_state(self, held: AnyJob, job: JobKey | None) -> JobState:
        local = self.store.jobs.get(job) if job and isinstance(held, PodGroup) else None
        return JobState(
            is_active=self.store.adapters.of(held).is_active,
            difference=self._difference,
            has_ended=self._has_ended,
            is_held=self._is_held,
            is_incomplete=isinstance(local, PodGroup) and isinstance(held, PodGroup) and has_missing(local, held),
        )

    def _elastic(self, remote: Remote, local: Workload, ends: Iterable[ObjectKey]) -> Remote:
        """An elastic workload's remote: its job there may still be an earlier slice's, and may have another size."""
        worker, job, attempt = self.store.worker(remote.cluster), self.store.local_job(local), attempt_of(local)
        held = remote.job or next(filter(None, map(worker.job_of, ends)), None)
        if held is None or type(held) is PodGroup:
            return remote
        adapter = self.store.adapters.of(held)
        known = job if attempt else None
        patch = remote_patch(known, held, local, attempt=attempt, adapter=adapter) if known is not None else None
        state = JobState(
            is_active=adapter.is_active,
            has_ended=self._has_ended,
            is_held=self._is_held,
            is_inherited=remote.job is None,
            patch=patch,
        )
        return replace(remote, job=held, job_state=state)

    def _problem(self, local: Workload, job: OwnJob | None) -> str:
        """Why the job cannot be dispatched at all, in Kueue's words (contract 3.1 E3, E4)."""
        if job is None or isinstance(job.job, PodGroup):  # any other job that is seen is an owner of a known kind
            owner = any_owner_of(local)
            if owner is None:
                return "No multikueue adapter found"
            if self.store.adapters.owner(owner.api_version, owner.kind) is None:
                return f'No multikueue adapter found for owner kind "{owner_kind(owner)}"'
        reason = job.unmanaged_reason if job is not None else None
        if not reason or job is None:
            return ""
        if not job.adapter.why_one_place and self.store.has_manager_as_worker(queue_of(local), local):
            return ""
        return f"The owner is not managed by Kueue: {reason}"

    def _has_ended(self, job: AnyJob) -> bool:
        return self.store.adapters.of(job).finished(job) is not None

    def _is_held(self, job: AnyJob) -> bool:
        return self.store.adapters.of(job).is_suspended(job) and not self._has_ended(job)

    def _is_running(self, job: AnyJob | None) -> bool:
        """Whether the job is neither stopped nor finished."""
        if job is None or job.metadata.deletion_timestamp is not None:
            return False
        adapter = self.store.adapters.of(job)
        return not adapter.is_suspended(job) and adapter.finished(job) is None


def _is_as_there(local: Workload, own: OwnJob, remotes: Iterable[Remote]) -> bool:
    """Whether the status of a job of an external kind is final: once it equals that of the winner's job, or without a
    winner that of the first job there is; not if that status is too malformed to compare."""
    there = {r.cluster: r.job for r in remotes if r.job is not None}
    found = there.get(local.status.cluster_name or "") or next(iter(there.values()), None)
    return found is not None and answer_or(lambda: own.adapter.status_to_copy(own.job, found) is None, otherwise=False)


def _by_place(names: Iterable[str], order: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """The names that are in the fleet, in its order, and the others."""
    inside, outside = list[str](), list[str]()
    for name in names:
        (inside if name in order else outside).append(name)
    return sorted(inside, key=order.__getitem__), outside


def _unreadable(remote: Remote) -> Remote:
    """An object that cannot be decoded may run: it counts neither as gone nor ever as lost."""
    return replace(remote, link=replace(remote.link, reach=Reach.SUSPECT, since=None))


def _isolated(link: Link, failure: WatchFailure) -> Link:
    """A worker whose namespace cannot be watched counts as isolated: its winners get the time of a lost worker. What an
    offered namespace has is unknown; to a namespace that is not offered, nothing was ever sent."""
    if not link.is_connected:
        return link
    known = link.is_known and failure.last_failed_probe is None
    return replace(
        link, reach=Reach.ISOLATED, since=failure.since, last_failed_probe=failure.last_failed_probe, is_known=known
    )
