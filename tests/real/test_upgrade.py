"""The chart installed, upgraded to the next version under load, rolled back, and taken away (docs/upgrade.md)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from testbed import objects
from testbed.bed import Testbed
from testbed.client import Client, Kind, eventually
from testbed.helm import helm
from testbed.kubeconfig import dump
from testbed.objects import JOB
from tests.real.chronicle import chronicle
from tests.real.deployment import NAMESPACE, withdraw
from tests.real.harness import Manager, Team, played, team
from tests.real.installed import POD, Version, built, node, previous, rolled_out, today
from tests.real.skipping import needs_programs
from tests.real.test_chart import helm_said, is_there, template

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    needs_programs("it starts Kubernetes' Deployment controller, and Helm"),
]

LEASE, NAME = Kind("coordination.k8s.io/v1", "Lease"), "multikueue-manager"
CHOSEN = (
    # No Service leads to a process of this machine.
    "settings.webhook.enabled=false",
    "settings.visibility.enabled=false",
    "settings.retention.copies=0s",
    "settings.dispatch.gc_interval=5s",
    "settings.leader_election.lease_duration=6s",
    "settings.leader_election.renew_deadline=4s",
    "settings.leader_election.retry_period=500ms",
)


@pytest.fixture(name="versions", scope="module")
def _versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Version]:
    """The last release, or an older commit before there is one, and what is in the tree, by the tags of their images."""
    revisions = {"last": previous(), "next": today()}
    return {tag: built(revision, tmp_path_factory.mktemp(tag)) for tag, revision in revisions.items()}


async def load(members: Team, names: list[str]) -> None:
    """Submit a job every second until cancelled."""
    while True:
        names.append(f"job-{len(names)}")
        await members.submit(names[-1])
        await anyio.sleep(1)


async def test_a_second_one_without_election_ends_and_says_why(bed: Testbed) -> None:
    first, second, third = (Manager(bed, is_alone=False) for _ in range(3))
    async with bed.manager.client() as client:
        await client.apply(objects.namespace(NAMESPACE))
        async with first.running():
            await first.ready()
            async with second.running():
                await second.ended()
            assert second.stop() == 2
            assert "another manager acts on this cluster" in second.tail()
            assert first.alive
            assert first.stop() == 0
            async with third.running():
                await third.ready()
        await client.delete(LEASE, NAME, NAMESPACE)


async def no_pod_is_left(client: Client) -> bool:
    left = [body["metadata"]["name"] for body in await client.list(POD, NAMESPACE)]
    assert left == []
    return True


async def test_it_is_upgraded_and_rolled_back_under_load_and_loses_nothing_and_starts_nothing_twice(
    bed: Testbed, versions: dict[str, Version], tmp_path: Path
) -> None:
    program, config, names = helm(), tmp_path / "kubeconfig", list[str]()
    config.write_bytes(dump(bed.manager.kubeconfig()))
    chosen = [word for each in CHOSEN for word in ("--set", each)]

    async def run(*words: str | Path) -> str:
        told = ("--namespace", NAMESPACE)
        return await anyio.to_thread.run_sync(lambda: helm_said(program, *words, *told, KUBECONFIG=str(config)))

    async with bed.manager.client() as client, node(bed, tmp_path, versions) as pods:
        await client.apply(objects.namespace(NAMESPACE))
        for body in template(program, versions["last"].chart, *chosen).values():
            await withdraw(client, body)  # tests before this one may have left theirs, which are not Helm's
        await run("install", "multikueue", versions["last"].chart, *chosen, "--set", "image.tag=last")
        await rolled_out(client, tag="last")
        async with team(bed) as members, chronicle(members) as record, played(members, after=0.2) as starts:
            await members.all_active()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(load, members, names)
                await starts.reach(3)
                await run("upgrade", "multikueue", versions["next"].chart, *chosen, "--set", "image.tag=next")
                await rolled_out(client, tag="next")
                await starts.reach(len(names) + 3)
                await run("rollback", "multikueue", "1")
                await rolled_out(client, tag="last")
                await starts.reach(len(names) + 3)
                tasks.cancel_scope.cancel()

            ends = await members.all_over()
            assert ends == {body["metadata"]["name"]: "Complete" for body in await client.list(JOB, members.namespace)}
            assert len(ends) >= len(names) - 1, "the last may not have been submitted"
            assert (await starts.settled()).twice() == {}
            await record.judge()
        assert pods.ran == ["last", "last", "next", "next", "last", "last"]

        made = template(program, versions["last"].chart, *chosen)
        assert pods.complaints() == []
        await run("uninstall", "multikueue")
        await eventually(lambda: no_pod_is_left(client), timeout=40)
        assert pods.codes == [0] * 6
        assert [name for name, body in made.items() if await is_there(client, body)] == []
        # Its rights go before the leader does, so it cannot give the Lease back.
        await client.delete(LEASE, NAME, NAMESPACE)
