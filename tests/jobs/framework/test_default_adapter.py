"""What holds for kinds of jobs that say nothing else, by one that says as little as can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from multikueue.api.jobs.job import AnyJob, job_type
from multikueue.api.kind import Kind
from multikueue.api.kueue.workload import PREBUILT_LABEL, QUEUE_LABEL, Finish, Workload
from multikueue.api.meta import Condition, ObjectMeta, encode
from multikueue.jobs.framework.default_adapter import DefaultAdapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.trees.paths import peek
from tests.jobs.builders import plain, stored

Tree = dict[str, Any]

LABELS: Tree = {QUEUE_LABEL: "main"}
TEMPLATE: Tree = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}]}}


@dataclass(frozen=True, slots=True)
class Thing(DefaultAdapter):
    """A kind whose objects list their pod sets as a Workload does."""

    kind: ClassVar[Kind[Any]] = Kind("example.com", "v1", "things", "Thing", True, job_type("Thing"))

    def submitted(self, raw: msgspec.Raw) -> Any:
        raise NotImplementedError

    def refusal(self, job: Any, old: Any = None) -> str | None:
        raise NotImplementedError

    def defaults(self, job: Any, *, is_multikueue_queue: bool) -> list[Tree]:
        raise NotImplementedError

    def pod_sets(self, job: AnyJob) -> list[Tree]:
        return [dict(each) for each in peek(job.spec, ("podSets",))]

    def finished(self, job: AnyJob) -> Finish | None:
        return None

    def is_suspended(self, job: AnyJob) -> bool:
        return peek(job.spec, ("suspend",)) is True

    def is_active(self, job: AnyJob) -> bool:
        return False

    def ready_pods(self, job: AnyJob) -> int:
        return 0

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        return None

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        return None

    def start_patch(self, job: AnyJob) -> Tree | None:
        return None

    def stop_patch(self, job: AnyJob) -> Tree | None:
        return None

    def reset_status_patch(self, job: AnyJob) -> Tree | None:
        return None


THING = Thing()


def pods(name: str = "main", **more: Any) -> Tree:
    return {"name": name, "count": 2, "template": TEMPLATE} | more


def thing(*pod_sets: Tree, suspend: bool = True, status: Tree | None = None, labels: Tree = LABELS) -> AnyJob:
    meta = ObjectMeta(name="t", namespace="default", uid="u", resource_version="7", labels=labels)
    spec = {"suspend": suspend, "podSets": pod_sets or (pods(),)}
    raw = msgspec.Raw(encode(spec)), msgspec.Raw(encode(status or {}))
    return THING.kind.type(metadata=meta, spec=raw[0], status=raw[1])  # type: ignore[no-any-return]


def workload_of(job: AnyJob) -> Workload:
    return stored(plain(THING.workload_body(job, priority=Priority())))


def asking(name: str) -> Tree:
    return pods(template={"metadata": {}, "spec": TEMPLATE["spec"] | {"priorityClassName": name}})


OF_ITS_WORKLOAD = {
    "the same": ((pods(),), True),
    "under another name, as to Kueue": ((pods("other"),), True),
    "more of them": ((pods(count=3),), False),
    "of which fewer would do": ((pods(minCount=1),), False),
    "of another image": ((pods(template={"spec": {"containers": [{"name": "c", "image": "j"}]}}),), False),
    "and others too": ((pods(), pods("other")), False),
}


@pytest.mark.parametrize(("pod_sets", "same"), OF_ITS_WORKLOAD.values(), ids=OF_ITS_WORKLOAD.keys())
def test_its_workload_is_of_these_pods(pod_sets: tuple[Tree, ...], same: bool) -> None:
    assert THING.is_equivalent(thing(*pod_sets), workload_of(thing())) is same


def test_the_first_class_that_its_pods_ask_for_counts() -> None:
    assert THING.pod_priority_class(thing(pods(), asking("high"), asking("low"))) == "high"
    assert THING.pod_priority_class(thing()) == ""


def test_its_copy_has_its_spec_as_it_is() -> None:
    copy = plain(THING.remote_body(thing(), workload_name="wl", origin="mk", attempt="now"))
    assert (copy["apiVersion"], copy["kind"], copy["metadata"]["labels"][PREBUILT_LABEL]) == (
        "example.com/v1",
        "Thing",
        "wl",
    )
    assert copy["spec"] == {"suspend": True, "podSets": [pods()]}


def test_a_status_is_for_the_job_as_it_was_seen() -> None:
    patch = THING.status_patch(thing(status={"phase": "A", "old": 1}), msgspec.Raw(b'{"phase":"B"}'))
    assert patch == {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"phase": "B", "old": None}}


def test_what_it_does_not_say() -> None:
    job = thing()
    assert (THING.queue_name(job), THING.waits_for(job), THING.unmanaged_reason(job)) == ("main", "", None)
    assert (THING.reclaimable(job), THING.release_patch(job), THING.pod_set_info, THING.runtimes) == (
        (),
        None,
        None,
        None,
    )
    assert THING.may_be_copied(job)
    assert not THING.may_be_copied(thing(suspend=False))
    assert THING.workload_name(thing(labels={PREBUILT_LABEL: "mine"})) == "mine"
