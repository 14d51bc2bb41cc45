"""The story that the demo tells, from changes of objects."""

from __future__ import annotations

from typing import Any

import pytest

from testbed import objects
from testbed.story import COMPLETE, MANAGER, MARKED, RESERVED, Line, Story

QUOTA = {"type": "QuotaReserved", "status": "True", "message": ""}
DONE = {"type": "Complete", "status": "True", "message": ""}


def admitted(at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"type": "Admitted", "status": "True", "message": "", "lastTransitionTime": at}


@pytest.fixture(name="story")
def _story() -> Story:
    story = Story()
    story.submitted("one", 1.0)
    return story


def local(*conditions: dict[str, Any], **status: Any) -> objects.Object:
    owner = {"kind": "Job", "name": "one"}
    metadata = {"name": "job-one-1234", "ownerReferences": [owner]}
    return {"kind": "Workload", "metadata": metadata, "status": {"conditions": list(conditions), **status}}


def copy(*conditions: dict[str, Any]) -> objects.Object:
    return {"kind": "Workload", "metadata": {"name": "job-one-1234"}, "status": {"conditions": list(conditions)}}


def job(*conditions: dict[str, Any], suspend: bool = True, **spec: Any) -> objects.Object:
    body = {"suspend": suspend, **spec}
    return {"kind": "Job", "metadata": {"name": "one"}, "spec": body, "status": {"conditions": list(conditions)}}


def told(story: Story, cluster: str, body: objects.Object, change: str = "MODIFIED", at: float = 2.0) -> list[str]:
    return [line.text for line in story.see(cluster, change, body, at=at)]


def test_nothing_is_told_twice(story: Story) -> None:
    assert told(story, MANAGER, local(QUOTA)) == ["queued as Workload job-one-1234", RESERVED]
    assert told(story, MANAGER, local(QUOTA)) == []


def test_a_line_has_its_time_and_its_job(story: Story) -> None:
    assert story.see(MANAGER, "ADDED", job(managedBy=objects.MULTIKUEUE_CONTROLLER), at=2.5) == [
        Line(2.5, "one", MARKED)
    ]


def test_a_workload_without_quota_says_what_it_waits_for(story: Story) -> None:
    waiting = {"type": "QuotaReserved", "status": "False", "message": "no cpu"}
    assert "waits in the queue: no cpu" in told(story, MANAGER, local(waiting))
    assert "w1: no room yet: no cpu" in told(story, "w1", copy(waiting))


def test_the_nomination_and_the_winner_are_named(story: Story) -> None:
    assert "nominated: w1, w2" in told(story, MANAGER, local(nominatedClusterNames=["w1", "w2"]))
    (text,) = told(story, MANAGER, local(clusterName="w2"))
    assert text == "w2 won: admitted first"


def test_who_was_admitted_who_won_and_why_the_other_copy_goes(story: Story) -> None:
    told(story, MANAGER, local())
    assert "w2: admitted" in told(story, "w2", copy(admitted()))
    told(story, "w1", copy(admitted("2026-01-01T00:00:01Z")))
    assert told(story, "w1", copy(), "DELETED") == ["w1: its copy is removed, it lost"]
    assert told(story, MANAGER, local(clusterName="w2")) == ["w2 won: admitted first"]


def test_admissions_of_the_same_second_are_told(story: Story) -> None:
    told(story, MANAGER, local())
    for worker in ("w3", "w2", "w1"):
        told(story, worker, copy(admitted()))
    assert told(story, MANAGER, local(clusterName="w2")) == ["w2 won: admitted first, in the same second as w3 and w1"]


def test_after_the_end_a_copy_goes_because_all_is_done(story: Story) -> None:
    told(story, MANAGER, local())
    told(story, "w1", copy(admitted()))
    assert told(story, MANAGER, job(DONE)) == [COMPLETE]
    assert told(story, "w1", copy(), "DELETED") == ["w1: its copy is removed, all is done"]


def test_a_suspended_job_on_a_worker_is_no_news_a_running_one_is(story: Story) -> None:
    assert told(story, "w1", job()) == []
    assert told(story, "w1", job(suspend=False)) == ["w1: the job runs"]
    assert told(story, "w1", job(suspend=False), "DELETED") == ["w1: the job is removed"]


def test_objects_of_others_are_not_told_of(story: Story) -> None:
    stranger = job()
    stranger["metadata"]["name"] = "two"
    assert told(story, MANAGER, stranger) == []
    assert told(story, "w1", copy()) == []  # its workload was not seen on the manager


def test_the_summary_has_times_since_the_submission(story: Story) -> None:
    told(story, MANAGER, local(nominatedClusterNames=["w1"]), at=1.25)
    told(story, "w1", copy(admitted()), at=1.5)
    told(story, "w1", job(suspend=False), at=2.0)
    told(story, MANAGER, local(clusterName="w1"), at=2.0)
    assert story.rows() == [["one", "w1", "0.25 s", "1.00 s", "-", "-"]]
    told(story, MANAGER, job(DONE), at=3.0)
    told(story, "w1", job(), "DELETED", at=3.5)
    told(story, "w1", copy(), "DELETED", at=4.0)
    assert story.rows() == [["one", "w1", "0.25 s", "1.00 s", "2.00 s", "3.00 s"]]
