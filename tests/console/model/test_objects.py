"""What the console keeps of objects."""

from __future__ import annotations

import tracemalloc

import msgspec

from multikueue.api.kueue.workload import JOB_UID_LABEL, Workload, granted, queue_of, workload_spec
from multikueue.api.meta import decoder, encode
from multikueue.testing import NOW
from multikueue_console.model.objects import LAST_APPLIED, SeenObjects, slim_workload
from multikueue_console.model.workloads import Observer
from tests.builders.workloads import workload


def test_a_workload_without_its_pods_gives_the_same_row() -> None:
    whole = workload("a").labels(user="alice").owner_job("a").reserved(at=NOW).build()
    slim = slim_workload(whole)
    observer = Observer(SeenObjects(), NOW)

    assert observer.row(slim) == observer.row(whole)
    assert (queue_of(slim), granted(slim)) == (queue_of(whole), granted(whole))
    assert b"containers" not in bytes(slim.spec)
    assert [each.count for each in workload_spec(slim).pod_sets] == [
        each.count for each in workload_spec(whole).pod_sets
    ]


def test_another_version_of_the_same_is_no_change() -> None:
    assert slim_workload(workload("a").version(1).build()) == slim_workload(workload("a").version(2).build())


def test_what_many_have_in_common_is_there_once() -> None:
    one, other = (slim_workload(workload(name).owner_job("a").reserved(at=NOW).build()) for name in ("a", "b"))
    first, second = one.status.conditions[0], other.status.conditions[0]

    assert one.status.admission is other.status.admission
    assert one.spec is other.spec
    assert first.message is second.message
    assert first.last_transition_time is second.last_transition_time


def test_what_only_commands_read_is_left_out() -> None:
    made = workload("a").owner_job("a").labels({JOB_UID_LABEL: "job-uid", "user": "alice"}).build()
    meta = msgspec.structs.replace(made.metadata, annotations={LAST_APPLIED: "{}", "kept": "yes"})
    slim = slim_workload(msgspec.structs.replace(made, metadata=meta)).metadata

    assert slim.annotations == {"kept": "yes"}
    assert slim.labels == {"user": "alice"}


def test_many_workloads_take_little_memory() -> None:
    data = [
        encode(workload(f"job-{number}").owner_job(f"job-{number}").reserved().admitted().build())
        for number in range(500)
    ]
    decode = decoder(Workload)
    tracemalloc.start()
    try:
        kept = [slim_workload(decode(each)) for each in data]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(kept) < 1_400
