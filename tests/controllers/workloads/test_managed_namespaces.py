"""Jobs of namespaces that are not managed, and what a change of a namespace's labels does (kueue#13460)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import BESIDE_KUEUE, Integrations
from tests.controllers.table import NAMESPACE, Table, table

pytestmark = pytest.mark.anyio

LABEL = "kueue.openshift.io/managed"


def labelled(world: Table, labels: dict[str, Any]) -> None:
    world.manager.change(kinds.NAMESPACES, ObjectKey("", NAMESPACE), {"metadata": {"labels": labels}})


async def workloads_of(labels: dict[str, Any] | None, selector: str) -> Table:
    """A job was submitted in the namespace with these labels."""
    world = table(integrations=Integrations(managed_namespaces=selector))
    if labels is not None:
        labelled(world, labels)
    world.submit("job")
    await world.settle()
    return world


@pytest.mark.parametrize(
    ("selector", "labels", "is_managed"),
    [
        ("", {}, True),
        (f"{LABEL}=true", {LABEL: "true"}, True),
        (f"{LABEL}=true", {LABEL: "false"}, False),
        (f"{LABEL}=true", {}, False),
        (f"{LABEL}!=false", {}, True),
        ("kubernetes.io/metadata.name notin (kube-system)", {}, True),
    ],
)
async def test_a_job_is_taken_in_by_the_labels_of_its_namespace(
    selector: str, labels: dict[str, Any], is_managed: bool
) -> None:
    world = await workloads_of(labels, selector)
    assert (len(world.manager.all(kinds.WORKLOADS)) == 1) is is_managed


async def test_a_job_is_taken_in_once_its_namespace_gets_the_label() -> None:
    world = await workloads_of({}, f"{LABEL}=true")
    labelled(world, {LABEL: "true"})
    await world.settle()
    assert len(world.manager.all(kinds.WORKLOADS)) == 1


async def test_a_job_that_was_taken_in_keeps_its_workload_when_the_label_goes() -> None:
    world = await workloads_of({LABEL: "true"}, f"{LABEL}=true")
    labelled(world, {LABEL: None})
    world.submit("later")
    await world.settle()
    assert len(world.manager.all(kinds.WORKLOADS)) == 1


async def test_beside_kueue_it_is_kueue_that_takes_jobs_in() -> None:
    world = table(roles=BESIDE_KUEUE, integrations=Integrations(managed_namespaces=f"{LABEL}=true"))
    assert world.store.is_managed(NAMESPACE)
