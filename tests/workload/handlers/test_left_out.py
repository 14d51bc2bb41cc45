"""Workers that are left out of a nomination, whatever the strategy names: it is known that the workload cannot run there."""

from __future__ import annotations

import pytest

from multikueue.dispatch.remote import Remote
from multikueue.strategy import Nomination, Worker
from multikueue.workload.strategy_call import LoadedStrategy
from tests.builders.workloads import WorkloadBuilder
from tests.workload.builders import (
    ATTEMPT,
    BOTH,
    EARLIER,
    Decided,
    admitted_copy,
    away,
    carried_out,
    case_of,
    check_of,
    copy,
    decided,
    remote_job,
    reserved,
    told,
    unusable,
    with_nomination,
    won,
    worker,
)
from tests.workload.handlers.test_nominating import Says


def naming(local: WorkloadBuilder, *remotes: Remote, fleet: tuple[Worker, ...]) -> Decided:
    """The strategy names all these workers, whatever the fleet says of them."""
    by = LoadedStrategy("mine", Says(Nomination(tuple(remote.cluster for remote in remotes))))
    return carried_out(with_nomination(case_of(local, *remotes, fleet=fleet), by=by))


BARRED = unusable("w1", "Job is not there"), unusable("w2", "")


@pytest.mark.parametrize(
    ("local", "first", "names", "actions"),
    [
        pytest.param(reserved(), worker("w1"), ("w2",), ["CreateWorkload w2"], id="it gets no nomination"),
        pytest.param(
            reserved().nominated("w1", "w2"),
            worker("w1"),
            ("w1", "w2"),
            ["CreateWorkload w2"],
            id="a nomination stays, without a copy",
        ),
        pytest.param(
            reserved().nominated("w1", "w2"),
            worker("w1", copy(EARLIER)),
            ("w1", "w2"),
            ["DeleteWorkload w1", "CreateWorkload w2"],
            id="a copy of an earlier attempt goes",
        ),
        pytest.param(
            reserved().nominated("w1", "w2"),
            worker("w1", copy()),
            ("w1", "w2"),
            ["CreateWorkload w2"],
            id="a copy that is there stays",
        ),
        pytest.param(
            reserved(),
            away(worker("w1")),
            ("w1", "w2"),
            ["CreateWorkload w2"],
            id="the place of one that is away is kept",
        ),
    ],
)
def test_no_copy_goes_where_it_is_known_not_to_run_whatever_the_strategy_names(
    local: WorkloadBuilder, first: Remote, names: tuple[str, ...], actions: list[str]
) -> None:
    decision = naming(local, first, worker("w2"), fleet=BARRED)
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == names
    assert told(decision) == actions


CLOSED = {"w1": "LocalQueue main doesn't exist"}


@pytest.mark.parametrize(
    ("local", "first", "names", "actions"),
    [
        pytest.param(reserved(), worker("w1"), ("w2",), ["CreateWorkload w2"], id="nothing is sent there"),
        pytest.param(
            reserved().nominated("w1", "w2"),
            worker("w1", copy()),
            ("w1", "w2"),
            ["CreateWorkload w2"],
            id="a copy stays",
        ),
        pytest.param(
            reserved().nominated("w1", "w2"),
            worker("w1", asked=ATTEMPT),
            ("w1", "w2"),
            ["FindJob w1"],
            id="a job that was asked for is waited for",
        ),
        pytest.param(
            reserved().nominated("w1"), worker("w1", admitted_copy()), ("w1",), ["CreateJob w1"], id="a copy may win"
        ),
        pytest.param(won("w1"), worker("w1", admitted_copy(), remote_job()), (), [], id="what runs stays"),
        pytest.param(
            reserved().nominated("w1"),
            worker("w1", copy(EARLIER)),
            ("w2",),
            ["DeleteWorkload w1", "CreateWorkload w2"],
            id="a copy of an earlier attempt goes",
        ),
    ],
)
def test_a_queue_that_is_closed_keeps_new_copies_away_and_takes_nothing(
    local: WorkloadBuilder, first: Remote, names: tuple[str, ...], actions: list[str]
) -> None:
    decision = decided(local, first, worker("w2"), closed=CLOSED)
    assert decision.status is not None
    assert decision.status.nominated_cluster_names == names
    assert told(decision) == actions


def test_those_that_get_no_copy_are_named_while_it_waits_elsewhere() -> None:
    decision = decided(reserved(), *BOTH, closed=CLOSED | {"another": "LocalQueue main doesn't exist"})
    message = "Waiting for admission; not possible on w1: LocalQueue main doesn't exist"
    assert check_of(decision.status) == ("Pending", message)
    many = {f"w{number}": "LocalQueue main doesn't exist" for number in range(12)}
    remotes = [worker(name) for name in many]
    text = check_of(decided(reserved(), *remotes, worker("open"), closed=many).status)[1]
    assert text.endswith("w9: LocalQueue main doesn't exist and 2 more")


def test_where_all_queues_are_closed_the_workload_waits_and_says_so() -> None:
    closed = CLOSED | {"w2": "ClusterQueue theirs is inactive (references missing ResourceFlavor(s): a100)"}
    decision = decided(reserved(), *BOTH, closed=closed)
    assert decision.actions == ()
    assert check_of(decision.status) == (
        "Pending",
        "No worker can be nominated: w1: LocalQueue main doesn't exist, w2: ClusterQueue theirs is inactive (references"
        " missing ResourceFlavor(s): a100)",
    )


def test_where_nobody_named_can_run_it_the_workload_says_why() -> None:
    decision = naming(reserved(), worker("w1"), fleet=(unusable("w1", "cordoned"), unusable("w2", "")))
    assert decision.actions == ()
    assert check_of(decision.status) == ("Pending", "No worker can be nominated: w1: cordoned")
