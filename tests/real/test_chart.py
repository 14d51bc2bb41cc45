"""The Helm chart makes the objects that kustomize makes, and can be installed, upgraded, rolled back and taken away."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from multikueue.settings import Settings
from release.chart import archive, components
from testbed import objects
from testbed.bed import Testbed
from testbed.client import ApiError, Client, Kind
from testbed.helm import helm
from testbed.kubeconfig import dump
from testbed.objects import Object
from tests.real.deployment import DEPLOY, NAMESPACE, rendered
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.timeout(900),  # Helm is built at the first of them
    needs_programs("it renders with Helm"),
]

CHART = DEPLOY / "chart"
ALL = components(CHART)
Name = tuple[str, str, str]


@pytest.fixture(name="helm", scope="module")
def _helm() -> Path:
    return helm()


@pytest.fixture(name="chart", scope="module")
def _chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it is released: without links."""
    path = tmp_path_factory.mktemp("chart") / "multikueue.tgz"
    path.write_bytes(archive(CHART, epoch=0))
    return path


def helm_said(helm: Path, *words: str | Path, **env: str) -> str:
    done = subprocess.run(
        [helm, *words], capture_output=True, text=True, timeout=120, env=os.environ | env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def template(helm: Path, chart: Path, *words: str | Path) -> dict[Name, Object]:
    text = helm_said(helm, "template", "multikueue", chart, "--namespace", NAMESPACE, *words)
    return by_name([body for body in yaml.safe_load_all(text) if body])


def by_name(bodies: list[Object]) -> dict[Name, Object]:
    """Without the Namespace, which `helm install` makes; settings are compared by what they mean."""
    named: dict[Name, Object] = {}
    for body in bodies:
        if body["kind"] == "ConfigMap" and "multikueue.yaml" in body["data"]:
            meant = Settings.model_validate(yaml.safe_load(body["data"]["multikueue.yaml"]))
            body = {**body, "data": meant.model_dump()}
        meta = body["metadata"]
        named[body["kind"], meta.get("namespace", ""), meta["name"]] = body
    return {name: body for name, body in named.items() if name[0] != "Namespace"}


def kustomized(overlay: str, chosen: list[str], folder: Path) -> dict[Name, Object]:
    """What kustomize makes of an overlay with some components."""
    here = Path(os.path.relpath(DEPLOY, folder))
    text = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": [str(here / "overlays" / overlay)],
        "components": [str(here / "components" / name) for name in chosen],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(text))
    return by_name(rendered(str(folder)))


@pytest.mark.parametrize("chosen", [[], ALL], ids=["no component", "all components"])
@pytest.mark.parametrize("overlay", ["standalone", "beside-kueue", "external-dispatcher"])
def test_helm_and_kustomize_make_the_same_objects(
    helm: Path, chart: Path, tmp_path: Path, overlay: str, chosen: list[str]
) -> None:
    words: list[str | Path] = [] if overlay == "standalone" else ["--values", CHART / f"values-{overlay}.yaml"]
    words += ["--set", f"components={{{','.join(chosen)}}}"] if chosen else []
    already = ["ocm"] if overlay == "external-dispatcher" else []
    expected = kustomized(overlay, [name for name in chosen if name not in already], tmp_path)

    found = template(helm, chart, *words)

    assert found.keys() == expected.keys()
    assert {name: body for name, body in found.items() if body != expected[name]} == {}


def test_values_become_what_they_say(helm: Path, chart: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    sets = {
        "image.repository": "registry.example/it",
        "image.digest": digest,
        "imagePullSecrets[0].name": "pull",
        "priorityClassName": "important",
        "nodeSelector.pool": "system",
        "topologySpreadConstraints[0].topologyKey": "zone",
        "settings.metrics.port": "9090",
        "components": "{monitoring}",
        "monitoringLabels.release": "mine",
    }
    made = template(helm, chart, *(word for name, value in sets.items() for word in ("--set", f"{name}={value}")))

    pod = made["Deployment", NAMESPACE, "multikueue-manager"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"registry.example/it@{digest}"
    assert {port["name"]: port["containerPort"] for port in container["ports"]}["metrics"] == 9090
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert (pod["priorityClassName"], pod["nodeSelector"]) == ("important", {"pool": "system"})
    assert pod["topologySpreadConstraints"] == [{"topologyKey": "zone"}]
    assert made["ServiceMonitor", NAMESPACE, "multikueue-manager"]["metadata"]["labels"] == {"release": "mine"}


def test_one_replica_has_no_disruption_budget(helm: Path, chart: Path) -> None:
    made = template(helm, chart, "--set", "replicas=1")

    assert not [name for name in made if name[0] == "PodDisruptionBudget"]


def test_in_another_namespace_the_settings_and_certificates_name_it(helm: Path, chart: Path) -> None:
    words = ("--namespace", "batch", "--set", "components={cert-manager}")
    made = [body for body in yaml.safe_load_all(helm_said(helm, "template", "multikueue", chart, *words)) if body]
    (settings,) = [body for body in made if body["kind"] == "ConfigMap"]
    names = [name for body in made if body["kind"] == "Certificate" for name in body["spec"].get("dnsNames", ())]

    assert Settings.model_validate(yaml.safe_load(settings["data"]["multikueue.yaml"])).cluster.namespace == "batch"
    assert names == ["multikueue-webhook.batch.svc", "multikueue-webhook.batch.svc.cluster.local"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("settings.webhok.enabled=true", "additional properties 'webhok' not allowed"),
        ("settings.leader_election.enabled=false", "only one may act"),
    ],
    ids=["a misspelt setting", "two replicas that would both act"],
)
def test_what_would_go_wrong_is_refused(helm: Path, chart: Path, words: str, message: str) -> None:
    done = subprocess.run([helm, "template", chart, "--set", words], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert message in done.stderr


def test_lint_finds_nothing(helm: Path, chart: Path) -> None:
    assert "0 chart(s) failed" in helm_said(helm, "lint", "--strict", chart)


DEPLOYMENT, SECRET = Kind("apps/v1", "Deployment"), Kind("v1", "Secret")
CERTIFICATE = "multikueue-webhook-certificate"


async def test_it_is_installed_upgraded_rolled_back_and_taken_away(helm: Path, chart: Path, tmp_path: Path) -> None:
    """What the manager wrote into its certificate's Secret stays all the while, and nothing of the chart stays at the end."""
    async with Testbed.start(workers=0, kueue=False, crds=[]) as bed:
        config = tmp_path / "kubeconfig"
        config.write_bytes(dump(bed.manager.kubeconfig()))

        def run(*words: str | Path) -> str:
            return helm_said(helm, *words, "--namespace", NAMESPACE, KUBECONFIG=str(config))

        async with bed.manager.client() as client:
            await client.apply(objects.namespace(NAMESPACE))
            run("install", "multikueue", chart)
            made = template(helm, chart)
            await client.patch(SECRET, CERTIFICATE, {"data": {"tls.crt": "YQ=="}}, NAMESPACE)

            run("upgrade", "multikueue", chart, "--set", "replicas=3", "--set", "components={pods}")
            assert await replicas(client) == 3
            run("rollback", "multikueue", "1")
            assert await replicas(client) == 2
            assert (await client.get(SECRET, CERTIFICATE, NAMESPACE))["data"] == {"tls.crt": "YQ=="}

            run("uninstall", "multikueue")
            assert [name for name, body in made.items() if await is_there(client, body)] == []


async def replicas(client: Client) -> Any:
    return (await client.get(DEPLOYMENT, "multikueue-manager", NAMESPACE))["spec"]["replicas"]


async def is_there(client: Client, body: Object) -> bool:
    meta = body["metadata"]
    try:
        await client.get(Kind(body["apiVersion"], body["kind"]), meta["name"], meta.get("namespace"))
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True
