"""What is wrong now, and what helps."""

from __future__ import annotations

from msgspec.structs import replace

from multikueue.testing import NOW
from multikueue_console.model.clusters import ClusterRow
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.problems import of_clusters, of_queues, of_workloads
from multikueue_console.model.queues import LocalRow, QueueNode
from multikueue_console.model.stories import story_of
from multikueue_console.model.tallies import Load
from multikueue_console.model.workloads import Observer
from tests.builders.clusters import admission_check
from tests.builders.queues import local_queue
from tests.builders.workloads import workload

QUEUE = QueueNode(name="cq", cohort="", bars=(), pending=3, reserving=0, admitted=0)


def test_a_cluster_that_is_away_is_an_error_and_a_cordon_a_warning() -> None:
    rows = [
        ClusterRow("one", "Active"),
        ClusterRow("two", "Away", message="no route", load=Load(running=2)),
        ClusterRow("three", "Cordoned", is_cordoned=True),
        ClusterRow("four", "Gone", load=Load(running=1)),
    ]

    told = [(each.level, each.about, each.count) for each in of_clusters(rows)]
    assert told == [("error", "cluster/two", 2), ("warning", "cluster/three", 0), ("error", "cluster/four", 1)]


def test_what_the_manager_tells_of_a_cluster_that_it_reaches_is_a_warning_with_the_command_that_tells_more() -> None:
    (problem,) = of_clusters(
        [ClusterRow("oslo", "Active", notes=("its credential ends soon", "is drained: 1 running"))]
    )

    assert (problem.level, problem.about) == ("warning", "cluster/oslo")
    assert problem.text == "oslo: its credential ends soon; is drained: 1 running"
    assert problem.commands == ("multikueue doctor oslo",)


def test_queues_that_admit_nothing_are_told_with_what_helps() -> None:
    held = LocalRow("team", "main", "cq", 1, 0, 0, is_held=True)
    check = admission_check("mk").active(False, message="no clusters").build()
    queues = [QUEUE, replace(QUEUE, problem="no flavor"), replace(QUEUE, is_held=True)]
    told = list(of_queues(SeenObjects(checks={check.key: check}), queues, [held]))

    assert [each.about for each in told] == ["check/mk", "queue/cq", "queue/cq", "localqueue/team/main"]
    assert told[3].commands == ("multikueue queues resume -n team main",)


def test_workloads_with_one_reason_are_one_problem() -> None:
    main = local_queue("main").build()
    lost = workload("a").queue("nowhere").build()
    observer = Observer(SeenObjects(local_queues={main.key: main}), NOW)
    answer = observer.answer(lost)
    (problem,) = of_workloads([(observer.row(lost, answer), answer, 2)])

    assert (problem.about, problem.count, problem.namespace) == ("code/QueueNotFound", 2, "default")
    assert problem.commands


def test_a_story_has_the_answer_and_the_place_in_line() -> None:
    waits = workload("c").queue("main").build()
    observer = Observer(SeenObjects(), NOW)
    answer = observer.answer(waits)
    story = story_of(waits, observer.row(waits, answer), answer, place=2, line=5)

    assert (story.place, story.line, [step.what for step in story.steps]) == (2, 5, ["Submitted"])
    assert story.pod_sets == {"main": 1}
