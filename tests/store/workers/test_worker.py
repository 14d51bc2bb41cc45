"""One worker's view: what is there, what may be there, and what is in the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest

from multikueue.api.jobs.pod import GROUP_LABEL, PodGroup
from multikueue.api.kinds import JOBS, PODS, WORKLOADS
from multikueue.api.kueue.workload import PREBUILT_ANNOTATION, PREBUILT_LABEL
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.remote import Asked, Unfit
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.pods.pod import PLAIN_POD
from multikueue.store.workers.worker import Places, WorkerView
from tests.builders import NOW, job, workload
from tests.builders.workloads import JobBuilder
from tests.jobs.kinds.pods.builders import member

KEY = ObjectKey("default", "wl")
ASKED = Asked("attempt", NOW)
HOUR = timedelta(hours=1)


def view() -> WorkerView:
    return WorkerView("w1")


def test_a_job_is_found_by_the_workload_it_names() -> None:
    worker = view()
    worker.jobs.upsert(job("job").prebuilt("wl").build())
    found = worker.job_of(KEY)
    assert found is not None
    assert found.metadata.name == "job"
    assert worker.held() == {KEY}
    assert (worker.may_run(KEY), worker.may_run(ObjectKey("default", "other"))) == (True, False)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(
            job("job").annotations({PREBUILT_ANNOTATION: "wl"}), id="an annotation, as Kueue's MultiKueue since 0.18"
        ),
        pytest.param(job("job").annotations({PREBUILT_ANNOTATION: "wl"}).prebuilt("old"), id="before an old label"),
    ],
)
def test_a_job_is_found_by_the_workload_it_names_in_an_annotation(found: JobBuilder) -> None:
    """Else what Kueue's own MultiKueue started would be started once more by who takes over."""
    worker = view()
    worker.jobs.upsert(found.build())
    assert worker.held() == {KEY}


def test_a_job_that_ours_made_there_is_not_taken_for_it() -> None:
    """It has the same labels and annotations: a RayCluster those of its RayJob."""
    worker = view()
    made = job("made").prebuilt("wl").owned_by(api_version="ray.io/v1", kind="RayJob", name="job", uid="u")
    worker.jobs.upsert(made.build())
    assert worker.job_of(KEY) is None
    assert worker.held() == set()
    worker.jobs.upsert(job("job").prebuilt("wl").build())
    found = worker.job_of(KEY)
    assert found is not None
    assert found.metadata.name == "job"


def test_a_job_that_appears_answers_what_was_asked() -> None:
    worker = view()
    worker.ask_for_job(KEY, ASKED)
    assert worker.may_have(KEY)
    worker.jobs.upsert(job("job").prebuilt("wl").build())
    assert worker.expectations.asked(KEY) is None


def test_a_conflict_is_forgotten_in_time() -> None:
    worker = view()
    taken = Unfit("taken", NOW + timedelta(minutes=5))
    worker.pass_over(KEY, taken)
    assert worker.expectations.unfit(KEY, NOW) == taken
    assert worker.expectations.unfit(KEY, NOW + timedelta(minutes=5)) is None
    assert not worker.expectations.is_passed_over(KEY)


def test_a_member_of_a_group_has_no_workload_by_itself_however_the_group_is_named() -> None:
    worker = WorkerView("w1", adapters=Adapters((BATCH_JOB, PLAIN_POD)))
    worker.jobs.open(PODS)
    named = {GROUP_LABEL: "wl"}
    worker.jobs.upsert(member("a", labels=named | {PREBUILT_LABEL: "wl"}))
    worker.jobs.upsert(member("b", labels={GROUP_LABEL: ""}, annotations=named | {PREBUILT_ANNOTATION: "wl"}))
    (group,) = worker.jobs.by("workload", KEY)

    assert isinstance(group, PodGroup)
    assert [each.metadata.name for each in group.members] == ["a", "b"]


def test_copies_without_jobs_are_held_too() -> None:
    worker = view()
    worker.workloads.upsert(workload("wl").build())
    assert worker.may_have(KEY)
    assert not worker.may_have(ObjectKey("default", "other"))


class Answering(NamedTuple):
    answer: Callable[[], bool] | bool

    def is_concerned_by(self, _key: ObjectKey) -> bool:
        return self.answer() if callable(self.answer) else self.answer


def workers(**answers: Callable[[], bool] | bool) -> dict[str, Answering]:
    """Workers by name, and whether a workload concerns them."""
    return {name: Answering(answer) for name, answer in answers.items()}


def test_a_worker_that_is_noted_while_it_is_looked_who_is_concerned_is_one_of_them() -> None:
    """A group of Pods is gathered when it is read, and its change is heard then."""
    places = Places()
    places.note(KEY, "w1")
    places.note(KEY, "w2")

    def first() -> bool:
        places.note(KEY, "w3")
        assert places.of(KEY, workers(w3=True)) == ("w3",)
        return False

    assert places.of(KEY, workers(w1=first, w2=True)) == ("w3",)


def test_nobody_is_concerned_once_nothing_is_left() -> None:
    places = Places()
    places.note(KEY, "w1")
    assert places.of(KEY, {}) == ()
    assert places.of(KEY, workers(w1=True)) == ()


def test_a_job_that_goes_is_noted_nowhere() -> None:
    places = Places()
    worker, there = WorkerView("w1", places=places), job("job").prebuilt("wl").build()
    worker.jobs.upsert(there)
    assert places.of(KEY, workers(w1=True)) == ("w1",)
    assert places.of(KEY, {}) == ()
    worker.jobs.remove(there)
    assert places.of(KEY, workers(w1=True)) == ()


def test_a_name_given_to_another_cluster_forgets_the_one_before() -> None:
    worker = view()
    worker.workloads.upsert(workload("wl").version(10_000).build())
    worker.jobs.upsert(job("job").prebuilt("wl").version(10_000).build())
    worker.connected()
    worker.ask_for_job(KEY, ASKED)
    worker.pass_over(KEY, Unfit("taken", NOW))
    worker.forget()
    assert not worker.may_have(KEY)
    assert not worker.link.is_known
    assert not worker.is_concerned_by(KEY)
    worker.workloads.upsert(workload("other").version(1).build())
    assert worker.held() == {ObjectKey("default", "other")}


Steps = tuple[Callable[[WorkerView], object], ...]


def _does(method: str, *args: Any) -> Callable[[WorkerView], object]:
    return lambda worker: getattr(worker, method)(*args)


CONNECTED, ISOLATED = _does("connected"), _does("isolated")

TELLING: dict[str, tuple[Steps, list[str]]] = {
    "connected": ((CONNECTED,), ["reach"]),
    "connected twice": ((CONNECTED, CONNECTED), ["reach"]),
    "suspected while not connected": ((_does("suspected", NOW),), []),
    "suspected": ((CONNECTED, _does("suspected", NOW, "no answer")), ["reach", "reach"]),
    "isolated": ((ISOLATED, ISOLATED), ["reach"]),
    "disconnected": ((_does("disconnected", "gone", NOW),), ["reach"]),
    "disconnected for two reasons": (
        (_does("disconnected", "a", NOW), _does("disconnected", "b", NOW)),
        ["reach", "use"],
    ),
    "disconnected twice": ((_does("disconnected", "a", NOW), _does("disconnected", "a", NOW)), ["reach"]),
    "reported active": ((_does("reported", None, "", NOW, None),), ["reach"]),
    "reported with namespaces": ((CONNECTED, _does("reported", None, "", NOW, ("a",))), ["reach", "use"]),
    "in trouble": ((_does("troubled", "no answer"),), ["why"]),
    "asked without an answer": ((_does("probe_failed", NOW, NOW, HOUR),), []),
    "asked without an answer for long": (
        (_does("suspected", NOW - HOUR), _does("awaited"), _does("probe_failed", NOW, NOW, HOUR)),
        ["use"],
    ),
    "silent": ((_does("fell_silent"), _does("fell_silent")), ["silence"]),
    "silent for a while": ((_does("fell_silent"), _does("answered")), ["silence", "silence"]),
    "offers": ((_does("offers", ("a",), NOW), _does("offers", ("a",), NOW)), ["why"]),
    "record_watch": (
        (_does("record_watch", JOBS, "you may not", NOW), _does("record_watch", JOBS, "", NOW)),
        ["use", "use"],
    ),
    "leaves": ((_does("leaves", "another has its name"), _does("leaves", "another has its name")), ["use"]),
}


@pytest.mark.parametrize(("steps", "told"), TELLING.values(), ids=TELLING)
def test_each_change_is_told_once(steps: Steps, told: list[str]) -> None:
    aspects: list[str] = []
    worker = WorkerView("w1", lambda _worker, aspect: aspects.append(aspect))
    for step in steps:
        step(worker)
    assert aspects == told


def test_a_worker_is_away_since_it_was_last_reached() -> None:
    worker = view()
    worker.suspected(NOW)
    worker.suspected(NOW + HOUR)
    worker.isolated()
    assert worker.link.since == NOW
    worker.connected()
    assert worker.link.since is None
    worker.recorded(NOW)
    assert worker.link.since is None, "what an earlier process has seen is over"


def test_a_worker_whose_connection_ends_is_away_since_then_and_lost_only_by_a_failed_probe() -> None:
    worker = view()
    worker.connected()
    for why, at in (("its credential was changed", NOW), ("its MultiKueueCluster is gone", NOW + HOUR)):
        worker.disconnected(why, at)
    assert worker.link.since == NOW
    assert not worker.is_lost(NOW + 2 * HOUR, HOUR), "nobody has asked it since"
    worker.probe_failed(NOW + HOUR, NOW + HOUR, HOUR)
    worker.disconnected("its MultiKueueCluster is gone", NOW + 2 * HOUR)
    assert worker.is_lost(NOW + 2 * HOUR, HOUR), "it was asked in time"


# Who begins to act: what is away counts from what the leader before it knew.

TIMEOUT, MINUTE = timedelta(minutes=15), timedelta(minutes=1)


def standby(*, reached_until: datetime | None) -> WorkerView:
    """The view of a standby whose link broke then; None: it never reached the worker."""
    worker = WorkerView("w1", since=NOW)
    worker.stands_by()
    if reached_until is not None:
        worker.connected()
        worker.suspected(reached_until)
        worker.isolated()
    return worker


@pytest.mark.parametrize("ago", [timedelta(), 14 * MINUTE, 16 * MINUTE, 100 * HOUR], ids=str)
def test_what_a_standby_cannot_reach_is_never_lost(ago: timedelta) -> None:
    worker = standby(reached_until=NOW)
    assert not worker.is_lost(NOW + ago, TIMEOUT)


@pytest.mark.parametrize(
    ("reached", "recorded", "lost_after"),
    [
        pytest.param(None, None, TIMEOUT, id="the leader before reached it until its end: as long as any loss"),
        pytest.param(-HOUR, None, TIMEOUT, id="and this one did not, for an hour"),
        pytest.param(None, -5 * MINUTE, 10 * MINUTE, id="away for five minutes, as recorded: the rest"),
        pytest.param(None, -14.5 * MINUTE, MINUTE, id="nearly lost, as recorded: a minute"),
        pytest.param(None, -HOUR, MINUTE, id="lost for long, as recorded: a minute"),
        pytest.param(-MINUTE, -HOUR, 14 * MINUTE, id="the record is older than what this one reached as a standby"),
        pytest.param(-HOUR, -5 * MINUTE, 10 * MINUTE, id="the leader before reached it after this one"),
    ],
)
def test_after_a_take_over_a_loss_counts_from_what_leaders_knew(
    reached: timedelta | None, recorded: timedelta | None, lost_after: timedelta
) -> None:
    worker = standby(reached_until=NOW + reached if reached is not None else None)
    worker.leads(NOW, NOW + MINUTE)
    worker.recorded(NOW + recorded if recorded is not None else None)
    assert worker.link.lost_at(TIMEOUT) == NOW + lost_after
    assert not worker.is_lost(NOW + lost_after - timedelta(microseconds=1), TIMEOUT)
    assert worker.is_lost(NOW + lost_after, TIMEOUT)


@pytest.mark.parametrize("first", [None, NOW - HOUR], ids=["it was reached", "a loss"])
def test_a_record_counts_once(first: datetime | None) -> None:
    worker = WorkerView("w1", since=NOW)
    worker.recorded(first)
    worker.connected()
    worker.suspected(NOW + HOUR)
    worker.recorded(NOW - HOUR)
    assert worker.link.since == NOW + HOUR


def test_what_a_standby_could_not_watch_counts_from_its_take_over() -> None:
    worker = standby(reached_until=None)
    worker.offers(("team", "other"), NOW - HOUR)
    worker.record_watch(WORKLOADS, "403", NOW - HOUR, namespace="team")
    worker.leads(NOW, NOW + MINUTE)
    for namespace in ("team", "a namespace that is not offered"):
        failure = worker.watch_scope.namespace_failure(namespace)
        assert failure is not None
        assert failure.since == NOW


@pytest.mark.parametrize("deletion", ["a watch event", "a list without it"])
def test_the_deletion_of_a_job_answers_the_request_for_it(deletion: str) -> None:
    """Else quota is held for a job that is gone."""
    worker = view()
    there = job("job").prebuilt("wl").build()
    worker.jobs.upsert(there)
    worker.ask_for_job(KEY, ASKED)
    if deletion == "a watch event":
        worker.jobs.remove(there)
    else:
        worker.jobs.of(JOBS).replace(())
    assert worker.expectations.asked(KEY) is None
    assert not worker.may_run(KEY)
