"""Kueue's configuration file: one file, a row for each field, with its meaning or that it is ignored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kueue.conversion import convert
from multikueue.errors import ConfigurationError
from multikueue.jobs.integrations.frameworks import FRAMEWORKS, TEMPLATES
from multikueue.settings import Loaded, Settings, kueue, read, tree
from multikueue.settings.tree import AdmissionSharing, DeviceClassMapping, PodsReady, Transformation, leaves

BOTH = pytest.mark.parametrize("version", kueue.VERSIONS)


@pytest.fixture(autouse=True)
def _in_no_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kueue, "NAMESPACE_FILE", tmp_path / "none")


def written(folder: Path, fields: Mapping[str, Any], version: str = "v1beta2") -> Path:
    path = folder / "controller_manager_config.yaml"
    head = {"apiVersion": f"config.kueue.x-k8s.io/{version}", "kind": "Configuration"}
    path.write_text(yaml.safe_dump({**head, **fields}))
    return path


def loaded(folder: Path, fields: Mapping[str, Any], version: str = "v1beta2", **flags: object) -> Loaded:
    return read(written(folder, fields, version), **flags)


def refusal(folder: Path, fields: Mapping[str, Any], version: str = "v1beta2") -> str:
    with pytest.raises(ConfigurationError) as caught:
        loaded(folder, fields, version)
    return str(caught.value).replace(f"{folder}/controller_manager_config.yaml", "FILE")


def nested(path: str, value: Any) -> dict[str, Any]:
    for part in reversed(path.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


# What fields mean.


@BOTH
@pytest.mark.parametrize(
    ("field", "value", "setting", "meant"),
    [
        ("namespace", "queues", "cluster.namespace", "queues"),
        ("multiKueue.gcInterval", "1m30s", "dispatch.gc_interval", timedelta(seconds=90)),
        ("multiKueue.gcInterval", "0s", "dispatch.gc_interval", timedelta()),
        ("multiKueue.origin", "prod", "dispatch.origin", "prod"),
        ("multiKueue.origin", "", "dispatch.origin", "multikueue"),
        ("multiKueue.workerLostTimeout", "5m", "dispatch.worker_lost_timeout", timedelta(minutes=5)),
        ("multiKueue.dispatcherName", kueue.ALL_AT_ONCE, "dispatch.strategy.name", "all-at-once"),
        ("multiKueue.dispatcherName", kueue.INCREMENTAL, "dispatch.strategy.name", "incremental"),
        ("multiKueue.dispatcherName", "example.com/mine", "dispatch.strategy.name", "external"),
        ("resources.excludeResourcePrefixes", ["example.com/"], "quota.exclude_resource_prefixes", ("example.com/",)),
        ("resources.transformations", [], "quota.transformations", ()),
        (
            "resources.transformations",
            [{"input": "gpu", "strategy": "Replace", "outputs": {"credits": 80, "mem": "5Gi"}, "multiplyBy": "x"}],
            "quota.transformations",
            (
                Transformation(
                    input="gpu", strategy="Replace", outputs={"credits": "80", "mem": "5Gi"}, multiply_by="x"
                ),
            ),
        ),
        ("resources.deviceClassMappings", [], "quota.dra.device_class_mappings", ()),
        (
            "resources.deviceClassMappings",
            [{"name": "gpu", "deviceClassNames": ["gpu.example.com", "mig.example.com"], "sources": []}],
            "quota.dra.device_class_mappings",
            (DeviceClassMapping(name="gpu", device_class_names=("gpu.example.com", "mig.example.com")),),
        ),
        (
            "multiKueue.externalFrameworks",
            [{"name": "PipelineRun.v1.tekton.dev"}],
            "integrations.external",
            ("PipelineRun.v1.tekton.dev",),
        ),
        (
            "integrations.labelKeysToCopy",
            ["team", "example.com/cost"],
            "integrations.label_keys_to_copy",
            ("team", "example.com/cost"),
        ),
        ("health.healthProbeBindAddress", ":8090", "probes.port", 8090),
        ("health.healthProbeBindAddress", "127.0.0.1:8090", "probes.host", "127.0.0.1"),
        ("health.healthProbeBindAddress", "[::1]:8090", "probes.host", "::1"),
        ("health.healthProbeBindAddress", ":8090", "probes.host", "0.0.0.0"),
        ("health.healthProbeBindAddress", "0", "probes.port", None),
        ("metrics.bindAddress", ":9090", "metrics.port", 9090),
        ("metrics.bindAddress", "0", "metrics.port", None),
        ("metrics.enableClusterQueueResources", True, "metrics.enable_cluster_queue_resources", True),
        ("webhook.port", 9444, "webhook.port", 9444),
        ("webhook.host", "", "webhook.host", "0.0.0.0"),
        ("internalCertManagement.webhookServiceName", "hook", "webhook.service_name", "hook"),
        ("leaderElection.leaderElect", False, "leader_election.enabled", False),
        ("leaderElection.leaseDuration", "20s", "leader_election.lease_duration", timedelta(seconds=20)),
        ("leaderElection.renewDeadline", "12s", "leader_election.renew_deadline", timedelta(seconds=12)),
        ("leaderElection.retryPeriod", "3s", "leader_election.retry_period", timedelta(seconds=3)),
        ("featureGates.MultiKueue", True, "integrations.kueue_holds_pods", True),
        ("featureGates.AdmissionGatedBy", False, "quota.admission_gates", False),
        ("featureGates.UnadmittedWorkloadsObservability", True, "quota.unadmitted_reasons", True),
        ("featureGates.MultiKueueOrchestratedPreemption", True, "dispatch.orchestrated_preemption", True),
        ("featureGates.MultiKueueManagerQuotaAutomation", True, "capacity_follow.quota_management", True),
        ("featureGates.MultiKueueClusterProfile", False, "dispatch.cluster_profile.enabled", False),
        (
            "featureGates.MultiKueueKubeConfigPathValidation",
            True,
            "dispatch.kubeconfig_directory",
            Path("/etc/multikueue/kubeconfigs"),
        ),
        ("featureGates.LocalQueueDefaulting", False, "webhook.default_queue", False),
        ("featureGates.LocalQueueMetrics", True, "metrics.enable_local_queues", True),
        ("metrics.localQueueMetrics.enable", True, "metrics.enable_local_queues", True),
    ],
)
def test_a_field_means_what_it_means_in_kueue(
    tmp_path: Path, version: str, field: str, value: Any, setting: str, meant: Any
) -> None:
    found = loaded(tmp_path, nested(field, value), version)
    (leaf,) = [leaf for leaf in leaves() if leaf.name == setting]
    assert leaf.of(found.settings) == meant
    assert found.origin(leaf.path) == f"{found.config}: {field}"
    assert found.ignored == ()


OF_OLD: dict[str, tuple[bool, str, Any, tree.Release]] = {
    "MultiKueueAllowInsecureKubeconfigs": (True, "dispatch.insecure_kubeconfigs", True, "0.18"),
}


@pytest.mark.parametrize("release", kueue.RELEASES)
@pytest.mark.parametrize("gate", OF_OLD)
def test_a_gate_counts_up_to_the_release_that_locked_it(tmp_path: Path, gate: str, release: tree.Release) -> None:
    value, setting, meant, until = OF_OLD[gate]
    found = loaded(tmp_path, {"featureGates": {gate: value}}, quota__compatibility=release)
    (leaf,) = [leaf for leaf in leaves() if leaf.name == setting]
    counts = release <= until
    assert leaf.of(found.settings) == (meant if counts else leaf.of(Settings()))
    assert [each.why for each in found.ignored] == ([] if counts else [f"Kueue {release} leaves no choice"])
    assert loaded(tmp_path, {"featureGates": {gate: not value}}, quota__compatibility=release).ignored == ()


WENT = {
    "KueueDRARejectWorkloadsWhenDRADisabled": "where devices are not counted, work that claims some waits",
    "MultiKueueBatchJobWithManagedBy": "batch Jobs need managedBy, as with Kueue since 0.17",
    "MultiKueueWaitForWorkloadAdmitted": "a worker wins once it has admitted the work, as in Kueue since 0.18",
    "MultiKueueRedoAdmissionOnEvictionInWorker": "work that its worker evicts is dispatched again, as in Kueue since 0.18",
    "WorkloadIdentifierAnnotations": (
        "quota.compatibility says whether annotations name Workloads and groups: since 0.18"
    ),
}


@pytest.mark.parametrize("release", kueue.RELEASES)
@pytest.mark.parametrize(("gate", "why"), WENT.items(), ids=WENT)
def test_a_gate_without_a_setting_is_told_as_ignored_where_it_is_off(
    tmp_path: Path, gate: str, why: str, release: tree.Release
) -> None:
    (told,) = loaded(tmp_path, {"featureGates": {gate: False}}, quota__compatibility=release).ignored
    assert (told.field, told.value, told.why) == (f"featureGates.{gate}", "False", why)
    assert loaded(tmp_path, {"featureGates": {gate: True}}, quota__compatibility=release).ignored == ()


@BOTH
def test_the_concurrency_of_threads_is_not_that_of_tasks(tmp_path: Path, version: str) -> None:
    """The shipped file says 5, and so few would be as slow as Kueue."""
    kinds = {"Workload.kueue.x-k8s.io": 5, "Job.batch": 5}
    found = loaded(tmp_path, {"controller": {"groupKindConcurrency": kinds}}, version)
    assert found.settings.dispatch.concurrency == Settings().dispatch.concurrency
    assert [each.field for each in found.ignored] == [
        "controller.groupKindConcurrency[Job.batch]",
        "controller.groupKindConcurrency[Workload.kueue.x-k8s.io]",
    ]


REQUEUING = {"requeuingStrategy": {"backoffBaseSeconds": 30, "backoffMaxSeconds": 600, "timestamp": "Eviction"}}


def test_the_backoff_of_evicted_workloads(tmp_path: Path) -> None:
    new = loaded(tmp_path, {"waitForPodsReady": REQUEUING})
    old = loaded(tmp_path, {"waitForPodsReady": {"enable": True, **REQUEUING}}, "v1beta1")
    for found in (new, old):
        assert (found.settings.quota.requeue_first, found.settings.quota.requeue_cap) == (
            timedelta(seconds=30),
            timedelta(minutes=10),
        )
    assert new.ignored == ()
    assert old.ignored == ()


WAITING = {
    "v1beta2, which is on by being there": ("v1beta2", {}, PodsReady(enabled=True, timeout=timedelta(minutes=30))),
    "v1beta1, which then blocks": ("v1beta1", {"enable": True}, PodsReady(enabled=True, block_admission=True)),
    "v1beta1, told not to": (
        "v1beta1",
        {"enable": True, "blockAdmission": False},
        PodsReady(enabled=True),
    ),
    "v1beta1, switched off": ("v1beta1", {"enable": False}, PodsReady()),
    "all there is": (
        "v1beta2",
        {
            "timeout": "10m",
            "recoveryTimeout": "0s",
            "blockAdmission": True,
            "requeuingStrategy": {"timestamp": "Creation", "backoffLimitCount": 3},
        },
        PodsReady(
            enabled=True,
            timeout=timedelta(minutes=10),
            recovery_timeout=timedelta(),
            block_admission=True,
            requeuing_timestamp="Creation",
            backoff_limit_count=3,
        ),
    ),
}


@pytest.mark.parametrize(("version", "fields", "meant"), WAITING.values(), ids=WAITING)
def test_waiting_for_pods(tmp_path: Path, version: str, fields: dict[str, Any], meant: PodsReady) -> None:
    found = loaded(tmp_path, {"waitForPodsReady": fields}, version)
    assert found.settings.quota.pods_ready == meant
    assert found.ignored == ()


@BOTH
def test_turns_of_local_queues(tmp_path: Path, version: str) -> None:
    fields = {"usageHalfLifeTime": "168h", "usageSamplingInterval": "0s", "resourceWeights": {"cpu": 0, "gpu": 2.5}}
    found = loaded(tmp_path, {"admissionFairSharing": fields}, version)
    assert found.settings.quota.admission_fair_sharing == AdmissionSharing(
        enabled=True,
        usage_half_life_time=timedelta(days=7),
        usage_sampling_interval=timedelta(minutes=5),
        resource_weights={"cpu": 0, "gpu": 2.5},
    )
    assert found.ignored == ()
    bare = loaded(tmp_path, {"admissionFairSharing": {}}, version).settings.quota.admission_fair_sharing
    assert bare == AdmissionSharing(enabled=True)


ON, OFF = PodsReady(enabled=True, timeout=timedelta(minutes=30)), PodsReady()
DEFAULTS = {
    "they are waited for since 0.19": ("v1beta2", {}, None, ON),
    "not so in v1beta1": ("v1beta1", {}, None, OFF),
    "nor where an older release is followed": ("v1beta2", {}, "0.18", OFF),
    "nor by the gate": ("v1beta2", {"DisableWaitForPodsReady": True}, None, PodsReady(timeout=timedelta(minutes=30))),
}


@pytest.mark.parametrize(("version", "gates", "release", "meant"), DEFAULTS.values(), ids=DEFAULTS)
def test_without_a_word_about_pods(
    tmp_path: Path, version: str, gates: dict[str, bool], release: str | None, meant: PodsReady
) -> None:
    found = loaded(tmp_path, {"featureGates": gates}, version, quota__compatibility=release)
    assert found.settings.quota.pods_ready == meant
    assert found.ignored == ()


def test_the_gate_goes_before_the_group(tmp_path: Path) -> None:
    fields = {"waitForPodsReady": {}, "featureGates": {"DisableWaitForPodsReady": True}}
    found = loaded(tmp_path, fields)
    assert not found.settings.quota.pods_ready.enabled
    assert [each.why for each in found.ignored] == ["featureGates.DisableWaitForPodsReady is true"]


@pytest.mark.parametrize("switch", [{}, {"enable": False}], ids=["missing", "false"])
def test_in_v1beta1_a_group_that_is_not_switched_on_is_off(tmp_path: Path, switch: dict[str, bool]) -> None:
    fields = {
        "waitForPodsReady": {**switch, **REQUEUING},
        "fairSharing": {**switch, "preemptionStrategies": ["LessThanInitialShare"]},
    }
    found = loaded(tmp_path, fields, "v1beta1")
    assert found.settings.quota == Settings().quota
    assert {each.why for each in found.ignored} == {
        "waitForPodsReady.enable is not true",
        "fairSharing.enable is not true",
    }


STRATEGIES = {
    "both, if none is named": (None, ("LessThanOrEqualToFinalShare", "LessThanInitialShare")),
    "both, if the list is empty": ([], ("LessThanOrEqualToFinalShare", "LessThanInitialShare")),
    "the one that is named": (["LessThanInitialShare"], ("LessThanInitialShare",)),
}


@BOTH
@pytest.mark.parametrize(("given", "expected"), STRATEGIES.values(), ids=STRATEGIES.keys())
def test_fair_sharing_is_on_with_its_strategies(
    tmp_path: Path, version: str, given: list[str] | None, expected: tuple[str, ...]
) -> None:
    switch = {"enable": True} if version == "v1beta1" else {}
    found = loaded(tmp_path, {"fairSharing": {**switch, "preemptionStrategies": given}}, version)
    assert (found.settings.quota.fair_sharing, found.settings.quota.preemption_strategies) == (True, expected)
    assert found.ignored == ()


def test_in_v1beta2_the_group_alone_turns_fair_sharing_on(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"fairSharing": {}}).settings.quota.fair_sharing
    assert not loaded(tmp_path, {}).settings.quota.fair_sharing
    assert not loaded(tmp_path, {"fairSharing": {"enable": False}}, "v1beta1").settings.quota.fair_sharing


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (True, "fairSharing: expected a mapping"),
        (
            {"preemptionStrategies": ["LessThanInitialShare", "LessThanOrEqualToFinalShare"]},
            "fairSharing.preemptionStrategies: expected LessThanOrEqualToFinalShare, LessThanInitialShare, or both",
        ),
    ],
    ids=["no group", "the wrong way round"],
)
def test_fair_sharing_that_makes_no_sense_stops_the_start(tmp_path: Path, value: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        loaded(tmp_path, {"fairSharing": value})


def test_workloads_say_explicitly_that_they_wait_only_by_granular_reasons(tmp_path: Path) -> None:
    gates = {"UnadmittedWorkloadsExplicitStatus": True}
    assert "expected unadmitted_reasons with explicit_status" in refusal(tmp_path, {"featureGates": gates})

    quota = loaded(tmp_path, {"featureGates": gates | {"UnadmittedWorkloadsObservability": True}}).settings.quota
    assert (quota.unadmitted_reasons, quota.explicit_status) == (True, True)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ([{"input": "gpu"}, {"input": "gpu"}], "expected transformations of different inputs"),
        ([{"input": "gpu", "outputs": {"credits": "many"}}], "expected a quantity such as 500m, 2 or 1Gi, got 'many'"),
        ([{"input": "gpu", "outputs": {"pods": 1}}], "expected a resource other than pods, which count as one each"),
        ([{"outputs": {}}], "resources.transformations[0].input"),
        ({}, "resources.transformations"),
    ],
)
def test_transformations_that_are_none_are_refused(tmp_path: Path, rules: Any, problem: str) -> None:
    assert problem in refusal(tmp_path, {"resources": {"transformations": rules}})


def mapping(name: str = "gpu", *classes: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "deviceClassNames": list(classes or (f"{name}.example.com",)), **more}


NO_MAPPINGS: dict[str, tuple[Any, str]] = {
    "no list": ({}, "resources.deviceClassMappings: expected a list"),
    "a name that is no label": ([mapping("g p u", "a")], "resources.deviceClassMappings[0].name: expected a name such"),
    "a class that is no label": ([mapping("gpu", "-")], "resources.deviceClassMappings[0].device_class_names[0]: "),
    "a long name": ([mapping("a" * 200 + "." + "b" * 50 + "/gpu", "a")], "at most 253 characters"),
    "no classes": ([{"name": "gpu", "deviceClassNames": []}], "resources.deviceClassMappings[0].device_class_names"),
    "nine classes": ([mapping("gpu", *"abcdefghi")], "resources.deviceClassMappings[0].device_class_names: expected"),
    "seventeen mappings": ([mapping(f"gpu{n}") for n in range(17)], "resources.deviceClassMappings: expected"),
    "one name twice": ([mapping("gpu", "a"), mapping("gpu", "b")], "expected device_class_mappings with different"),
    "one class twice": ([mapping("gpu", "a"), mapping("big", "a")], "expected each DeviceClass in one of the"),
    "one class twice in one": ([mapping("gpu", "a", "a")], "expected each DeviceClass in one of the"),
}


@pytest.mark.parametrize(("mappings", "problem"), NO_MAPPINGS.values(), ids=NO_MAPPINGS)
def test_mappings_of_devices_that_are_none_are_refused(tmp_path: Path, mappings: Any, problem: str) -> None:
    assert problem in refusal(tmp_path, {"resources": {"deviceClassMappings": mappings}})


def test_mappings_with_sources_are_named_and_left_out(tmp_path: Path) -> None:
    counters = mapping("memory", sources=[{"counter": {"name": "memory", "driver": "gpu.example.com"}}])
    found = loaded(tmp_path, {"resources": {"deviceClassMappings": [mapping(), counters]}})
    assert [each.name for each in found.settings.quota.dra.device_class_mappings] == ["gpu"]
    (said,) = found.ignored
    assert said.field == "resources.deviceClassMappings"
    assert '"memory"' in said.value or "'memory'" in said.value
    assert said.why.startswith("devices are counted by number")


@pytest.mark.parametrize(
    ("gate", "release", "setting"),
    [
        ("KueueDRAIntegration", "0.19", "enabled"),
        ("DynamicResourceAllocation", "0.16", "enabled"),
        ("KueueDRAIntegrationExtendedResource", "0.19", "extended_resources"),
    ],
)
@pytest.mark.parametrize("value", [True, False])
def test_gates_say_whether_devices_are_counted(
    tmp_path: Path, gate: str, release: str, setting: str, value: bool
) -> None:
    found = loaded(tmp_path, {"featureGates": {gate: value}}, quota__compatibility=release)
    assert getattr(found.settings.quota.dra, setting) is value
    assert found.ignored == ()


def test_extended_resources_are_devices_only_where_devices_are_counted(tmp_path: Path) -> None:
    gates = {"KueueDRAIntegration": False, "KueueDRAIntegrationExtendedResource": True}
    assert "expected extended_resources only where enabled is not false" in refusal(tmp_path, {"featureGates": gates})


@pytest.mark.parametrize(
    ("field", "value", "setting"),
    [
        ("visibilityServer.bindAddress", "127.0.0.1", "visibility.host"),
        ("visibilityServer.bindPort", 9082, "visibility.port"),
        ("objectRetentionPolicies.remoteObjects.afterFinished", "2h", "retention.copies"),
    ],
)
def test_a_field_that_only_v1beta2_got(tmp_path: Path, field: str, value: Any, setting: str) -> None:
    (leaf,) = [leaf for leaf in leaves() if leaf.name == setting]
    expected = timedelta(hours=2) if value == "2h" else value
    assert leaf.of(loaded(tmp_path, nested(field, value), "v1beta2").settings) == expected
    assert "expected in v1beta2 only, and Kueue does not start with it" in refusal(
        tmp_path, nested(field, value), "v1beta1"
    )


@pytest.mark.parametrize("field", ["waitForPodsReady.unscheduledTimeout", "waitForPodsReady.maxTimeoutOnWorkload"])
def test_a_field_of_a_later_kueue_is_named_and_does_not_keep_us_from_starting(tmp_path: Path, field: str) -> None:
    assert [each.field for each in loaded(tmp_path, nested(field, "2h"), "v1beta2").ignored] == [field]
    assert "expected in v1beta2 only" in refusal(tmp_path, nested(field, "2h"), "v1beta1")


def test_the_step_of_the_incremental_dispatcher(tmp_path: Path) -> None:
    step = {"incrementalDispatcherConfig": {"stepSize": 5}}
    found = loaded(tmp_path, {"multiKueue": {"dispatcherName": kueue.INCREMENTAL, **step}})
    assert found.settings.dispatch.strategy.options == {"step": 5}

    alone = loaded(tmp_path, {"multiKueue": step})
    assert alone.settings.dispatch.strategy == Settings().dispatch.strategy
    assert [each.why for each in alone.ignored] == [f"dispatcherName is not {kueue.INCREMENTAL}"]


@pytest.mark.parametrize(
    ("gate", "field", "value"),
    [
        ("MultiKueueAdaptersForCustomJobs", "externalFrameworks", [{"name": "PipelineRun.v1.tekton.dev"}]),
        ("MultiKueueIncrementalDispatcherConfig", "incrementalDispatcherConfig", {"stepSize": 5}),
    ],
)
def test_a_field_counts_only_where_its_gate_is_not_off(tmp_path: Path, gate: str, field: str, value: Any) -> None:
    fields = {"multiKueue": {"dispatcherName": kueue.INCREMENTAL, field: value}}
    on = loaded(tmp_path, fields | {"featureGates": {gate: True}})
    off = loaded(tmp_path, fields | {"featureGates": {gate: False}})
    without = loaded(tmp_path, {"multiKueue": {"dispatcherName": kueue.INCREMENTAL}})
    assert on.settings == loaded(tmp_path, fields).settings != off.settings == without.settings
    assert [each.why for each in off.ignored] == [f"featureGates.{gate} is false"]


@pytest.mark.parametrize("name", ["credentialsProviders", "accessProviders"])
def test_providers_of_credentials_for_cluster_profiles(tmp_path: Path, name: str) -> None:
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "login",
        "args": ["--for", "workers"],
        "env": [{"name": "A", "value": "1"}],
        "provideClusterInfo": True,
        "installHint": "install it",
        "interactiveMode": "Never",
    }
    providers = [{"name": "cloud", "execConfig": command}]
    found = loaded(tmp_path, {"multiKueue": {"clusterProfile": {name: providers}}})
    (provider,) = found.settings.dispatch.cluster_profile.access_providers
    assert (provider.name, provider.exec.command, provider.exec.args) == ("cloud", "login", ("--for", "workers"))
    assert provider.exec.provide_cluster_info
    assert [(each.name, each.value) for each in provider.exec.env] == [("A", "1")]


# What is left out.


@BOTH
def test_what_is_left_out_has_our_default_unless_others_rely_on_kueues(tmp_path: Path, version: str) -> None:
    found = loaded(tmp_path, {}, version)
    kueues = [leaf.name for leaf in leaves() if found.origin(leaf.path) == "Kueue's default"]
    patience = ["quota.pods_ready.enabled", "quota.pods_ready.timeout"] if version == "v1beta2" else []
    assert kueues == ["cluster.namespace", *patience, "probes.host", "probes.port", "leader_election.enabled"]
    assert (found.settings.cluster.namespace, found.settings.probes.port) == ("kueue-system", 8081)
    assert found.settings.leader_election.enabled
    for group in ("dispatch", "webhook", "metrics", "log"):
        assert getattr(found.settings, group) == getattr(Settings(), group)


@pytest.mark.parametrize("value", [None], ids=["null"])
def test_null_is_left_out(tmp_path: Path, value: None) -> None:
    fields = {"multiKueue": {"origin": value}, "fairSharing": value, "health": {"healthProbeBindAddress": value}}
    assert loaded(tmp_path, fields).settings == loaded(tmp_path, {}).settings
    assert loaded(tmp_path, fields).ignored == ()


def test_the_namespace_is_that_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "namespace").write_text("queues\n")
    monkeypatch.setattr(kueue, "NAMESPACE_FILE", tmp_path / "namespace")
    assert loaded(tmp_path, {}).settings.cluster.namespace == "queues"
    assert loaded(tmp_path, {"namespace": "other"}).settings.cluster.namespace == "other"


def test_flags_and_environment_go_before_kueues_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, {"multiKueue": {"origin": "file", "gcInterval": "3s"}})
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__GC_INTERVAL", "2s")
    monkeypatch.setenv("MULTIKUEUE_PROBES__PORT", "0")
    found = read(path, dispatch__origin="flag").settings
    assert (found.dispatch.origin, found.dispatch.gc_interval, found.probes.port) == ("flag", timedelta(seconds=2), 0)


# What has no effect.


@BOTH
@pytest.mark.parametrize("known", [each for each in kueue.FIELDS if not each.to], ids=lambda each: each.name)
def test_a_field_without_effect_is_named_with_its_value_and_why(
    tmp_path: Path, version: str, known: kueue.Field
) -> None:
    if known.versions not in ("both", version):
        return
    value: Any = "something"
    for part in reversed(known.path):
        value = {part.replace("*", "Any"): value}
    for group in ("waitForPodsReady", "fairSharing"):
        if version == "v1beta1" and group in value:
            value[group].setdefault("enable", True)
    named = {each.field: each for each in loaded(tmp_path, value, version).ignored}
    found = named[known.name.replace("*", "Any")]
    assert (found.value, found.why) == ("'something'", known.why)


@pytest.mark.parametrize(
    ("known", "value"), [(each, value) for each in kueue.FIELDS for value in each.fine], ids=lambda each: str(each)[:40]
)
def test_what_asks_for_what_is_done_anyhow_is_not_worth_a_word(tmp_path: Path, known: kueue.Field, value: Any) -> None:
    version = "v1beta1" if known.versions == "v1beta1" else "v1beta2"
    fields: Any = value
    for part in reversed(known.path):
        fields = {part: fields}
    assert loaded(tmp_path, fields, version).ignored == ()


UNKNOWN: dict[str, tuple[str, dict[str, Any], str]] = {
    "a typing error at the top": (
        "v1beta2",
        {"waitforPodsReady": {"timeout": "5m"}},
        "waitforPodsReady: expected 'waitForPodsReady'; there is no 'waitforPodsReady', and Kueue does not start with it",
    ),
    "a typing error in a group": (
        "v1beta2",
        {"multiKueue": {"orign": "x"}},
        "multiKueue.orign: expected 'origin'; there is no 'orign', and Kueue does not start with it",
    ),
    "a typing error without a value": (
        "v1beta2",
        {"multiKueue": {"orign": None}},
        "multiKueue.orign: expected 'origin'; there is no 'orign', and Kueue does not start with it",
    ),
    "something else": (
        "v1beta2",
        {"fairSharing": {"weights": 1}},
        "fairSharing.weights: expected one of preemptionStrategies, and Kueue does not start with it",
    ),
    "the switch of v1beta1": (
        "v1beta2",
        {"fairSharing": {"enable": True}},
        "fairSharing.enable: expected in v1beta1 only, and Kueue does not start with it in v1beta2",
    ),
    "a group of v1beta2": (
        "v1beta1",
        {"visibilityServer": {"bindPort": 1}},
        "visibilityServer.bindPort: expected in v1beta2 only, and Kueue does not start with it in v1beta1",
    ),
    "a framework without its group": (
        "v1beta2",
        {"integrations": {"frameworks": ["batch/job", "pytorchjob"]}},
        "integrations.frameworks: expected 'kubeflow.org/pytorchjob'; there is no 'pytorchjob', and Kueue",
    ),
    "a framework by its kind": (
        "v1beta2",
        {"integrations": {"frameworks": ["RayJob"]}},
        "integrations.frameworks: expected 'ray.io/rayjob'; there is no 'RayJob', and Kueue",
    ),
    "a framework in another group": (
        "v1beta2",
        {"integrations": {"frameworks": ["batch/jobs"]}},
        "integrations.frameworks: expected 'batch/job'; there is no 'batch/jobs', and Kueue",
    ),
}


@pytest.mark.parametrize(("version", "fields", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_kueue_does_not_start_with_is_refused_with_what_was_meant(
    tmp_path: Path, version: str, fields: dict[str, Any], why: str
) -> None:
    assert f"FILE: {why}" in refusal(tmp_path, fields, version)


def test_frameworks_are_those_we_know_and_others_are_named(tmp_path: Path) -> None:
    unknown = "leaderworkerset.x-k8s.io/leaderworkerset"
    found = loaded(tmp_path, {"integrations": {"frameworks": ["batch/job", unknown, "jobset.x-k8s.io/jobset"]}})
    assert found.settings.integrations.frameworks == ("batch/job", "jobset.x-k8s.io/jobset")
    assert [each.value for each in found.ignored] == [f"[{unknown!r}]"]
    assert loaded(tmp_path, {"integrations": {"frameworks": ["batch/job"]}}).ignored == ()
    without = loaded(tmp_path, {"integrations": {"frameworks": [unknown]}})
    assert without.settings.integrations.frameworks == ("batch/job",), "always"
    assert [each.value for each in without.ignored] == [f"[{unknown!r}]"]


def test_the_frameworks_are_those_of_our_adapters() -> None:
    assert {*FRAMEWORKS, *TEMPLATES} == {*tree.FRAMEWORKS}


# What is wrong.


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "multiKueue.gcInterval",
            "soon",
            "FILE: multiKueue.gcInterval: expected a duration such as 15m, 1m30s or 500ms, got 'soon'",
        ),
        ("multiKueue.workerLostTimeout", "-1s", "FILE: multiKueue.workerLostTimeout: expected a duration of 0 or more"),
        ("multiKueue.origin", "-x", "FILE: multiKueue.origin: expected a label value"),
        ("multiKueue.dispatcherName", 5, "FILE: multiKueue.dispatcherName: expected the name of a dispatcher, got 5"),
        ("multiKueue", [1], "FILE: multiKueue: expected a mapping, got [1]"),
        ("health.healthProbeBindAddress", "8081", "FILE: health.healthProbeBindAddress: expected an address such as"),
        ("health.healthProbeBindAddress", ":99999", "FILE: health.healthProbeBindAddress: expected an address such as"),
        ("webhook.port", "x", "FILE: webhook.port: expected a whole number, got 'x'"),
        (
            "multiKueue.clusterProfile.credentialsProviders",
            [{"name": "a", "execConfig": {}}],
            "FILE: multiKueue.clusterProfile.credentialsProviders[0].exec.command: expected",
        ),
        (
            "leaderElection",
            {"leaseDuration": "5s", "renewDeadline": "10s"},
            "FILE: leaderElection.leaseDuration, leaderElection.renewDeadline: expected renew_deadline to be shorter",
        ),
    ],
)
def test_a_mistake_is_told_with_file_and_kueues_name(tmp_path: Path, field: str, value: Any, message: str) -> None:
    assert refusal(tmp_path, nested(field, value)).startswith(message)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    fields = {"multiKueue": {"dispatcherName": 5}, "health": {"healthProbeBindAddress": 1}}
    assert len(refusal(tmp_path, fields).splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: config.kueue.x-k8s.io/v1\nkind: Configuration",
            "apiVersion: expected config.kueue.x-k8s.io/v1beta1 or",
        ),
        ("apiVersion: v1\nkind: ConfigMap", "kind: expected Configuration (config.kueue.x-k8s.io), got 'ConfigMap'"),
        ("apiVersion: config.kueue.x-k8s.io/v1beta2", "kind: expected Configuration"),
        ("kind: Configuration", "apiVersion: expected"),
    ],
)
def test_another_object_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")


# The table.


def test_the_table_names_each_field_once_and_settings_that_exist() -> None:
    assert len({each.path for each in kueue.FIELDS}) == len(kueue.FIELDS)
    known = {leaf.path for leaf in leaves()}
    for each in kueue.FIELDS:
        for path in each.to:
            assert path in known or path[:-1] == ("dispatch", "strategy", "options"), path
        assert each.to or each.why


# Hostile files.

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def trees(draw: st.DrawFn) -> dict[Any, Any]:
    """Files that have known fields with any values, any values for groups, and fields nobody knows."""
    tree: dict[Any, Any] = draw(st.dictionaries(st.text(max_size=5), ANYTHING, max_size=2))
    for known in draw(st.lists(st.sampled_from(kueue.FIELDS), max_size=5)):
        here: Any = tree
        for part in known.path[: draw(st.integers(1, len(known.path)))][:-1]:
            if not isinstance(here.get(part), dict):
                here[part] = {}
            here = here[part]
        here[known.path[-1]] = draw(ANYTHING)
    return tree


@given(trees(), st.sampled_from(kueue.VERSIONS))
def test_whatever_a_file_says_there_are_settings_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[Any, Any], version: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        found = loaded(folder, tree, version)
    except ConfigurationError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(line.startswith(f"{folder}/controller_manager_config.yaml: ") for line in lines)
    else:
        assert all("\n" not in str(each) and len(str(each)) < 2000 for each in found.ignored)


# `multikueue convert` of the file.

ANY_OF_V1BETA1 = st.fixed_dictionaries(
    {},
    optional={
        "fairSharing": st.fixed_dictionaries(
            {"enable": st.booleans()},
            optional={"preemptionStrategies": st.sampled_from([[], ["LessThanInitialShare"]])},
        ),
        "waitForPodsReady": st.fixed_dictionaries(
            {},
            optional={
                "enable": st.booleans(),
                "timeout": st.sampled_from(["1m", "10m"]),
                "blockAdmission": st.booleans(),
                "requeuingStrategy": st.just({"timestamp": "Creation", "backoffLimitCount": 3}),
            },
        ),
        "multiKueue": st.just({"origin": "here", "gcInterval": "2m"}),
        "featureGates": st.just({"LocalQueueDefaulting": True}),
        "queueVisibility": st.just({"updateIntervalSeconds": 5}),
        "integrations": st.just({"frameworks": ["batch/job", "pod"], "podOptions": {}}),
    },
)


@given(fields=ANY_OF_V1BETA1)
def test_a_file_in_v1beta2_says_what_it_said_in_v1beta1(fields: dict[str, Any]) -> None:
    old = {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "kind": "Configuration", **fields}
    new, _ = convert(old)

    assert meant(new) == meant(old)


def meant(file: dict[str, Any]) -> Settings:
    found = kueue.translate(file, Path("file"))
    settings = Settings.model_validate(_merged(found.defaults, found.values))
    if settings.quota.pods_ready.enabled:
        return settings
    quota = settings.quota.model_copy(update={"pods_ready": PodsReady()})  # how long nobody waits does not matter
    return settings.model_copy(update={"quota": quota})


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {name for name in under if isinstance(under[name], dict) and isinstance(over.get(name), dict)}
    return {**under, **over, **{name: _merged(under[name], over[name]) for name in both}}


# Namespaces by label.

SELECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "as OpenShift has it": (
        {"matchLabels": {"kueue.openshift.io/managed": "true"}},
        "kueue.openshift.io/managed=true",
    ),
    "as Kueue's own file has it": (
        {
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
            ]
        },
        "kubernetes.io/metadata.name notin (kube-system,kueue-system)",
    ),
    "there or not": (
        {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]},
        "a,!b",
    ),
    "all": ({}, ""),
}


@BOTH
@pytest.mark.parametrize(("selector", "text"), SELECTORS.values(), ids=SELECTORS)
def test_namespaces_whose_jobs_are_taken_in(tmp_path: Path, version: str, selector: dict[str, Any], text: str) -> None:
    found = loaded(tmp_path, {"managedJobsNamespaceSelector": selector}, version)
    assert (found.settings.integrations.managed_namespaces, found.ignored) == (text, ())


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabel": {"a": "b"}},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]},
        {"matchLabels": {"a b": "c"}},
    ],
)
def test_a_selector_that_is_none_is_refused(tmp_path: Path, selector: dict[str, Any]) -> None:
    assert "managedJobsNamespaceSelector: expected" in refusal(tmp_path, {"managedJobsNamespaceSelector": selector})
