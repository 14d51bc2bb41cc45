"""What is left to do on one worker: a part of the plan beside what is there. Whole decisions are in test_decide."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from multikueue.api.kueue.workload import DEACTIVATION_TARGET, Workload
from multikueue.dispatch.copies.effects import CreateWorkload, PatchWorkload, effects
from multikueue.dispatch.copies.plan import (
    Absent,
    Alone,
    Copied,
    Desired,
    Found,
    InStep,
    Plan,
    Running,
    Scaled,
    Stopped,
    Ungated,
)
from multikueue.dispatch.copies.remote import LOWEST
from multikueue.dispatch.remote import Remote
from multikueue.dispatch.slices import Slice
from multikueue.testing import NOW
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    ATTEMPT,
    EARLIER,
    admitted_copy,
    at_gate,
    away,
    but,
    copy,
    remote_job,
    reserved,
    won,
    worker,
)

COPIED = Copied(cluster="w1", why="nominated")
RUNNING = Running(cluster="w1", why="first to admit")
STOPPED = Stopped(cluster="w1", why="evicted")
IN_STEP = InStep(cluster="w1", why="it runs there")
SCALED = Scaled(cluster="w1", why="the elastic job was scaled")
UNGATED = Ungated(cluster="w1", why="it may preempt")
FOUND = Found(cluster="w1", why="no answer came")


def uids(remote: Remote) -> frozenset[str]:
    return frozenset(item.metadata.uid for item in (remote.workload, remote.job) if item is not None)


def absent(remote: Remote) -> Absent:
    return Absent(cluster="w1", why="not wanted there", uids=uids(remote))


def left(desired: Desired, remote: Remote, *, local: Workload | None = None, ready: bool = False) -> list[str]:
    plan = Plan(local=local or reserved().build(), attempt=ATTEMPT, at=NOW, desired=(desired,), is_ready=ready)
    return [type(action).__name__ for action in effects(plan, remote, NOW)]


BOTH = worker("w1", admitted_copy(), remote_job())
OTHERS = worker("w1", copy().uid("new"), remote_job().uid("new-job"))
STALE = worker("w1", copy(EARLIER), remote_job(EARLIER))
OUT_OF_STEP = worker("w1", copy().request(cpu=7))

TABLE = {
    "what was seen goes, the job first": (absent(BOTH), BOTH, ["DeleteJob", "DeleteWorkload"]),
    "what came after the plan stays": (absent(BOTH), OTHERS, []),
    "what is going goes": (absent(BOTH), worker("w1", admitted_copy().deleted(), remote_job().deleted()), []),
    "a missing copy is made": (COPIED, worker("w1"), ["CreateWorkload"]),
    "a copy that is there is enough": (COPIED, worker("w1", copy()), []),
    "none is made where somebody else's object is": (COPIED, worker("w1", unfit="taken"), []),
    "none is made beside a job": (COPIED, worker("w1", None, remote_job(EARLIER)), ["DeleteJob"]),
    "what is left of an earlier attempt goes": (COPIED, STALE, ["DeleteJob", "DeleteWorkload"]),
    "a copy out of step goes": (COPIED, OUT_OF_STEP, ["DeleteWorkload"]),
    "a job is made for a copy that may have it": (RUNNING, worker("w1", admitted_copy()), ["CreateJob"]),
    "no job without a copy": (RUNNING, worker("w1"), []),
    "no job for a copy of an earlier attempt": (RUNNING, worker("w1", admitted_copy(EARLIER)), []),
    "no job for a copy that was evicted": (RUNNING, worker("w1", copy().evicted()), []),
    "no job for a copy that is over": (RUNNING, worker("w1", admitted_copy().finished()), []),
    "no job beside one that is there": (RUNNING, BOTH, []),
    "no job beside one of an earlier attempt": (RUNNING, worker("w1", admitted_copy(), remote_job(EARLIER)), []),
    "what misses a part is made whole": (RUNNING, but(BOTH, is_incomplete=True), ["CreateJob"]),
    "what misses a part is not made whole for another attempt": (
        RUNNING,
        worker("w1", admitted_copy(), remote_job(EARLIER), is_incomplete=True),
        [],
    ),
    "a job gets its size": (SCALED, but(BOTH, patch={"spec": {}}), ["PatchJob"]),
    "a job that has it gets none": (SCALED, BOTH, []),
    "no size for a job that is not there": (SCALED, worker("w1", admitted_copy(), patch={"spec": {}}), []),
    "a gate is opened": (UNGATED, worker("w1", copy()), ["PatchStatus"]),
    "no gate is opened for an earlier attempt": (UNGATED, worker("w1", copy(EARLIER)), []),
    "no gate is opened twice": (UNGATED, at_gate("w1", opened=NOW), []),
    "what runs of an earlier attempt goes": (
        STOPPED,
        worker("w1", admitted_copy(EARLIER), remote_job(EARLIER).running()),
        ["DeleteJob", "DeleteWorkload"],
    ),
    "who is evicted already is not asked to stop": (
        STOPPED,
        worker("w1", admitted_copy().evicted(), remote_job().running()),
        [],
    ),
    "who was asked to stop is not asked again": (
        STOPPED,
        worker("w1", admitted_copy().condition(DEACTIVATION_TARGET, "True"), remote_job().running()),
        [],
    ),
    "a job that was to be taken over goes": (
        STOPPED,
        but(worker("w1", admitted_copy(), remote_job().running()), is_inherited=True),
        ["DeleteJob", "DeleteWorkload"],
    ),
    "who does not run is not asked to stop": (STOPPED, worker("w1", copy(), remote_job()), []),
    "what runs is asked to stop": (STOPPED, worker("w1", admitted_copy(), remote_job().running()), ["PatchStatus"]),
    "what does not run goes": (STOPPED, worker("w1", copy()), ["DeleteWorkload"]),
    "a job is looked for as long as there is no word": (FOUND, worker("w1", asked=ATTEMPT), ["FindJob"]),
    "a job that is there is read once more": (FOUND, but(BOTH, read_at=NOW - timedelta(seconds=1)), ["FindJob"]),
    "it is looked for once": (FOUND, worker("w1", asked=ATTEMPT, read_at=NOW), []),
    "nothing is looked for once there is word": (FOUND, worker("w1"), []),
    "out of reach nothing is done": (absent(BOTH), away(BOTH), []),
}


@pytest.mark.parametrize(("desired", "remote", "actions"), TABLE.values(), ids=TABLE.keys())
def test_what_is_left_to_do(desired: Desired, remote: Remote, actions: list[str]) -> None:
    assert left(desired, remote) == actions


@pytest.mark.parametrize(
    ("remote", "actions"),
    [
        pytest.param(worker("w2", copy()), ["DeleteWorkload"], id="a copy that comes too late goes"),
        pytest.param(worker("w2", copy(), remote_job()), [], id="not beside a job, which the next decision sees"),
        pytest.param(worker("w1", copy()), [], id="the winner's stays"),
        pytest.param(worker("w2"), [], id="nothing goes where nothing is"),
    ],
)
def test_who_has_won_is_alone(remote: Remote, actions: list[str]) -> None:
    assert left(Alone(cluster="w1", why="somebody else won", kept=frozenset()), remote) == actions


@pytest.mark.parametrize(
    ("stays", "is_inherited", "actions"),
    [
        pytest.param("w1", True, ["CreateWorkload"], id="the job of the slice before it"),
        pytest.param("w1", False, ["DeleteJob"], id="a job of its own from an earlier attempt"),
        pytest.param("w2", True, ["DeleteJob"], id="one of that slice where it does not stay"),
    ],
)
def test_a_copy_is_made_beside_a_job_only_to_take_it_over(stays: str, is_inherited: bool, actions: list[str]) -> None:
    there = worker("w1", None, remote_job(EARLIER), is_inherited=is_inherited)
    plan = Plan(local=reserved().build(), attempt=ATTEMPT, at=NOW, desired=(COPIED,), slice=Slice(stays=stays))
    assert [type(action).__name__ for action in effects(plan, there, NOW)] == actions


@pytest.mark.parametrize("ready", [True, False], ids=["it has won", "nobody has won yet"])
def test_a_copy_out_of_step_goes_only_as_long_as_nobody_has_won(ready: bool) -> None:
    drifted = worker("w1", admitted_copy().request(cpu=7))
    assert left(IN_STEP, drifted, local=won().build(), ready=ready) == ([] if ready else ["DeleteWorkload"])
    assert left(IN_STEP, worker("w1"), local=won().build()) == []


def test_a_copy_out_of_step_stays_beside_its_job_for_the_win_may_be_on_its_way() -> None:
    drifted = admitted_copy().request(cpu=7)
    assert left(IN_STEP, worker("w1", drifted, remote_job())) == []
    assert left(IN_STEP, worker("w1", drifted, remote_job(EARLIER))) == ["DeleteJob", "DeleteWorkload"]


@pytest.mark.parametrize("desired", [COPIED, IN_STEP], ids=["a copy that waits", "a copy that runs"])
def test_another_priority_is_written_into_the_copy_which_stays(desired: Desired) -> None:
    there = worker("w1", admitted_copy().priority(1, workload_class="low"))
    urgent = reserved().priority(100, workload_class="high").build()
    plan = Plan(local=urgent, attempt=ATTEMPT, at=NOW, desired=(desired,))
    (patch,) = effects(plan, there, NOW)
    assert isinstance(patch, PatchWorkload)
    assert patch.body["spec"]["priority"] == 100


def test_nothing_is_done_where_nothing_is_desired() -> None:
    assert left(absent(BOTH), replace(BOTH, cluster="w2")) == []


def test_an_elastic_copy_that_is_out_of_step_in_more_than_its_size_goes() -> None:
    elastic = Slice(is_elastic=True)
    plan = Plan(local=reserved().build(), attempt=ATTEMPT, at=NOW, desired=(COPIED,), slice=elastic)
    there = worker("w1", copy().queue("other"))
    assert [type(action).__name__ for action in effects(plan, there, NOW)] == ["DeleteWorkload"]


# A copy that yields.

YIELDING = Copied(cluster="w1", why="nominated", yields=True)


def written(local: WorkloadBuilder, desired: Desired, there: Remote) -> list[int]:
    """The priorities that are written into the copy."""
    plan = Plan(local=local.build(), attempt=ATTEMPT, at=NOW, desired=(desired,))
    actions = [each for each in effects(plan, there, NOW) if isinstance(each, CreateWorkload | PatchWorkload)]
    return [each.body["spec"]["priority"] for each in actions]


@pytest.mark.parametrize(
    ("priority", "kind"),
    [(0, ""), (7, ""), (7, "high")],
    ids=["no priority", "that of a class of pods", "that of a class of workloads"],
)
def test_a_copy_that_yields_has_the_lowest_priority_until_it_wins(priority: int, kind: str) -> None:
    local = reserved().priority(priority, workload_class=kind)
    low, plain = copy().priority(LOWEST, workload_class=kind), copy().priority(priority, workload_class=kind)
    assert written(local, YIELDING, worker("w1")) == [LOWEST]
    assert written(local, YIELDING, worker("w1", low)) == []
    assert written(local, COPIED, worker("w1", low)) == [priority], "it takes the place of the first one"
    assert written(local, IN_STEP, worker("w1", low.reserved("remote").admitted())) == [priority], "it has won"
    assert written(local, YIELDING, worker("w1", plain)) == [LOWEST], "another one takes its place"


def test_a_copy_that_yields_and_asks_for_something_else_goes() -> None:
    low = worker("w1", copy().request(cpu=7).priority(LOWEST))
    assert left(YIELDING, low) == ["DeleteWorkload"]
