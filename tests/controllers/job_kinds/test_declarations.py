"""What people write of a kind, and the declaration that it is."""

from __future__ import annotations

import msgspec
import pytest

from multikueue.api.kueue.workload import Finish
from multikueue.controllers.job_kinds.declarations import declaration_of
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.settings import DeclaredKind, DeclaredPods
from tests.jobs.all_kinds import template


def adapter(**said: object) -> DeclaredJob:
    own = {"name": "Simulation.v1.example.com", "pods": (DeclaredPods(at="spec"),), **said}
    return DeclaredJob(declaration_of(DeclaredKind.model_validate(own)))


def test_what_a_container_asks_for_is_a_resource_and_a_path() -> None:
    with pytest.raises(ValueError, match="expected RESOURCE=PATH"):
        DeclaredPods(at="spec", container="main", requests=("cpu",))


def test_what_is_added_to_a_request_has_a_least_amount() -> None:
    added = {"resource": "memory", "at": "more", "share": 0.1, "least": "384Mi"}
    pods = DeclaredPods.model_validate({"at": "spec", "container": "c", "requests": ["memory=heap"], "overhead": added})
    (found,) = adapter(pods=(pods,)).declared.pods[0].pod_sets({"spec": {"heap": "1g"}})
    (container,) = found["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"memory": "1408Mi"}}

    with pytest.raises(ValueError, match="expected a quantity such as 384Mi"):
        DeclaredPods.model_validate({"at": "spec", "overhead": added | {"least": "much"}})


def test_a_kind_is_known_by_its_name_and_its_states() -> None:
    own = adapter(
        pods=(DeclaredPods(at="spec.groups[*]", name_at="name"),),
        succeeded="Completed",
        failed="status.phase=Failed|Lost",
    )
    assert (own.kind.api_version, own.kind.plural) == ("example.com/v1", "simulations")
    over = own.kind.type(status=msgspec.Raw(b'{"phase":"Lost"}'))
    assert own.finished(over) == Finish(reason="Failed", message="")
    assert adapter(plural="sims").kind.plural == "sims"


def test_pods_come_with_a_template_or_with_fields_that_say_what_they_ask_for() -> None:
    described = DeclaredPods(at="spec", container="main", requests=("cpu=cores",), limits=("memory=most",))
    spec = {"template": template(), "cores": 2, "most": "1Gi"}
    found = [
        next(adapter(pods=(pods,)).declared.pods[0].pod_sets({"spec": spec}))["template"]["spec"]["containers"][0]
        for pods in (DeclaredPods(at="spec"), described)
    ]
    assert found[0]["image"] == "x"
    assert found[1]["resources"] == {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}


def test_what_is_no_path_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a path"):
        adapter(suspend="spec..x")
