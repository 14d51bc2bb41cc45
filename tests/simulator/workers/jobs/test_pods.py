from __future__ import annotations

import msgspec
import pytest

from multikueue.api.jobs.job import Job
from multikueue_simulator.workers.jobs.pods import pod_body, pod_name, pod_status
from multikueue_simulator.workers.jobs.runs import Pod
from tests.builders import NOW, job

SEEN: Job = job("job").request(cpu=1).build()


def test_each_pod_has_a_name_of_its_own() -> None:
    names = [pod_name(SEEN, Pod(number, NOW)) for number in range(50)]
    assert len(set(names)) == 50
    assert all(name.startswith("job-") and len(name) == len("job-") + 5 for name in names)


@pytest.mark.parametrize("index", [None, 7], ids=["plain", "indexed"])
def test_a_long_name_is_cut(index: int | None) -> None:
    long = msgspec.structs.replace(SEEN, metadata=msgspec.structs.replace(SEEN.metadata, name="j" * 63))
    assert len(pod_name(long, Pod(0, NOW, index=index))) <= 63


def test_a_pod_says_whose_it_is() -> None:
    body = pod_body(SEEN, Pod(0, NOW, index=3))
    assert body["metadata"]["name"].startswith("job-3-")
    assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == [SEEN.metadata.uid]
    assert body["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "job"
    assert body["metadata"]["annotations"] == {"batch.kubernetes.io/job-completion-index": "3"}
    assert [container["name"] for container in body["spec"]["containers"]] == ["main"]


@pytest.mark.parametrize(
    ("state", "phase", "ready", "container"),
    [
        pytest.param("running", "Running", "True", "running", id="runs"),
        pytest.param("succeeded", "Succeeded", "False", "terminated", id="succeeded"),
        pytest.param("failed", "Failed", "False", "terminated", id="failed"),
    ],
)
def test_a_pod_says_how_it_fares(state: str, phase: str, ready: str, container: str) -> None:
    status = pod_status(SEEN, Pod(0, NOW), state, NOW)
    assert status["phase"] == phase
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == ready
    assert [*status["containerStatuses"][0]["state"]] == [container]


def test_a_failed_container_has_an_exit_code() -> None:
    status = pod_status(SEEN, Pod(0, NOW), "failed", NOW)
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
