"""What deploy/ lets the manager do on its own cluster is what it does there: without any one verb something is refused.

Here the API server of the manager cluster minds roles: those of an overlay's `rights.yaml`, and no others. That nothing is
missing on a real API server is in tests/real/test_deploy.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest
import yaml
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import STANDALONE, CapacityFollow, Cluster, InForce, Quota, Role, Settings
from multikueue.settings.tree import BESIDE_KUEUE
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World
from tests.project.files import ROOT
from tests.simulator.rights import Asked, Verb, account, guard, verbs, without
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import until

LAYOUT = Layout(queues=(Share("main", 8),), workers=(Share("w1", 8),))
ACCOUNT = account(LAYOUT.secrets, "multikueue-manager")
LONG = 3600.0
Object = dict[str, Any]
KUEUE = "kueue.x-k8s.io"


@dataclass(frozen=True)
class Way:
    """A way to deploy it, and what its overlay grants that is not used in the life below, with the reason."""

    overlay: str
    roles: frozenset[Role]
    unused: frozenset[Verb]

    @property
    def core(self) -> bool:
        """Whether Kueue runs beside."""
        return self.roles == BESIDE_KUEUE


RENEWAL = Verb("", "secrets", "patch")
"""Only for tokens of a ServiceAccount: those of the simulated workers have no end."""

WAYS = (
    Way(
        "standalone",
        STANDALONE,
        frozenset(
            {
                Verb("batch", "jobs/finalizers", "update"),  # asked for only where owner references are enforced
                Verb(KUEUE, "workloads", "get"),  # only where the answer to a creation was lost
                RENEWAL,
            }
        ),
    ),
    Way("beside-kueue", BESIDE_KUEUE, frozenset({RENEWAL})),
)


def rights(way: Way) -> list[Object]:
    """The roles and bindings of the overlay, in the namespace that kustomize gives them."""
    found = [*yaml.safe_load_all((ROOT / "deploy/overlays" / way.overlay / "rights.yaml").read_text())]
    for body in found:
        for subject in body.get("subjects", ()):
            subject["namespace"] = LAYOUT.secrets
        if body["kind"] in ("Role", "RoleBinding"):
            body["metadata"]["namespace"] = LAYOUT.secrets
    return found


def granted(way: Way) -> set[Verb]:
    return set().union(*(verbs(body.get("rules", ())) for body in rights(way)))


def apply(world: World, way: Way, taken: Verb | None) -> None:
    """But for one verb."""
    for body in rights(way):
        rules = {"rules": [*without(body["rules"], taken)]} if "rules" in body else {}
        namespace = body["metadata"].get("namespace")
        place = f"/apis/{body['apiVersion']}" + (f"/namespaces/{namespace}" if namespace else "")
        world.manager.call("POST", f"{place}/{body['kind'].lower()}s", body | rules)


def asked_in(way: Way, *, taken: Verb | None = None) -> Asked:
    """What a manager asks of its own cluster in the life below; without a verb, until it is refused something."""
    asked = Asked()

    async def scenario(world: World, tasks: TaskGroup) -> None:
        apply(world, way, taken)
        others = (world.core,) if world.core is not None else ()
        host, cluster = world.network.hosts[MANAGER], world.manager.cluster
        guard(host, cluster, "manager-0", ACCOUNT, asked, others=others)
        settings = Settings(
            roles=way.roles,
            cluster=Cluster(namespace=LAYOUT.secrets),
            capacity_follow=CapacityFollow(enabled=not way.core),
            quota=Quota(fair_sharing=not way.core),
        )
        world.add_manager("manager-0", InForce(settings)).begin(tasks)
        if taken is None:
            await life(world)
        else:
            tasks.start_soon(life, world)
            await until(lambda: asked.refused, within=LONG)

    perform(replace(LAYOUT, core=way.core), scenario)
    return asked


async def life(world: World) -> None:
    """A job runs and ends; another one finds its name taken on the worker, changes, and is deleted. A Cohort is new."""
    cohort = {"apiVersion": kinds.COHORTS.api_version, "kind": kinds.COHORTS.kind, "metadata": {"name": "cohort"}}
    world.manager.create(kinds.COHORTS, cohort)
    world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", "main"), {"spec": {"cohortName": "cohort"}})
    world.workers["w1"].site.create(kinds.JOBS, objects.job("other", NAMESPACE, queue=None))
    for name in ("one", "other"):
        world.manager.create(kinds.JOBS, objects.job(name, NAMESPACE, queue="main", parallelism=2, seconds=30.0))
    await anyio.sleep(60)
    world.manager.patch(kinds.JOBS, ObjectKey(NAMESPACE, "other"), {"spec": {"parallelism": 1}})
    await anyio.sleep(60)
    world.manager.delete(kinds.JOBS, ObjectKey(NAMESPACE, "other"))
    await until(lambda: is_over(world, "one"))
    await until(lambda: len(world.manager.all(kinds.WORKLOADS)) == 1)


def is_over(world: World, name: str) -> bool:
    found = world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, name)) or {}
    return any(each["type"] == "Complete" for each in found.get("status", {}).get("conditions", ()))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.overlay)
def test_what_an_overlay_grants_is_used_and_nothing_else_is_asked_for(way: Way) -> None:
    asked = asked_in(way)

    assert asked.refused == set()
    assert granted(way) - asked.used == way.unused


@pytest.mark.parametrize(
    ("way", "verb"),
    [(way, verb) for way in WAYS for verb in sorted(granted(way) - way.unused)],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, Verb) else value.overlay,
)
def test_without_any_one_of_them_something_is_refused(way: Way, verb: Verb) -> None:
    assert asked_in(way, taken=verb).refused == {verb}
