from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, CustomJob, JobKey
from multikueue.api.meta import ObjectMeta, encode
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, Adapters
from multikueue.store.caches.jobs import JobCaches
from multikueue.store.caches.runtimes import Runtimes
from tests.builders import job
from tests.jobs.all_kinds import RUNTIME, body

TRAIN_JOB = FRAMEWORKS["trainer.kubeflow.org/trainjob"]
ADAPTERS = Adapters((FRAMEWORKS["batch/job"], TRAIN_JOB))


def _quiet(*_: Any) -> None:
    """Nobody asks."""


def runtime(name: str, *, version: int = 1) -> AnyJob:
    assert TRAIN_JOB.runtimes is not None
    meta = ObjectMeta(name=name, uid=name, resource_version=str(version))
    kind = next(each for each in TRAIN_JOB.runtimes.kinds if not each.namespaced)
    made: AnyJob = kind.type(metadata=meta, spec=msgspec.Raw(encode(RUNTIME | {"seen": version})))
    return made


def naming(runtime: str, *, name: str) -> AnyJob:
    spec = body(TRAIN_JOB)["spec"] | {"runtimeRef": {"name": runtime}}  # type: ignore[arg-type]
    meta = ObjectMeta(name=name, namespace="default", uid=name, resource_version="1")
    made: AnyJob = TRAIN_JOB.kind.type(metadata=meta, spec=msgspec.Raw(encode(spec)))
    return made


def test_a_job_is_completed_with_its_runtime_and_told_of_when_it_changes() -> None:
    told: list[JobKey] = []
    jobs = JobCaches(ADAPTERS, _quiet)
    runtimes = Runtimes(ADAPTERS, jobs, told.append)
    cluster = runtimes.of(next(each for each in TRAIN_JOB.runtimes.kinds if not each.namespaced))  # type: ignore[union-attr]
    cluster.upsert(runtime("torch"))
    assert told == [], "no such jobs yet"

    jobs.open(TRAIN_JOB.kind)
    one, other = naming("torch", name="one"), naming("jax", name="other")
    jobs.upsert(one)
    jobs.upsert(other)
    completed = runtimes.completed(one)
    assert isinstance(completed, CustomJob)
    assert msgspec.json.decode(completed.runtime)["seen"] == 1
    assert runtimes.completed(other) is other, "there is no such runtime"

    cluster.upsert(runtime("torch", version=2))
    cluster.remove(runtime("torch", version=2))
    assert told == [JobKey("TrainJob.trainer.kubeflow.org", "default", "one")] * 2
    assert runtimes.completed(one) is one


def test_a_job_of_any_other_kind_is_as_it_is() -> None:
    batch = job("j").build()
    assert Runtimes(ADAPTERS, JobCaches(ADAPTERS, _quiet), _quiet).completed(batch) is batch
