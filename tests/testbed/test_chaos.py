"""What `make chaos` draws, and how it judges."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.chaos import replica
from testbed.chaos.judge import GRACE_SECONDS, Closed, Glimpse, Judgement, Term, glimpse, judge, longest_way
from testbed.chaos.report import Report, into_docs, memory_of, too_large
from testbed.chaos.schedule import CLUSTERS, KUEUES, REPLICAS, Incident, cuts, draw
from testbed.chaos.work import submission
from testbed.objects import Object

LOST_AFTER = 90.0


@given(seed=st.integers(0, 10_000), seconds=st.floats(1, 3600))
def test_a_seed_has_its_faults_and_each_ends_before_the_run_and_the_next_of_its_kind(seed: int, seconds: float) -> None:
    faults = draw(seed, seconds)
    assert faults == draw(seed, seconds)
    assert all(each.at > 0 and each.end < seconds for each in faults)
    ends: dict[object, float] = {}
    for each in faults:
        assert each.at >= ends.get(each.subject, 0.0)
        ends[each.subject] = each.end


def test_half_an_hour_has_faults_of_all_kinds_and_workers_that_get_lost() -> None:
    faults = draw(1, 1800)
    links = {f"{one}>{other}" for one in REPLICAS for other in CLUSTERS}
    assert {each.on for each in faults} == {*links, *REPLICAS, *CLUSTERS, *KUEUES}
    assert {each.what for each in faults} == {
        *("hang", "mute", "blackhole", "reset", "refuse", "slow"),
        *("kill", "stop", "freeze", "skew", "full disk"),
    }
    away = Counter(cut for each in faults if each.seconds > LOST_AFTER and (cut := cuts(each)) is not None)
    assert any(all((one, worker) in away for one in REPLICAS) for worker in CLUSTERS[1:])


@pytest.mark.parametrize(
    ("what", "on", "closed"),
    [
        pytest.param("hang", "replica1>worker2", ("replica1", "worker2"), id="a link that hangs"),
        pytest.param("slow", "replica1>worker2", None, id="a slow link closes nothing"),
        pytest.param("freeze", "replica1", ("replica1", ""), id="a replica that stands still reaches nobody"),
        pytest.param("skew", "replica1", None, id="a wrong clock closes nothing"),
        pytest.param("full disk", "replica1", None, id="a full disk closes nothing"),
        pytest.param("kill", "worker2", ("", "worker2"), id="nobody reaches an API server that is gone"),
        pytest.param("freeze", "kueue2", None, id="a worker without its Kueue can be reached"),
    ],
)
def test_what_a_fault_closes(what: str, on: str, closed: tuple[str, str] | None) -> None:
    assert cuts(Incident(1.0, 2.0, what, on)) == closed


def test_jobs_have_ten_sizes_two_priorities_and_two_kinds() -> None:
    chance = random.Random(1)
    bodies = [submission(chance, number) for number in range(300)]
    assert {body["kind"] for body in bodies} == {"Job", "JobSet"}
    assert {body["spec"]["parallelism"] for body in bodies if body["kind"] == "Job"} == set(range(1, 11))
    assert {body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] for body in bodies} == {"low", "high"}


# The judge


class Story:
    """Glimpses in order, one second and one revision each."""

    def __init__(self) -> None:
        self.seen: list[Glimpse] = []

    def _add(self, cluster: str, kind: str, uid: str, at: float | None, **more: Any) -> Story:
        number = len(self.seen) + 1
        self.seen.append(Glimpse(number if at is None else at, number, cluster, kind, "job", uid, **more))
        return self

    def runs(self, worker: str, uid: str) -> Story:
        return self._add(worker, "Job", uid, None, runs=True)

    def waits(self, worker: str, uid: str) -> Story:
        return self._add(worker, "Job", uid, None)

    def ends(self, worker: str, uid: str) -> Story:
        return self._add(worker, "Job", uid, None, finished=True)

    def goes(self, worker: str, uid: str) -> Story:
        return self._add(worker, "Job", uid, None, gone=True)

    def evicted(
        self, reason: str = "Preempted", message: str = "", *, at: float | None = None, times: int = 1
    ) -> Story:
        return self._add("manager", "Workload", "w", at, evictions=times, reason=reason, message=message)

    def lost(self, worker: str, *, at: float | None = None, times: int = 1) -> Story:
        message = f'Admitting remote lost: worker cluster "{worker}" is out of reach for too long'
        return self.evicted("AdmissionCheck", message, at=at, times=times)

    def won(self, worker: str, *, times: int = 0) -> Story:
        return self._add("manager", "Workload", "w", None, winner=worker, evictions=times)

    def evicted_with_quota(self, worker: str) -> Story:
        return self._add("manager", "Workload", "w", None, winner=worker, evictions=1, reason="Preempted")

    def released(self, *, at: float) -> Story:
        return self._add("manager", "Workload", "w", at, evictions=1)

    def over(self) -> Story:
        self._add("manager", "Workload", "w", None, finished=True)
        return self._add("manager", "Job", "j", None, finished=True)


def judged(story: Story, closed: Sequence[Closed] = (), terms: Sequence[Term] = ()) -> Judgement:
    return judge(reversed(story.seen), closed, terms, lost_after=LOST_AFTER)


A, B = ("worker1", "a"), ("worker2", "b")


@pytest.mark.parametrize(
    ("story", "complaint"),
    [
        pytest.param(Story().waits(*A).runs(*A).ends(*A).over().goes(*A), "", id="one start and one end"),
        pytest.param(Story().runs(*A).evicted().goes(*A).runs(*B), "", id="again after an eviction"),
        pytest.param(Story().runs(*A).runs(*B), "was not evicted since", id="two at once without an eviction"),
        pytest.param(Story().runs(*A).evicted().runs(*B), "while it ran on worker1", id="before the first has gone"),
        pytest.param(Story().runs(*A).ends(*A).evicted().runs(*B), "after it had finished", id="again after its end"),
        pytest.param(Story().runs(*A).ends(*A).over().runs(*B), "after it was over", id="again after its end at home"),
        pytest.param(Story().runs(*A).goes(*A), "removed from worker1", id="removed while it ran"),
        pytest.param(Story().waits(*A).goes(*A), "", id="removed before it was started"),
        pytest.param(Story().runs(*A).evicted().goes(*A).runs(*B).goes(*B), "removed from worker2", id="the second"),
        pytest.param(Story().evicted("AdmissionCheck", "gone"), "evicted without need", id="an eviction without need"),
        pytest.param(Story().evicted().evicted(times=1), "", id="an eviction counts once"),
    ],
)
def test_judgement_of_starts_and_evictions(story: Story, complaint: str) -> None:
    found = judged(story).complaints
    assert len(found) == bool(complaint) or (complaint and complaint in found[0])
    assert complaint in "".join(found)


SINCE = Term(0.0, "replica1")
AWAY = Closed("replica1", "worker1", 100.0, 300.0)


@pytest.mark.parametrize(
    ("closed", "terms", "reached"),
    [
        pytest.param([AWAY], [SINCE], "", id="its leader could not reach it"),
        pytest.param([], [SINCE], "replica1", id="its leader could reach it all the time"),
        pytest.param([Closed("replica2", "worker1", 0.0)], [SINCE], "replica1", id="another replica could not"),
        pytest.param([Closed("replica1", "worker2", 0.0)], [SINCE], "replica1", id="it could not reach another one"),
        pytest.param([Closed("", "worker1", 100.0)], [SINCE], "", id="its API server was away"),
        pytest.param([Closed("replica1", "", 100.0)], [SINCE], "", id="the replica stood still"),
        pytest.param(
            [Closed("replica1", "worker1", 100.0, 140.0), Closed("replica1", "worker1", 160.0)],
            [SINCE],
            "replica1 could reach from 140.0 to 160.0",
            id="it was back in between",
        ),
        pytest.param(
            [Closed("replica1", "worker1", 100.0, 140.0), Closed("replica1", "worker1", 150.0)],
            [SINCE],
            "",
            id="for a moment only",
        ),
        pytest.param(
            [Closed("replica2", "worker1", 130.0)],
            [SINCE, Term(135.0, "replica2")],
            "replica1",
            id="the leader before reached it to the end",
        ),
        pytest.param(
            [Closed("replica2", "worker1", 130.0), Closed("replica1", "", 115.0)],
            [SINCE, Term(135.0, "replica2")],
            "",
            id="the leader before was dead by then",
        ),
    ],
)
def test_a_worker_is_given_up_only_if_its_leader_could_not_reach_it(
    closed: Sequence[Closed], terms: Sequence[Term], reached: str
) -> None:
    found = judged(Story().runs(*A).lost("worker1", at=200.0), closed, terms).complaints
    assert len(found) == bool(reached)
    assert reached in "".join(found)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 50)), max_size=6),
    st.floats(0, 100),
)
def test_the_longest_way_is_open_and_none_is_longer(spans: list[tuple[float, float]], since: float) -> None:
    closed = [Closed("r", "c", begin, begin + seconds) for begin, seconds in spans]
    begin, end = longest_way(closed, "r", "c", since, 120.0)
    assert since <= begin <= end <= 120.0
    assert not any(each.since < end and each.until > begin for each in closed if end > begin)
    edges = [since, 120.0, *(each.until for each in closed), *(each.since for each in closed)]
    for one in edges:
        for other in edges:
            is_open = since <= one < other <= 120.0 and not any(e.since < other and e.until > one for e in closed)
            assert not is_open or other - one <= end - begin + 1e-9


@pytest.mark.parametrize("ended", [True, False], ids=["it had ended there, unseen", "it still ran there"])
@pytest.mark.parametrize("closed", [True, False], ids=["its worker was lost", "its worker could be reached"])
def test_a_job_may_run_twice_if_its_worker_was_lost_when_its_quota_was_given_back(ended: bool, closed: bool) -> None:
    story = Story().runs(*A).won("worker1")
    story = story.ends(*A) if ended else story
    story = story.evicted_with_quota("worker1").released(at=200.0).runs(*B)
    found = judged(story, [AWAY] if closed else [], [SINCE]).complaints
    assert bool(found) is not closed


def test_judgement_counts() -> None:
    story = Story().runs(*A).won("worker1").lost("worker1", at=200.0).runs(*B).ends(*B).over()
    result = judged(story, [AWAY], [SINCE])
    assert (result.starts, result.over, result.evictions) == (2, {"job"}, Counter({"with a lost worker": 1}))
    assert not result.complaints
    assert LOST_AFTER > GRACE_SECONDS


def body(**more: Any) -> Object:
    return {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}, "spec": {}} | more


def test_what_an_object_shows() -> None:
    done = {"conditions": [{"type": "Completed", "status": "True"}]}
    owner = {"name": "x", "uid": "u", "resourceVersion": "7", "ownerReferences": [{"name": "job"}]}
    evicted = {
        "conditions": [{"type": "Evicted", "status": "True", "reason": "Preempted", "message": "m"}],
        "schedulingStats": {"evictions": [{"count": 2}, {"count": 1}]},
        "clusterName": "worker1",
    }
    basis = Glimpse(1.0, 7, "worker1", "Job", "x", "u")
    assert glimpse(1.0, "worker1", "Job", "ADDED", body(spec={"suspend": True})) == basis
    running, ended = (glimpse(1.0, "worker1", "Job", "ADDED", each) for each in (body(), body(status=done)))
    assert running is not None
    assert (running.runs, running.finished) == (True, False)
    assert ended is not None
    assert (ended.runs, ended.finished) == (False, True)
    assert glimpse(1.0, "worker1", "Workload", "ADDED", body()) is None
    local = glimpse(1.0, "manager", "Workload", "ADDED", body(metadata=owner, status=evicted))
    assert local == Glimpse(
        1.0,
        7,
        "manager",
        "Workload",
        "job",
        "u",
        winner="worker1",
        evictions=3,
        reason="Preempted",
        message="m",
    )


def test_the_result_goes_between_the_markers_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    report = Report(7, 30, Counter(hang=2), 3, judged(Story().over()), 1, 0, (70.0, 80.0), 12.0)
    page.write_text("before\n<!-- chaos -->\nold\n<!-- end -->\nafter\n")
    into_docs(report, page)
    text = page.read_text()
    assert text.startswith("before\n<!-- chaos -->\n\n| | |\n| --- | --- |\n| Seed, length | 7, 30 minutes |\n")
    assert text.endswith("| Complaints | 0 |\n\n<!-- end -->\nafter\n")
    assert "old" not in text
    page.write_text("no marker")
    with pytest.raises(ValueError, match="no <!-- chaos -->"):
        into_docs(report, page)


def test_memory_is_that_after_a_minute_beside_the_peak_of_all_lives() -> None:
    one, other = [(5.0, 1, 50.0), (60.0, 1, 70.0), (99.0, 2, 120.0)], [(5.0, 3, 50.0), (65.0, 3, 90.0)]
    assert memory_of([one, other, []]) == (80.0, 120.0)
    report = Report(7, 30, Counter(), 0, Judgement(), 0, 0, (80.0, 120.0), None)
    assert not list(too_large(report))
    report.memory = (80.0, 121.0)
    assert len(list(too_large(report))) == 1


STAND_IN = """
import socket
import sys
import time

def main(wall=time.time):
    print(wall(), socket.gethostname(), *sys.argv)
"""


def test_a_replica_has_its_own_name_and_the_clock_that_the_test_sets(tmp_path: Path) -> None:
    (tmp_path / "multikueue").mkdir()
    (tmp_path / "multikueue/__init__.py").touch()
    (tmp_path / "multikueue/cli.py").write_text(STAND_IN)
    (tmp_path / replica.CLOCK).write_bytes(replica.SECONDS.pack(86_400.0 * 365))
    words = [sys.executable, "-P", replica.__file__, "replica7", str(tmp_path), "run"]
    program = subprocess.run(words, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)})
    clock, *said = program.stdout.split()
    assert float(clock) > time.time() + 86_400 * 364
    assert said == ["replica7", "multikueue", "run"]
