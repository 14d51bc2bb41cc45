"""In one file: a fleet of simulated clusters that is well, and how one of its workers, or its manager, is not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec

from multikueue.answers.findings import Report
from multikueue.api import kinds
from multikueue.api.kueue.queues import LabelSelector
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import CLUSTER_UID_ANNOTATION, CORDON_ANNOTATION
from multikueue.cli.access.server_facts import ServerFacts
from multikueue.cli.access.worker_access import ReachableWorker
from multikueue.cli.access.worker_clusters import WorkerCluster, gather
from multikueue.cli.commands.clusters.inspection import MANAGER, check_all, check_manager
from multikueue.errors import ClusterUnreachable
from multikueue.kube.cluster_client import ClusterClient
from multikueue.registration.credentials import Credential, Endpoint, build_kubeconfig
from multikueue.registration.plan import CLUSTER_ROLES, Registration, worker_objects
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION
from tests.builders import (
    admission_check,
    cluster_queue,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    pod_set,
    secret,
    workload,
)
from tests.cli.cluster import NOW, SERVED, Cluster, Fake, json_web_token, sign

WORKERS = ("w0", "w1", "w2", "w3")
"""The first is always well."""

SPACE, MAIN, CQ = "team-a", ObjectKey("team-a", "main"), ObjectKey("", "cq")
NEEDED = {"ConfigMap": kinds.CONFIG_MAPS, "Secret": kinds.SECRETS, "ServiceAccount": kinds.SERVICE_ACCOUNTS}
ACTIVE = [
    {"type": "Active", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T12:00:00Z"}
]
POD = {
    "serviceAccountName": "needed",
    "containers": [
        {
            "name": "main",
            "image": "x",
            "envFrom": [{"configMapRef": {"name": "needed"}}, {"secretRef": {"name": "needed"}}],
            "resources": {"requests": {"cpu": "1"}},
        }
    ],
}


def kubeconfig(name: str, *, server: str = "", ends: timedelta = timedelta(days=30), ca: bytes = b"") -> bytes:
    token = Credential(kind="token", user={"token": json_web_token(NOW + ends)}, expires=None)
    return build_kubeconfig(name, Endpoint(server=server or f"https://{name}.example", ca=ca), token)


@dataclass
class Fleet:
    """`gone` do not answer, `strange` do not know the credential; `ahead` is by how many seconds clocks are,
    `ends` in which time certificates end."""

    manager: Cluster = field(default_factory=lambda: Cluster("manager"))
    workers: dict[str, Cluster] = field(default_factory=lambda: {name: Cluster(name) for name in WORKERS})
    gone: set[str] = field(default_factory=set)
    strange: set[str] = field(default_factory=set)
    ahead: dict[str, float] = field(default_factory=dict)
    ends: dict[str, timedelta] = field(default_factory=dict)

    def __post_init__(self) -> None:
        manager = self.manager
        converts(manager, "Webhook")
        manager.add(kinds.MULTIKUEUE_CONFIGS, multikueue_config("all", *WORKERS).build())
        manager.add(kinds.ADMISSION_CHECKS, admission_check("mk").config("all").build())
        manager.add(kinds.CLUSTER_QUEUES, cluster_queue("cq").checks("mk").quota("default", cpu=10).build())
        manager.add(kinds.LOCAL_QUEUES, local_queue("main", "cq", namespace=SPACE).build())
        manager.add(kinds.NAMESPACES, {"metadata": {"name": SPACE}})
        template = msgspec.json.encode({"spec": POD})
        waits = workload("job-train", namespace=SPACE).queue("main").owner_job("train")
        manager.add(kinds.WORKLOADS, waits.pod_sets(pod_set().template(template)).build())
        for name, worker in self.workers.items():
            self.registered(name, kubeconfig(name))
            made = multikueue_cluster(name).secret(f"multikueue-{name}").active()
            manager.add(kinds.MULTIKUEUE_CLUSTERS, made.annotations({CLUSTER_UID_ANNOTATION: f"{name}-1"}).build())
            self.equipped(worker)

    def equipped(self, worker: Cluster) -> None:
        worker.add(kinds.NAMESPACES, {"metadata": {"name": SPACE}})
        for kind in NEEDED.values():
            worker.add(kind, {"metadata": {"name": "needed", "namespace": SPACE}})
        self.has_quota(worker, "default", cpu=10)
        worker.add(kinds.LOCAL_QUEUES, local_queue("main", "cq", namespace=SPACE).build())
        worker.change(kinds.LOCAL_QUEUES, MAIN, {"status": {"conditions": ACTIVE}})
        for one in worker_objects(Registration(cluster="w", namespace="kueue-system")):
            worker.put(one.kind, one.manifest)

    def has_quota(self, worker: Cluster, flavor: str, **amounts: Any) -> None:
        worker.add(kinds.CLUSTER_QUEUES, cluster_queue("cq").quota(flavor, **amounts).build())

    def registered(self, name: str, config: bytes) -> None:
        self.manager.add(kinds.SECRETS, secret(f"multikueue-{name}").kubeconfig(config).build())

    def of_manager(self, name: str, patch: Mapping[str, Any]) -> None:
        """The MultiKueueCluster is changed."""
        self.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), patch)

    @asynccontextmanager
    async def connect(self, name: str, _: bytes) -> AsyncIterator[ClusterClient]:
        if name in self.gone:
            raise ClusterUnreachable(name, "no route to host")
        yield Fake(self.workers[name], "nobody" if name in self.strange else "admin")

    @asynccontextmanager
    async def reach(self, member: WorkerCluster) -> AsyncIterator[ReachableWorker]:
        """As an administrator of the worker."""
        yield ReachableWorker(member.name, Fake(self.workers[member.name]), "", "ask an administrator")

    async def members(self) -> list[WorkerCluster]:
        found, failures = await gather(Fake(self.manager), "kueue-system")
        assert not failures
        return found

    async def examined(self) -> list[Report]:
        facts = {name: ServerFacts() for name in ("", *WORKERS)}
        for name, told in facts.items():
            told.ahead = timedelta(seconds=self.ahead.get(name, 0))
            told.ends = NOW + self.ends.get(name, timedelta(days=300))
        manager = Fake(self.manager)
        reports = await check_all(manager, await self.members(), connect=self.connect, moment=NOW, facts=facts)
        return [*await check_manager(manager, NOW), *reports]

    def snapshot(self) -> dict[tuple[str, str, str], Any]:
        """All objects of all clusters, by cluster, kind and name."""
        return {
            (
                name,
                body["kind"],
                "/".join(filter(None, (body["metadata"].get("namespace"), body["metadata"]["name"]))),
            ): body
            for name, cluster in {"manager": self.manager, **self.workers}.items()
            for body in _everything(cluster)
        }


def _everything(cluster: Cluster) -> list[dict[str, Any]]:
    storage = cluster.server.storage
    return [version.object for name in storage.storages() for version in storage.select(name)]


@dataclass(frozen=True)
class Wrong:
    """What somebody did to a worker, or to the manager; the subject and words of the finding that names it; and what `--fix`
    makes of it there, by kind and name, if anything."""

    does: Callable[[Fleet, str], object]
    subject: str
    words: str
    makes: tuple[tuple[str, str], ...] = ()
    is_at_manager: bool = False

    def where(self, worker: str) -> str:
        return MANAGER if self.is_at_manager else worker


def user(**fields: str) -> bytes:
    """A kubeconfig with another user."""
    import yaml

    config = yaml.safe_load(kubeconfig("w"))
    config["users"][0]["user"] = fields
    return yaml.safe_dump(config).encode()


def cluster(**fields: Any) -> bytes:
    import yaml

    config = yaml.safe_load(kubeconfig("w"))
    config["clusters"][0]["cluster"] |= fields
    return yaml.safe_dump(config).encode()


@cache
def an_authority(ends: timedelta) -> bytes:
    """A certificate that ends in that time."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return sign(request.public_bytes(serialization.Encoding.PEM), NOW + ends)


def dropped(kind: Any, key: ObjectKey) -> Callable[[Fleet, str], object]:
    return lambda fleet, name: fleet.workers[name].drop(kind, key)


def denied(*rights: tuple[str, ...]) -> Callable[[Fleet, str], object]:
    return lambda fleet, name: fleet.workers[name].denied.update(rights)


def serves(served: Mapping[str, set[str]]) -> Callable[[Fleet, str], object]:
    def change(fleet: Fleet, name: str) -> None:
        fleet.workers[name].served = served

    return change


def both(*steps: Callable[[Fleet, str], object]) -> Callable[[Fleet, str], object]:
    return lambda fleet, name: [step(fleet, name) for step in steps]


def credential(config: bytes) -> Callable[[Fleet, str], object]:
    return lambda fleet, name: fleet.registered(name, config)


def secret_data(**data: str) -> Callable[[Fleet, str], object]:
    def change(fleet: Fleet, name: str) -> None:
        fleet.manager.add(
            kinds.SECRETS, {"metadata": {"name": f"multikueue-{name}", "namespace": "kueue-system"}, "data": data}
        )

    return change


def quota(flavor: str, **amounts: Any) -> Callable[[Fleet, str], object]:
    return lambda fleet, name: fleet.has_quota(fleet.workers[name], flavor, **amounts)


def added(kind: Any, body: Mapping[str, Any]) -> Callable[[Fleet, str], object]:
    return lambda fleet, name: fleet.workers[name].add(kind, dict(body))


def told(kind: Any, body: Mapping[str, Any]) -> Callable[[Fleet, str], object]:
    """Only the manager has it."""
    return lambda fleet, _: fleet.manager.add(kind, dict(body))


def annotated(name: str, value: str) -> Callable[[Fleet, str], object]:
    return lambda fleet, worker: fleet.of_manager(worker, {"metadata": {"annotations": {name: value}}})


def is_not_active(reason: str, message: str) -> Callable[[Fleet, str], object]:
    condition = {**ACTIVE[0], "status": "False", "reason": reason, "message": message}
    return lambda fleet, name: fleet.of_manager(name, {"status": {"conditions": [condition]}})


def queue_status(*conditions: Mapping[str, Any]) -> Callable[[Fleet, str], object]:
    return lambda fleet, name: fleet.workers[name].change(
        kinds.LOCAL_QUEUES, MAIN, {"status": {"conditions": list(conditions)}}
    )


def leads_to(other: str) -> Callable[[Fleet, str], object]:
    def change(fleet: Fleet, name: str) -> None:
        fleet.workers[name] = fleet.manager if other == "manager" else fleet.workers[other]

    return change


def is_gone(fleet: Fleet, name: str) -> None:
    fleet.gone.add(name)


def is_strange(fleet: Fleet, name: str) -> None:
    fleet.strange.add(name)


def clock_is(seconds: float) -> Callable[[Fleet, str], object]:
    def change(fleet: Fleet, name: str) -> None:
        fleet.ahead[name] = seconds

    return change


def certificate_ends(within: timedelta) -> Callable[[Fleet, str], object]:
    def change(fleet: Fleet, name: str) -> None:
        fleet.ends[name] = within

    return change


def nodes_have(cpu: str) -> Callable[[Fleet, str], object]:
    items = [{"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"cpu": cpu}}}]
    return lambda fleet, name: fleet.workers[name].documents.update({"/api/v1/nodes": {"items": items}})


def runs_kueue(version: str) -> Callable[[Fleet, str], object]:
    path = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"
    containers = [{"name": "manager", "image": f"registry.k8s.io/kueue/kueue:{version}"}]
    body = {"spec": {"template": {"spec": {"containers": containers}}}}
    return lambda fleet, name: fleet.workers[name].documents.update({path: body})


def has_a_kueue(fleet: Fleet, _: str) -> None:
    held = {"holderIdentity": "kueue-0", "renewTime": f"{NOW:%Y-%m-%dT%H:%M:%S}.000000Z"}
    name = {"name": "c1f6bfd2.kueue.x-k8s.io", "namespace": "kueue-system"}
    fleet.manager.add(kinds.LEASES, {"metadata": name, "spec": held})


def converts(manager: Cluster, strategy: str) -> None:
    """The definitions of Kueue serve two versions, converted like that."""
    for found in manager.all(kinds.DEFINITIONS):
        if found["spec"]["group"] == "kueue.x-k8s.io":
            versions = [{"name": each, "served": True, "storage": each == "v1beta2"} for each in ("v1beta1", "v1beta2")]
            spec = {"conversion": {"strategy": strategy}, "versions": versions}
            manager.change(kinds.DEFINITIONS, ObjectKey("", found["metadata"]["name"]), {"spec": spec})


def serves_old_versions(fleet: Fleet, _: str) -> None:
    converts(fleet.manager, "None")


def lost_a_field(fleet: Fleet, worker: str) -> None:
    serves_old_versions(fleet, worker)
    written = {"apiVersion": "kueue.x-k8s.io/v1beta1", "fieldsV1": {"f:spec": {"f:cohort": {}}}}
    fleet.manager.change(kinds.CLUSTER_QUEUES, CQ, {"metadata": {"managedFields": [written]}})


def is_not_configured(fleet: Fleet, name: str) -> None:
    config = fleet.manager.named(kinds.MULTIKUEUE_CONFIGS, "all")
    assert config is not None
    others = [each for each in config["spec"]["clusters"] if each != name]
    fleet.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", "all"), {"spec": {"clusters": others}})


def selects_another_namespace(fleet: Fleet, name: str) -> None:
    shared = cluster_queue("cq").quota("default", cpu=10).namespaces(LabelSelector(match_labels={"team": "b"}))
    fleet.workers[name].add(kinds.CLUSTER_QUEUES, shared.build())


def role_is_foreign(fleet: Fleet, name: str) -> None:
    fleet.workers[name].change(CLUSTER_ROLES, ObjectKey("", "multikueue"), {"metadata": {"labels": None}})


def role_lacks_workloads(fleet: Fleet, name: str) -> None:
    worker, key = fleet.workers[name], ObjectKey("", "multikueue")
    role = worker.find(CLUSTER_ROLES, key)
    assert role is not None
    rules = [rule for rule in role["rules"] if "workloads" not in rule["resources"]]
    worker.change(CLUSTER_ROLES, key, {"rules": rules})


def clashing(fleet: Fleet, name: str) -> None:
    fleet.workers[name].add(
        kinds.WORKLOADS, workload("job-own", namespace=SPACE).queue("main").owner_job("train").build()
    )


LIMITS = {"type": "Container", "defaultRequest": {"memory": "2Gi"}}
ROLE = (("ClusterRole", "multikueue"),)
QUEUE = (("LocalQueue", f"{SPACE}/main"),)
WITH_NAMESPACE = (("Namespace", SPACE), *QUEUE)
NOT_BASE64 = secret_data(kubeconfig="%%%")
WITHOUT_LOCAL_QUEUES = {**SERVED, "/apis/kueue.x-k8s.io/v1beta2": {"workloads", "clusterqueues"}}
WITH_JOB_SETS = {**SERVED, "/apis/jobset.x-k8s.io/v1alpha2": {"jobsets"}}
NO_CONTEXT = b"clusters: [{name: c, cluster: {server: 'https://x'}}]"
INACTIVE = {**ACTIVE[0], "status": "False", "message": "ClusterQueue is stopped"}

WRONG: dict[str, Wrong] = {
    "its Secret is gone": Wrong(
        lambda fleet, name: fleet.manager.drop(kinds.SECRETS, ObjectKey("kueue-system", f"multikueue-{name}")),
        "credential",
        "is missing",
    ),
    "its Secret has no kubeconfig": Wrong(secret_data(other="eA=="), "credential", "has no key 'kubeconfig'"),
    "its Secret is no base64": Wrong(NOT_BASE64, "credential", "is not base64"),
    "its token has ended": Wrong(credential(kubeconfig("w", ends=timedelta(days=-3))), "credential", "ended 3d ago"),
    "its token ends soon": Wrong(credential(kubeconfig("w", ends=timedelta(hours=12))), "credential", "ends in"),
    "its kubeconfig names a file for the token": Wrong(
        credential(user(tokenFile="/x")), "credential", "tokenFile is not allowed"
    ),
    "its kubeconfig runs a program": Wrong(
        credential(user(exec={"command": "x", "apiVersion": "v1"})),  # type: ignore[arg-type]
        "credential",
        "exec",
    ),
    "its kubeconfig has a password": Wrong(credential(user(username="a", password="b")), "credential", "basic"),
    "its kubeconfig verifies nobody": Wrong(
        credential(cluster(**{"insecure-skip-tls-verify": True})), "credential", "insecure TLS verification"
    ),
    "its kubeconfig names a file for the authority": Wrong(
        credential(cluster(**{"certificate-authority": "/x"})), "credential", "certificate-authority"
    ),
    "its token travels in the open": Wrong(
        credential(kubeconfig("w", server="http://w.example")), "credential", "http"
    ),
    "its kubeconfig has no current context": Wrong(credential(NO_CONTEXT), "credential", "no current context"),
    "its authority has ended": Wrong(
        credential(kubeconfig("w", ca=an_authority(timedelta(minutes=-30)))), "TLS authority", "ended on"
    ),
    "its authority ends soon": Wrong(
        credential(kubeconfig("w", ca=an_authority(timedelta(days=9)))), "TLS authority", "ends on"
    ),
    "its authority has ended, so nothing can be reached": Wrong(
        both(credential(kubeconfig("w", ca=an_authority(timedelta(minutes=-30)))), is_gone), "TLS authority", "ended on"
    ),
    "only the manager has its kubeconfig": Wrong(
        lambda fleet, name: fleet.manager.add(
            kinds.MULTIKUEUE_CLUSTERS, multikueue_cluster(name).path("/x").active().build()
        ),
        "credential",
        "only the manager has the file /x",
    ),
    "it is a ClusterProfile": Wrong(
        lambda fleet, name: fleet.manager.add(
            kinds.MULTIKUEUE_CLUSTERS, multikueue_cluster(name).profile("x").active().build()
        ),
        "credential",
        "only the manager has the credentials of a ClusterProfile",
    ),
    "it cannot be reached": Wrong(is_gone, "API server", "no route to host"),
    "it does not know the credential": Wrong(is_strange, "credential", "the worker refuses it"),
    "it is cordoned": Wrong(annotated(CORDON_ANNOTATION, "true"), "cordoned", "yes"),
    "its cordon is misspelt": Wrong(annotated(CORDON_ANNOTATION, "yes"), "cordoned", "'yes' is not 'true'"),
    "no config names it": Wrong(is_not_configured, "configs", "no MultiKueueConfig names it"),
    "no manager has looked at it": Wrong(
        lambda fleet, name: fleet.of_manager(name, {"status": None}), "manager's connection", "no manager has looked"
    ),
    "the manager is not connected": Wrong(
        is_not_active("ClientConnectionFailed", "no answer"),
        "manager's connection",
        "ClientConnectionFailed: no answer",
    ),
    "another name stands for it": Wrong(leads_to("w0"), "identity", "the same cluster as w0"),
    "it is the manager cluster": Wrong(leads_to("manager"), "identity", "the same cluster as the manager cluster"),
    "it has no Kueue": Wrong(serves({}), "kind Workload", "is not served"),
    "it has half a Kueue": Wrong(serves(WITHOUT_LOCAL_QUEUES), "kind LocalQueue", "is not served"),
    "the account may not delete jobs": Wrong(denied(("jobs", "delete")), "rights on jobs.batch", "lacks delete"),
    "the role lacks the workloads": Wrong(
        both(role_lacks_workloads, denied(("workloads", "create"))),
        "rights on workloads.kueue.x-k8s.io",
        "lacks create",
        ROLE,
    ),
    "the role is gone": Wrong(
        both(dropped(CLUSTER_ROLES, ObjectKey("", "multikueue")), denied(("localqueues", "list"))),
        "rights on localqueues.kueue.x-k8s.io",
        "lacks list",
        ROLE,
    ),
    "the role is somebody else's": Wrong(
        both(role_is_foreign, role_lacks_workloads, denied(("workloads", "patch"))),
        "rights on workloads.kueue.x-k8s.io",
        "lacks patch",
    ),
    "the account may not see which cluster it is": Wrong(
        denied(("namespaces", "get")), "identity", "cannot be read, so nobody sees"
    ),
    "the account may not make JobSets": Wrong(
        both(serves(WITH_JOB_SETS), denied(("jobsets", "create"))), "kind JobSet", "lacks create"
    ),
    "the namespace is missing": Wrong(
        both(dropped(kinds.NAMESPACES, ObjectKey("", SPACE)), dropped(kinds.LOCAL_QUEUES, MAIN)),
        f"LocalQueue {MAIN}",
        "missing",
        WITH_NAMESPACE,
    ),
    "the LocalQueue is missing": Wrong(dropped(kinds.LOCAL_QUEUES, MAIN), f"LocalQueue {MAIN}", "missing", QUEUE),
    "the ClusterQueue is missing too": Wrong(
        both(dropped(kinds.LOCAL_QUEUES, MAIN), dropped(kinds.CLUSTER_QUEUES, CQ)), f"LocalQueue {MAIN}", "missing"
    ),
    "the ClusterQueue takes no jobs of that namespace": Wrong(
        both(dropped(kinds.LOCAL_QUEUES, MAIN), selects_another_namespace), f"LocalQueue {MAIN}", "missing"
    ),
    "the LocalQueue is stopped": Wrong(
        queue_status(INACTIVE), f"LocalQueue {MAIN}", "not active: ClusterQueue is stopped"
    ),
    "nobody looks at the LocalQueue": Wrong(queue_status(), f"LocalQueue {MAIN}", "does Kueue run there?"),
    "it offers another namespace": Wrong(annotated(NAMESPACES_ANNOTATION, "team-b"), "namespaces", "offers team-b"),
    "its flavor has another name": Wrong(
        quota("spot", cpu=10), "flavors of cq", "default: ClusterQueue cq there has spot"
    ),
    "it has no quota of a resource": Wrong(quota("default", memory="1Gi"), "resources of cq", "has no quota of cpu"),
    "a request fits never": Wrong(
        quota("default", cpu="500m"), "room of ClusterQueue cq", "1 that wait can never start"
    ),
    "its nodes have less than its quota": Wrong(
        nodes_have("4"), "capacity", "the quota of cpu is 10, the nodes have 4"
    ),
    "a job of that name is somebody else's": Wrong(
        clashing, "names of jobs", "Job team-a/train there is somebody else's"
    ),
    **{
        f"a {kind} that pods name is missing": Wrong(
            dropped(of, ObjectKey(SPACE, "needed")), f"{kind} {SPACE}/needed", "missing"
        )
        for kind, of in NEEDED.items()
    },
    "a LimitRange is only there": Wrong(
        added(kinds.LIMIT_RANGES, {"metadata": {"name": "l", "namespace": SPACE}, "spec": {"limits": [LIMITS]}}),
        f"LimitRange {SPACE}/l",
        "defaultRequest.memory",
    ),
    "its certificate ends soon": Wrong(certificate_ends(timedelta(days=9)), "TLS certificate", "ends on"),
    "its clock is ahead": Wrong(clock_is(90), "clock", "90s ahead of the manager cluster's"),
    "its clock is behind": Wrong(clock_is(-600), "clock", "600s behind the manager cluster's"),
    "its Kueue converts badly": Wrong(runs_kueue("v0.20.3"), "Kueue's release", "0.20.3: its conversion webhook"),
    "a Kueue runs on the manager cluster": Wrong(has_a_kueue, "Kueue here", "a Kueue runs", is_at_manager=True),
    "the manager cluster serves old versions": Wrong(
        serves_old_versions, "kueue.x-k8s.io/v1beta1", "nobody converts it", is_at_manager=True
    ),
    "a queue of the manager lost a field": Wrong(lost_a_field, "ClusterQueue cq", "is lost", is_at_manager=True),
}


__all__ = ["WORKERS", "WRONG", "Fleet", "Wrong"]
