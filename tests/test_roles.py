"""What each role is made of: its watches and loops, and that nothing else is there to act."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.kueue.compatibility import Release
from multikueue.controllers.quota.admission import SchedulerLoop
from multikueue.errors import ConfigurationError
from multikueue.jobs.kinds.pods.pod import PlainPod
from multikueue.roles import DEPLOYMENTS, Runnables, adapters_of, submitted_kinds
from multikueue.settings import (
    BESIDE_KUEUE,
    EXTERNAL_DISPATCHER,
    STANDALONE,
    DeclaredKind,
    DeclaredPods,
    DeclaredRule,
    DeviceClassMapping,
    DynamicResources,
    FleetMembers,
    Integrations,
    Quota,
    Role,
    Settings,
)
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

FLEET = {"multikueueclusters", "multikueueconfigs", "admissionchecks"}
QUEUES = {"clusterqueues", "localqueues"}
CLASSES = {"workloadpriorityclasses", "priorityclasses", "runtimeclasses"}
QUOTA = {"namespaces", "limitranges", "resourceflavors", "cohorts"} | CLASSES
EVERYBODY = FLEET | QUEUES | {"workloads"}


def runnables(roles: frozenset[Role]) -> Runnables:
    return table(roles=roles).runnables


@pytest.mark.parametrize(
    ("roles", "watched"),
    [
        pytest.param(STANDALONE, EVERYBODY | QUOTA | {"jobs", "secrets"}, id="standalone: everything"),
        pytest.param(BESIDE_KUEUE, EVERYBODY | {"jobs", "secrets"}, id="beside Kueue: nothing that quota is made of"),
        pytest.param(EXTERNAL_DISPATCHER, EVERYBODY, id="external dispatcher: neither jobs nor credentials"),
    ],
)
async def test_what_is_watched(roles: frozenset[Role], watched: set[str]) -> None:
    assert {watch.kind.plural for watch in runnables(roles).watches} == watched


@pytest.mark.parametrize("roles", [STANDALONE, BESIDE_KUEUE], ids=["standalone", "beside Kueue"])
@pytest.mark.parametrize(
    ("fleet", "more"),
    [
        (FleetMembers(selector="zone=eu"), 0),
        (FleetMembers(inventory="ocm"), 1),
        (FleetMembers(queues="keep"), 1),
        (FleetMembers(inventory="clusterprofiles", queues="keep"), 2),
    ],
    ids=["no inventory", "an inventory", "queues that are kept", "both"],
)
async def test_a_fleet_takes_tasks_only_if_it_is_asked_for(
    roles: frozenset[Role], fleet: FleetMembers, more: int
) -> None:
    world = table(roles=roles)
    made = DEPLOYMENTS[roles](world.world, world.settings.model_copy(update={"fleet": fleet}), SchedulerLoop())
    assert len(made.tasks) == len(world.runnables.tasks) + more
    assert made.watches == world.runnables.watches


def test_a_dispatcher_of_kueue_keeps_no_fleet() -> None:
    with pytest.raises(ValueError, match="expected no fleet in the role nominate"):
        Settings(roles=EXTERNAL_DISPATCHER, fleet=FleetMembers(inventory="ocm"))


GPUS = DeviceClassMapping(name="gpu", device_class_names=("gpu.example.com",))
TEMPLATES, DEVICES = {"resourceclaimtemplates"}, {"resourceclaimtemplates", "deviceclasses"}


@pytest.mark.parametrize(
    ("dra", "release", "watched"),
    [
        pytest.param({}, "0.19", set(), id="nothing without a mapping"),
        pytest.param({"device_class_mappings": (GPUS,)}, "0.19", DEVICES, id="templates and classes with one"),
        pytest.param({"device_class_mappings": (GPUS,)}, "0.18", TEMPLATES, id="templates alone as in 0.18"),
        pytest.param({"device_class_mappings": (GPUS,)}, "0.16", set(), id="nothing as in 0.16"),
        pytest.param(
            {"device_class_mappings": (GPUS,), "extended_resources": False},
            "0.19",
            TEMPLATES,
            id="templates alone without extended resources",
        ),
        pytest.param({"device_class_mappings": (GPUS,), "enabled": False}, "0.19", set(), id="nothing if it is off"),
    ],
)
async def test_what_devices_are_counted_by_is_watched_where_they_are(
    dra: dict[str, Any], release: Release, watched: set[str]
) -> None:
    rules = Quota(compatibility=release, dra=DynamicResources(**dra))
    found = {watch.kind.plural for watch in table(rules=rules).runnables.watches}
    assert found - (EVERYBODY | QUOTA | {"jobs", "secrets"}) == watched


@pytest.mark.parametrize(
    ("roles", "loops"),
    [
        pytest.param(
            STANDALONE,
            {
                "ceilings",
                "capacity",
                "jobs",
                "workloads",
                "flavors",
                "checks",
                "cluster queues",
                "local queues",
                "cohorts",
            },
            id="standalone: everything",
        ),
        pytest.param(
            BESIDE_KUEUE,
            {"ceilings", "capacity", "jobs", "workloads", "checks"},
            id="beside Kueue: no statuses of queues",
        ),
        pytest.param(EXTERNAL_DISPATCHER, {"workloads"}, id="external dispatcher: workloads alone"),
    ],
)
async def test_what_acts(roles: frozenset[Role], loops: set[str]) -> None:
    assert {loop.name for loop in runnables(roles).loops} == loops
    assert [loop.name for loop in runnables(roles).cluster_loops] == ["clusters"]


@pytest.mark.parametrize("roles", DEPLOYMENTS, ids=sorted)
async def test_workloads_and_jobs_are_listed_after_all_that_they_rest_on(roles: frozenset[Role]) -> None:
    made = runnables(roles)
    first, last = ({watch.kind.plural for watch in stage} for stage in made.stages())
    assert last <= {"workloads", "jobs"}
    assert "workloads" in last
    assert first | last == {watch.kind.plural for watch in made.watches}
    assert not first & last


async def test_only_one_role_gives_quota() -> None:
    """The cycle of admission is a task of the standalone manager alone, as is the look for versions that no Kueue converts;
    all that speak to workers sweep them, and let quotas follow them."""
    assert [len(runnables(roles).tasks) for roles in (STANDALONE, BESIDE_KUEUE, EXTERNAL_DISPATCHER)] == [4, 2, 0]


@pytest.mark.parametrize(
    ("roles", "closed"),
    [
        pytest.param(STANDALONE, set(), id="standalone"),
        pytest.param(BESIDE_KUEUE, {"flavors", "cluster_queues", "local_queues"}, id="beside Kueue"),
        pytest.param(
            EXTERNAL_DISPATCHER,
            {"jobs", "flavors", "checks", "cluster_queues", "local_queues"},
            id="external dispatcher",
        ),
    ],
)
async def test_keys_that_nobody_looks_at_do_not_pile_up(roles: frozenset[Role], closed: set[str]) -> None:
    world = table(roles=roles)
    touch_everything(world)
    fixed = ("jobs", "workloads", "flavors", "checks", "clusters", "cluster_queues", "local_queues")
    waiting = {name: getattr(world.queues, name).depth() for name in fixed}
    assert {name for name, depth in waiting.items() if not sum(depth.waiting) + depth.delayed} == closed


def touch_everything(world: Table) -> None:
    key = next(iter(world.store.local_queues)).key
    look_at = world.store.look_at
    look_at("workloads", key)
    look_at("jobs", JobKey("Job.batch", *key))
    look_at("checks", "mk")
    look_at("flavors", "default")
    look_at("clusters", "w1")
    look_at("cluster_queues", "cq")
    look_at("local_queues", key)


def test_each_valid_set_of_roles_has_its_deployment() -> None:
    for roles in DEPLOYMENTS:
        assert Settings(roles=roles).roles == roles
    assert set(DEPLOYMENTS) == {STANDALONE, BESIDE_KUEUE, EXTERNAL_DISPATCHER}


def test_the_kinds_in_use_are_those_that_the_settings_name() -> None:
    assert [adapter.kind.kind for adapter in adapters_of(Settings())] == ["Job"]
    named = Integrations(frameworks=("jobset.x-k8s.io/jobset",))
    assert [adapter.kind.kind for adapter in adapters_of(Settings(integrations=named))] == ["Job", "JobSet"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"suspend": "spec..x"}, "expected a path", id="no path"),
        pytest.param(
            {"pods": (DeclaredPods(at="spec", container="main", requests=("cpu=a..b",)),)},
            "expected a path",
            id="no path to what a container asks for",
        ),
        pytest.param(
            {"pods": (DeclaredPods(at="spec", container="main", requests=("cpu=a|b..c",)),)},
            "expected a path",
            id="no path to what stands for what it asks for",
        ),
        pytest.param(
            {"rules": (DeclaredRule(at="status.x", why="so"),)},
            "expected a field of the spec, got status.x",
            id="a rule about the status",
        ),
        pytest.param({"dropped": ("spec",)}, "expected a field of the spec, got spec", id="nothing is left to copy"),
        pytest.param({"name": "JobSet.v1.jobset.x-k8s.io"}, "one adapter per kind", id="declared twice"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused_at_start(change: dict[str, Any], message: str) -> None:
    own = DeclaredKind(**{"name": "A.v1.example.com", "pods": (DeclaredPods(at="spec"),), **change})
    used = Integrations(frameworks=("jobset.x-k8s.io/jobset",), declared=(own,))
    with pytest.raises(ConfigurationError, match=message):
        adapters_of(Settings(integrations=used))


@pytest.mark.parametrize(
    ("roles", "taken"),
    [(STANDALONE, ["Job", "Pod", "StatefulSet"]), (BESIDE_KUEUE, ["Job"])],
    ids=["standalone", "beside Kueue"],
)
def test_pods_are_ours_only_where_no_kueue_lifts_their_gate(roles: frozenset[Role], taken: list[str]) -> None:
    chosen = Settings(roles=roles, integrations=Integrations(frameworks=("batch/job", "pod", "statefulset")))

    assert [adapter.kind.kind for adapter in adapters_of(chosen)] == taken


def test_pods_are_ours_too_where_kueue_beside_us_is_known_to_hold_them() -> None:
    integrations = Integrations(frameworks=("batch/job", "pod", "statefulset"), kueue_holds_pods=True)
    found = adapters_of(Settings(roles=BESIDE_KUEUE, integrations=integrations))
    assert [adapter.kind.kind for adapter in found] == ["Job", "Pod", "StatefulSet"]


@pytest.mark.parametrize(
    ("roles", "looked_at"),
    [(STANDALONE, ["Job", "Pod"]), (BESIDE_KUEUE, ["Job"])],
    ids=["standalone", "beside Kueue, whose webhook gives them their gate"],
)
def test_pods_are_submitted_to_one_webhook_alone(roles: frozenset[Role], looked_at: list[str]) -> None:
    integrations = Integrations(frameworks=("batch/job", "pod", "statefulset"), kueue_holds_pods=True)
    chosen = Settings(roles=roles, integrations=integrations)
    assert [kind.kind for kind in submitted_kinds(chosen, adapters_of(chosen))] == looked_at


@pytest.mark.parametrize(("release", "read"), [("0.19.2", True), ("0.19", True), ("0.18", True), ("0.16", False)])
def test_annotations_name_workloads_and_groups_as_in_the_release(release: Release, read: bool) -> None:
    integrations = Integrations(frameworks=("batch/job", "pod"))
    found = adapters_of(Settings(quota=Quota(compatibility=release), integrations=integrations))

    assert found.has_identifier_annotations is read
    assert PlainPod(read) in tuple(found)
    assert found.named(kinds.POD_GROUPS.name).kind is kinds.POD_GROUPS


@pytest.mark.parametrize(
    ("framework", "taken", "template"),
    [("deployment", ["Job", "Pod"], "Deployment"), ("statefulset", ["Job", "StatefulSet", "Pod"], "StatefulSet")],
)
def test_what_makes_pods_brings_them_with_it(framework: str, taken: list[str], template: str) -> None:
    chosen = Settings(integrations=Integrations(frameworks=(framework,)))
    found = adapters_of(chosen)

    assert [adapter.kind.kind for adapter in found] == taken
    assert [each.kind.kind for each in found.templates] == [template]
    assert not adapters_of(Settings(roles=BESIDE_KUEUE, integrations=chosen.integrations)).templates
