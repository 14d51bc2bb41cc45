from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from multikueue.api.meta import encode
from multikueue.jobs.trees.templates import in_workload, is_same_template, with_single_entries


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "x", **spec.pop("container", {})}], **spec}}


def same(job: dict[str, Any], workload: dict[str, Any], *, ignore_tolerations: bool = False) -> bool:
    return is_same_template(encode(job), encode(workload), ignore_tolerations)


def test_of_two_variables_of_one_name_the_last_counts() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    spec = template(container={"env": twice})["spec"]
    (container,) = with_single_entries(spec)["containers"]
    assert container["env"] == [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]


def test_templates_differ_by_their_containers() -> None:
    assert same(template(), template())
    assert not same(template(), template(container={"image": "y"}))
    assert not same(template(), {"spec": {}})


ASKING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an overhead": ({"overhead": {"cpu": "250m"}}, {"overhead": {"cpu": "0.25"}}),
    "resources of the pod": ({"resources": {"limits": {"cpu": "4"}}}, {"resources": {"limits": {"cpu": "4000m"}}}),
    "a runtime class": ({"runtimeClassName": "kata"}, {"runtimeClassName": "kata"}),
    "a claim": ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},) * 2,
    "a sidecar": ({"initContainers": [{"name": "s", "restartPolicy": "Always"}]},) * 2,
}


@pytest.mark.parametrize(("asking", "as_written"), ASKING.values(), ids=ASKING)
def test_templates_differ_by_all_that_decides_about_amounts(asking: dict[str, Any], as_written: dict[str, Any]) -> None:
    assert same(template(**asking), template(**as_written))
    assert not same(template(**asking), template())
    assert not same(template(), template(**asking))


def test_tolerations_count_unless_they_are_ignored() -> None:
    tolerating = template(tolerations=[{"key": "gpu"}])
    assert not same(template(), tolerating)
    assert same(template(), tolerating, ignore_tolerations=True)


def test_what_the_schema_of_workloads_does_not_know_is_no_difference() -> None:
    assert same(template(container={"brandNew": {"x": 1}}), template())
    assert not same(template(), template(container={"brandNew": {"x": 1}}))


def test_the_protocol_of_a_port_that_only_the_schema_of_workloads_fills_in_is_no_difference() -> None:
    port, filled = {"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}
    assert same(template(container={"ports": [port]}), template(container={"ports": [filled]}))
    assert not same(
        template(container={"ports": [port]}), template(container={"ports": [filled | {"protocol": "UDP"}]})
    )


def test_in_a_workload_a_template_has_the_empty_parts_that_kueue_writes() -> None:
    bare = {"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i", "resources": {"limits": {}}}]}}
    assert in_workload(bare) == {
        "metadata": {},
        "spec": {
            "containers": [{"name": "c", "resources": {}}],
            "initContainers": [{"name": "i", "resources": {"limits": {}}}],
        },
    }
    assert in_workload({}) == {"metadata": {}}


def test_what_was_asked_about_is_not_kept() -> None:
    """Templates may be large, and of jobs that are long gone."""
    size = 100_000
    same(template(), template())
    tracemalloc.start()
    for number in range(50):
        large = template(container={"args": [f"{number}" + "x" * size]})
        assert same(large, large)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 10 * size
