"""Kueue beside a control plane: as a worker's queue, or as the MultiKueue manager that ours is compared with.

It runs as shipped, except for changes that a run outside a cluster demands: webhooks by URL on loopback with certificates of
ours, ports of its own, no leader election.

Certificates: without `internalCertManagement` Kueue reads its metrics certificate from `/etc/kueue/metrics/certs`,
which only root can write. So it is left on, as shipped, and finds a Secret which is valid already: Kueue then keeps
it, and our authority is the one it writes into the webhooks.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import yaml

from testbed.client import ApiError, Client, Kind
from testbed.kubeconfig import dump
from testbed.plane import ControlPlane
from testbed.ports import free_port
from testbed.process import Process
from testbed.programs import Release, module_folder

__all__ = ["BATCH_JOB", "NAMESPACE", "QUICK_CLIENT", "Kueue", "admission_policies", "shipped_configuration"]

Object = dict[str, Any]

NAMESPACE = "kueue-system"
BATCH_JOB = ("batch/job",)
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"
CERTIFICATE_HOSTS = ("127.0.0.1", "localhost", f"{SERVICE}.{NAMESPACE}.svc")

# Kueue ships 50 and 100, with which a benchmark would measure the workers instead of the manager.
QUICK_CLIENT: Mapping[str, int] = {"qps": 300, "burst": 500}

CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
RESOURCE_FLAVOR = Kind("kueue.x-k8s.io/v1beta2", "ResourceFlavor")
WEBHOOK_CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def shipped_configuration(release: Release | None = None) -> Object:
    """Kueue's own default configuration: `clientConnection` 50/100, Job and Workload concurrency 5, all frameworks."""
    configuration: Object = yaml.safe_load(_component("manager/controller_manager_config.yaml", release))
    return configuration


def admission_policies(release: Release | None = None) -> list[Object]:
    """The admission policies that come with Kueue, and their bindings; none before 0.19.2.

    Its chart has them with `enableMutatingAdmissionPolicy`, its kustomization with a line that is a comment there.
    """
    if not _component_file("map/manifests.yaml", release).is_file():
        return []
    manifests: list[Object] = list(yaml.safe_load_all(_component("map/manifests.yaml", release)))
    for manifest in manifests:
        manifest["metadata"]["name"] = _prefixed(manifest["metadata"]["name"])
        if "policyName" in manifest["spec"]:
            manifest["spec"]["policyName"] = _prefixed(manifest["spec"]["policyName"])
    return manifests


class Kueue:
    """One Kueue process and what it needs in its control plane.

    `configuration` is laid over the shipped one, key by key; feature gates in it are flags as those in `feature_gates` are,
    since Kueue takes them from one place only. `frameworks` replaces the shipped list of integrations
    (None keeps it). `binary` is another program to run in its place. The release is that of the plane.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        configuration: Mapping[str, Any] | None = None,
        frameworks: Sequence[str] | None = BATCH_JOB,
        feature_gates: Mapping[str, bool] | None = None,
        binary: Path | None = None,
    ) -> None:
        self.plane = plane
        self.release = plane.release
        self.folder = plane.folder / "kueue"
        self.webhook_port = free_port()
        self.health_port = free_port()
        self.metrics_port = free_port()
        self.configuration = _merged(shipped_configuration(self.release), configuration or {}, self._local(frameworks))
        gates = {"VisibilityOnDemand": False, **self.configuration.pop("featureGates", {}), **(feature_gates or {})}
        self.process = Process(
            f"kueue of {plane.name}",
            [
                str(binary or plane.programs.kueue),
                f"--config={self.folder / 'config.yaml'}",
                f"--feature-gates={_gates(gates)}",
            ],
            log=plane.folder / "kueue.log",
            env={"KUBECONFIG": str(self.folder / "kubeconfig")},
        )

    @property
    def frameworks(self) -> list[str]:
        names: list[str] = self.configuration["integrations"]["frameworks"]
        return names

    async def start(self) -> None:
        """Set up the control plane, start, and wait until its webhooks answer. The CRDs must be established."""
        self._write_files()
        async with self.plane.client() as client:
            await self._install(client)
        await self.restart()

    async def restart(self) -> None:
        """Start again after `stop` or `kill`."""
        self.process.start()
        async with self.plane.client() as client:
            await self.process.wait_until(lambda: self._is_ready(client))

    async def stop(self) -> None:
        await self.process.stop()

    async def kill(self) -> None:
        await self.process.kill()

    async def remove(self) -> None:
        """Stop and take its webhooks away, so that the plane works without Kueue again."""
        await self.stop()
        async with self.plane.client() as client:
            for body in self._webhooks():
                await client.delete(Kind(body["apiVersion"], body["kind"]), body["metadata"]["name"])
            for plural in CONVERTED:
                none = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
                await client.patch(CRD, f"{plural}.kueue.x-k8s.io", none)

    async def metrics(self) -> str:
        """Its metrics as text."""
        headers = {"Authorization": f"Bearer {self.plane.tokens['admin']}"}
        connector = aiohttp.TCPConnector(ssl=False)  # it signs this certificate itself
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers) as session,
            session.get(f"https://127.0.0.1:{self.metrics_port}/metrics", raise_for_status=True) as answer,
        ):
            return await answer.text()

    def _local(self, frameworks: Sequence[str] | None) -> Object:
        local: Object = {
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health_port}"},
            "metrics": {"bindAddress": f"127.0.0.1:{self.metrics_port}"},
            "webhook": {"host": "127.0.0.1", "port": self.webhook_port, "certDir": str(self.folder)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
        }
        if frameworks is not None:
            local["integrations"] = {"frameworks": list(frameworks)}
        return local

    def _write_files(self) -> None:
        self.plane.identity.authority.issue("kueue", *CERTIFICATE_HOSTS).write(self.folder)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.configuration))
        (self.folder / "kubeconfig").write_bytes(dump(self.plane.kubeconfig("kueue")))

    async def _install(self, client: Client) -> None:
        await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        async with anyio.create_task_group() as tasks:
            for body in (self._secret(), *self._webhooks()):
                tasks.start_soon(client.apply, body)
            for plural in CONVERTED:
                tasks.start_soon(
                    client.patch, CRD, f"{plural}.kueue.x-k8s.io", {"spec": {"conversion": self._conversion()}}
                )

    def _secret(self) -> Object:
        authority = self.plane.identity.authority
        data = {
            "ca.crt": authority.pem,
            "ca.key": authority.key_pem,
            "tls.crt": (self.folder / "tls.crt").read_bytes(),
            "tls.key": (self.folder / "tls.key").read_bytes(),
        }
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "data": {key: b64encode(value).decode() for key, value in data.items()},
        }

    def _conversion(self) -> Object:
        webhook = {"clientConfig": self._client_config("/convert"), "conversionReviewVersions": ["v1"]}
        return {"strategy": "Webhook", "webhook": webhook}

    def _webhooks(self) -> list[Object]:
        """Kueue's own webhook configurations, for its own kinds and the chosen frameworks, by URL."""
        manifests = yaml.safe_load_all(_component("webhook/manifests.yaml", self.release))
        return [self._by_url(manifest) for manifest in manifests]

    def _by_url(self, manifest: Object) -> Object:
        hooks = [hook for hook in manifest["webhooks"] if _is_wanted(hook, self.frameworks)]
        for hook in hooks:
            hook["clientConfig"] = self._client_config(hook["clientConfig"]["service"]["path"])
            if hook["rules"][0]["resources"][0] in GENERAL_KINDS:
                hook["namespaceSelector"] = {"matchExpressions": [NOT_IN_SYSTEM_NAMESPACES]}
        # The name under which Kueue looks for it.
        return {**manifest, "metadata": {"name": _prefixed(manifest["metadata"]["name"])}, "webhooks": hooks}

    def _client_config(self, path: str) -> Object:
        ca_bundle = b64encode(self.plane.identity.authority.pem).decode()
        return {"url": f"https://127.0.0.1:{self.webhook_port}{path}", "caBundle": ca_bundle}

    async def _is_ready(self, client: Client) -> bool:
        return await self._answers_readyz() and await _admits(client)

    async def _answers_readyz(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.health_port}/readyz"
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


GENERAL_KINDS = frozenset({"pods", "deployments", "statefulsets"})
NOT_IN_SYSTEM_NAMESPACES = {
    "key": "kubernetes.io/metadata.name",
    "operator": "NotIn",
    "values": ["kube-system", NAMESPACE],
}


async def _admits(client: Client) -> bool:
    """Whether a webhook admits an object: readiness probes succeed before the webhook server listens."""
    flavor = {"apiVersion": RESOURCE_FLAVOR.api_version, "kind": RESOURCE_FLAVOR.kind, "metadata": {"name": "probe"}}
    try:
        await client.create(flavor, dry_run=True)
    except ApiError as error:
        if error.status == 500:
            return False
        raise
    return True


def _is_wanted(hook: Object, frameworks: Sequence[str]) -> bool:
    """Whether a webhook is needed: one of a disabled framework would admit everything, at a call for each Pod."""
    rule = hook["rules"][0]
    if "kueue.x-k8s.io" in rule["apiGroups"]:
        return True
    kinds = {framework.rpartition("/")[2] + "s" for framework in frameworks}
    return not kinds.isdisjoint(rule["resources"])


def _prefixed(name: str) -> str:
    """As its kustomization and its chart name objects without a namespace."""
    return f"kueue-{name}"


def _component(path: str, release: Release | None) -> str:
    return _component_file(path, release).read_text()


def _component_file(path: str, release: Release | None) -> Path:
    return module_folder("sigs.k8s.io/kueue", release) / "config/components" / path


def _gates(gates: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in gates.items())


def _merged(*layers: Mapping[str, Any]) -> Object:
    """Later layers win, key by key."""
    result: Object = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(value, Mapping) and isinstance(below, dict):
                result[key] = _merged(below, value)
            else:
                result[key] = deepcopy(value)
    return result
