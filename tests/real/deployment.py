"""What `deploy/` grants, on a testbed: the manager runs as the service account that a cluster would give it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from testbed import objects, programs
from testbed.bed import Testbed
from testbed.client import Client, Kind
from testbed.objects import Object

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = objects.KUEUE_NAMESPACE
ACCOUNT = "multikueue-manager"
RBAC = "rbac.authorization.k8s.io/v1"


def rendered(folder: str) -> list[Object]:
    """What `kubectl apply -k deploy/FOLDER` would send."""
    command = [str(programs.find().kubectl), "kustomize", str(DEPLOY / folder)]
    text = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    return [body for body in yaml.safe_load_all(text) if body]


def rights(bodies: Sequence[Object]) -> list[Object]:
    """The roles and bindings among them, and the Secrets that these name."""
    return [body for body in bodies if body["apiVersion"] == RBAC or body["kind"] == "Secret"]


async def granted(bed: Testbed, overlay: str) -> str:
    """Grant on the manager cluster exactly what an overlay grants; answers a token of the account that has it."""
    async with bed.manager.client() as client:
        await client.apply(objects.namespace(NAMESPACE))
        for body in rights(rendered(f"overlays/{overlay}")):
            await client.apply(body)
    return await bed.manager.service_account_token(ACCOUNT, namespace=NAMESPACE)


async def revoked(bed: Testbed, overlay: str) -> None:
    """Take it back, so that another overlay's rights stand alone."""
    async with bed.manager.client() as client:
        for body in rights(rendered(f"overlays/{overlay}")):
            await withdraw(client, body)


def component(name: str) -> list[Object]:
    """What a component grants beyond that, in our namespace as kustomize would have it."""
    bodies = list(yaml.safe_load_all((DEPLOY / "components" / name / "rights.yaml").read_text()))
    for subject in (subject for body in bodies for subject in body.get("subjects", ())):
        subject["namespace"] = NAMESPACE
    return bodies


async def withdraw(client: Client, body: Mapping[str, Any]) -> None:
    meta = body["metadata"]
    await client.delete(Kind(body["apiVersion"], body["kind"]), meta["name"], meta.get("namespace"))
