from __future__ import annotations

import anyio
import pytest

from multikueue.api.kinds import MULTIKUEUE_CONFIGS, NAMESPACES, SECRETS
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTERS_ANNOTATION
from multikueue.errors import ConfigurationError, InvalidObject, NotFound
from multikueue.registration.plan import Registration, Wanted, manager_objects
from tests.cli.cluster import Cluster
from tests.registration.builders import World

pytestmark = pytest.mark.anyio

_, SECRET, CLUSTER = manager_objects(Registration(cluster="w1"), b"one")
_, NEWER_SECRET, _ = manager_objects(Registration(cluster="w1"), b"two")
KEY = SECRET.key
STRANGERS = {"metadata": {"name": KEY.name, "namespace": KEY.namespace, "labels": {"app": "theirs"}}}


@pytest.fixture
def world() -> World:
    return World()


async def test_an_object_is_created_then_left_then_updated(world: World) -> None:
    world.manager.add(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    side = world.side(world.manager)

    for wanted in (SECRET, SECRET, NEWER_SECRET):
        await side.ensure(wanted)

    assert [step.action for step in world.steps] == ["created", "unchanged", "updated"]
    assert [write.split()[0] for write in world.manager.sent] == ["POST", "PATCH"]
    stored = world.manager.named(SECRETS, KEY.name, KEY.namespace)
    assert stored is not None
    assert stored["data"] == NEWER_SECRET.body["data"]


async def test_what_others_added_to_an_object_of_ours_stays(world: World) -> None:
    labels = {**SECRET.body["metadata"]["labels"], "team": "a"}
    world.manager.add(SECRETS, {**SECRET.body, "metadata": {**SECRET.body["metadata"], "labels": labels}})

    await world.side(world.manager).ensure(NEWER_SECRET)

    stored = world.manager.named(SECRETS, KEY.name, KEY.namespace)
    assert stored is not None
    assert stored["metadata"]["labels"] == labels


async def test_a_strangers_object_is_named_and_not_touched(world: World) -> None:
    world.manager.add(SECRETS, STRANGERS)
    side = world.side(world.manager)

    with pytest.raises(
        InvalidObject, match=r"Secret kueue-system/multikueue-w1 on manager: metadata\.labels: expected"
    ):
        await side.ensure(SECRET)
    with pytest.raises(InvalidObject):
        await side.refuse_foreign([SECRET])
    await side.remove(SECRETS, KEY)

    assert [step.action for step in world.steps] == ["kept"]
    assert world.manager.sent == []


async def test_a_shared_object_is_nobodys_in_particular(world: World) -> None:
    wanted = Wanted(NAMESPACES, {"metadata": {"name": "kueue-system"}}, is_shared=True)
    world.manager.add(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    side = world.side(world.manager)

    await side.refuse_foreign([wanted])
    await side.ensure(wanted)

    assert [step.action for step in world.steps] == ["unchanged"]


async def test_a_race_for_a_name_is_lost_unless_the_object_is_shared(world: World) -> None:
    """Somebody creates the object after we have looked and before we create it."""
    racing = world.side(world.manager)

    def race(verb: str, plural: str) -> None:
        if verb == "create":
            kind, body = (
                (SECRETS, STRANGERS) if plural == "secrets" else (NAMESPACES, {"metadata": {"name": "kueue-system"}})
            )
            world.manager.add(kind, body)

    world.manager.add(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    world.manager.fault = race
    with pytest.raises(InvalidObject, match="it belongs to somebody else"):
        await racing.ensure(SECRET)
    world.manager.drop(NAMESPACES, ObjectKey("", "kueue-system"))
    await racing.ensure(Wanted(NAMESPACES, {"metadata": {"name": "kueue-system"}}, is_shared=True))

    assert [step.action for step in world.steps] == ["unchanged"]


async def test_removing_is_guarded_by_the_uid_and_safe_to_repeat(world: World) -> None:
    world.manager.add(NAMESPACES, {"metadata": {"name": "kueue-system"}})
    side = world.side(world.manager)
    await side.ensure(SECRET)
    await side.remove(SECRETS, KEY)
    await side.remove(SECRETS, KEY)

    assert [step.action for step in world.steps] == ["created", "removed", "absent"]


async def test_a_dry_run_says_what_it_would_do_and_does_nothing(world: World) -> None:
    world.manager.add(SECRETS, dict(SECRET.body))
    side = world.side(world.manager, dry_run=True)

    await side.ensure(NEWER_SECRET)
    await side.ensure(CLUSTER)
    await side.remove(SECRETS, KEY)
    await side.add_to_config("all", "w1")

    assert world.done() == [
        "Secret kueue-system/multikueue-w1 on manager would be updated",
        "MultiKueueCluster w1 on manager would be created",
        "Secret kueue-system/multikueue-w1 on manager would be removed",
        "MultiKueueConfig all on manager would be created",
    ]
    assert world.manager.sent == []


async def test_a_cluster_without_kueues_crds_is_a_configuration_error(world: World) -> None:
    bare = Cluster("manager")
    bare.fault = lambda _verb, _plural: NotFound(404, "NotFound", "no such resource")

    with pytest.raises(
        ConfigurationError, match=r"manager does not serve multikueueclusters in kueue\.x-k8s\.io/v1beta2"
    ):
        await world.side(bare).ensure(CLUSTER)


# --- MultiKueueConfig ------------------------------------------------------------------------------------------------


def config(*clusters: str, ours: bool = False) -> dict[str, object]:
    labels = {"app.kubernetes.io/managed-by": "multikueue"} if ours else {}
    return {"metadata": {"name": "all", "labels": labels}, "spec": {"clusters": list(clusters)}}


def clusters_of(world: World) -> list[str]:
    stored = world.manager.named(MULTIKUEUE_CONFIGS, "all")
    assert stored is not None
    clusters: list[str] = stored["spec"]["clusters"]
    return clusters


async def test_a_config_is_created_with_its_first_cluster(world: World) -> None:
    await world.side(world.manager).add_to_config("all", "w1")

    assert clusters_of(world) == ["w1"]


async def test_a_cluster_goes_to_the_end_of_a_config_once_whoever_made_it(world: World) -> None:
    world.manager.add(MULTIKUEUE_CONFIGS, config("w2"))

    for _ in range(2):
        await world.side(world.manager).add_to_config("all", "w1")

    assert clusters_of(world) == ["w2", "w1"]
    assert [step.action for step in world.steps] == ["updated", "unchanged"]


async def test_what_a_full_config_cannot_take_stands_in_its_annotation(world: World) -> None:
    twenty = [f"c{number}" for number in range(20)]
    world.manager.add(MULTIKUEUE_CONFIGS, config(*twenty, ours=True))
    manager = world.side(world.manager)

    for name in ("w1", "w2", "w1"):
        await manager.add_to_config("all", name)
    assert _spec_and_annotation(world) == (twenty, "w1,w2")
    assert "so w1,w2 stands in its annotation multikueue.dev/clusters" in world.done()[1]

    await manager.remove_from_config("all", "c0")
    assert _spec_and_annotation(world) == ([*twenty[1:], "w1"], "w2")
    await manager.remove_from_config("all", "w2")
    assert _spec_and_annotation(world) == ([*twenty[1:], "w1"], None)


def _spec_and_annotation(world: World) -> tuple[object, object]:
    found = world.manager.named(MULTIKUEUE_CONFIGS, "all")
    assert found is not None
    return found["spec"]["clusters"], found["metadata"].get("annotations", {}).get(CLUSTERS_ANNOTATION)


async def test_two_people_at_once_add_to_one_config_and_none_is_lost(world: World) -> None:
    names = [f"w{number}" for number in range(6)]

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(world.side(world.manager).add_to_config, "all", name)

    found = world.manager.named(MULTIKUEUE_CONFIGS, "all")
    assert found is not None
    assert sorted(found["spec"]["clusters"]) == names


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        (config("w1", "w2", ours=True), ["w2"], "updated"),
        (config("w1", ours=True), ["w1"], "kept"),
        (config("w1", "w2"), ["w1", "w2"], "kept"),
    ],
    ids=["one of ours gives it up", "the last one stays", "a stranger's is reported"],
)
async def test_a_cluster_leaves_a_config(
    world: World, before: dict[str, object], after: list[str], action: str
) -> None:
    world.manager.add(MULTIKUEUE_CONFIGS, before)

    await world.side(world.manager).remove_from_config("all", "w1")

    assert clusters_of(world) == after
    assert [step.action for step in world.steps] == [action]


async def test_a_config_that_does_not_name_the_cluster_is_not_mentioned(world: World) -> None:
    world.manager.add(MULTIKUEUE_CONFIGS, config("w2"))

    await world.side(world.manager).remove_from_config("all", "w1")

    assert world.steps == []
    assert await world.side(world.manager).find(MULTIKUEUE_CONFIGS, ObjectKey("", "none")) is None
