from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from fakekube.server.patching.patches import merge_patch
from multikueue.api.meta import Condition, decoder, encode, with_condition
from multikueue.api.multikueue.clusters import (
    CLUSTERS_ANNOTATION,
    DRAIN_ANNOTATION,
    DRAINED,
    FLEET_LABEL,
    HUB_TAINTS_ANNOTATION,
    IN_FLEET,
    LEAVING_ANNOTATION,
    MAY_LEAVE_ANNOTATION,
    MultiKueueCluster,
    MultiKueueConfig,
    clusters_of,
)
from multikueue.durations import Drain
from multikueue.registration.fleet import FleetPlan, FleetRules, FleetSeen, FleetStep, plan_fleet
from multikueue.registration.members import FleetMember, Inventoried
from tests.builders import NOW, multikueue_cluster, multikueue_config

RULES = FleetRules(origin="multikueue", config="fleet", most="20%", after=timedelta(minutes=1))


def member(name: str, *, problem: str = "", taints: str = "", **labels: str) -> FleetMember:
    source = {"kubeConfig": {"location": f"multikueue-{name}", "locationType": "Secret"}, "clusterProfileRef": None}
    return FleetMember(name=name, source=source, labels=labels, taints=taints, problem=problem)


def names(number: int, first: int = 1) -> list[str]:
    return [f"w{n}" for n in range(first, first + number)]


@dataclass
class Hub:
    """A fleet as its plans make it: each look plans, and does what is planned on objects in memory."""

    rules: FleetRules = RULES
    members: dict[str, FleetMember] = field(default_factory=dict)
    clusters: dict[str, MultiKueueCluster] = field(default_factory=dict)
    config: MultiKueueConfig | None = None
    problem: str = ""
    missing: dict[str, Any] = field(default_factory=dict)
    now: Any = NOW

    @classmethod
    def of(cls, wanted: Iterable[str], **changed: Any) -> Hub:
        made = cls(rules=msgspec.structs.replace(RULES, **changed))
        made.has(wanted)
        made.settle()
        return made

    def has(self, wanted: Iterable[str]) -> None:
        self.members = {name: member(name) for name in wanted}

    def look(self, after: timedelta = timedelta()) -> FleetPlan:
        self.now += after
        gone = [name for name in self.clusters if name not in self.members] if not self.problem else []
        self.missing = {name: self.missing.get(name, self.now) for name in gone}
        inventory = Inventoried(self.members if not self.problem else {}, self.problem)
        seen = FleetSeen(
            inventory=inventory, clusters=self.clusters, config=self.config, missing=self.missing, now=self.now
        )
        plan = plan_fleet(self.rules, seen)
        for step in plan.steps:
            self._do(step)
        return plan

    def settle(self, after: timedelta = timedelta()) -> FleetPlan:
        """Look until nothing is left to do now."""
        plan = self.look(after)
        for _ in range(10):
            if not plan.steps:
                return plan
            plan = self.look()
        raise AssertionError("does not come to rest")

    def drained(self, *wanted: str) -> None:
        for name in wanted:
            condition = Condition(type=DRAINED, status="True", message="")
            status = self.clusters[name].status
            told = msgspec.structs.replace(status, conditions=with_condition(status.conditions, condition, self.now))
            self.clusters[name] = msgspec.structs.replace(self.clusters[name], status=told)

    def says(self, name: str, annotation: str) -> str | None:
        return self.clusters[name].metadata.annotations.get(annotation)

    def say(self, name: str, annotation: str, value: str) -> None:
        self._do(FleetStep(kind="follow", name=name, body={"metadata": {"annotations": {annotation: value}}}))

    def leaving(self) -> list[str]:
        return [name for name in self.clusters if self.says(name, LEAVING_ANNOTATION)]

    def _do(self, step: FleetStep) -> None:
        if step.kind == "remove":
            del self.clusters[step.name]
        elif step.kind == "configure":
            before = msgspec.json.decode(encode(self.config)) if self.config is not None else {}
            self.config = decoder(MultiKueueConfig)(encode(merge_patch(before, dict(step.body))))
        else:
            there = self.clusters.get(step.name)
            before = msgspec.json.decode(encode(there)) if there is not None else {}
            self.clusters[step.name] = decoder(MultiKueueCluster)(encode(merge_patch(before, dict(step.body))))


# Who joins.


def test_new_clusters_join_and_are_in_the_config_in_natural_order() -> None:
    hub = Hub.of(["w10", "w2", "w1"])
    assert hub.config is not None
    assert clusters_of(hub.config) == ("w1", "w2", "w10")
    assert {each.metadata.labels[FLEET_LABEL] for each in hub.clusters.values()} == {"multikueue"}


def test_a_config_takes_more_than_twenty_and_keeps_its_order() -> None:
    hub = Hub.of(names(25, first=5))
    hub.has(names(30))
    hub.settle()
    assert hub.config is not None
    assert hub.config.spec.clusters == tuple(names(20, first=5))
    assert clusters_of(hub.config)[-5:] == ("w1", "w2", "w3", "w4", "w30")
    assert len(hub.config.metadata.annotations[CLUSTERS_ANNOTATION].split(",")) == 10


def test_a_cluster_that_cannot_join_yet_is_told_and_joins_later() -> None:
    hub = Hub()
    hub.members = {"w1": member("w1", problem="there is no kubeconfig in Secret kueue-system/multikueue-w1")}
    plan = hub.look()
    assert (plan.steps, plan.problems) == ((), {"w1": "there is no kubeconfig in Secret kueue-system/multikueue-w1"})
    hub.has(["w1"])
    assert [step.kind for step in hub.look().steps] == ["join"]


def test_a_worker_stays_one_while_its_cluster_could_not_join() -> None:
    hub = Hub.of(["w1"])
    hub.members = {"w1": member("w1", problem="the hub does not see it as available")}
    assert hub.settle(timedelta(days=1)).problems == {}
    assert hub.leaving() == []


def test_what_somebody_else_made_is_left_alone() -> None:
    hub = Hub(clusters={"w1": multikueue_cluster("w1").build()}, config=multikueue_config("fleet", "w1").build())
    hub.has(["w1", "w2"])
    plan = hub.settle()
    assert plan.problems["w1"] == (
        "MultiKueueCluster w1 is not the fleet's: hand it over with the label multikueue.dev/fleet=multikueue"
    )
    assert plan.problems["MultiKueueConfig fleet"].startswith("it is not the fleet's")
    assert hub.config == multikueue_config("fleet", "w1").build()
    hub.has([])
    hub.settle(timedelta(days=1))
    assert FLEET_LABEL not in hub.clusters["w1"].metadata.labels


def test_what_is_handed_over_follows_from_then_on() -> None:
    hub = Hub(clusters={"w1": multikueue_cluster("w1").labels({FLEET_LABEL: "multikueue"}).build()})
    hub.members = {"w1": member("w1", zone="eu")}
    hub.settle()
    assert hub.clusters["w1"].metadata.labels["zone"] == "eu"
    assert hub.clusters["w1"].spec.cluster_source.kube_config is not None
    assert hub.clusters["w1"].spec.cluster_source.kube_config.location == "multikueue-w1"


def test_a_worker_of_somebody_else_stays_in_the_config() -> None:
    hub = Hub.of(["w1", "w2"])
    assert hub.config is not None
    hub.clusters["mine"] = multikueue_cluster("mine").build()
    spec = msgspec.structs.replace(hub.config.spec, clusters=("mine", "w1", "w2", "nobody"))
    hub.config = msgspec.structs.replace(hub.config, spec=spec)
    hub.has(["w1", "w2", "w3"])
    hub.settle()
    assert clusters_of(hub.config) == ("mine", "w1", "w2", "w3")


# What follows.


def test_labels_and_taints_follow_and_go() -> None:
    hub = Hub.of(["w1"])
    hub.say("w1", "note", "mine")
    hub.members = {"w1": member("w1", taints="gpu=broken:NoSelect", zone="eu", tier="spot")}
    hub.settle()
    assert hub.says("w1", HUB_TAINTS_ANNOTATION) == "gpu=broken:NoSelect"
    assert {"zone": "eu", "tier": "spot"}.items() <= hub.clusters["w1"].metadata.labels.items()

    hub.members = {"w1": member("w1", zone="us")}
    hub.settle()
    assert hub.says("w1", HUB_TAINTS_ANNOTATION) is None
    assert hub.clusters["w1"].metadata.labels["zone"] == "us"
    assert "tier" not in hub.clusters["w1"].metadata.labels
    assert hub.says("w1", "note") == "mine"


def test_nothing_is_written_while_nothing_changes() -> None:
    hub = Hub.of(names(3))
    assert hub.look(timedelta(days=1)).steps == ()


# Who leaves.


def test_a_cluster_that_is_missing_for_a_moment_stays() -> None:
    hub = Hub.of(names(10))
    hub.has(names(9))
    hub.settle()
    assert hub.look(timedelta(seconds=59)).again == hub.now + timedelta(seconds=1)
    hub.has(names(10))
    hub.settle(timedelta(seconds=1))
    hub.has(names(9))
    hub.settle(timedelta(seconds=30))
    assert hub.leaving() == []


def test_a_cluster_that_stays_away_is_drained_and_then_removed() -> None:
    hub = Hub.of(names(10), drain=Drain(timedelta(hours=8)))
    hub.has(names(9))
    hub.settle()
    plan = hub.settle(timedelta(minutes=1))
    assert hub.leaving() == ["w10"]
    assert hub.says("w10", DRAIN_ANNOTATION) == "wait=28800s"
    assert plan.conditions["w10"].reason == "Leaving"
    assert hub.config is not None
    assert "w10" in clusters_of(hub.config)

    hub.drained("w10")
    assert [step.kind for step in hub.look().steps] == ["configure"]
    assert [step.kind for step in hub.look().steps] == ["remove"]
    assert "w10" not in hub.clusters
    assert clusters_of(hub.config) == tuple(names(9))


def test_a_cluster_that_comes_back_is_used_again() -> None:
    hub = Hub.of(names(10))
    hub.has(names(9))
    hub.settle()
    hub.settle(timedelta(minutes=1))
    hub.has(names(10))
    hub.settle()
    assert hub.leaving() == []
    assert hub.says("w10", DRAIN_ANNOTATION) is None


@pytest.mark.parametrize(
    ("most", "missing", "leave"),
    [("20%", 8, 8), ("20%", 9, 0), ("20%", 40, 0), ("5", 5, 5), ("5", 6, 0), ("0%", 1, 0), ("0", 1, 0), ("1%", 1, 1)],
    ids=[
        *("as many as the share", "one more than the share", "a hub that empties itself", "as many as the number"),
        *("one more than the number", "a share of nothing", "none", "one at least"),
    ],
)
def test_of_forty_workers_no_more_leave_than_the_share(most: str, missing: int, leave: int) -> None:
    hub = Hub.of(names(40), most=most)
    hub.has(names(40 - missing))
    hub.settle()
    plan = hub.settle(timedelta(minutes=1))
    assert len(hub.leaving()) == leave
    assert len(plan.held) == (0 if leave else missing)
    assert {each.reason for each in plan.conditions.values()} == {"Leaving" if leave else "Held"}


def test_a_hub_that_loses_one_after_another_loses_no_more_than_the_share_in_a_window() -> None:
    hub = Hub.of(names(40))
    for left in range(39, -1, -1):
        hub.has(names(left))
        hub.settle()
        hub.settle(timedelta(minutes=1))
        hub.drained(*hub.leaving())
        hub.settle()
    assert len(hub.clusters) == 32
    plan = hub.look()
    assert plan.again is not None
    hub.settle(plan.again - hub.now)
    assert len(plan.held) == 32
    assert hub.leaving() == []

    hub.has(names(31))  # the hub has recovered, and one has left
    hub.settle(timedelta(days=1))
    hub.settle(timedelta(minutes=1))
    assert hub.leaving() == ["w32"]


def test_a_cluster_that_flaps_counts_once() -> None:
    hub = Hub.of(names(10), most="2")
    for _ in range(5):
        for there in (names(9), names(10)):
            hub.has(there)
            hub.settle()
            hub.settle(timedelta(minutes=2))
            hub.drained(*hub.leaving())
            hub.settle()
    hub.has(names(8))
    hub.settle()
    hub.settle(timedelta(minutes=1))
    assert sorted(hub.leaving()) == ["w10", "w9"]


def test_a_person_lets_them_leave() -> None:
    hub = Hub.of(names(10))
    hub.has(names(3))
    hub.settle()
    plan = hub.settle(timedelta(minutes=1))
    assert sorted(plan.held) == ["w10", *names(6, first=4)]
    for name in ("w4", "w5", "w6"):
        hub.say(name, MAY_LEAVE_ANNOTATION, "true")
    hub.settle()
    assert hub.leaving() == ["w4", "w5", "w6"]

    hub.drained(*hub.leaving())
    hub.settle()
    hub.has([*names(3), *names(4, first=7)][:-1])  # those that a person let go use nothing up
    hub.settle()
    hub.settle(timedelta(minutes=1))
    assert hub.leaving() == ["w10"]


def test_an_inventory_that_is_not_believed_takes_nobody() -> None:
    hub = Hub.of(names(3))
    hub.problem = "the hub has no ManagedClusterSet gpu"
    plan = hub.settle(timedelta(days=7))
    assert hub.leaving() == []
    assert plan.held == ("w1", "w2", "w3")
    assert plan.conditions["w1"] == Condition(type=IN_FLEET, status="False", reason="Held", message=hub.problem)


def test_the_last_ones_leave_too_and_the_config_keeps_their_names() -> None:
    hub = Hub.of(["w1"])
    hub.has([])
    hub.settle()
    hub.settle(timedelta(minutes=1))
    hub.drained("w1")
    hub.settle()
    assert hub.clusters == {}
    assert hub.config is not None
    assert clusters_of(hub.config) == ("w1",)
