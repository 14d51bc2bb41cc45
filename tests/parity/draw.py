"""Draws stories from a seed: queues, cohorts, flavors and workloads that get in each other's way.

A drawn story is what a recorded one is before it was played: it expects nothing yet. Whom something happens to depends on
what Kueue will have decided, so such an element is a `Some`, and whoever records the story puts a name in its place.

What depends on Kueue's own timing, or differs on purpose, is left out, since it would say nothing about decisions:

- several causes at once: each element has the time to come to rest before the next one;
- workloads that wait in a stopped queue: whether they read Pending or Inadmissible is a race. So what is stopped is a
  queue in which nothing waits, and no work is made for it until it is let go;
- who was switched off by Kueue itself is not switched on again: Kueue leaves it waiting then, we do not (docs/parity.md);
- under fair sharing, preemption within a queue that is in no cohort: Kueue crashes where those who might go are not enough;
- two resource groups that both fail: Kueue visits the resources of a pod set in random order, and may then go on trying
  from another flavor the next time. So only one group of a story has more than one flavor.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.parity.story import Object

KUEUE = "kueue.x-k8s.io/v1beta2"
CHECKER = "parity.example/judge"
INITIAL, FINAL = "LessThanInitialShare", "LessThanOrEqualToFinalShare"

CONFIGURATIONS: tuple[Object, ...] = (
    {},
    {"fairSharing": {"preemptionStrategies": [FINAL, INITIAL]}},
    {"fairSharing": {"preemptionStrategies": [FINAL]}},
    {"fairSharing": {"preemptionStrategies": [INITIAL]}},
)
WEIGHTS = (6, 2, 1, 1)
"""How often each configuration is drawn."""

LETTERS = "rstuvw"
"""What the names of a story begin with, each time that it is drawn."""


@dataclass(frozen=True, slots=True)
class Some:
    """One of those that are in a state when it is its turn; `pick` tells which of them."""

    state: str
    pick: int


@dataclass(frozen=True, slots=True)
class IfIdle:
    """A queue of this name if nothing waits in it when it is its turn, else nothing."""

    name: str


def draw(seed: int, number: int, *, time: int = 0) -> Object:
    """The story of that number under a seed, and named after both; `time` tells how often it was drawn before.

    The prefix of all its names is made of both, and is of one length: so stories of one seed can share a control plane,
    also the same one drawn again.
    """
    chance = random.Random(f"{seed}/{number}")
    config = chance.choices(CONFIGURATIONS, WEIGHTS)[0]
    story = _Drawing(chance, f"{LETTERS[time]}{number:04d}", config).story()
    return {**story, "name": f"{story['name']}-{seed}"}


class _Drawing:
    """One story as it grows."""

    def __init__(self, chance: random.Random, prefix: str, config: Object) -> None:
        self.chance, self.prefix, self.config = chance, prefix, config
        self.fair = "fairSharing" in config
        self.in_thousandths = self._now_and_then(0.35)
        self.resources = chance.choice((["cpu"], ["cpu"], ["cpu"], ["cpu", "memory"], ["cpu", "example.com/gpu"]))
        self.flavors = [f"{prefix}-f{number}" for number in range(chance.choice((1, 1, 2, 2, 2, 3)))]
        self.has_slots = self._now_and_then(0.3)
        self.tainted = self.flavors[-1] if len(self.flavors) > 1 and self._now_and_then(0.2) else ""
        self.checks = [f"{prefix}-check"] if self._now_and_then(0.12) else []
        self.has_limits = self._now_and_then(0.06)
        self.cohorts = [f"{prefix}-root"]
        self.queues = [f"{prefix}-q{number}" for number in range(chance.choice((2, 3, 3, 3, 4, 4, 5)))]
        self.bodies: dict[str, Object] = {}
        self.stopped: tuple[str, str] | None = None
        self.priorities = self._priorities()
        self.workloads = 0

    def story(self) -> Object:
        """Everything is applied first, but for perhaps one flavor or queue, which comes later."""
        first = list(self._furniture())
        late: list[Object] = []
        if self._now_and_then(0.4):
            kind = self.chance.choice(("ClusterQueue", "ResourceFlavor"))
            held = self.chance.choice([each for each in first if each["kind"] == kind])
            first.remove(held)
            late.append(held)
        steps: list[Object] = [{"apply": first}]
        if self.checks:
            steps.append({"check_active": [{"name": name, "active": True} for name in self.checks]})
        steps.append(self._create(self.chance.randint(3, 6)))
        steps += [{"apply": [each]} for each in late]
        steps += self._events(self.chance.randint(3, 6))
        steps.append({"complete_evictions": "all"})
        features = ["random", "fair" if self.fair else "classical"]
        return {
            "name": f"{self.prefix}-drawn-{features[1]}",
            "description": f"{len(self.queues)} queues, {len(self.flavors)} flavors, {self.workloads} workloads.",
            "features": features,
            "config": self.config,
            "steps": steps,
        }

    # --- what there is ---

    def _furniture(self) -> Iterator[Object]:
        namespace = f"{self.prefix}-ns"
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        if self.has_limits:
            limit = {"type": "Container", "defaultRequest": {"cpu": self._amount("cpu", 1, 2)}}
            yield self._namespaced("LimitRange", f"{self.prefix}-limits", {"limits": [limit]}, version="v1")
        for number, name in enumerate(self.flavors):
            yield self._object("ResourceFlavor", name, self._flavor(number, name))
        if self.has_slots:
            yield self._object("ResourceFlavor", f"{self.prefix}-x", {})
        for name in self.checks:
            yield self._object("AdmissionCheck", name, {"controllerName": CHECKER})
        yield from self._tree()
        for name in self.queues:
            self.bodies[name] = self._object("ClusterQueue", name, self._queue())
            yield self.bodies[name]
            yield self._namespaced("LocalQueue", name, {"clusterQueue": name})

    def _flavor(self, number: int, name: str) -> Object:
        spec: Object = {"nodeLabels": {"tier": f"f{number}"}}
        if name == self.tainted:
            spec["nodeTaints"] = [{"key": "special", "value": f"f{number}", "effect": "NoSchedule"}]
        return spec

    def _tree(self) -> Iterator[Object]:
        """Cohorts in one, two or three levels; sometimes the root has no object, as Kueue allows."""
        depth = self.chance.choice((1, 1, 1, 2, 2, 3))
        root = self.cohorts[0]
        if depth > 1 or self._now_and_then(0.6):
            yield self._object("Cohort", root, self._cohort(limits=False))
        parents = [root]
        for _ in range(depth - 1):
            children = [f"{parents[0]}-{number}" for number in range(self.chance.choice((1, 2, 2)))]
            for child in children:
                yield self._object("Cohort", child, {"parentName": parents[0], **self._cohort()})
            self.cohorts += children
            parents = children

    def _cohort(self, *, limits: bool = True) -> Object:
        """Where there is no cohort above, there is nothing to borrow from or lend to: Kueue refuses such limits."""
        spec: Object = {"resourceGroups": self._groups(smaller=True, limits=limits)} if self._now_and_then(0.4) else {}
        if self.fair and self._now_and_then(0.6):
            spec["fairSharing"] = {"weight": self.chance.choice(("0.5", "2", "3.3"))}
        return spec

    def _queue(self) -> Object:
        strategy = "StrictFIFO" if self._now_and_then(0.2) else "BestEffortFIFO"
        alone = self._now_and_then(0.07)
        groups = self._groups(limits=not alone)
        spec: Object = {"namespaceSelector": {}, "resourceGroups": groups, "queueingStrategy": strategy}
        if not alone:
            spec["cohortName"] = self.chance.choice(self.cohorts)
        preemption = self._preemption()
        if alone and self.fair:
            preemption.pop("withinClusterQueue", None)
        if preemption:
            spec["preemption"] = preemption
        if len(self.flavors) > 1 and self._now_and_then(0.6):
            spec["flavorFungibility"] = self._fungibility()
        if self.fair and self._now_and_then(0.75):
            spec["fairSharing"] = {"weight": self.chance.choice(("0", "0.5", "1.7", "2", "3"))}
        if self.checks and self._now_and_then(0.7):
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in self.checks]}
        return spec

    def _preemption(self) -> Object:
        rules: Object = {}
        if self._now_and_then(0.8):
            within = ("LowerPriority", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority")
            rules["withinClusterQueue"] = self.chance.choice(within)
        if self._now_and_then(0.8):
            rules["reclaimWithinCohort"] = self.chance.choice(("Any", "Any", "LowerPriority"))
            if not self.fair and self._now_and_then(0.3):
                threshold = self.chance.choice(({}, {}, *({"maxPriorityThreshold": each} for each in (0, 20, 60))))
                rules["borrowWithinCohort"] = {"policy": "LowerPriority", **threshold}
        return rules

    def _fungibility(self) -> Object:
        both = ("MayStopSearch", "TryNextFlavor")
        rules = {"whenCanBorrow": self.chance.choice(both), "whenCanPreempt": self.chance.choice(both)}
        if set(rules.values()) == {"TryNextFlavor"} and self._now_and_then(0.6):
            rules["preference"] = self.chance.choice(("PreemptionOverBorrowing", "BorrowingOverPreemption"))
        return rules

    def _groups(self, *, smaller: bool = False, limits: bool = True) -> list[Object]:
        sets = [(self.resources, self.flavors)]
        if self.has_slots and self._now_and_then(0.9):
            sets.append((["example.com/slot"], [f"{self.prefix}-x"]))
        return [
            {
                "coveredResources": resources,
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [self._quota(each, smaller=smaller, limits=limits) for each in resources],
                    }
                    for flavor in flavors
                ],
            }
            for resources, flavors in sets
        ]

    def _quota(self, resource: str, *, smaller: bool, limits: bool) -> Object:
        nominal = 0 if self._now_and_then(0.12) else self.chance.randint(2, 8 if smaller else 12)
        quota: Object = {"name": resource, "nominalQuota": self._amount(resource, nominal, nominal)}
        if limits and self._now_and_then(0.25):
            quota["borrowingLimit"] = self._amount(resource, 0, 6)
        if limits and self._now_and_then(0.25):
            some = self._amount(resource, nominal // 2, nominal // 2)
            quota["lendingLimit"] = self.chance.choice((quota["nominalQuota"], some, self._amount(resource, 0, 0)))
        return quota

    # --- what happens ---

    def _create(self, count: int) -> Object:
        return {"create": [each for each in (self._workload() for _ in range(count)) if each]}

    def _workload(self) -> Object:
        name = f"{self.prefix}-w{self.workloads:02d}"
        queue = self._open_queue()
        pod_sets = [self._pods("a", 2), self._pods("b", 2)] if self._now_and_then(0.2) else [self._pods("main", 4)]
        if len(pod_sets) == 1 and pod_sets[0]["count"] > 1 and self._now_and_then(0.35):
            pod_sets[0]["minCount"] = self.chance.randint(1, pod_sets[0]["count"] - 1)
        priority = self.priorities[self.workloads % len(self.priorities)]
        self.workloads += 1
        spec: Object = {"queueName": queue, "podSets": pod_sets, "priority": priority}
        if self._now_and_then(0.02):
            spec["active"] = False
        return self._namespaced("Workload", name, spec)

    def _pods(self, name: str, most: int) -> Object:
        count = self.chance.choice((1, 1, self.chance.randint(1, most)))
        cap = max(2, 10 // count)
        requests: dict[str, str] = {"cpu": self._amount("cpu", 1, cap)}
        if self.has_limits and self._now_and_then(0.5):
            requests = {}
        for resource in self.resources[1:]:
            if self._now_and_then(0.6):
                requests[resource] = self._amount(resource, 1, max(2, cap // 2))
        if self.has_slots and self._now_and_then(0.35):
            requests["example.com/slot"] = self._amount("example.com/slot", 1, max(2, cap // 2))
        container = {"name": "c", "image": "busybox", "resources": {"requests": requests}}
        spec: Object = {"restartPolicy": "Never", "containers": [container]}
        if self._now_and_then(0.1):
            spec["nodeSelector"] = {"tier": f"f{self.chance.randrange(len(self.flavors))}"}
        if self.tainted and self._now_and_then(0.5):
            spec["tolerations"] = [{"key": "special", "operator": "Exists"}]
        if self._now_and_then(0.03):
            spec["overhead"] = {"cpu": "500m"}
        return {"name": name, "count": count, "template": {"spec": spec}}

    def _events(self, count: int) -> list[Object]:
        kinds = {
            self._more_work: 8,
            self._complete: 6,
            self._finish: 4,
            self._change_quota: 3,
            self._reclaim: 2,
            self._deactivate: 2,
            self._activate: 1,
            self._delete: 2,
            self._stop: 1,
            self._reparent: 1,
            self._change_priority: 1,
            self._move: 1,
        }
        if self.checks:
            kinds[self._judge] = 10
        return [event() for event in self.chance.choices(list(kinds), list(kinds.values()), k=count)]

    def _more_work(self) -> Object:
        return self._create(self.chance.randint(1, 4))

    def _complete(self) -> Object:
        return {"complete_evictions": "all"}

    def _finish(self) -> Object:
        return {"finish": [self._some("admitted") for _ in range(self.chance.choice((1, 1, 2)))]}

    def _deactivate(self) -> Object:
        return {"deactivate": [self._some("unfinished")]}

    def _activate(self) -> Object:
        return {"activate": [self._some("inactive")]}

    def _delete(self) -> Object:
        return {"delete": [{"kind": "Workload", "name": self._some("any")}]}

    def _reclaim(self) -> Object:
        return {"reclaim": [{"workload": self._some("scalable"), "podSet": "", "count": 1}]}

    def _judge(self) -> Object:
        state = self.chance.choice(("Ready", "Ready", "Ready", "Retry", "Rejected"))
        element = {"workload": self._some("checked"), "check": self.checks[0], "state": state}
        return {"set_check": [element]}

    def _change_priority(self) -> Object:
        spec = {"spec": {"priority": self.chance.randint(-20, 100)}}
        return {"patch": [{"kind": "Workload", "name": self._some("waiting"), "patch": spec}]}

    def _move(self) -> Object:
        queue = self._open_queue()
        element = {"kind": "Workload", "name": self._some("waiting"), "patch": {"spec": {"queueName": queue}}}
        return {"patch": [element]}

    def _change_quota(self) -> Object:
        name = self._open_queue()
        body = self.bodies[name]
        self.bodies[name] = {
            **body,
            "spec": {**body["spec"], "resourceGroups": self._groups(limits="cohortName" in body["spec"])},
        }
        return {"apply": [self.bodies[name]]}

    def _reparent(self) -> Object:
        name = self._open_queue()
        cohort = self.chance.choice([*self.cohorts, f"{self.prefix}-elsewhere"])
        body = self.bodies[name]
        self.bodies[name] = {**body, "spec": {**body["spec"], "cohortName": cohort}}
        return {"apply": [self.bodies[name]]}

    def _stop(self) -> Object:
        """Stop a queue if nothing waits in it, or let the stopped one go."""
        if self.stopped is not None:
            kind, name = self.stopped
            self.stopped = None
            return self._patch_policy(kind, name, "None")
        name = self.chance.choice(self.queues)
        kind = self.chance.choice(("ClusterQueue", "ClusterQueue", "LocalQueue"))
        self.stopped = kind, name
        return self._patch_policy(kind, IfIdle(name), self.chance.choice(("Hold", "HoldAndDrain")))

    def _patch_policy(self, kind: str, name: str | IfIdle, policy: str) -> Object:
        where = {"namespace": f"{self.prefix}-ns"} if kind == "LocalQueue" else {}
        return {"patch": [{"kind": kind, "name": name, **where, "patch": {"spec": {"stopPolicy": policy}}}]}

    def _open_queue(self) -> str:
        """One that is not stopped. There are always two at least."""
        return self.chance.choice([each for each in self.queues if self.stopped is None or each != self.stopped[1]])

    # --- dice ---

    def _priorities(self) -> list[int]:
        """Mostly no two alike, so that nothing but the rules tells workloads apart."""
        if self._now_and_then(0.2):
            few = self.chance.sample(range(100), 3)
            return [self.chance.choice(few) for _ in range(40)]
        return self.chance.sample(range(-20, 100), 40)

    def _some(self, state: str) -> Some:
        return Some(state, self.chance.randrange(1_000_000))

    def _now_and_then(self, share: float) -> bool:
        return self.chance.random() < share

    def _amount(self, resource: str, least: int, most: int) -> str:
        """A quantity between so many units. Thousandths of a CPU make ties of shares rare."""
        units = self.chance.randint(least, most)
        if resource == "memory":
            return f"{units}Gi"
        if resource == "cpu" and self.in_thousandths:
            return f"{max(0, units * 1000 - 10 * self.chance.randint(0, 40))}m"
        return str(units)

    def _namespaced(self, kind: str, name: str, spec: Object, *, version: str = KUEUE) -> Object:
        body = self._object(kind, name, spec, version=version)
        body["metadata"]["namespace"] = f"{self.prefix}-ns"
        return body

    def _object(self, kind: str, name: str, spec: Object, *, version: str = KUEUE) -> Object:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
