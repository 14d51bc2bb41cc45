"""Whatever is written of any kind that is watched: nothing is raised where it comes in, in a cycle, or in what is told of the
queues; and a workload beside it is decided as without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectKey, encode
from multikueue.kube.decode import list_of
from multikueue.quota.cache.consumed_resources import UsageDecay
from multikueue.quota.engine import Engine, EngineRules
from multikueue.store.caches.cache import Cache
from multikueue.store.queues import NoQueues
from multikueue.store.store import Store
from multikueue.store.views import Views
from multikueue.workload.decide import decide
from multikueue.workload.decision_rules import DecisionRules
from tests.border.hostile import ANYTHING, hostile, tree_of
from tests.builders import (
    NOW,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    job,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    namespace,
    secret,
    workload,
    workload_priority_class,
)

INNOCENT, GOING = ObjectKey("default", "innocent"), ObjectKey("default", "going")
Place = Callable[[Store], Cache[Any]]


def honest() -> Store:
    """A manager over two workers with two queues, and a workload of each that waits."""
    engine = Engine(
        EngineRules(
            admission_sharing=UsageDecay(half_life=timedelta(minutes=5)),
            has_non_preemptible=True,
            has_elastic_jobs=True,
        )
    )
    store = Store(engine, NoQueues(), lambda: NOW, has_elastic_jobs=True, should_wait_for_pods=True)
    store.namespaces.upsert(namespace("default").build())
    store.flavors.upsert(flavor().build())
    store.checks.upsert(admission_check("mk").config("mk").active().build())
    store.configs.upsert(multikueue_config("mk", "w1", "w2").build())
    for name in ("w1", "w2"):
        store.clusters.upsert(multikueue_cluster(name).build())
        store.worker(name).connected()
    for name in ("cq", "other"):
        store.cluster_queues.upsert(cluster_queue(name).checks("mk").quota("default", cpu=10).build())
        store.local_queues.upsert(local_queue(name, name).build())
    store.workloads.upsert(workload("innocent").queue("cq").request(cpu=1).build())
    going = workload("going").queue("cq").request(cpu=1).owner_job("going").reserved("cq").check("mk")
    store.workloads.upsert(going.build())
    store.jobs.upsert(job("going").queue("cq").suspended().managed_by().build())
    return store


def tree(item: Any, **more: Any) -> Any:
    made = tree_of(item)
    made["metadata"] |= {"resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return made | more


_POD = {
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
        "overhead": {"cpu": "1m"},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Gt", "values": ["1"]}]}]
                }
            }
        },
    }
}


def waiting(name: str = "odd") -> Any:
    made = tree(workload(name).queue("other").request(cpu=1).build())
    made["metadata"] |= {
        "labels": {"a": "b"},
        "annotations": {"multikueue.dev/non-preemptible": "true"},
        "generation": 1,
    }
    made["spec"]["podSets"][0] |= {"template": _POD, "topologyRequest": {"required": "rack"}, "minCount": 1, "count": 2}
    return made | {"status": {"reclaimablePods": [{"name": "main", "count": 1}], "requeueState": {"count": 1}}}


def holding() -> Any:
    made = tree(workload("odd").queue("other").request(cpu=1).owner_job("job").reserved("other").check("mk").build())
    made["status"] |= {"clusterName": "w1", "nominatedClusterNames": ["w1"]}
    made["spec"]["maximumExecutionTimeSeconds"] = 60
    return made


def queue_tree() -> Any:
    made = tree(cluster_queue("odd").checks("mk").quota("default", cpu=10).build())
    made["metadata"]["annotations"] = {
        "multikueue.dev/max-preempted-workloads": "3/1h",
        "multikueue.dev/backfill": "true",
        "multikueue.dev/follow-capacity": "true",
    }
    made["spec"] |= {"cohortName": "team", "fairSharing": {"weight": "2"}, "admissionScope": {"admissionMode": "x"}}
    return made


_LIMITS = {
    "type": "Container",
    "max": {"cpu": "4"},
    "min": {"cpu": "1m"},
    "default": {"cpu": "2"},
    "defaultRequest": {},
}
_JOB_STATUS = {"active": 1, "startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Complete", "status": "True"}]}

CASES: dict[str, tuple[Kind[Any], Any, Place]] = {
    "a workload that waits": (kinds.WORKLOADS, waiting(), lambda s: s.workloads),
    "a workload with quota": (kinds.WORKLOADS, holding(), lambda s: s.workloads),
    "a job": (
        kinds.JOBS,
        tree(job("odd").queue("other").suspended().managed_by().build()) | {"status": _JOB_STATUS},
        lambda s: s.jobs.of(kinds.JOBS),
    ),
    "a ClusterQueue": (kinds.CLUSTER_QUEUES, queue_tree(), lambda s: s.cluster_queues),
    "a LocalQueue": (
        kinds.LOCAL_QUEUES,
        tree(local_queue("odd", "other").build())
        | {
            "status": {
                "fairSharing": {
                    "weightedShare": 1,
                    "admissionFairSharingStatus": {
                        "consumedResources": {"cpu": "1"},
                        "lastUpdate": "2026-01-01T00:00:00Z",
                    },
                }
            }
        },
        lambda s: s.local_queues,
    ),
    "a cohort": (
        kinds.COHORTS,
        tree(cohort("team").build(), spec={"fairSharing": {"weight": "1"}, "parentName": "x"}),
        lambda s: s.cohorts,
    ),
    "a flavor": (
        kinds.RESOURCE_FLAVORS,
        tree(
            flavor("odd").build(),
            spec={"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "a", "effect": "NoSchedule"}], "topologyName": "t"},
        ),
        lambda s: s.flavors,
    ),
    "a check": (kinds.ADMISSION_CHECKS, tree(admission_check("odd").config("odd").build()), lambda s: s.checks),
    "a config": (kinds.MULTIKUEUE_CONFIGS, tree(multikueue_config("odd", "w1").build()), lambda s: s.configs),
    "a cluster": (kinds.MULTIKUEUE_CLUSTERS, tree(multikueue_cluster("odd").build()), lambda s: s.clusters),
    "a secret": (kinds.SECRETS, tree(secret("odd").build()), lambda s: s.secrets),
    "a namespace": (kinds.NAMESPACES, tree(namespace("odd").build()), lambda s: s.namespaces),
    "a priority class": (
        kinds.WORKLOAD_PRIORITY_CLASSES,
        tree(workload_priority_class("odd", 5).build()),
        lambda s: s.priority_classes,
    ),
    "limits of a namespace": (
        kinds.LIMIT_RANGES,
        {"metadata": {"name": "odd", "namespace": "elsewhere", "resourceVersion": "7"}, "spec": {"limits": [_LIMITS]}},
        lambda s: s.limit_ranges,
    ),
    "a runtime class": (
        kinds.RUNTIME_CLASSES,
        {"metadata": {"name": "odd", "resourceVersion": "7"}, "overhead": {"podFixed": {"cpu": "1"}}},
        lambda s: s.runtime_classes,
    ),
    "a template of claims": (
        kinds.RESOURCE_CLAIM_TEMPLATES,
        {
            "metadata": {"name": "odd", "namespace": "default", "resourceVersion": "7"},
            "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
        },
        lambda s: s.claim_templates,
    ),
    "a device class": (
        kinds.DEVICE_CLASSES,
        {"metadata": {"name": "odd", "resourceVersion": "7"}, "spec": {"extendedResourceName": "example.com/gpu"}},
        lambda s: s.device_classes,
    ),
    "a copy on a worker": (kinds.WORKLOADS, holding(), lambda s: s.worker("w1").workloads),
    "a job on a worker": (
        kinds.JOBS,
        tree(job("odd").build(), status=_JOB_STATUS),
        lambda s: s.worker("w1").jobs.of(kinds.JOBS),
    ),
}


def page(*items: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % b",".join(items)


def take_in(store: Store, kind: Kind[Any], place: Place, body: bytes) -> None:
    """As a reflector does."""
    cache, found = place(store), list_of(kind)(page(body))
    for item in found.items:
        cache.upsert(item)


def outcome(store: Store) -> tuple[Any, ...]:
    """The quota of the innocent workload, and what is decided of the one that has some; all that is told of queues can be."""
    engine = store.engine
    for _ in range(50):
        if not engine.scheduler.cycle(NOW).is_productive:
            break
    engine.scheduler.next_look(NOW)
    for name in store.cluster_queues:
        encode(engine.view.cluster_queue_status(name.metadata.name, NOW))
    for queue in store.local_queues:
        encode(engine.view.local_queue_status(queue.key, NOW))
    for waits in store.workloads:
        encode(engine.scheduler.reservation(waits.key))
    outcome = decide(Views(store).case(GOING, DecisionRules()))
    decision = [getattr(outcome, name) for name in outcome.__struct_fields__ if name != "case"]
    return encode(engine.scheduler.reservation(INNOCENT)), decision


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])
@given(data=st.data())
def test_an_odd_object_costs_itself(case: str, data: st.DataObject) -> None:
    kind, honest_tree, place = CASES[case]
    store = honest()
    take_in(store, kind, place, data.draw(hostile(honest_tree)))
    take_in(store, kind, place, json.dumps(honest_tree).encode())
    assert outcome(store) == CONTROL


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=10)
@given(body=ANYTHING)
def test_any_json_at_all_costs_nobody_anything(case: str, body: str) -> None:
    kind, _, place = CASES[case]
    store = honest()
    take_in(store, kind, place, body.encode())
    assert outcome(store) == CONTROL


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_read_as_long_as_it_is_honest(case: str) -> None:
    kind, honest_tree, place = CASES[case]
    store = honest()
    before = len(place(store))
    take_in(store, kind, place, json.dumps(honest_tree).encode())
    assert len(place(store)) == before + 1
    assert not place(store).unreadable


CONTROL = outcome(honest())
