"""The bytes of the ceiling are those that a real manager would send, only fewer."""

from __future__ import annotations

import json

import msgspec

from benchmarks.ceiling import Access, Plan, bodies

PLAN = Plan(
    namespace="team",
    queue="main",
    manager=Access("manager", "", "", ""),
    workers=[Access(name, "", "", "") for name in ("w1", "w2")],
)
POD = msgspec.Raw(b'{"containers":[{"name":"main"}]}')


def test_the_copy_has_the_pods_of_the_job_and_an_origin_but_no_owner() -> None:
    sent = bodies(PLAN, "one", "uid-1", POD)
    local, copy = json.loads(sent.workload), json.loads(sent.copy)
    assert local["spec"] == copy["spec"]
    assert copy["spec"]["podSets"][0]["template"]["spec"] == {"containers": [{"name": "main"}]}
    assert local["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert "ownerReferences" not in copy["metadata"]
    assert copy["metadata"]["labels"] == {"kueue.x-k8s.io/multikueue-origin": "ceiling"}


def test_the_remote_job_is_bound_to_the_copy_and_suspended() -> None:
    remote = json.loads(bodies(PLAN, "one", "uid-1", POD).remote_job)
    assert remote["metadata"]["labels"]["kueue.x-k8s.io/prebuilt-workload-name"] == "job-one"
    assert remote["spec"]["suspend"] is True


def test_the_win_empties_what_the_reservation_nominated() -> None:
    sent = bodies(PLAN, "one", "uid-1", POD)
    assert json.loads(sent.reserve)["status"]["nominatedClusterNames"] == ["w1", "w2"]
    win = json.loads(sent.win["w2"])["status"]
    assert (win["clusterName"], win["nominatedClusterNames"]) == ("w2", None)
    assert win["admissionChecks"][0]["state"] == "Ready"


def test_conditions_are_kept_by_each_later_status() -> None:
    sent = bodies(PLAN, "one", "uid-1", POD)
    kept = [[c["type"] for c in json.loads(body)["status"]["conditions"]] for body in (sent.win["w1"], sent.finish)]
    assert kept == [["QuotaReserved", "Admitted"], ["QuotaReserved", "Admitted", "Finished"]]


def test_the_event_of_a_win_is_about_the_workload_and_names_the_winner() -> None:
    event = json.loads(bodies(PLAN, "one", "uid-1", POD).event["w2"])
    assert event["involvedObject"]["name"] == "job-one"
    assert event["metadata"]["namespace"] == "team"
    assert '"w2"' in event["message"]
