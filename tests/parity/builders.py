"""Small stories of our own: one queue `q` with 4 CPUs of the flavor `f`, in the namespace `ns`."""

from __future__ import annotations

from typing import Any

from tests.parity.story import Object

KUEUE = "kueue.x-k8s.io/v1beta2"

RESERVED = {"QuotaReserved": ["True", "QuotaReserved"], "Admitted": ["True", "Admitted"]}
PENDING = {"QuotaReserved": ["False", "Pending"]}
READY = ["True", "Ready"]


def an_object(kind: str, name: str, *, namespace: str = "", version: str = KUEUE, **content: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def queue(*, cpu: int = 4, **spec: Any) -> Object:
    flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [flavor]}]
    return an_object("ClusterQueue", "q", spec={"namespaceSelector": {}, "resourceGroups": groups, **spec})


def furniture(**spec: Any) -> list[Object]:
    """`spec` is more of the ClusterQueue's."""
    return [
        an_object("Namespace", "ns", version="v1"),
        an_object("ResourceFlavor", "f", spec={}),
        queue(**spec),
        an_object("LocalQueue", "l", namespace="ns", spec={"clusterQueue": "q"}),
    ]


def a_workload(name: str, cpu: int, *, count: int = 1, priority: int = 0) -> Object:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_set = {"name": "main", "count": count, "template": template}
    return an_object(
        "Workload", name, namespace="ns", spec={"queueName": "l", "podSets": [pod_set], "priority": priority}
    )


def admitted(cpu: int, *, count: int = 1, **more: Any) -> Object:
    """What is expected of a workload that runs."""
    pods = {"count": count, "flavors": {"cpu": "f"}, "usage": {"cpu": str(cpu)}}
    admission = {"clusterQueue": "q", "podSets": {"main": pods}}
    return {"active": True, "priority": 0, "conditions": RESERVED, "admission": admission, **more}


def waiting(**more: Any) -> Object:
    return {"active": True, "priority": 0, "conditions": PENDING, **more}


def expected(workloads: Object, *, used: int = 0, running: int = 0, waiting: int = 0) -> Object:
    """`used` CPUs by `running` workloads, while others wait."""
    counts = {"reserving": running, "admitted": running}
    reservation = {"f": {"cpu": [str(used), "0"]}} if used else {}
    return {
        "workloads": workloads,
        "clusterQueues": {"q": {"active": READY, "pending": waiting, "reservation": reservation, **counts}},
        "localQueues": {"l": {"active": READY, **counts}},
    }


def a_story(
    *steps: Object, name: str = "story", features: tuple[str, ...] = (), config: Object | None = None
) -> Object:
    return {"name": name, "features": list(features), "config": config or {}, "steps": list(steps)}


def furnished(**spec: Any) -> Object:
    """The first step of most stories."""
    return {"apply": furniture(**spec), "expect": expected({})}


def good(name: str = "good", features: tuple[str, ...] = ("nominal",)) -> Object:
    """A story that agrees: one workload runs, the other waits until it is finished."""
    lack = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 1 more needed"
    both = [a_workload("one", 3), a_workload("two", 2)]
    finished = admitted(3, conditions=RESERVED | {"Finished": ["True", "Succeeded"]})
    return a_story(
        furnished(),
        {
            "create": both,
            "expect": expected({"one": admitted(3), "two": waiting()}, used=3, running=1, waiting=1),
            "messages": {"two": lack},
        },
        {"finish": ["one"], "expect": expected({"one": finished, "two": admitted(2)}, used=2, running=1)},
        name=name,
        features=features,
    )


def bad(name: str = "bad", features: tuple[str, ...] = ("nominal",)) -> Object:
    """The same with one wrong expectation, at the end: that both are admitted."""
    story = good(name, features)
    counts = story["steps"][-1]["expect"]["clusterQueues"]["q"]
    counts["admitted"] = 2
    return story
