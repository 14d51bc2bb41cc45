"""`clusters remove`: what it takes away, and what it refuses."""

from __future__ import annotations

from multikueue.api.kinds import MULTIKUEUE_CLUSTERS, SECRETS, WORKLOADS
from multikueue.api.meta import ObjectKey
from multikueue.registration.plan import CLUSTER_ROLES
from tests.builders import workload
from tests.cli.conftest import Run, World

# --- remove ----------------------------------------------------------------------------------------------------------


def test_remove_takes_the_cluster_out_of_the_manager_only(joined: World, cli: Run) -> None:
    result = cli("clusters", "remove", "w1")

    assert result.code == 0
    assert joined.manager.named(MULTIKUEUE_CLUSTERS, "w1") is None
    assert joined.manager.named(SECRETS, "multikueue-w1", "kueue-system") is None
    assert joined.worker.named(CLUSTER_ROLES, "multikueue") is not None
    assert "still there; with --context of the worker they go too" in result.err
    assert "MultiKueueConfig all on the manager kept: w1 is its only cluster" in result.err


def test_remove_with_the_workers_administrator_takes_its_rights_too(joined: World, cli: Run) -> None:
    result = cli("clusters", "remove", "w1", "--context", "worker")

    assert result.code == 0
    assert joined.worker.named(CLUSTER_ROLES, "multikueue") is None


def test_remove_refuses_while_workloads_are_there_unless_forced(joined: World, cli: Run) -> None:
    running = workload("busy", namespace="team-a").queue("main").reserved("cq").cluster_name("w1")
    joined.manager.add(WORKLOADS, running.build())

    refused = cli("clusters", "remove", "w1")

    assert refused.code == 1
    assert "team-a/busy" in refused.err
    assert joined.manager.named(MULTIKUEUE_CLUSTERS, "w1") is not None
    assert cli("clusters", "remove", "w1", "--force").code == 0
    assert joined.manager.named(MULTIKUEUE_CLUSTERS, "w1") is None


def test_remove_finishes_what_was_half_done(joined: World, cli: Run) -> None:
    joined.manager.drop(MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"))

    assert cli("clusters", "remove", "w1").code == 0
    assert joined.manager.named(SECRETS, "multikueue-w1", "kueue-system") is None


def test_remove_as_a_dry_run_changes_nothing(joined: World, cli: Run) -> None:
    before = list(joined.manager.sent)

    result = cli("clusters", "remove", "w1", "--dry-run")

    assert result.code == 0
    assert "MultiKueueCluster w1 on the manager would be removed" in result.err
    assert joined.manager.sent == before
