"""Which pods are a job's: by the marks of Kueue, or by their owners, whatever the kind and what is in between."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api.kueue.workload import PREBUILT_LABEL
from tests.cli.field import JOB_BODY, Field, head, reference

pytestmark = pytest.mark.anyio

GADGET: dict[str, Any] = {**head("example.com/v1", "Gadget"), "spec": {}}


@pytest.fixture
async def field(field: Field) -> Field:
    await field.define("Gadget")
    await field.define("Part")
    return field


async def owned(field: Field, body: dict[str, Any], name: str, owner: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "ownerReferences": [reference(owner)]}
    return await field.clients["worker1"].create({**body, "metadata": meta})


async def pods_of(field: Field, named: str) -> list[str]:
    return (await field.run("workloads", "pods", named, "-o", "name")).lines


async def test_pods_are_found_through_any_kinds_between_them_and_the_job(field: Field) -> None:
    await field.submit(job=GADGET)
    await field.runs_on("train", "worker1")
    copy = await field.copy("worker1", job=GADGET)
    part = await owned(field, {**head("example.com/v1", "Part"), "spec": {}}, "part", copy)
    job = await owned(field, JOB_BODY, "train-0", part)
    await field.pod("worker1", "straight", copy)
    await field.pod("worker1", "through-a-part", part)
    await field.pod("worker1", "through-both", job)

    assert await pods_of(field, "gadget/train") == ["pod/straight", "pod/through-a-part", "pod/through-both"]


async def test_a_name_alone_makes_no_relatives(field: Field) -> None:
    """Another job has the name that ours would have, and an owner was recreated under the same name."""
    await field.submit()
    await field.runs_on("train", "worker1")
    meta = {"name": "train", "namespace": "default"}
    other = await field.clients["worker1"].create({**JOB_BODY, "metadata": meta})
    await field.pod("worker1", "of-another", other)
    labels = {"name": "twin", "namespace": "default", "labels": {PREBUILT_LABEL: "job-train"}}
    twin = await field.clients["worker1"].create({**JOB_BODY, "metadata": labels})
    former = {**twin, "metadata": {**twin["metadata"], "uid": "a former one"}}
    await field.pod("worker1", "of-a-former-one", former, finalizers=["example.com/keep"])

    assert await pods_of(field, "train") == []
    shown = await field.run("workloads", "show", "train")
    assert [line.split()[:4] for line in shown.lines if line.startswith("worker1")] == [
        ["worker1", "winner", "none", "-"]
    ]
