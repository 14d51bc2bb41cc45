"""Two names that show one UID: whether the second is shut, or used beside the first, is told by a nonce."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from math import inf

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION, OTHER_THAN_ANNOTATION
from multikueue.controllers.workers.connection.identities import ClusterIdentity, SameCluster
from multikueue.controllers.workers.connection.proofs import PATIENCE_WITH_READERS, RETRIES
from multikueue.errors import Forbidden, MultiKueueError, ServerError
from multikueue.runtime import Mandate
from tests.cluster import Cluster, InProcessClient
from tests.controllers.table import Table

pytestmark = pytest.mark.anyio

UID = "the-uid-that-all-show"


@dataclass
class Names:
    """Three names, each with a client; all show one UID. `leads` says to which worker's cluster, if not its own."""

    table: Table = field(default_factory=lambda: Table(workers=3))
    leads: dict[str, str] = field(default_factory=dict)
    identities: dict[str, ClusterIdentity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.table.workers:
            self.connect(name)

    def connect(self, name: str) -> None:
        """A new connection: another client, of which nothing is known."""
        self.table.world.clients[name] = InProcessClient(self.cluster(name).api, cluster=name)
        self.identities[name] = ClusterIdentity(self.table.world, self.table.store.worker(name))

    def cluster(self, name: str) -> Cluster:
        return self.table.workers[self.leads.get(name, name)]

    def restart(self) -> None:
        """A manager that starts over the same objects."""
        self.table.start()
        for name in self.table.workers:
            self.connect(name)

    async def claim(self, name: str) -> str:
        """Why the name is not used; empty if it is."""
        client = self.table.world.clients[name]
        try:
            await self.identities[name].claim(UID, client)
        except SameCluster as error:
            return str(error)
        self.identities[name].uid = UID
        return ""

    def recorded(self, name: str) -> tuple[str | None, str | None]:
        body = self.table.manager.find(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)) or {}
        found = body["metadata"].get("annotations", {})
        return found.get(CLUSTER_UID_ANNOTATION), found.get(OTHER_THAN_ANNOTATION)

    def proofs(self) -> int:
        """Nonces written so far."""
        return sum(cluster.calls.count("create workloads") for cluster in self.table.workers.values())

    def left(self) -> int:
        return sum(len(cluster.all(kinds.WORKLOADS)) for cluster in self.table.workers.values())


def refusing(verb: str, error: MultiKueueError) -> Callable[[str, str], MultiKueueError | None]:
    return lambda asked, plural: error if (asked, plural) == (verb, "workloads") else None


FORBIDDEN, BROKEN = Forbidden(403, "Forbidden", "no"), ServerError(500, "InternalError", "no")


async def test_a_second_name_for_a_cluster_is_shut_once_that_is_proven() -> None:
    names = Names(leads={"w2": "w1"})
    assert await names.claim("w1") == ""
    why = await names.claim("w2")
    assert 'that "w1" stands for' in why
    assert "not proven" not in why
    assert (names.recorded("w1"), names.recorded("w2")) == ((UID, None), (None, None))
    assert names.left() == 0


async def test_a_worker_that_shows_the_uid_of_another_one_is_used_for_what_it_is() -> None:
    """Who lies cannot be told: an honest worker may come second. So neither is put out of service, and both are told of."""
    names = Names()
    assert await names.claim("w1") == ""
    assert await names.claim("w2") == ""
    assert (names.recorded("w1"), names.recorded("w2")) == ((UID, None), (UID, "w1"))
    assert names.identities["w1"].note(UID) == ""
    assert '"w1"' in names.identities["w2"].note(UID)
    ((reason, message),) = names.table.said()
    assert reason == "IdentityShared"
    assert '"w1"' in message
    assert names.left() == 0


async def test_a_name_that_another_was_recorded_after_stays_first_though_it_is_not_recorded_itself() -> None:
    """Both were seen on a standby, and the second has its heartbeat first once that leads. A job may run on the first."""
    names = Names()
    names.table.world.mandate.end()
    assert await names.claim("w1") == ""
    names.table.world.mandate.extend(inf)
    assert await names.claim("w2") == ""
    assert (names.recorded("w1"), names.recorded("w2")) == ((None, None), (UID, "w1"))
    names.table.cut("w2")
    assert [await names.claim(name) for name in ("w2", "w1")] == ["", ""]
    assert (names.recorded("w1"), names.recorded("w2")) == ((UID, None), (UID, "w1"))


CANNOT_TELL: dict[str, Callable[[Names], object]] = {
    "the newcomer may not write": lambda n: setattr(n.table.workers["w2"], "fault", refusing("create", FORBIDDEN)),
    "the newcomer fails to write": lambda n: setattr(n.table.workers["w2"], "fault", refusing("create", BROKEN)),
    "the first is not connected": lambda n: n.table.cut("w1"),
    "the first does not answer": lambda n: setattr(n.table.workers["w1"], "fault", refusing("get", BROKEN)),
    "they offer no namespace in common": lambda n: [
        n.table.store.worker(name).offers((f"of-{name}",), n.table.now()) for name in ("w1", "w2")
    ],
    "this process does not lead": lambda n: n.table.world.mandate.end(),
}


@pytest.mark.parametrize("trouble", CANNOT_TELL.values(), ids=CANNOT_TELL)
async def test_where_nothing_can_be_proven_who_was_recorded_first_stays(trouble: Callable[[Names], object]) -> None:
    names = Names()
    assert await names.claim("w1") == ""
    trouble(names)
    assert "not proven: " in await names.claim("w2")
    assert await names.claim("w1") == ""
    assert names.left() == 0


@pytest.mark.parametrize("trouble", CANNOT_TELL.values(), ids=CANNOT_TELL)
async def test_where_nothing_can_be_proven_again_what_was_proven_before_stays(
    trouble: Callable[[Names], object],
) -> None:
    """The next leader finds it on the object: it costs no one its worker that a proof takes time."""
    names = Names()
    assert [await names.claim(name) for name in ("w1", "w2")] == ["", ""]
    names.restart()
    assert await names.claim("w1") == ""
    trouble(names)
    assert await names.claim("w2") == ""
    assert names.recorded("w2") == (UID, "w1")


async def test_a_squatter_that_answers_nothing_but_heartbeats_keeps_nobody_out_for_long() -> None:
    names = Names()
    await names.claim("w1")
    names.table.workers["w1"].fault = refusing("get", BROKEN)
    for _ in range(PATIENCE_WITH_READERS - 1):
        assert "not proven" in await names.claim("w2")
        names.table.time += RETRIES.cap
    assert await names.claim("w2") == ""
    assert names.recorded("w1") == (UID, None)


async def test_a_squatter_that_is_not_connected_has_not_failed_to_answer() -> None:
    names = Names()
    await names.claim("w1")
    names.table.cut("w1")
    for _ in range(2 * PATIENCE_WITH_READERS):
        assert '"w1" is not connected' in await names.claim("w2")
        names.table.time += RETRIES.cap
    assert names.proofs() == 0
    names.table.connect("w1")
    assert await names.claim("w2") == ""


async def test_it_costs_nothing_where_no_two_show_one_uid() -> None:
    names = Names()
    await names.claim("w1")
    await names.identities["w2"].claim("another uid", names.table.world.clients["w2"])
    assert names.proofs() == 0


async def test_it_is_asked_once_and_again_when_one_of_the_two_has_another_connection() -> None:
    names = Names()
    await names.claim("w1")
    for _ in range(3):
        await names.claim("w2")
        names.table.time += RETRIES.cap
    assert names.proofs() == 1
    names.connect("w1")
    await names.claim("w2")
    assert names.proofs() == 2
    names.connect("w2")
    for _ in range(3):
        await names.claim("w2")
    assert names.proofs() == 3


async def test_a_name_that_comes_to_lead_to_the_cluster_of_the_first_is_shut() -> None:
    names = Names()
    await names.claim("w1")
    assert await names.claim("w2") == ""
    names.leads["w2"] = "w1"
    names.connect("w2")
    assert 'that "w1" stands for' in await names.claim("w2")


async def test_a_proof_that_failed_is_tried_again_ever_more_rarely() -> None:
    names = Names()
    await names.claim("w1")
    names.table.workers["w2"].fault = refusing("create", FORBIDDEN)
    for _ in range(24 * 60):
        await names.claim("w2")
        names.table.time += RETRIES.first * 12
    assert 24 * 60 / 10 * 0.9 < names.proofs() < 24 * 60 / 10 * 1.1 + 10


async def test_heartbeats_do_not_wait_for_a_proof() -> None:
    names = Names()
    await names.claim("w1")
    await names.claim("w2")
    names.connect("w1")
    client = names.table.world.clients["w2"]
    async with anyio.create_task_group() as tasks:
        names.identities["w2"].uphold(tasks, client)
        assert names.proofs() == 1
    assert names.proofs() == 2


async def test_the_name_stands_for_the_uid_alone_once_the_other_one_is_removed() -> None:
    names = Names()
    await names.claim("w1")
    await names.claim("w2")
    names.table.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"))
    assert await names.claim("w2") == ""
    assert names.recorded("w2") == (UID, None)
    assert names.identities["w2"].note(UID) == ""


async def test_a_third_name_is_compared_with_all_that_show_the_uid() -> None:
    """Else one that lies would open a second name for the cluster of another one."""
    names = Names(leads={"w3": "w2"})
    assert [await names.claim(name) for name in ("w1", "w2")] == ["", ""]
    assert 'that "w2" stands for' in await names.claim("w3")


async def test_two_managers_prove_the_same_at_a_time() -> None:
    one = Names()
    other = Names(table=Table(workers=3))
    other.table.workers = one.table.workers
    for name in one.table.workers:
        other.connect(name)
    assert isinstance(other.table.world.mandate, Mandate)
    async with anyio.create_task_group() as tasks:
        for names in (one, other):
            tasks.start_soon(names.claim, "w1")
    async with anyio.create_task_group() as tasks:
        for names in (one, other):
            tasks.start_soon(names.claim, "w2")
    for names in (one, other):
        names.table.time += RETRIES.cap
        assert await names.claim("w2") == ""
    assert one.left() == 0


@given(
    leads=st.fixed_dictionaries({name: st.sampled_from(("w1", "w2", "w3")) for name in ("w1", "w2", "w3")}),
    acts=st.lists(
        st.sampled_from(("w1", "w2", "w3", "restart", "cut w1", "cut w2", "connect w1", "connect w2")), max_size=12
    ),
)
def test_of_the_names_for_one_cluster_one_is_used_and_in_the_end_each_cluster_has_one(
    leads: dict[str, str], acts: list[str]
) -> None:
    async def play() -> None:
        names = Names(leads=leads)
        used: set[str] = set()

        async def claim(name: str) -> None:
            (used.discard if await names.claim(name) else used.add)(name)
            for one, other in combinations(sorted(used), 2):
                assert leads[one] != leads[other], f"{one} and {other} are both used"

        for act in acts:
            verb, _, name = act.partition(" ")
            if act == "restart":
                names.restart()
                used.clear()
            elif verb == "cut":
                names.table.cut(name)
            elif verb == "connect":
                names.table.connect(name)
            else:
                await claim(act)
        for name in names.table.workers:
            names.table.connect(name)
        for _ in range(3):
            names.table.time += RETRIES.cap
            for name in names.table.workers:
                await claim(name)
        assert {leads[name] for name in used} == set(leads.values())
        assert names.left() == 0

    anyio.run(play)
