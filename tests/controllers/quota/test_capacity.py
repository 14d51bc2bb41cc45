"""Nominal quotas follow the workers, one file: what is read, what is written, and what is told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from multikueue.api import kinds
from multikueue.api.kueue.queues import FOLLOW_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
from multikueue.controllers.quota.capacity import FOLLOWED, MANAGER, SOONEST, UNKNOWN, UNWRITTEN, Capacity
from multikueue.errors import (
    ClusterUnreachable,
    Conflict,
    Forbidden,
    InvalidObject,
    MultiKueueError,
    NotLeading,
    Unauthorized,
)
from multikueue.quota.cache.budgets import INVALID_ANNOTATION
from multikueue.quota.capacity.following import AUTOMATION
from multikueue.settings import BESIDE_KUEUE, EXTERNAL_DISPATCHER, STANDALONE, CapacityFollow, Role
from tests.cluster import Cluster
from tests.controllers.table import CONFIG, NAMESPACE, QUEUE, Table, table

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.anyio

QUEUE_KEY = ObjectKey("", "cq")
HOLD = timedelta(minutes=5)


def have(cluster: Cluster, cpu: int | str, *, flavor: str = "default") -> None:
    """The worker's queues, which have so many cores."""
    quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    cluster.put(kinds.CLUSTER_QUEUES, {"metadata": {"name": "theirs"}, "spec": spec})
    local = {"metadata": {"name": QUEUE, "namespace": NAMESPACE}, "spec": {"clusterQueue": "theirs"}}
    cluster.put(kinds.LOCAL_QUEUES, local)


class Following:
    """A manager whose one queue has 100 cores, and workers with so many."""

    def __init__(self, *cpu: int, **settings: Any) -> None:
        self.table = table(workers=len(cpu))
        self.capacity = Capacity(self.table.world)
        self.set(enabled=True, **settings)
        for (name, cluster), amount in zip(self.table.workers.items(), cpu, strict=True):
            have(cluster, amount)
            self.table.world.clients[name] = cluster

    @property
    def manager(self) -> Cluster:
        return self.table.manager

    def set(self, **settings: Any) -> None:
        in_force = self.table.world.settings
        new = CapacityFollow(shrink_after=HOLD, **settings)
        in_force.settings = in_force.settings.model_copy(update={"capacity_follow": new})

    def say(self, text: str) -> None:
        self.manager.change(kinds.CLUSTER_QUEUES, QUEUE_KEY, {"metadata": {"annotations": {FOLLOW_ANNOTATION: text}}})

    async def look(self, after: timedelta = timedelta()) -> str | int:
        """The nominal quota after a look, later."""
        self.table.time += after
        await self.capacity.look()
        return self.quota()

    async def heard(self, worker: str, *, after: timedelta) -> str | int:
        """The nominal quota after the news, later, that this worker has changed."""
        self.table.time += after
        await self.capacity.reconcile(worker)
        return self.quota()

    def quota(self) -> str | int:
        queue = self.manager.find(kinds.CLUSTER_QUEUES, QUEUE_KEY) or {}
        quota: str | int = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
        return quota

    def asked_of(self, worker: str) -> list[str]:
        return self.table.workers[worker].calls

    def events(self, reason: str) -> list[str]:
        return [body["message"] for body in self.table.recorder.waiting() if body["reason"] == reason]

    def asked(self) -> list[str]:
        return [call for worker in self.table.workers for call in self.asked_of(worker)]


async def test_quota_grows_to_what_the_workers_have_at_once_and_is_written_once() -> None:
    following = Following(100, 60)
    assert await following.look() == "160"
    assert await following.look() == "160"
    assert following.manager.calls == ["patch clusterqueues"]
    assert following.manager.authors == [MANAGER]
    assert following.events(FOLLOWED) == ["cpu in flavor default: 100 -> 160 (w1 100, w2 60)"]


async def test_quota_shrinks_after_a_while_and_grows_back_at_once() -> None:
    following = Following(100, 60)
    await following.look()
    have(following.table.workers["w2"], 10)
    assert await following.look(HOLD) == "160"
    assert await following.look(HOLD - timedelta(seconds=1)) == "160"
    assert await following.look(timedelta(seconds=1)) == "110"
    have(following.table.workers["w2"], "60")
    assert await following.look() == "160"


async def test_a_worker_that_is_away_for_a_moment_moves_nothing() -> None:
    following = Following(100, 60)
    await following.look()
    await following.look(HOLD)
    following.table.cut("w2")
    assert await following.look() == "160"
    following.table.connect("w2")
    assert await following.look(HOLD) == "160"
    assert following.events(UNKNOWN) == ["w2 is away; what it had counts for a while"]


async def test_a_worker_that_stays_away_counts_for_nothing() -> None:
    following = Following(100, 60)
    await following.look()
    following.table.cut("w2")
    await following.look(HOLD)
    assert await following.look(HOLD) == "100"


async def test_a_cordoned_worker_gets_no_work_and_so_has_nothing_for_it() -> None:
    following = Following(100, 60)
    await following.look(HOLD)
    cordon = {"metadata": {"annotations": {CORDON_ANNOTATION: "true"}}}
    following.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w2"), cordon)
    await following.look()
    assert await following.look(HOLD) == "100"
    assert following.events(UNKNOWN)[-1] == "w2 is cordoned"


async def test_a_worker_has_nothing_for_queues_of_namespaces_that_it_does_not_offer() -> None:
    following = Following(100, 60)
    following.table.store.worker("w1").watch_scope.offer((NAMESPACE,), following.table.now())
    following.table.store.worker("w2").watch_scope.offer(("other",), following.table.now())
    await following.look(HOLD)
    assert following.events(UNKNOWN)[-1] == "none of its LocalQueues leads to a ClusterQueue on w2"


async def test_a_namespace_that_a_worker_refuses_to_show_costs_what_is_in_that() -> None:
    following = Following(100, 60)
    following.table.store.worker("w2").watch_scope.offer((NAMESPACE, "other"), following.table.now())
    w2, hidden = following.table.workers["w2"], {"other"}

    def refuse(_verb: str, _plural: str) -> Forbidden | None:
        namespace = w2.requests[-1].path.partition("/namespaces/")[2].partition("/")[0]
        return Forbidden(403, "Forbidden", namespace) if namespace in hidden else None

    w2.fault = refuse
    assert await following.look() == "160"
    assert following.events(UNKNOWN) == []

    hidden.clear()
    hidden.add(NAMESPACE)
    await following.look(HOLD)
    assert await following.look(HOLD) == "100"
    assert following.events(UNKNOWN)[-1] == f"w2 does not let us read the LocalQueues of {NAMESPACE}: register it again"

    hidden.add("other")
    assert await following.look(HOLD) == "100"
    assert following.events(UNKNOWN)[-1].startswith("nominal quotas stay as they are: w2: may not be read")


async def test_a_process_that_leads_no_more_says_nothing() -> None:
    following = Following(160)
    following.manager.fault = lambda _verb, _plural: NotLeading("another process acts")
    assert await following.look() == "100"
    assert following.events(UNWRITTEN) == []


async def test_what_is_new_to_this_process_shrinks_nothing_before_it_was_looked_at_for_long_enough() -> None:
    following = Following(40)
    assert await following.look() == "100"
    assert await following.look(HOLD - timedelta(seconds=1)) == "100"
    assert await following.look(timedelta(seconds=1)) == "40"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(Forbidden(403, "Forbidden", "no rights"), "w2: may not be read: no rights: register it", id="403"),
        pytest.param(
            InvalidObject("ClusterQueue q", "spec", "a spec"), "w2: cannot be read: ClusterQueue q", id="shape"
        ),
    ],
)
async def test_a_worker_that_may_not_be_read_keeps_everything_and_is_told_once(
    error: MultiKueueError, words: str
) -> None:
    following = Following(100, 60)
    following.table.workers["w2"].fault = lambda _verb, _plural: error
    for _ in range(3):
        assert await following.look(HOLD * 3) == "100"
    (message,) = following.events(UNKNOWN)
    assert message.startswith(f"nominal quotas stay as they are: {words}")
    assert following.table.store.worker("w2").why == "", "it works for all else"
    following.table.workers["w2"].fault = lambda _verb, _plural: None
    assert await following.look() == "160"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ClusterUnreachable("w2", "no answer"), id="no answer"),
        pytest.param(Unauthorized(401, "Unauthorized", "who"), id="a token that is over"),
    ],
)
async def test_a_worker_that_does_not_answer_is_away(error: MultiKueueError) -> None:
    following = Following(100, 60)
    following.table.workers["w2"].fault = lambda _verb, _plural: error
    assert await following.look() == "100"
    assert following.events(UNKNOWN) == ["w2 is away"]


async def test_nobody_is_looked_at_until_somebody_follows() -> None:
    following = Following(100, 60)
    following.set()
    assert await following.look() == "100"
    assert following.asked() == []
    following.say("10%")
    assert await following.look() == "144"
    assert following.asked() == ["list localqueues", "list clusterqueues"] * 2
    following.say("false")
    following.set(enabled=True)
    have(following.table.workers["w1"], 300)
    assert await following.look() == "144"


async def test_an_annotation_that_makes_no_sense_is_told_once_and_counts_as_absent() -> None:
    following = Following(160)
    following.say("yes")
    assert [await following.look() for _ in range(2)] == ["160", "160"]
    (message,) = following.events(INVALID_ANNOTATION)
    assert message.endswith('got "yes"')


async def test_a_queue_without_workers_says_so() -> None:
    following = Following(160)
    following.say("true")
    following.manager.change(kinds.CLUSTER_QUEUES, QUEUE_KEY, {"spec": {"admissionChecksStrategy": None}})
    assert await following.look() == "100"
    assert following.events(UNKNOWN) == ["it has no MultiKueue check, so there are no workers to follow"]


async def test_a_dry_run_writes_nothing() -> None:
    following = Following(160, dry_run=True)
    with capture_logs() as logs:
        assert [await following.look() for _ in range(2)] == ["100", "100"]
    changes = "cpu in flavor default: 100 -> 160 (w1 160)"
    assert [(each["event"], each["changes"]) for each in logs] == [("capacity.would_follow", changes)]
    assert following.manager.calls == []
    following.set(enabled=True)
    assert await following.look() == "160"


async def test_what_is_not_granted_is_told_with_what_to_do_and_tried_again() -> None:
    following = Following(160)
    following.manager.fault = lambda _verb, _plural: Forbidden(403, "Forbidden", "no")
    assert [await following.look() for _ in range(2)] == ["100", "100"]
    assert following.events(UNWRITTEN) == [
        "cpu in flavor default: 100 -> 160 (w1 160): not written: no: grant deploy/components/capacity-follow"
    ]
    following.manager.fault = lambda _verb, _plural: None
    assert await following.look() == "160"


async def test_quota_that_somebody_changed_meanwhile_is_decided_again_at_once() -> None:
    following = Following(160)
    stale = following.table.store.cluster_queues.get(QUEUE_KEY)
    assert stale is not None
    resources = [{"name": "cpu", "nominalQuota": "7"}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}]
    following.manager.unwatch()  # the news has not come yet
    following.manager.change(kinds.CLUSTER_QUEUES, QUEUE_KEY, {"spec": {"resourceGroups": groups}})
    assert await following.look() == "160"
    assert following.events(FOLLOWED) == ["cpu in flavor default: 7 -> 160 (w1 160)"]
    assert following.events(UNWRITTEN) == []


@pytest.mark.parametrize("times", [1, 2, 100])
async def test_a_conflict_is_news_for_nobody(times: int) -> None:
    """The queue is read, and written again in the same look; whoever writes all the time has the next one for it."""
    following, left = Following(160), [times]

    def conflict(verb: str, _plural: str) -> Conflict | None:
        left[0] -= verb == "patch"
        return Conflict(409, "Conflict", "the object has been modified") if verb == "patch" and left[0] >= 0 else None

    following.manager.fault = conflict
    assert await following.look() == ("160" if times < 5 else "100")
    assert following.events(UNWRITTEN) == []
    following.manager.fault = lambda _verb, _plural: None
    assert await following.look() == "160"


async def test_a_queue_that_is_gone_after_a_conflict_is_left_alone() -> None:
    following = Following(160)

    def gone(verb: str, _plural: str) -> Conflict | None:
        if verb != "patch":
            return None
        following.manager.fault = lambda _verb, _plural: None
        following.manager.drop(kinds.CLUSTER_QUEUES, QUEUE_KEY)
        return Conflict(409, "Conflict", "the object is being deleted")

    following.manager.fault = gone
    await following.capacity.look()
    assert following.events(UNWRITTEN) == []
    assert following.manager.find(kinds.CLUSTER_QUEUES, QUEUE_KEY) is None


async def test_a_flavor_that_leads_nowhere_is_told_and_the_map_corrects_it() -> None:
    following = Following(160)
    two = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": "1"}]} for name in ("default", "spot")]
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": two}]}
    following.manager.change(kinds.CLUSTER_QUEUES, QUEUE_KEY, {"spec": spec})
    have(following.table.workers["w1"], 20, flavor="theirs")
    assert await following.look() == "1"
    assert following.events(UNKNOWN) == ["flavor theirs of w1 counts for nothing here"]
    following.set(enabled=True, flavors={"w1/theirs": "default"})
    assert await following.look() == "20"


async def test_nothing_is_remembered_of_who_is_gone() -> None:
    following = Following(160)
    following.say("yes")
    await following.look()
    following.manager.drop(kinds.CLUSTER_QUEUES, QUEUE_KEY)
    await following.capacity.look()
    assert (following.capacity._records, following.capacity._told) == ({}, {})


@pytest.mark.parametrize(
    ("roles", "follows"),
    [(STANDALONE, True), (BESIDE_KUEUE, True), (EXTERNAL_DISPATCHER, False)],
    ids=["standalone", "beside Kueue", "as its external dispatcher"],
)
async def test_who_speaks_to_workers_can_follow_them(roles: frozenset[Role], follows: bool) -> None:
    tasks = Table(roles=roles).runnables.tasks
    assert any(isinstance(getattr(task, "__self__", None), Capacity) for task in tasks) is follows


# One worker, whose queues have changed.


async def test_the_worker_that_changed_is_read_and_no_other() -> None:
    following = Following(100, 60)
    assert await following.look() == "160"
    have(following.table.workers["w2"], 90)
    following.table.workers["w1"].calls.clear()
    assert await following.heard("w2", after=SOONEST) == "190"
    assert following.table.workers["w1"].calls == []


async def test_a_worker_that_changes_all_the_time_is_read_once_in_a_while() -> None:
    following = Following(100)
    await following.look(SOONEST)
    following.asked_of("w1").clear()
    for cpu in range(200, 230):
        have(following.table.workers["w1"], cpu)
        await following.heard("w1", after=SOONEST / 10)
    assert following.asked_of("w1") == ["list localqueues", "list clusterqueues"] * 3
    result = await following.capacity.reconcile("w1")
    assert timedelta() < (result.again_after or timedelta()) <= SOONEST
    assert await following.heard("w1", after=SOONEST) == "229"


async def test_a_worker_that_nobody_follows_is_not_read() -> None:
    following = Following(100, 60)
    following.say("false")
    await following.look()
    assert await following.heard("w1", after=SOONEST) == "100"
    assert following.asked() == []


async def test_a_worker_that_is_new_beside_the_one_that_changed_is_read_too() -> None:
    following = Following(100, 60)
    following.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", CONFIG), {"spec": {"clusters": ["w1"]}})
    assert await following.look() == "100"
    following.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", CONFIG), {"spec": {"clusters": ["w1", "w2"]}})
    assert await following.heard("w1", after=SOONEST) == "160"
    assert following.events(UNKNOWN) == []


async def test_a_queue_that_begins_to_follow_does_so_at_once() -> None:
    following = Following(100, 60)
    following.set()
    await following.look()
    await following.table.taken(following.table.queues.capacity)
    following.say("10%")
    assert await following.table.taken(following.table.queues.capacity) == [""]
    assert await following.heard("", after=SOONEST) == "144"
    following.asked_of("w1").clear()
    following.say("5%")
    assert await following.heard("", after=SOONEST) == "152"
    assert following.asked_of("w1") == [], "it was read before"


async def test_a_worker_that_comes_back_is_read_at_once() -> None:
    following = Following(100)
    following.table.cut("w1")
    assert await following.look() == "100"
    have(following.table.workers["w1"], 130)
    following.table.connect("w1")
    assert "w1" in await following.table.taken(following.table.queues.capacity)
    assert await following.heard("w1", after=SOONEST) == "130"


# By the MultiKueueConfig (KEP 9988).


CONFIG_KEY = ObjectKey("", CONFIG)


def by_config(*cpu: int, mode: str = "Automated", on: bool = True) -> Following:
    """No queue follows but by its MultiKueueConfig."""
    following = Following(*cpu)
    following.set(enabled=False, quota_management=on)
    following.manager.change(kinds.MULTIKUEUE_CONFIGS, CONFIG_KEY, {"spec": {"quotaManagement": mode}})
    return following


def automated(following: Following) -> tuple[str, str] | None:
    queue = following.manager.find(kinds.CLUSTER_QUEUES, QUEUE_KEY) or {}
    conditions = queue.get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == AUTOMATION), None)


async def test_a_config_has_its_queues_follow_and_says_so() -> None:
    following = by_config(100, 60)
    assert await following.look() == "160"
    assert automated(following) == ("True", "QuotaAutomated")
    following.manager.calls.clear()
    await following.look(after=HOLD)
    assert following.manager.writes() == []


async def test_a_condition_that_meets_a_conflict_is_written_in_the_same_look() -> None:
    following, left = by_config(160), [2]

    def conflict(verb: str, _plural: str) -> Conflict | None:
        if verb != "patch" or not any("/status" in each.path for each in following.manager.requests[-1:]):
            return None
        left[0] -= 1
        return Conflict(409, "Conflict", "the object has been modified") if left[0] >= 0 else None

    following.manager.fault = conflict
    assert await following.look() == "160"
    assert automated(following) == ("True", "QuotaAutomated")
    assert left[0] == -1
    assert following.events(UNWRITTEN) == []


async def test_a_config_that_leaves_quota_to_people_says_so_and_nothing_is_read() -> None:
    following = by_config(100, 60, mode="Manual")
    assert await following.look() == "100"
    assert automated(following) == ("False", "NotRequested")
    assert following.asked() == []


async def test_where_it_is_switched_off_a_config_means_nothing() -> None:
    following = by_config(100, 60, on=False)
    assert await following.look() == "100"
    assert automated(following) is None


async def test_resources_that_are_not_covered_are_told_and_change_nothing() -> None:
    following = by_config(100, 60)
    have_memory = {"name": "default", "resources": [{"name": "memory", "nominalQuota": "1Gi"}]}
    spec = {"resourceGroups": [{"coveredResources": ["memory"], "flavors": [have_memory]}]}
    following.table.workers["w2"].change(kinds.CLUSTER_QUEUES, ObjectKey("", "theirs"), {"spec": spec})
    assert await following.look() == "100"
    assert automated(following) == ("False", "UnsupportedConfiguration")


async def test_a_queue_that_follows_on_its_own_goes_on_whatever_the_config_says() -> None:
    following = by_config(100, 60, mode="Manual")
    following.say("10%")
    assert await following.look() == "144"
    assert automated(following) == ("False", "NotRequested")
