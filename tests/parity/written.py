"""Stories that are written, not drawn: what chance seldom brings about; one file, a story is little more than its steps.

Some tell what releases of Kueue decide otherwise. Each is a function of the prefix of all its names, as `draw` makes one of a
seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multikueue.api.kueue.compatibility import Release
from tests.parity.draw import FINAL, INITIAL, KUEUE, LETTERS
from tests.parity.story import RELEASES, Object

FIRST = 9000
"""The number of the first of them; those that are drawn have lower ones."""

GRANULAR: Object = {"featureGates": {"UnadmittedWorkloadsObservability": True}}
EXPLICIT: Object = {"featureGates": {**GRANULAR["featureGates"], "UnadmittedWorkloadsExplicitStatus": True}}

FAIR: Object = {"fairSharing": {"preemptionStrategies": [FINAL, INITIAL]}}

DEVICES = "gpu.example.com"
"""A DeviceClass that counts as GPU in stories with CLAIMS."""

CLAIMS: Object = {"resources": {"deviceClassMappings": [{"name": "example.com/gpu", "deviceClassNames": [DEVICES]}]}}

CPU, GPU = "cpu", "example.com/gpu"


def written(number: int, *, time: int = 0) -> Object:
    """The story of that number; `time` tells how often it was asked for before."""
    tell = STORIES[number - FIRST]
    prefix = f"{LETTERS[time]}{number:04d}"
    config, steps = tell(prefix)
    kind = "fair" if "fairSharing" in config else "classical"
    return {
        "name": f"{prefix}-written-{kind}",
        "description": (tell.__doc__ or "").strip(),
        "features": ["written", kind],
        "config": config,
        "steps": steps,
    }


Told = tuple[Object, list[Object]]


class _Cast:
    """Who is in a story, by short names."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def name(self, short: str) -> str:
        return f"{self._prefix}-{short}"

    def object(self, kind: str, short: str, spec: Object) -> Object:
        return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": self.name(short)}, "spec": spec}

    def stage(self, *bodies: Object, flavors: tuple[str, ...] = ("f0",)) -> Object:
        """The first step: a namespace, flavors, these objects, and a LocalQueue for each ClusterQueue among them."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name("ns")}}
        ways = [self._local_queue(each["metadata"]["name"]) for each in bodies if each["kind"] == "ClusterQueue"]
        return {"apply": [namespace, *(self.flavor(each) for each in flavors), *bodies, *ways]}

    def flavor(self, short: str, **labels: str) -> Object:
        return self.object("ResourceFlavor", short, {"nodeLabels": labels} if labels else {})

    def queue(self, short: str, *flavors: Object, cohort: str = "", **more: Any) -> Object:
        """A ClusterQueue with a group of these flavors, of which all have the same resources."""
        within = {"cohortName": self.name(cohort)} if cohort else {}
        spec = {"namespaceSelector": {}, "resourceGroups": [self._group(*flavors)], **within, **more}
        return self.object("ClusterQueue", short, spec)

    def cohort(self, short: str, *flavors: Object, parent: str = "") -> Object:
        spec: Object = {"parentName": self.name(parent)} if parent else {}
        return self.object(
            "Cohort", short, {**spec, **({"resourceGroups": [self._group(*flavors)]} if flavors else {})}
        )

    def quota(self, flavor: str = "f0", **nominal: int) -> Object:
        amounts = {GPU if name == "gpu" else name: amount for name, amount in nominal.items()}
        resources = [{"name": name, "nominalQuota": str(amount)} for name, amount in amounts.items()]
        return {"name": self.name(flavor), "resources": resources}

    def work(self, short: str, queue: str, priority: int = 0, *, pods: int = 1, **more: Any) -> Object:
        """A Workload; what is asked for is given by resource, other fields of its spec as they are."""
        asked = {GPU if name == "gpu" else name: str(more.pop(name)) for name in ("cpu", "gpu") if name in more}
        fewest = {"minCount": more.pop("fewest")} if "fewest" in more else {}
        labels = {"nodeSelector": more.pop("labels")} if "labels" in more else {}
        claims = [{"name": each, "resourceClaimTemplateName": self.name(each)} for each in more.pop("claims", ())]
        claimed = {"resourceClaims": claims} if claims else {}
        container = {"name": "c", "image": "busybox", "resources": {"requests": asked}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container], **labels, **claimed}}
        pod_sets = [{"name": "main", "count": pods, "template": template, **fewest}]
        spec = {"queueName": self.name(queue), "podSets": pod_sets, "priority": priority, **more}
        body = self.object("Workload", short, spec)
        body["metadata"]["namespace"] = self.name("ns")
        return body

    def claim(self, short: str, count: int, of: str = DEVICES) -> Object:
        """A template of claims to so many devices of a class."""
        requests = [{"name": "it", "exactly": {"deviceClassName": of, "count": count}}]
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": self.name(short), "namespace": self.name("ns")},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }

    def _local_queue(self, queue: str) -> Object:
        metadata = {"name": queue, "namespace": self.name("ns")}
        return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": queue}}

    def _group(self, *flavors: Object) -> Object:
        return {"coveredResources": [each["name"] for each in flavors[0]["resources"]], "flavors": list(flavors)}


COMPLETE: Object = {"complete_evictions": "all"}
TAKES_BACK = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def _a_cohort_is_made_above_admitted_work(prefix: str) -> Told:
    """Cohorts get their objects, parents and quota while work is admitted below them: their shares are told at once."""
    cast = _Cast(prefix)
    queues = [cast.queue(f"q{n}", cast.quota(cpu=n), cohort="low" if n < 4 else "root") for n in (2, 3, 4)]
    return FAIR, [
        cast.stage(*queues),
        {"create": [cast.work("w1", "q2", cpu=4)]},
        {"apply": [cast.cohort("low", parent="root")]},
        {"create": [cast.work("w2", "q2", cpu=3)]},
        {"apply": [cast.cohort("root", cast.quota(cpu=5))]},
        {"apply": [cast.cohort("low", cast.quota(cpu=1), parent="root")]},
    ]


def _time_is_up(prefix: str) -> Told:
    """A maximum execution time ends; the pods take their time, then others get the quota."""
    cast = _Cast(prefix)
    return {}, [
        cast.stage(cast.queue("q", cast.quota(cpu=4))),
        {"create": [cast.work("w1", "q", cpu=4, maximumExecutionTimeSeconds=60)]},
        {"wait": 61},
        {"create": [cast.work("w2", "q", cpu=3)]},
        COMPLETE,
    ]


def _nothing_is_asked_for(prefix: str) -> Told:
    """Zero of a resource that no flavor has, and zero of one that is borrowed already."""
    cast = _Cast(prefix)
    mine = cast.queue("a", cast.quota(cpu=4, gpu=1), cohort="all", preemption=TAKES_BACK)
    others = cast.queue("b", cast.quota(cpu=4, gpu=4), cohort="all")
    lonely = cast.queue("c", cast.quota(cpu=4))
    return {}, [
        cast.stage(mine, others, lonely),
        {"create": [cast.work("w1", "c", cpu=1, gpu=0), cast.work("w2", "a", 5, cpu=1, gpu=3)]},
        {"create": [cast.work("w3", "b", cpu=6), cast.work("w4", "a", 3, cpu=3, gpu=0)]},
        COMPLETE,
        {"create": [cast.work("w5", "a", 9, cpu=1, gpu=0)]},
        COMPLETE,
    ]


def _fewer_pods_once_room_is_made(prefix: str) -> Told:
    """A head of variable size preempts in one of two flavors; evictions complete, and more comes meanwhile."""
    cast = _Cast(prefix)
    rules = {"withinClusterQueue": "LowerPriority"}
    search = {"whenCanPreempt": "TryNextFlavor", "whenCanBorrow": "TryNextFlavor"}
    queue = cast.queue(
        "q", cast.quota("f0", cpu=6), cast.quota("f1", cpu=8), preemption=rules, flavorFungibility=search
    )
    return {}, [
        cast.stage(queue, flavors=("f0", "f1")),
        {"create": [cast.work(f"w{n}", "q", n, cpu=cpu) for n, cpu in enumerate((3, 3, 4, 4))]},
        {"create": [cast.work("big", "q", 50, cpu=1, pods=8, fewest=2)]},
        {"create": [cast.work("small", "q", 60, cpu=2)]},
        COMPLETE,
        {"finish": [cast.name("w3")]},
        COMPLETE,
        {"create": [cast.work("late", "q", 40, cpu=2, pods=6, fewest=3)]},
        COMPLETE,
        COMPLETE,
    ]


def _several_want_the_same_back(prefix: str, config: Object) -> Told:
    """Three queues lent everything to a fourth; all three want theirs back at once, one victim after the other goes."""
    cast = _Cast(prefix)
    lenders = [cast.queue(f"q{n}", cast.quota(cpu=3), cohort="all", preemption=TAKES_BACK) for n in range(3)]
    borrower = cast.queue("greedy", cast.quota(cpu=1), cohort="all")
    late = cast.flavor("f0")
    first, *rest = cast.stage(*lenders, borrower)["apply"]
    gate = [each for each in rest if each != late]
    return config, [
        {"apply": [first, late, *(each for each in gate if each["metadata"]["name"] != cast.name("q0"))]},
        {"create": [cast.work(f"v{n}", "greedy", n, cpu=cpu) for n, cpu in enumerate((2, 3, 1, 1))]},
        {"apply": [each for each in gate if each["metadata"]["name"] == cast.name("q0")]},
        {"create": [cast.work("v4", "greedy", 9, cpu=3)]},
        {"create": [cast.work("a", "q0", 5, cpu=2), cast.work("b", "q1", 7, cpu=3), cast.work("c", "q2", 6, cpu=2)]},
        COMPLETE,
        COMPLETE,
        {"create": [cast.work("d", "q0", 1, cpu=1), cast.work("e", "q2", 2, cpu=1)]},
        COMPLETE,
    ]


def _several_want_the_same_back_by_priority(prefix: str) -> Told:
    """Several heads need the same victims."""
    return _several_want_the_same_back(prefix, {})


def _several_want_the_same_back_by_share(prefix: str) -> Told:
    """Several heads need the same victims, under fair sharing."""
    return _several_want_the_same_back(prefix, FAIR)


def _alike_comes_while_alike_is_parked(prefix: str) -> Told:
    """Who comes back, or is new, asks for the same as somebody who was parked."""
    cast = _Cast(prefix)
    rules = {"withinClusterQueue": "LowerPriority"}
    return {}, [
        cast.stage(cast.queue("q", cast.quota(cpu=6), preemption=rules)),
        {"create": [cast.work("w1", "q", 1, cpu=3), cast.work("w2", "q", 1, cpu=3), cast.work("w3", "q", 1, cpu=3)]},
        {"create": [cast.work("w4", "q", 1, cpu=3), cast.work("w5", "q", 9, cpu=4)]},
        COMPLETE,
        {"create": [cast.work("w6", "q", 1, cpu=3), cast.work("w7", "q", 1, cpu=2)]},
        {"finish": [cast.name("w5")]},
        {"delete": [{"kind": "Workload", "name": cast.name("w3")}]},
        {"patch": [{"kind": "Workload", "name": cast.name("w6"), "patch": {"spec": {"priority": 3}}}]},
    ]


def _who_comes_back_asks_for_the_same(prefix: str) -> Told:
    """An older workload is parked; a younger one that asks for the same loses its quota to nobody, and comes back."""
    cast = _Cast(prefix)
    older = {"kind": "Workload", "name": cast.name("older"), "patch": {"spec": {"priority": 1}}}
    return {}, [
        cast.stage(cast.queue("q", cast.quota(cpu=7), preemption={"withinClusterQueue": "LowerPriority"})),
        {"create": [cast.work("stays", "q", 9, cpu=5), cast.work("older", "q", 0, cpu=3)]},
        {"create": [cast.work("short", "q", 9, cpu=2)]},
        {"finish": [cast.name("stays")]},
        {"deactivate": [cast.name("older")]},
        {"create": [cast.work("younger", "q", 1, cpu=3), cast.work("wall", "q", 9, cpu=2)]},
        COMPLETE,
        {"activate": [cast.name("older")]},
        {"patch": [older]},
        {"create": [cast.work("strong", "q", 5, cpu=3)]},
        {"delete": [{"kind": "Workload", "name": cast.name("strong")}]},
        COMPLETE,
    ]


def _its_own_of_what_is_contested(prefix: str) -> Told:
    """A queue that borrows much of one resource wants its nominal quota of another back."""
    cast = _Cast(prefix)
    queues = [cast.queue(n, cast.quota(cpu=4, gpu=4), cohort="all", preemption=TAKES_BACK) for n in "abc"]
    return FAIR, [
        cast.stage(*queues),
        {"create": [cast.work("a1", "a", 3, cpu=3), cast.work("a2", "a", 2, cpu=3), cast.work("b1", "b", 5, gpu=10)]},
        {"create": [cast.work("c1", "c", 4, cpu=4), cast.work("b2", "b", 1, cpu=1)]},
        {"create": [cast.work("b3", "b", 1, cpu=3)]},
        COMPLETE,
        {"create": [cast.work("b4", "b", 1, cpu=2)]},
        COMPLETE,
    ]


def _within_its_own_in_a_cohort_that_borrows(prefix: str) -> Told:
    """Heads within their own quota: the cohort of one borrows what it asks for, that of the other something else."""
    cast = _Cast(prefix)
    tree = [
        cast.cohort("root", cast.quota("f0", cpu=6), cast.quota("f1", cpu=20)),
        cast.cohort("left", parent="root"),
        cast.cohort("right", parent="root"),
    ]
    queues = [
        cast.queue("a", cast.quota("f0", cpu=4), cohort="left"),
        cast.queue("b", cast.quota("f0", cpu=4), cohort="left"),
        cast.queue("d", cast.quota("f0", cpu=4), cohort="right"),
        cast.queue("e", cast.quota("f1", cpu=1), cohort="right"),
        cast.queue("last", cast.quota("f0", cpu=0), cohort="root"),
    ]
    fillers = [cast.work("x1", "last", 9, cpu=6), cast.work("x2", "last", 8, cpu=2)]
    return FAIR, [
        cast.stage(*tree, *queues, flavors=("f0", "f1")),
        {"create": [cast.work("a1", "a", cpu=9), cast.work("e1", "e", cpu=15), *fillers]},
        {"create": [cast.work("b1", "b", 9, cpu=3), cast.work("d1", "d", cpu=3)]},
        {"finish": [cast.name("x2")]},
        {"finish": [cast.name("x1")]},
    ]


def _labels_of_another_flavor(prefix: str) -> Told:
    """A pod asks for a label that only another flavor of the group has."""
    cast = _Cast(prefix)
    flavors = [cast.flavor("f0", tier="a"), cast.flavor("f1", tier="a", zone="x"), cast.flavor("f2", zone="y")]
    names = ("f0", "f1", "f2")
    queue = cast.queue("q", *(cast.quota(name, cpu=4) for name in names))
    step = cast.stage(queue, flavors=())
    return {}, [
        {"apply": [*step["apply"][:1], *flavors, *step["apply"][1:]]},
        {"create": [cast.work("w1", "q", 5, cpu=3, labels={"zone": "x"})]},
        {"create": [cast.work("w2", "q", 4, cpu=3, labels={"zone": "x"})]},
        {"create": [cast.work("w3", "q", 3, cpu=3, labels={"tier": "a"})]},
        {"create": [cast.work("w4", "q", 2, cpu=3, labels={"tier": "a", "zone": "y"})]},
        {"create": [cast.work("w5", "q", 1, cpu=1, labels={"other": "z"})]},
    ]


def _why_work_waits(prefix: str, config: Object) -> Told:
    """Work waits for others, for those that it preempts, for more than there is, for other flavors, or is switched off."""
    cast = _Cast(prefix)
    queue = cast.queue("q", cast.quota(cpu=4), preemption={"withinClusterQueue": "LowerPriority"})
    first, *rest = cast.stage(queue, flavors=())["apply"]
    return config, [
        {"apply": [first, cast.flavor("f0", type="a"), *rest]},
        {"create": [cast.work("runs", "q", 5, cpu=3)]},
        {"create": [cast.work("waits", "q", 5, cpu=3), cast.work("big", "q", 4, cpu=9)]},
        {"create": [cast.work("picky", "q", 3, cpu=1, labels={"type": "b"})]},
        {"create": [cast.work("urgent", "q", 9, cpu=4)]},
        COMPLETE,
        {"deactivate": [cast.name("waits")]},
        {"activate": [cast.name("waits")]},
        {"finish": [cast.name("urgent")]},
    ]


def _why_work_waits_once_it_was_looked_at(prefix: str) -> Told:
    """Granular reasons, told of work that a cycle has looked at."""
    return _why_work_waits(prefix, GRANULAR)


def _why_work_waits_from_the_beginning(prefix: str) -> Told:
    """Granular reasons, told of all work."""
    return _why_work_waits(prefix, EXPLICIT)


def _its_queues_hold_work_up(prefix: str) -> Told:
    """Queues are missing, are stopped, or let no work of that namespace in; then they do."""
    cast = _Cast(prefix)
    other = cast.queue("other", cast.quota(cpu=2), namespaceSelector={"matchLabels": {"team": "a"}})
    stop, go = (
        {"kind": "ClusterQueue", "name": cast.name("q"), "patch": {"spec": {"stopPolicy": policy}}}
        for policy in ("Hold", "None")
    )
    selector = {"namespaceSelector": {"matchLabels": None}}
    open_ = {"kind": "ClusterQueue", "name": cast.name("other"), "patch": {"spec": selector}}
    way = {**cast._local_queue(cast.name("q")), "metadata": {"name": cast.name("late"), "namespace": cast.name("ns")}}
    return EXPLICIT, [
        cast.stage(cast.queue("q", cast.quota(cpu=2)), other),
        {"create": [cast.work("lost", "late", cpu=1), cast.work("stray", "other", cpu=1)]},
        {"create": [cast.work("runs", "q", cpu=2)]},
        {"patch": [stop]},
        {"create": [cast.work("waits", "q", cpu=2)]},
        {"patch": [go]},
        {"patch": [open_]},
        {"apply": [way]},
        {"finish": [cast.name("runs")]},
    ]


def _behind_a_head_that_waits(prefix: str) -> Told:
    """Nobody looks at who is behind the head of a strict queue; who has quota waits for a check, and is tried again, while
    the head has too little room still."""
    cast = _Cast(prefix)
    check = cast.object("AdmissionCheck", "check", {"controllerName": "parity"})
    strict = cast.queue(
        "q",
        cast.quota(cpu=4),
        queueingStrategy="StrictFIFO",
        admissionChecksStrategy={"admissionChecks": [{"name": cast.name("check")}]},
    )
    stage = cast.stage(strict)["apply"]

    def says(state: str) -> Object:
        return {"set_check": [{"workload": cast.name("runs"), "check": cast.name("check"), "state": state}]}

    return EXPLICIT, [
        {"apply": [stage[0], check, *stage[1:]]},
        {"check_active": [{"name": cast.name("check"), "active": True}]},
        {"create": [cast.work("stays", "q", 9, cpu=2), cast.work("runs", "q", 9, cpu=1)]},
        {"create": [cast.work("head", "q", 5, cpu=3), cast.work("behind", "q", 4, cpu=1)]},
        says("Ready"),
        says("Retry"),
        COMPLETE,
    ]


def _devices_that_pods_claim(prefix: str) -> Told:
    """They count as the resource of their class; work waits that claims others, or by a template that is not there."""
    cast = _Cast(prefix)
    stage = cast.stage(cast.queue("q", cast.quota(cpu=10, gpu=4)))["apply"]
    return CLAIMS, [
        {"apply": [*stage, cast.claim("two", 2), cast.claim("others", 1, "fpga.example.com")]},
        {"create": [cast.work("w1", "q", cpu=1, claims=["two"])]},
        {
            "create": [
                cast.work("w2", "q", pods=2, cpu=1, claims=["two"]),
                cast.work("w3", "q", cpu=1, claims=["others"]),
            ]
        },
        {"create": [cast.work("w4", "q", cpu=1, gpu=1, claims=["late"])]},
        {"create": [cast.work("w5", "q", cpu=1)]},
        {"apply": [cast.claim("late", 1)]},
        {"finish": [cast.name("w1")]},
    ]


def _devices_of_no_class_that_pods_claim(prefix: str) -> Told:
    """Where no class counts as anything, work that claims devices waits."""
    cast = _Cast(prefix)
    stage = cast.stage(cast.queue("q", cast.quota(cpu=10, gpu=4)))["apply"]
    return {}, [
        {"apply": [*stage, cast.claim("two", 2)]},
        {"create": [cast.work("w1", "q", cpu=1, claims=["two"])]},
        {"create": [cast.work("w2", "q", cpu=1)]},
    ]


def _nobody_to_preempt_where_it_borrows_less(prefix: str) -> Told:
    """What it prefers, to preempt rather than to borrow, helps nobody in its first flavor: there is nobody to preempt. The
    second one is lent to it from two Cohorts up (#13896)."""
    cast = _Cast(prefix)
    own = cast.quota("f0", cpu=5)
    own["resources"][0]["borrowingLimit"] = "0"
    search = {
        "whenCanBorrow": "TryNextFlavor",
        "whenCanPreempt": "TryNextFlavor",
        "preference": "PreemptionOverBorrowing",
    }
    rules = {"withinClusterQueue": "LowerPriority"}
    queue = cast.queue("q", own, cast.quota("f1", cpu=0), cohort="mid", preemption=rules, flavorFungibility=search)
    cohorts = cast.cohort("root", cast.quota("f1", cpu=5)), cast.cohort("mid", parent="root")
    return {}, [
        cast.stage(*cohorts, queue, cast.queue("other", cast.quota("f0", cpu=5), cohort="mid"), flavors=("f0", "f1")),
        {"create": [cast.work("w1", "q", cpu=5)]},
        {"create": [cast.work("w2", "q", cpu=5)]},
        {"finish": [cast.name("w1")]},
    ]


def _overtaken_again_and_again(prefix: str) -> Told:
    """Somebody waits for an eviction and counts on quota that another one would borrow, who loses in each cycle, and has a
    second flavor (#13956)."""
    cast = _Cast(prefix)
    first = cast.queue("first", cast.quota(cpu=4), cohort="all", preemption={"withinClusterQueue": "LowerPriority"})
    second = cast.queue("second", cast.quota("f0", cpu=0), cast.quota("f1", cpu=4), cohort="all")
    return {}, [
        cast.stage(first, second, flavors=("f0", "f1")),
        {"create": [cast.work("low", "first", -5, cpu=1)]},
        {"create": [cast.work("high", "first", 5, cpu=4)]},
        {"create": [cast.work("slow", "second", cpu=3)]},
        COMPLETE,
    ]


def _kept_and_made_into_credits_once_each(prefix: str) -> Told:
    """What is made of an input is multiplied by another one, and the input that is kept is not (#14032). What fits as it was
    asked for is admitted; what has too many credits waits."""
    cast = _Cast(prefix)
    made = {"input": GPU, "multiplyBy": CPU, "strategy": "Retain", "outputs": {"example.com/credits": "1"}}
    queue = cast.queue("q", cast.quota("f0", cpu=9, gpu=5, **{"example.com/credits": 14}))
    return {"resources": {"transformations": [made]}}, [
        cast.stage(queue),
        {"create": [cast.work("w1", "q", cpu=2, gpu=3)]},
        {"create": [cast.work("w2", "q", cpu=3, gpu=2)]},
        {"create": [cast.work("w3", "q", cpu=3, gpu=1)]},
        {"finish": [cast.name("w1")]},
    ]


STORIES: tuple[Callable[[str], Told], ...] = (
    _a_cohort_is_made_above_admitted_work,
    _time_is_up,
    _nothing_is_asked_for,
    _fewer_pods_once_room_is_made,
    _several_want_the_same_back_by_priority,
    _several_want_the_same_back_by_share,
    _alike_comes_while_alike_is_parked,
    _who_comes_back_asks_for_the_same,
    _its_own_of_what_is_contested,
    _within_its_own_in_a_cohort_that_borrows,
    _labels_of_another_flavor,
    _why_work_waits_once_it_was_looked_at,
    _why_work_waits_from_the_beginning,
    _its_queues_hold_work_up,
    _behind_a_head_that_waits,
    _devices_that_pods_claim,
    _devices_of_no_class_that_pods_claim,
    _nobody_to_preempt_where_it_borrows_less,
    _overtaken_again_and_again,
    _kept_and_made_into_credits_once_each,
)


def can_be_told_of(number: int, release: Release) -> bool:
    """Whether that release of Kueue has the feature gates of the story of that number."""
    config, _ = STORIES[number - FIRST](LETTERS[0])
    return "featureGates" not in config or RELEASES.index(release) >= RELEASES.index("0.19")
