"""Every door says the same of every situation, save for a price that the table names. The demo's key `w` runs `why` itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from multikueue.answers.answer import JobAnswer, answer
from multikueue.answers.codes import Code
from multikueue.answers.fix import is_at_work
from multikueue.answers.seen import Seen, SeenJob
from multikueue.api.kueue.workload import (
    ADMITTED,
    FITS_NO_WORKER,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    any_owner_of,
    waits_for_quota,
)
from multikueue.api.meta import ObjectMeta
from multikueue.cli.terminal.output import print_answer
from multikueue.cli.workload import overview, seen
from multikueue.cli.workload.overview import ListedJob, Overview
from multikueue.cli.workload.seen import Inspection
from multikueue.web.answers import explanation
from multikueue.web.visibility import Explain
from multikueue.workload.fit import named_in
from multikueue.workload.nomination.prospects import Prospect, State
from tests.answers.situations import LATER, QUEUES_THERE, SITUATIONS, Situation, alone, no_class, of, train
from tests.builders import local_queue

Told = tuple[str, str, str]
"""State, first code and first sentence."""

every_situation = pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.how)


@pytest.fixture(autouse=True)
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (overview, seen):
        monkeypatch.setattr(module, "now", lambda: LATER)


def said(told: JobAnswer) -> Told:
    return told.state, told.heaviest.code if told.heaviest else "", told.summary


def job_of(seen: Seen) -> SeenJob:
    """With its ready pods, as its status has them."""
    job = seen.job or SeenJob(kind="Job", meta=ObjectMeta(name="train", namespace="team-a"))
    return replace(job, ready=sum(map(is_at_work, seen.pods))) if seen.pods is not None else job


def of_the_manager(seen: Seen) -> Seen:
    """The manager sees no pods, and asks a worker what it could hold once the job has quota."""
    workload = seen.workload
    early = workload is not None and waits_for_quota(workload) and not workload.has(FITS_NO_WORKER)
    never = State.NEVER.value
    workers = [
        replace(each, state=State.NOT_ASKED.value, message="") if early and each.state == never else each
        for each in seen.workers
    ]
    return replace(seen, pods=None, job=job_of(seen), workers=tuple(workers))


def listed(seen: Seen, told: JobAnswer | None = None) -> ListedJob:
    """As a list has it: of workers it sees whether one is away, of pods what the job counts; `told`: the manager's answer."""
    queues = {
        each.key: each for name in seen.queues or () for each in [local_queue(name, "cq", namespace="team-a").build()]
    }
    found = Overview(
        "team-a",
        queues=queues if seen.queues is not None else None,
        classes=seen.classes,
        away={each.cluster: each for each in seen.workers if each.state == State.UNREACHABLE.value},
        own_checks=frozenset({"mk"}),
    )
    job = job_of(seen)
    if seen.workload is None:
        found.jobs["u"], found.told["u"] = ({"metadata": {"name": job.meta.name}}, job), list(seen.told)
        return found.of_job("u")
    owner = any_owner_of(seen.workload)
    if owner is not None:
        found.jobs[owner.uid] = ({}, job)
    if told is not None:
        found.answers[seen.workload.key] = (seen.workload.metadata.resource_version, told)
    return found.of_workload(({}, seen.workload))


def expected(situation: Situation) -> Iterator[Told]:
    """What `why` says; and less, at a price that the table names."""
    yield said(answer(situation.seen, LATER))
    if situation.price:
        assert situation.coarse is not None
        less = answer(of_the_manager(situation.seen), LATER)
        assert said(less)[:2] == (situation.state, situation.coarse.name)
        yield said(less)


@every_situation
def test_why_and_show_say_it_whatever_the_manager_tells(
    situation: Situation, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(of_the_manager(situation.seen), LATER)
    first, *_ = expected(situation)
    found = Inspection(situation.seen, told if situation.seen.workload else None).answer()
    print_answer(found)
    assert said(found) == first
    assert capsys.readouterr().out.splitlines()[0] == first[2]


@every_situation
def test_a_list_says_it_if_the_manager_tells(situation: Situation) -> None:
    *_, least = expected(situation)
    assert said(listed(situation.seen, answer(of_the_manager(situation.seen), LATER)).answer) == least


@pytest.mark.parametrize(
    "situation", [each for each in SITUATIONS if each.seen.workload], ids=lambda situation: situation.how
)
def test_the_visibility_api_says_it(situation: Situation) -> None:
    *_, least = expected(situation)
    told = answer(of_the_manager(situation.seen), LATER)
    body = explanation(Explain(namespace="team-a", name="job-train"), None, (), told)["answer"]
    first = body["obstacles"][0]["code"] if body["obstacles"] else ""
    assert (body["state"], first, body["summary"]) == least


def of_a_user(seen: Seen) -> Seen:
    """What a user with one namespace may read: its objects, and nothing of the quota, the workers and the classes."""
    workload = seen.workload
    if workload is None:
        return replace(seen, classes=None, not_seen=("WorkloadPriorityClasses",))
    told = workload.condition(FITS_NO_WORKER)
    winner = (workload.status.cluster_name or "") if workload.has(ADMITTED) else ""
    named = dict.fromkeys((winner,) if winner else workload.status.nominated_cluster_names, "")
    state = State.HAS_IT if winner else State.WAITS
    never = named_in(told.message) if told is not None else {}
    workers = (*_prospects(state, named), *_prospects(State.NEVER, never))
    hidden = {"quota": None, "workers": workers, "pods": None, "own_check": None}
    return replace(seen, **hidden, job=job_of(seen), not_seen=("its quota", "its workers", "its pods"))


def _prospects(state: State, whys: dict[str, str]) -> Iterator[Prospect]:
    return (Prospect(cluster=name, state=state.value, message=why) for name, why in whys.items())


@every_situation
def test_a_user_with_one_namespace_is_told_the_same(situation: Situation) -> None:
    """What they may not read, the manager tells."""
    seen, manager = situation.seen, of_the_manager(situation.seen)
    mine, told = of_a_user(seen), answer(manager, LATER) if seen.workload else None
    if told is not None:
        mine = replace(mine, quota=manager.quota, workers=manager.workers, pods=seen.pods)
    first, *less = expected(situation)
    found = said(Inspection(mine, told).answer())
    assert is_as_far(found, first) or (situation.price == QUEUES_THERE and [found] == less)


def is_as_far(found: Told, first: Told) -> bool:
    """Whether it is the same answer, perhaps without the names of what may not be listed."""
    return found[:2] == first[:2] and first[2].startswith(found[2].rstrip("."))


TRUE_OF_ALL = {Code.WaitsForQuota, Code.WaitsOnWorkers, Code.NotAskedYet, Code.PodsStarting, Code.NoManager}
"""What is true of every job that stands where it stands, whatever else may be."""


@every_situation
def test_a_user_with_one_namespace_whom_no_manager_tells_hears_nothing_untrue(situation: Situation) -> None:
    found, (first, *_) = answer(of_a_user(situation.seen), LATER), expected(situation)
    if not is_as_far(said(found), first):
        state, code, _ = said(found)
        assert code in {each.name for each in TRUE_OF_ALL}
        assert state == situation.state or situation.state == "Unknown"
        assert found.not_seen.startswith("not seen: ")


def test_who_may_see_no_classes_and_no_event_hears_that_one_may_be_missing() -> None:
    seen = alone(labels={QUEUE_LABEL: "mine", PRIORITY_CLASS_LABEL: "hihg"}, classes=None)
    assert answer(seen, LATER).summary.endswith("Or is there no WorkloadPriorityClass hihg?")


def test_who_may_see_no_classes_is_told_of_none_that_there_are() -> None:
    seen = alone(labels={QUEUE_LABEL: "mine", PRIORITY_CLASS_LABEL: "hihg"}, classes=None, told=no_class("hihg"))
    assert answer(seen, LATER).summary == "Pending: there is no WorkloadPriorityClass hihg."


def is_new(situation: Situation) -> bool:
    """Whether it may be that of a job that nobody has submitted yet, whose quota can be seen."""
    workload, quota = situation.seen.workload, situation.seen.quota
    return (
        workload is not None
        and quota is not None
        and not any(each.status == "True" for each in workload.status.conditions)
    )


@pytest.mark.parametrize("situation", [*filter(is_new, SITUATIONS)], ids=lambda situation: situation.how)
def test_a_dry_run_says_it_before(situation: Situation) -> None:
    first, *_ = expected(situation)
    assert said(answer(replace(situation.seen, is_foreseen=True), LATER)) == first


def test_a_dry_run_without_rights_promises_nothing() -> None:
    seen = of(train(), queues=None, own_check=None, is_foreseen=True, not_seen=("its quota",))
    assert answer(seen, LATER).summary == "Pending: nothing stands in its way, as far as was seen."
