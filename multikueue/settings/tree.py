"""The tree of settings, one file as it is the reference: each field with its default, unit and consequence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

from multikueue.settings.problems import shown
from multikueue.settings.values import (
    Span,
    Wait,
    drain_policy,
    from_commas,
    https,
    label_key,
    label_selector,
    label_value,
    not_pods,
    number_as_text,
    object_name,
    percent_or_number,
    quantity,
    resource_name,
    server_template,
    share,
    with_cluster,
)

__all__ = [
    "BESIDE_KUEUE",
    "EXTERNAL_DISPATCHER",
    "FAIR_STRATEGIES",
    "FRAMEWORKS",
    "GONE",
    "LIVE",
    "STANDALONE",
    "AccessProvider",
    "AdmissionSharing",
    "CapacityFollow",
    "Cluster",
    "ClusterProfiles",
    "DeclaredKind",
    "DeclaredOverhead",
    "DeclaredPods",
    "DeviceClassMapping",
    "Dispatch",
    "DynamicResources",
    "ExecCommand",
    "FleetMembers",
    "Integrations",
    "LeaderElection",
    "Leaf",
    "Live",
    "Log",
    "MetricsEndpoint",
    "PodsReady",
    "Probes",
    "Quota",
    "Release",
    "Role",
    "Settings",
    "Shutdown",
    "StrategyChoice",
    "Transformation",
    "Variable",
    "VisibilityApi",
    "Webhook",
    "leaves",
]

Role = Literal["jobs", "quota", "dispatch", "nominate"]

STANDALONE: Final[frozenset[Role]] = frozenset(("jobs", "quota", "dispatch"))
BESIDE_KUEUE: Final[frozenset[Role]] = frozenset(("dispatch",))
EXTERNAL_DISPATCHER: Final[frozenset[Role]] = frozenset(("nominate",))

BATCH_JOB: Final = "batch/job"
FRAMEWORKS: Final = (
    BATCH_JOB,
    "pod",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
    "deployment",
    "statefulset",
)
"""The integrations that our job adapters cover, by Kueue's names."""

Release = Literal["0.16", "0.18", "0.19", "0.19.2"]

FairStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
FAIR_STRATEGIES: Final[tuple[FairStrategy, ...]] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")

T = TypeVar("T")

LIVE: Final = "live"

Live = Annotated[T, LIVE]
"""Marks a setting whose new value a running manager takes from a changed file; any other needs a restart."""


def _known_order(strategies: tuple[FairStrategy, ...]) -> tuple[FairStrategy, ...]:
    if strategies not in ((FAIR_STRATEGIES[0],), (FAIR_STRATEGIES[1],), FAIR_STRATEGIES):
        raise ValueError(f"expected {FAIR_STRATEGIES[0]}, {FAIR_STRATEGIES[1]}, or both in this order")
    return strategies


def _known_frameworks(names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name not in FRAMEWORKS]
    if unknown:
        raise ValueError(f"expected some of {', '.join(FRAMEWORKS)}, and {shown(unknown[0])} is none of them")
    return tuple(name for name in FRAMEWORKS if name in names or name == BATCH_JOB)


def _kind_name(name: str) -> str:
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*\.v[a-z0-9]+\.[a-z0-9-]+(\.[a-z0-9-]+)+", name):
        raise ValueError("expected Kind.version.group, such as MiniCluster.v1alpha2.flux-framework.org")
    return name


def _require_order(group: BaseModel, shorter: str, longer: str) -> None:
    if getattr(group, shorter) > getattr(group, longer):
        raise ValueError(f"expected {shorter} not to be longer than {longer}")


_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  # the addresses that stand for all


def _require_ports_apart(sockets: Mapping[str, Webhook | VisibilityApi | Probes | MetricsEndpoint]) -> None:
    """No two may listen on one port of one address; port 0 is another one for each."""
    for (one, this), (other, that) in combinations(sockets.items(), 2):
        meet = this.host == that.host or this.host in _EVERYWHERE or that.host in _EVERYWHERE
        if meet and this.port and this.port == that.port and {one, other} != {"probes", "metrics"}:
            raise ValueError(f"expected {one}.port and {other}.port to differ, got {this.port} for both")


def _deployable(roles: frozenset[Role]) -> frozenset[Role]:
    """The roles, if together they make a deployment: work must be done by exactly one process."""
    if roles not in (STANDALONE, BESIDE_KUEUE, EXTERNAL_DISPATCHER):
        raise ValueError(
            "expected jobs, quota, dispatch (without Kueue), dispatch alone (beside Kueue, in the place of its "
            "MultiKueue), or nominate alone (beside Kueue, as its external dispatcher)"
        )
    return roles


class _Group(BaseModel):
    """What a field means is the string below it. Only `describe` looks for that: pydantic would parse this file at each
    start. A validator is built when it is first asked, and then the tree's has those of all groups in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Cluster(_Group):
    """The manager cluster: the one with the queues."""

    kubeconfig: Path | None = None
    """File to connect with. Without it: the service account in a pod, else what kubectl would use."""

    context: str | None = None
    """Context of the kubeconfig. Without it: its current context."""

    namespace: str = "kueue-system"
    """Where the Secrets with the workers' kubeconfigs, the ClusterProfiles and our Lease are."""

    ignore_kueue: bool = False
    """Whether to start standalone although Kueue's own controllers act there, and would give away the same quota."""


class StrategyChoice(_Group):
    """Which strategy, and its options."""

    name: str = "all-at-once"
    """Name of an installed strategy; `multikueue strategies list` shows them."""

    options: dict[str, Any] = Field(default_factory=dict)
    """The strategy's options; one that it does not have stops the start."""


class Variable(_Group):
    """One environment variable."""

    name: Annotated[str, Field(min_length=1)]
    """Its name."""

    value: str = ""
    """Its value."""


class ExecCommand(_Group):
    """A credential plugin: a command that prints an ExecCredential (client.authentication.k8s.io)."""

    command: Annotated[str, Field(min_length=1)]
    """The program; a name without a slash is looked for in PATH."""

    args: tuple[str, ...] = ()
    """What it is called with."""

    env: tuple[Variable, ...] = ()
    """Its environment, on top of the few variables that every plugin gets (docs/clusters.md)."""

    api_version: Literal["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"] = (
        "client.authentication.k8s.io/v1"
    )
    """The version of the ExecCredential that it prints."""

    provide_cluster_info: bool = False
    """Whether it gets the cluster in KUBERNETES_EXEC_INFO."""


class AccessProvider(_Group):
    """How credentials are made for the clusters whose ClusterProfile has an access provider of this name."""

    name: Annotated[str, Field(min_length=1)]
    """The name in `status.accessProviders` of the ClusterProfile."""

    exec: ExecCommand
    """The command to run."""


class ClusterProfiles(_Group):
    """Workers that a MultiKueueCluster names by `clusterProfileRef`."""

    enabled: Live[bool] = True
    """Whether there may be any: Kueue's feature gate MultiKueueClusterProfile."""

    access_providers: tuple[AccessProvider, ...] = ()
    """The providers we can use, the preferred one first. Empty: such clusters cannot be used, and are not watched."""

    @model_validator(mode="after")
    def _unique(self) -> ClusterProfiles:
        names = [provider.name for provider in self.access_providers]
        if len(set(names)) < len(names):
            raise ValueError("expected access providers of different names")
        return self


class Dispatch(_Group):
    """How workloads get to the workers and back. Names and defaults as in Kueue's configuration where it has them."""

    origin: Annotated[str, AfterValidator(label_value)] = "multikueue"
    """Label value that marks our copies on the workers. Two managers that share a worker need two origins, or each
    deletes what the other made. A change leaves the old copies behind."""

    strategy: Live[StrategyChoice] = StrategyChoice()
    """The strategy for AdmissionChecks and workloads that do not name one of their own."""

    workload_strategies: Live[dict[str, dict[str, Any]]] = Field(default_factory=dict)
    """The strategies that a workload or its job may name for itself, each with its options: `{incremental: {step: 1}}`.
    Empty: none."""

    workload_placements: Live[bool] = False
    """Whether a workload or its job may name the Placement it follows, before the one that its queues and check name."""

    placement_decisions: Literal["ocm", "multicluster"] = "ocm"
    """Whose decisions are read: those of OCM's Placements, or PlacementDecisions of `multicluster.x-k8s.io`, which any
    scheduler may write."""

    give_back_after: Live[Wait | None] = timedelta(hours=4)
    """How long a workload keeps its quota while no worker admits it, unless its strategy's options say otherwise. Then it
    queues again after its back-off, and others may go first; but its copies lose their places in the queues of workers that
    are only busy. What fits no worker does not wait for this. `null`: forever, as with Kueue's own MultiKueue."""

    orchestrated_preemption: Live[bool] = False
    """Whether workers may preempt for a workload one at a time only (KEP 8303): its copies get a gate. It takes workers with
    Kueue 0.17 or newer, and its feature gate MultiKueueOrchestratedPreemption on there; others preempt as they like."""

    tell_wins: Live[bool] = True
    """Whether an event `MultiKueue` on the workload says which worker won, as with Kueue's own MultiKueue. It costs one write
    for each job; the check's message says the same."""

    tell_suspended_after: Live[Wait | None] = timedelta(seconds=10)
    """How long a batch Job waits until its status says so by the condition `Suspended`. Before, and with `null`, it reads
    `Running` in `kubectl get jobs`, as no other program writes the status of a Job with `managedBy`. It costs one write for
    each Job that waits for longer."""

    worker_lost_timeout: Live[Span] = timedelta(minutes=15)
    """How long a workload waits for the worker it runs on to come back before it is queued again. Shorter restarts
    sooner after a loss; longer survives longer network trouble without running anything twice."""

    gc_interval: Live[Span] = timedelta(minutes=1)
    """Time between two sweeps for copies without an owner; 0 turns the sweep off."""

    heartbeat_interval: Wait = timedelta(seconds=2)
    """Least time between two signs of life asked from a worker; all workers together are asked 16 times a second at most.
    Shorter notices loss sooner, for one small call each."""

    concurrency: Annotated[int, Field(ge=1)] = 64
    """How many workloads are looked at at once; more hides more latency and costs memory only."""

    concurrency_per_cluster: Annotated[int, Field(ge=1)] = 64
    """How many calls may be under way to one worker at most; it begins with 12, gets more while answers come in time, so that
    distance costs no rate, and less when they come late or not at all, or the worker has too many. Each worker has its own."""

    kubeconfig_directory: Live[Path | None] = None
    """Where kubeconfigs of locationType Path must be, links followed; others are refused. Without it: anywhere."""

    insecure_kubeconfigs: Live[bool] = False
    """Whether workers' kubeconfigs may break the rules (docs/clusters.md): they may skip TLS, name our files and start
    programs in our pod. Users who may write their Secrets then have all that we have. Kueue's feature gate for it,
    MultiKueueAllowInsecureKubeconfigs, is locked to false since 0.19; this setting counts whatever the release."""

    cluster_profile: ClusterProfiles = ClusterProfiles()
    """Workers by ClusterProfile."""


class Transformation(_Group):
    """What a request counts as: for each whole unit of the input so much of the outputs."""

    input: Annotated[str, Field(min_length=1)]
    """The resource that pods request."""

    outputs: dict[
        Annotated[str, AfterValidator(not_pods)],
        Annotated[str, BeforeValidator(number_as_text), AfterValidator(quantity)],
    ] = Field(default_factory=dict)
    """What is counted, by resource, for one of the input."""

    strategy: Literal["Retain", "Replace"] = "Retain"
    """Whether the input counts too."""

    multiply_by: str = ""
    """A resource: where it is requested, the outputs count that many times."""


class DeviceClassMapping(_Group):
    """The resource that devices of some classes count as."""

    name: Annotated[str, AfterValidator(resource_name)]
    """The resource, as ClusterQueues have quota for it."""

    device_class_names: Annotated[
        tuple[Annotated[str, AfterValidator(resource_name)], ...], Field(min_length=1, max_length=8)
    ]
    """The DeviceClasses, 1 to 8."""


class DynamicResources(_Group):
    """Devices that pods claim: dynamic resource allocation (docs/quota.md)."""

    device_class_mappings: Annotated[tuple[DeviceClassMapping, ...], Field(max_length=16)] = ()
    """Which devices count as what, at most 16. Devices of other classes are not counted: who claims them waits."""

    enabled: bool | None = None
    """Whether devices are counted: Kueue's feature gate KueueDRAIntegration. Without it: as in the release that
    `quota.compatibility` names, so since 0.18. Where they are not, work that claims some waits since 0.18; before, it gets
    quota as if it claimed none."""

    extended_resources: bool | None = None
    """Where they are, whether extended resources that a DeviceClass names count as its devices: Kueue's feature gate
    KueueDRAIntegrationExtendedResource. Without it: as in that release, so since 0.19."""

    @model_validator(mode="after")
    def _one_resource_each(self) -> DynamicResources:
        names = [each.name for each in self.device_class_mappings]
        classes = [name for each in self.device_class_mappings for name in each.device_class_names]
        if len(set(names)) < len(names):
            raise ValueError("expected device_class_mappings with different names")
        if len(set(classes)) < len(classes):
            raise ValueError("expected each DeviceClass in one of the device_class_mappings, and there once")
        if self.enabled is False and self.extended_resources:
            raise ValueError("expected extended_resources only where enabled is not false")
        return self


class AdmissionSharing(_Group):
    """Whether the LocalQueues of a ClusterQueue take turns by what they used recently. It is for those with
    `admissionScope.admissionMode: UsageBasedAdmissionFairSharing`; elsewhere priority and age decide."""

    enabled: bool = False
    """Whether what LocalQueues use is recorded, and such ClusterQueues go by it."""

    usage_half_life_time: Span = timedelta()
    """After which time half of what was used is forgotten. Longer evens out more of the past. 0: all is forgotten each
    time it is sampled."""

    usage_sampling_interval: Wait = timedelta(minutes=5)
    """How often the history in the status of a LocalQueue is brought up to date, which is a write for each."""

    resource_weights: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """How much a unit of a resource counts, a core or a byte for example; 1 where nothing is said."""


class PodsReady(_Group):
    """All or nothing: a workload whose pods are not all ready in time makes room for others, and queues again."""

    enabled: bool = False
    """Whether pods are looked at. The condition PodsReady of a workload says what is seen on its worker."""

    timeout: Live[Wait] = timedelta(minutes=5)
    """How long pods may take from admission on. Shorter frees quota sooner; too short stops what only pulls images."""

    recovery_timeout: Live[Span | None] = None
    """How long a workload may be without a pod that failed after all were ready; 0: any time. Without it: `timeout`."""

    block_admission: bool = False
    """Whether no workload gets quota while pods of another workload are not ready. Avoids deadlocks between workloads that
    have half of their pods each, and admits one at a time."""

    requeuing_timestamp: Literal["Eviction", "Creation"] = "Eviction"
    """Whether a workload that was late goes to the back of its queue, or keeps the place that its age gives it."""

    backoff_limit_count: Live[Annotated[int, Field(ge=0)] | None] = None
    """How often a workload may be late and queue again before it is deactivated. Without it: any number of times."""


class Quota(_Group):
    """Who gets quota, and when those that lost it try again."""

    compatibility: Release = "0.19.2"
    """The release of Kueue whose decisions and words are followed where releases differ (docs/compatibility.md)."""

    exclude_resource_prefixes: Annotated[tuple[str, ...], NoDecode, BeforeValidator(from_commas)] = ()
    """Resources whose name starts with one of these do not count by themselves, only by what `transformations` make of them."""

    transformations: tuple[Transformation, ...] = ()
    """Resources that count by way of others, each by one rule. What is excluded is not looked at."""

    dra: DynamicResources = DynamicResources()
    """Devices that pods claim."""

    check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    """What becomes of work that asks for a resource of which its ClusterQueue has no flavor: it never gets quota, or that
    resource is not counted."""

    admission_gates: bool | None = None
    """Whether the annotation `kueue.x-k8s.io/admission-gated-by` holds work back until it is removed: Kueue's feature
    gate AdmissionGatedBy. Without it: as in the release that `compatibility` names, so since 0.19."""

    unadmitted_reasons: bool = False
    """Whether the conditions of a workload without quota say why it has none, in place of `Pending` or `Inadmissible`, and
    metrics count workloads by that: Kueue's feature gate UnadmittedWorkloadsObservability (docs/metrics.md)."""

    explicit_status: bool = False
    """With `unadmitted_reasons`, whether a new workload says at once that it waits, which costs a write for each: Kueue's
    feature gate UnadmittedWorkloadsExplicitStatus."""

    fair_sharing: bool = False
    """Whether quota that queues lend each other goes to who has the smallest share of it, and is taken from who has the
    largest. Without it priority and age decide."""

    preemption_strategies: Annotated[
        tuple[FairStrategy, ...], NoDecode, BeforeValidator(from_commas), AfterValidator(_known_order)
    ] = FAIR_STRATEGIES
    """With fair sharing, which workloads may be taken: those whose queue keeps as large a share as ours gets
    (LessThanOrEqualToFinalShare), those whose queue had a larger one (LessThanInitialShare), or the latter if the former
    do not suffice."""

    admission_fair_sharing: AdmissionSharing = AdmissionSharing()
    """Turns of LocalQueues."""

    pods_ready: PodsReady = PodsReady()
    """What happens while pods are not ready."""

    non_preemptible: bool = False
    """Whether jobs with the annotation `multikueue.dev/non-preemptible: "true"` keep their quota against all others:
    anyone who may submit jobs may then hold quota for as long as they run."""

    system_priority_classes: Literal["Ignore", "Count"] = "Ignore"
    """Whether PriorityClasses of Kubernetes itself, `system-cluster-critical` and `system-node-critical`, give a job their
    priority, which is above all others, as in Kueue, or that of a job without a class (docs/quota.md). Any pod may name
    them."""

    requeue_first: Live[Span] = timedelta(minutes=1)
    """Wait of an evicted workload before its first new attempt; doubles with each further one."""

    requeue_cap: Live[Span] = timedelta(hours=1)
    """Longest wait of an evicted workload."""

    @model_validator(mode="after")
    def _in_order(self) -> Quota:
        _require_order(self, "requeue_first", "requeue_cap")
        return self

    @model_validator(mode="after")
    def _explicit_by_reason(self) -> Quota:
        if self.explicit_status and not self.unadmitted_reasons:
            raise ValueError("expected unadmitted_reasons with explicit_status")
        return self

    @model_validator(mode="after")
    def _one_rule_each(self) -> Quota:
        inputs = [rule.input for rule in self.transformations]
        if len(set(inputs)) < len(inputs):
            raise ValueError("expected transformations of different inputs")
        return self


class Retention(_Group):
    """How long what is over stays, on the manager cluster and on workers. Workloads and copies go with their jobs in any case;
    these times are for jobs that are not deleted."""

    after_finished: Span | None = None
    """How long after its end a Workload is deleted, and its job kept. Without it: never."""

    after_deactivated: Span | None = None
    """How long after the manager itself deactivated its Workload (it ran too long, or queued too often) a job is deleted.
    Without it: never; what a user deactivated is always kept."""

    copies: Live[Span] = timedelta(hours=1)
    """How long after its success a job stays on its worker, with its pods and their logs, in which it holds no quota. What the
    worker itself deletes sooner is gone. `0s`: copies go at once, those of failed jobs too. The annotation
    `multikueue.dev/copy-retention` of a job or its Workload has its own time: `12h`, `0s`; a day at most, or the longest of
    these times if it is more."""

    failed_copies: Live[Span] = timedelta(days=1)
    """The same after a failure."""

    most_copies: Live[Annotated[int, Field(ge=0)]] = 100
    """How many finished jobs of one namespace stay on one worker: those that ended first go first."""

    @property
    def is_on(self) -> bool:
        return self.after_finished is not None or self.after_deactivated is not None


class CapacityFollow(_Group):
    """Whether nominal quotas follow what the workers have (docs/quota.md). Of the ClusterQueues with a MultiKueue check, the
    annotation `multikueue.dev/follow-capacity` chooses one; these are the rules for all of them. Needs the role `dispatch`."""

    enabled: bool = False
    """Whether ClusterQueues without the annotation follow too."""

    quota_management: bool = False
    """Whether `quotaManagement: Automated` of a MultiKueueConfig has its ClusterQueues follow all that the workers have, and a
    condition of theirs says so (KEP 9988): Kueue's feature gate MultiKueueManagerQuotaAutomation."""

    interval: Wait = timedelta(minutes=1)
    """Time between two looks at the queues of all workers, which is two lists for each; none while no queue follows. A worker
    whose queues change is read at once, if it lets us watch them."""

    reserve: Annotated[str, AfterValidator(share)] = "0%"
    """What is left to others of what the workers have: `10%`, or by resource too: `10%,cpu=4,memory=5%`."""

    shrink_after: Span = timedelta(minutes=5)
    """How long a worker has to be away, or to have less, before quota shrinks. It grows at once. Longer promises for longer
    what is not there; shorter lets more work wait on the manager while a worker is away for a moment."""

    flavors: dict[str, str] = Field(default_factory=dict)
    """The manager's flavor for a worker's, which is given as `flavor` or `cluster/flavor`. Without it: that of the same
    name, or the only one that a ClusterQueue has for the resource. Strategies that read room go by it too."""

    dry_run: bool = False
    """Whether changes are only logged."""


class FleetMembers(_Group):
    """Whether this manager keeps its workers equal to an inventory of clusters (docs/clusters.md). Needs role `dispatch`."""

    inventory: Literal["ocm", "clusterprofiles"] | None = None
    """Where the clusters are: ManagedClusters of an OCM hub, or ClusterProfiles in `cluster.namespace`. Without it: workers are
    what people and their tools make."""

    cluster_set: str = ""
    """Of ManagedClusters: those of this ManagedClusterSet only."""

    selector: Annotated[str, AfterValidator(label_selector)] = ""
    """Only clusters with these labels, as kubectl takes a selector."""

    tolerations: Annotated[tuple[str, ...], NoDecode, BeforeValidator(from_commas)] = ()
    """Keys of taints of ManagedClusters that keep nothing away, such as `cluster.open-cluster-management.io/unreachable`."""

    config: Annotated[str, AfterValidator(object_name)] = "fleet"
    """The MultiKueueConfig with all workers of the fleet, however many."""

    secret: Annotated[str, AfterValidator(with_cluster)] = "multikueue-{cluster}"  # noqa: S105  # a name
    """The Secret with the kubeconfig of a ManagedCluster, in `cluster.namespace`. A cluster joins once it is there."""

    service_account: str = ""
    """The ManagedServiceAccount, in the namespace of each cluster, of whose token these Secrets are made. Without it: another
    program makes them."""

    server: Annotated[str, AfterValidator(server_template)] = ""
    """The URL of a cluster for that token, as in `https://proxy.example/{cluster}`, with a certificate that the system trusts.
    Without it: the first one that the ManagedCluster has."""

    drain: Live[Annotated[str, AfterValidator(drain_policy)]] = "wait=24h"
    """What becomes of what runs on a worker whose cluster was missing for a minute: `wait` (it goes on to its end), `wait=24h`
    (it queues again then), `signal=1h` (so, and its pods are told before), or `requeue`. Nothing new goes there, and the worker
    is removed once it is empty."""

    most_leaving: Live[Annotated[str, AfterValidator(percent_or_number)]] = "20%"
    """How many workers may leave within a day, as a share of the fleet or a number; a share is one at least. If more would
    begin to leave than are left of these, none of them does until a person says so."""

    queues: Literal["leave", "keep"] = "leave"
    """`keep`: the LocalQueues and namespaces that a worker lacks of the manager's are made there, as by
    `multikueue queues sync`."""


class Webhook(_Group):
    """The admission webhook that suspends new jobs and marks them as ours."""

    enabled: bool = False
    """Whether to serve it and to register it with the manager cluster. Without it, users set `managedBy` themselves."""

    host: str = "0.0.0.0"  # noqa: S104  # the API server calls in from outside of the pod
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 9443
    """Port to listen on; 0 takes a free one, which is of use with `url` only."""

    url: Annotated[str, AfterValidator(https)] | None = None
    """Where the API server finds us when we run outside of the cluster; takes the place of the service. At the same host it
    finds the visibility API, by a service that we make."""

    service_name: str = "multikueue-webhook"
    """Service in front of us."""

    service_namespace: str | None = None
    """Namespace of that service. Without it: `cluster.namespace`."""

    client_ca_file: Path | None = None
    """File with the CA (PEM) of the certificates by which API servers show who they are. With it no other client is listened
    to; without it everybody who reaches the port is. Read at the start."""

    certificate_secret: Annotated[str, AfterValidator(object_name)] | None = None
    """Secret in `cluster.namespace` with `tls.crt`, `tls.key` and `ca.crt`, which something else keeps, such as cert-manager.
    Without it the manager makes and renews a certificate of its own."""

    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What happens to new jobs while we are down: Fail refuses them, Ignore lets them in unmarked and unsuspended."""

    default_queue: bool = True
    """Whether what names no queue gets the LocalQueue `default` where its namespace has one of that name, as in Kueue."""


class Probes(_Group):
    """Health of the process, in plain HTTP: /healthz and /readyz."""

    host: str = "0.0.0.0"  # noqa: S104  # the kubelet calls in from outside of the pod
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Port to listen on; 0 takes a free one. Without it: no probes."""


class MetricsEndpoint(_Group):
    """What happened and how things are, for Prometheus: /metrics, in plain HTTP (docs/metrics.md)."""

    host: str = "0.0.0.0"  # noqa: S104  # Prometheus calls in from outside of the pod
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Port to listen on; 0 takes a free one. The port of the probes serves both. Without it: no metrics."""

    enable_cluster_queue_resources: bool = False
    """Whether to expose quota, reservation and usage per flavor and resource, as in Kueue's configuration."""

    enable_local_queues: bool = False
    """Whether to expose the metrics per LocalQueue too, which Kueue has behind a feature gate. Costs series."""


def _collector(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("expected an address such as http://collector:4318/v1/traces")
    return text


class TraceExport(_Group):
    """One trace of each workload over all clusters, for OpenTelemetry (docs/metrics.md). Needs the extra `traces`."""

    endpoint: Annotated[str, AfterValidator(_collector)] = ""
    """Where a collector takes traces by OTLP over HTTP, such as `http://collector:4318/v1/traces`. Empty: no traces."""


class VisibilityApi(_Group):
    """Who waits in a queue, and at which place: `visibility.kueue.x-k8s.io`, as Kueue serves it (docs/metrics.md)."""

    enabled: bool = False
    """Whether to serve it and to register it with the manager cluster. Needs the role `quota`."""

    host: str = "0.0.0.0"  # noqa: S104  # the API server calls in from outside of the pod
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 8082
    """Port to listen on; 0 takes a free one."""

    service_name: str = "multikueue-visibility"
    """Service in front of us, by which the API server finds us."""

    service_namespace: str | None = None
    """Namespace of that service. Without it: `cluster.namespace`."""

    service_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of that service. Without it: 443, or with `webhook.url` our own port."""


class LeaderElection(_Group):
    """Which of several replicas acts. The others are hot: they know everything, and do nothing until it is their turn."""

    enabled: bool = False
    """Whether to act only while holding the lease. Without it this process acts always, so there must be no other: it does not
    start beside another one, and ends when another one takes the lease."""

    resource_name: Annotated[str, AfterValidator(object_name)] = "multikueue-manager"
    """Name of the Lease, in `cluster.namespace`. Replicas of one manager share it; two managers must not."""

    lease_duration: Wait = timedelta(seconds=15)
    """How long the lease must stay unrenewed before another replica takes it: the longest gap after a sudden death.
    At most 1h."""

    renew_deadline: Wait = timedelta(seconds=10)
    """How long after its last renewal a replica acts. What is left to `lease_duration` is for calls under way."""

    retry_period: Wait = timedelta(seconds=2)
    """Time between two renewals."""

    @model_validator(mode="after")
    def _in_order(self) -> LeaderElection:
        if self.lease_duration > timedelta(hours=1):
            raise ValueError("expected lease_duration not to be longer than 1h")
        if self.renew_deadline >= self.lease_duration:
            raise ValueError("expected renew_deadline to be shorter than lease_duration")
        if self.retry_period * 1.2 >= self.renew_deadline:
            raise ValueError("expected 1.2 times retry_period to be shorter than renew_deadline")
        return self


class Shutdown(_Group):
    """What happens on SIGTERM or SIGINT. A second one ends the process at once."""

    grace_period: Live[Span] = timedelta(seconds=10)
    """How long calls under way may take to end. Nothing new is begun meanwhile."""


class Log(_Group):
    """What we say on standard error."""

    level: Live[Literal["debug", "info", "warning", "error"]] = "info"
    """The least important events to show; debug shows each conflict and each decision."""

    format: Literal["json", "console", "auto"] = "auto"
    """One JSON object per line, or lines for people (with colours on a terminal); auto takes console on a terminal."""


def _amounts(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if not all(text.partition("=")):
            raise ValueError(f"expected RESOURCE=PATH, such as cpu=resources.cores, and {shown(text)} is none")
    return texts


Amounts = Annotated[tuple[str, ...], AfterValidator(_amounts)]


def _amount(text: str) -> str:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?([KMGT]i|[kMGT]|m)?", text) is None:
        raise ValueError("expected a quantity such as 384Mi")
    return text


class DeclaredOverhead(_Group):
    """What the kind's own controller adds to a request of each pod."""

    resource: str
    """The resource."""

    at: str
    """The field that says how much. Where it is absent, the share of the request counts, but no less than the least."""

    share: float = Field(default=0, ge=0)
    """How much of the request: 0.1 for a tenth."""

    least: Annotated[str, AfterValidator(_amount)] = "0"
    """The least amount."""


class DeclaredPods(_Group):
    """Where pods of a kind are. Paths below `at` start there; `[*]` stands for each of several."""

    at: str
    """The part of the object that describes them, `spec.workers` or `spec.groups[*]` say: each is one pod set."""

    template: str = "template"
    """Their pod template."""

    name: str = "main"
    """The pod set's name."""

    name_at: str = ""
    """Where its name is, if it is in the object."""

    count: str = "replicas"
    """How many there are; one if it is absent."""

    container: str = ""
    """The name of the one container of pods that come with no template, but with fields that say what they ask for."""

    requests: Amounts = ()
    """What it asks for, each as RESOURCE=PATH. Memory in small letters is taken as Java writes it: 512m is 512Mi.
    With cpu=coreRequest|cores the field `cores` counts where there is no `coreRequest`."""

    limits: Amounts = ()
    """What it may use at most, in the same way."""

    overhead: DeclaredOverhead | None = None
    """What its controller adds to a request, such as Spark to memory."""


class DeclaredRule(_Group):
    """What the webhook refuses in a queue: a field with one of these values."""

    at: str
    """The field, in the spec."""

    values: tuple[bool | int | str, ...] = ()
    """The values; without them any that is not empty, zero or false."""

    needed: bool = False
    """Whether it is refused if the field has none of them."""

    why: str
    """The reason, for the user."""


class DeclaredKind(_Group):
    """A kind of jobs that a CustomResourceDefinition brings, by where in its objects things are."""

    name: Annotated[str, AfterValidator(_kind_name)]
    """As Kueue writes it: Kind.version.group."""

    plural: str = ""
    """Its name in URLs; without it, the kind in lower case, in the plural."""

    pods: tuple[DeclaredPods, ...]
    """Its pods."""

    suspend: str = "spec.suspend"
    """The field that holds a job."""

    managed_by: str = "spec.managedBy"
    """The field that makes its own controller leave a job to us. Empty if there is none: then that controller must not run
    on the manager cluster."""

    managers: tuple[str, ...] = ()
    """Values of managedBy that no user chose: the webhook replaces them."""

    succeeded: str = ""
    """The condition that says that it is over and well, or PATH=VALUE|VALUE."""

    failed: str = ""
    """The same for one that failed."""

    active: str = ""
    """The same for one that has pods."""

    active_counts: tuple[str, ...] = ()
    """Where its status counts the pods that run."""

    dropped: tuple[str, ...] = ()
    """Fields that no copy gets, besides managedBy; `spec.patches[manager=x]` stands for the items of a list that say so."""

    rules: tuple[DeclaredRule, ...] = ()
    """What the webhook refuses."""


class Integrations(_Group):
    """Which kinds of jobs are taken in. One that the manager cluster lacks, or does not let us see, is off until then."""

    frameworks: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(from_commas), AfterValidator(_known_frameworks)
    ] = (BATCH_JOB,)
    """Kinds that we know, by the names of Kueue's integrations. `batch/job` is always on."""

    managed_namespaces: Annotated[str, AfterValidator(label_selector)] = ""
    """The namespaces whose jobs are taken in, by their labels: a label selector as kubectl takes it, such as
    `kueue.openshift.io/managed=true`. In others no job gets a Workload or is changed by the webhook, whatever its queue name.
    It follows the labels. Empty: all namespaces. Alone on the manager cluster only; beside Kueue, Kueue says."""

    kueue_holds_pods: bool = False
    """Whether a Kueue beside us holds Pods of MultiKueue queues by their gate: with its own feature gate MultiKueue on, and its
    MultiKueue controllers not running. Otherwise it would run them on the manager cluster, so they are not dispatched."""

    declared: tuple[DeclaredKind, ...] = ()
    """Further kinds, by declaration."""

    external: Annotated[
        tuple[Annotated[str, AfterValidator(_kind_name)], ...], NoDecode, BeforeValidator(from_commas)
    ] = ()
    """Kinds with a `spec.managedBy` whose Workloads another controller makes on the manager cluster, each as
    Kind.version.group: external frameworks, as Kueue calls them."""

    elastic_jobs: bool = False
    """Whether batch Jobs with the annotation `kueue.x-k8s.io/elastic-job: "true"` may change their parallelism while they
    run. Kueue on the workers, and where it runs beside, needs its feature gate ElasticJobsViaWorkloadSlices for that."""

    label_keys_to_copy: Live[
        Annotated[tuple[Annotated[str, AfterValidator(label_key)], ...], NoDecode, BeforeValidator(from_commas)]
    ] = ()
    """Labels that a Workload gets from its job, by their keys, when it is made. The Pods of a group must not differ in them."""


class Settings(_Group):
    """The whole tree. `Settings()` is the defaults alone; `load` reads the sources."""

    roles: Annotated[frozenset[Role], NoDecode, BeforeValidator(from_commas), AfterValidator(_deployable)] = STANDALONE
    """What this process does (docs/roles.md). Alone on the manager cluster: jobs, quota, dispatch. Beside Kueue, in the
    place of its MultiKueue: dispatch. Beside Kueue and its MultiKueue, as its external dispatcher: nominate."""

    cluster: Cluster = Cluster()
    dispatch: Dispatch = Dispatch()
    quota: Quota = Quota()
    capacity_follow: Live[CapacityFollow] = CapacityFollow()
    fleet: FleetMembers = FleetMembers()
    retention: Retention = Retention()
    integrations: Integrations = Integrations()
    webhook: Webhook = Webhook()
    probes: Probes = Probes()
    metrics: MetricsEndpoint = MetricsEndpoint()
    traces: TraceExport = TraceExport()
    visibility: VisibilityApi = VisibilityApi()
    leader_election: LeaderElection = LeaderElection()
    shutdown: Shutdown = Shutdown()
    log: Log = Log()

    @model_validator(mode="after")
    def _fleet_with_dispatch(self) -> Settings:
        if self.roles == EXTERNAL_DISPATCHER and (self.fleet.inventory or self.fleet.queues == "keep"):
            raise ValueError("expected no fleet in the role nominate, in which workers are Kueue's")
        return self

    @model_validator(mode="after")
    def _ports_apart(self) -> Settings:
        served = {
            "webhook": self.webhook if self.webhook.enabled else None,
            "visibility": self.visibility if self.visibility.enabled and "quota" in self.roles else None,
            "probes": self.probes,
            "metrics": self.metrics,
        }
        _require_ports_apart({name: group for name, group in served.items() if group is not None})
        return self


class Leaf(msgspec.Struct, frozen=True):
    """One setting: its path in the tree, and whether a running manager takes a new value of it."""

    path: tuple[str, ...]
    field: FieldInfo
    is_live: bool

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def of(self, settings: Settings) -> Any:
        """Its value in a tree."""
        value: Any = settings
        for part in self.path:
            value = getattr(value, part)
        return value


_FIXED: Final = {
    "call_timeout": "10s",
    "heartbeat_timeout": "2s",
    "isolate_after": "5s",
    "loop_patience": "5m",
    "loop_share": "0.05",
    "reconnect_cap": "30s",
    "reconnect_first": "1s",
    "retry_cap": "5m",
    "retry_first": "200ms",
    "strategy_timeout": "1s",
    "suspect_after": "2s",
}

GONE: Mapping[str, str] = {
    **{f"dispatch.{name}": f"it is always {value}" for name, value in _FIXED.items()},
    "capacity_follow.threshold": "quota follows all changes",
    "dispatch.redo_admission": "work that its worker evicts is always dispatched again, as in Kueue since 0.18",
    "dispatch.wait_for_admitted": "a worker always wins once it has admitted the work, as in Kueue since 0.18",
    "integrations.annotated": "name the kinds in integrations.declared",
    "integrations.identifier_annotations": "annotations name Workloads and groups as in the release of quota.compatibility",
    "integrations.jobs_without_managed_by": "batch Jobs need managedBy, as with Kueue since 0.17",
    "quota.concurrent_admission": "Kueue rejects its feature beside a check of MultiKueue",
    "quota.dra.reject_when_disabled": "as in the release of quota.compatibility, work that claims devices waits since 0.18",
    "retention.copies_at_most": "an annotation may ask for a day at most",
}
"""Settings that were there before release 0.1.0, and why they went. An error says so to users who still give one."""


def leaves() -> tuple[Leaf, ...]:
    """Every setting, in the order of the tree."""
    return tuple(_leaves(Settings, (), is_live=False))


def _leaves(group: type[BaseModel], path: tuple[str, ...], *, is_live: bool) -> Iterator[Leaf]:
    for name, field in group.model_fields.items():
        marked = is_live or LIVE in field.metadata
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaves(field.annotation, (*path, name), is_live=marked)
        else:
            yield Leaf((*path, name), field, marked)
