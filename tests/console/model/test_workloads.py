"""Workloads as rows, lines of queues, and what is on clusters."""

from __future__ import annotations

import msgspec

from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.multikueue.clusters import DRAINED, IN_FLEET
from multikueue.testing import NOW
from multikueue_console.model.clusters import cluster_rows
from multikueue_console.model.fleet import Flow, picture_of
from multikueue_console.model.lines import lines_of, places_in
from multikueue_console.model.objects import LAST_APPLIED, SeenObjects, slim_workload
from multikueue_console.model.tallies import Load, Tally, merged
from multikueue_console.model.workloads import Observer, WorkloadRow
from tests.builders.clusters import multikueue_cluster, multikueue_config
from tests.builders.queues import local_queue
from tests.builders.workloads import workload

MAIN = local_queue("main", "cq", namespace="default").build()


def seen(*workloads: Workload) -> SeenObjects:
    return SeenObjects(workloads={each.key: each for each in workloads}, local_queues={MAIN.key: MAIN})


def row(of: Workload) -> WorkloadRow:
    return Observer(seen(of), NOW).row(of)


def test_a_row_tells_where_it_waits_and_why() -> None:
    found = row(workload("w").queue("main").owner_job("train").priority(7).build())

    assert (found.name, found.queue, found.cluster_queue, found.priority) == ("job/train", "main", "cq", 7)
    assert (found.state, found.code) == ("Pending", "WaitsForQuota")


def test_a_row_of_one_that_has_quota_tells_amounts() -> None:
    found = row(workload("w").queue("main").request(cpu=2).cluster_name("one").admitted().build())

    assert (found.state, found.cluster, found.amounts) == ("Starting", "one", {"cpu": 2000})
    assert found.started == int(NOW.timestamp())


def test_a_row_is_an_array_as_json() -> None:
    found = row(workload("w").queue("main").build())

    assert msgspec.json.decode(msgspec.json.encode(found), type=WorkloadRow) == found
    assert len(msgspec.json.decode(msgspec.json.encode(found))) == len(WorkloadRow.__struct_fields__)


def test_a_workload_without_templates_has_the_same_row() -> None:
    whole = (
        workload("w")
        .queue("main")
        .request(cpu=2)
        .annotations({"kubectl.kubernetes.io/last-applied-configuration": "x" * 99})
    )
    slim = slim_workload(whole.build())

    assert row(slim) == row(whole.build())
    assert LAST_APPLIED not in slim.metadata.annotations
    assert bytes(workload_spec(slim).pod_sets[0].template) == b"{}"


def test_a_line_goes_by_priority_and_leaves_out_who_has_quota() -> None:
    low, high = workload("low").queue("main").build(), workload("high").queue("main").priority(9).build()
    lines = lines_of(
        seen(low, high, workload("has").queue("main").reserved().build(), workload("x").queue("y").build())
    )

    assert lines == {"cq": (high.key, low.key)}
    assert places_in(lines["cq"]) == {high.key: 1, low.key: 2}


def test_a_tally_counts_what_races_and_what_is_there() -> None:
    rows = [
        row(workload("a").queue("main").reserved().nominated("one", "two").build()),
        row(workload("b").queue("main").request(cpu=1).cluster_name("one").admitted().build()),
        row(workload("c").queue("main").cluster_name("one").admitted().finished().build()),
    ]

    tally = merged([Tally(rows)])
    picture = picture_of(SeenObjects(), tally, ())

    assert tally.loads == {"one": Load(racing=1, starting=1, done=1, amounts={"cpu": 1000}), "two": Load(racing=1)}
    assert picture.flows == (Flow("default", "main", "one", 1, 1), Flow("default", "main", "two", 1, 0))
    assert picture.states == {"Pending": 1, "Starting": 1, "Finished": 1}


def test_a_tally_forgets_what_is_removed() -> None:
    rows = [
        row(workload("a").queue("main").cluster_name("one").request(cpu=1).admitted().build()),
        row(workload("b").queue("nowhere").build()),
    ]
    tally = Tally(rows)
    assert tally.stuck == {("QueueNotFound", "default"): {rows[1].uid: None}}
    for each in rows:
        tally.remove(each)

    assert picture_of(SeenObjects(), tally, ()).states == {}
    assert (tally.stuck, tally.loads["one"].amounts) == ({}, {"cpu": 0})


def test_clusters_come_in_the_order_of_their_numbers_with_their_states() -> None:
    clusters = [
        multikueue_cluster("w10").active().build(),
        multikueue_cluster("w9").active(False, message="no answer").build(),
        multikueue_cluster("w1").active().annotations({"multikueue.dev/cordon": "true"}).build(),
    ]
    config = multikueue_config("all", "w1", "w9").build()
    objects = SeenObjects(clusters={each.key: each for each in clusters}, configs={config.key: config})
    found = cluster_rows(objects, {"gone": Load(running=1)})

    assert [(each.name, each.state) for each in found] == [
        ("gone", "Gone"),
        ("w1", "Cordoned"),
        ("w9", "Away"),
        ("w10", "Active"),
    ]
    assert [each.message for each in found] == ["", "", "no answer", ""]
    assert [each.configs for each in found] == [(), ("all",), ("all",), ()]


def test_a_cluster_has_what_its_conditions_tell_beside_its_state() -> None:
    end = "its credential ends at 2026-12-04T00:00:00Z: register the cluster again"
    clusters = [
        multikueue_cluster("a").active().build(),
        multikueue_cluster("b").active(message=f"Connected; {end}").build(),
        multikueue_cluster("c").active(False, reason="BadKubeConfig", message=end).build(),
        multikueue_cluster("d").active().told(DRAINED, False, message="workloads: 2 running").build(),
        multikueue_cluster("e").active().told(IN_FLEET, False, reason="Held", message="too many would leave").build(),
    ]
    found = cluster_rows(SeenObjects(clusters={each.key: each for each in clusters}), {})

    assert [each.notes for each in found] == [
        (),
        (end,),
        (),
        ("is drained: workloads: 2 running",),
        ("stays in the fleet for now: too many would leave",),
    ]
    assert [each.reason for each in found] == ["", "", "BadKubeConfig", "", ""]
