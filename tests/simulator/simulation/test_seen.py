"""Reading plain objects."""

from __future__ import annotations

from fakekube.model.wire import Object
from multikueue.api.meta import ObjectKey
from multikueue_simulator.simulation import seen


def job(*conditions: tuple[str, str], **status: object) -> Object:
    told = [{"type": type_, "status": value} for type_, value in conditions]
    metadata = {"name": "a", "namespace": "n", "labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}
    return {"kind": "Job", "metadata": metadata, "status": {"conditions": told, **status}}


def test_a_result_is_what_is_true() -> None:
    assert seen.result(job(("Complete", "False"), ("Failed", "True"))) == "Failed"
    assert seen.result(job(("Complete", "True"))) == "Complete"
    assert seen.result(job()) == ""


def test_a_job_runs_while_it_has_active_pods() -> None:
    assert seen.is_running(job(active=1))
    assert not seen.is_running(job(active=0))
    assert not seen.is_running({"metadata": {"name": "a"}})


def test_a_remote_job_names_its_workload() -> None:
    assert seen.workload_key(job()) == ObjectKey("n", "w")


def test_the_owner_of_a_workload_is_the_one_that_controls_it() -> None:
    owners = [{"name": "other", "uid": "1"}, {"name": "a", "uid": "2", "controller": True}]
    workload = {"metadata": {"name": "w", "ownerReferences": owners}}
    assert (seen.owner(workload), seen.owner_uid(workload)) == ("a", "2")
    assert seen.owner({"metadata": {"name": "w"}}) == ""
