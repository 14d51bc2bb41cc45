"""CRDs from the Go module cache, by group name, and their installation.

No CRD is copied into the repository: the files are those of the release of Kueue that the testbed is built for, or of
another requested release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import yaml

from testbed.client import ApiError, Client, Kind, eventually
from testbed.programs import Release, module_folder

__all__ = ["CRD", "GROUPS", "definitions", "install"]

CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")

AT_ONCE = 2
"""Maximum concurrent requests: a CRD with pod templates in it keeps an API server busy for a second."""

# The groups that `install` knows: Go module and files in it.
GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "kueue": ("sigs.k8s.io/kueue", ("config/components/crd/bases/kueue.x-k8s.io_*.yaml",)),
    "jobset": ("sigs.k8s.io/jobset", ("config/components/crd/bases/*.yaml",)),
    "leaderworkerset": ("sigs.k8s.io/lws", ("config/crd/bases/leaderworkerset.x-k8s.io_*.yaml",)),
    "mpi": ("github.com/kubeflow/mpi-operator", ("manifests/base/kubeflow.org_mpijobs.yaml",)),
    "kubeflow": (
        "github.com/kubeflow/training-operator",
        tuple(
            f"manifests/base/crds/kubeflow.org_{kind}jobs.yaml"
            for kind in ("jax", "paddle", "pytorch", "tf", "xgboost")
        ),
    ),
    "trainer": ("github.com/kubeflow/trainer/v2", ("manifests/base/crds/trainer.kubeflow.org_*.yaml",)),
    "ray": ("github.com/ray-project/kuberay/ray-operator", ("config/crd/bases/ray.io_*.yaml",)),
    "spark": (
        "github.com/kubeflow/spark-operator/v2",
        ("config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",),
    ),
    "appwrapper": ("github.com/project-codeflare/appwrapper", ("config/crd/bases/*appwrappers.yaml",)),
    "clusterprofile": ("sigs.k8s.io/cluster-inventory-api", ("config/crd/bases/*_clusterprofiles.yaml",)),
    "decisions": ("sigs.k8s.io/cluster-inventory-api", ("config/crd/bases/*_placementdecisions.yaml",)),
    "ocm": ("open-cluster-management.io/api", ("cluster/*/*.crd.yaml",)),
    "addon": ("open-cluster-management.io/api", ("addon/v1alpha1/*_managedclusteraddons.crd.yaml",)),
    "manifestwork": ("open-cluster-management.io/api", ("work/v1/*_manifestworks.crd.yaml",)),
}


@cache
def definitions(group: str, release: Release | None = None) -> list[dict[str, Any]]:
    """The CRDs of one group, read once; callers must not change them."""
    module, patterns = GROUPS[group]
    folder = module_folder(module, release)
    files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
    assert files, f"no CRDs of {group} in {folder}"
    return [_read(file) for file in files]


def _read(file: Path) -> dict[str, Any]:
    # The C loader: Kueue's Workload alone has 19,000 lines, half a minute for the pure one.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition: dict[str, Any] = yaml.load(file.read_bytes(), Loader=loader)
    slim: dict[str, Any] = _without_descriptions(definition)
    return slim


def _without_descriptions(value: Any) -> Any:
    """Drop descriptions, which only `kubectl explain` shows: two thirds of the text, at the cost of each API server."""
    if isinstance(value, list):
        return [_without_descriptions(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A property may be called "description" too; that one is a schema, not a text.
    return {
        key: _without_descriptions(item)
        for key, item in value.items()
        if not (key == "description" and isinstance(item, str))
    }


async def install(client: Client, groups: Iterable[str], release: Release | None = None) -> None:
    """Create the CRDs of the groups and wait until each is served."""
    wanted = [definition for group in groups for definition in definitions(group, release)]
    few = anyio.CapacityLimiter(AT_ONCE)
    async with anyio.create_task_group() as tasks:
        for definition in wanted:
            tasks.start_soon(_create, client, definition, few)
    await eventually(lambda: _established(client, [crd["metadata"]["name"] for crd in wanted]), timeout=60)


async def _create(client: Client, definition: dict[str, Any], few: anyio.CapacityLimiter) -> None:
    try:
        async with few:
            await client.create(definition)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


async def _established(client: Client, names: Sequence[str]) -> bool:
    installed = {crd["metadata"]["name"]: crd for crd in await client.list(CRD)}
    return all(_is_established(installed.get(name, {})) for name in names)


def _is_established(crd: dict[str, Any]) -> bool:
    # The list of conditions is null for a moment.
    conditions = crd.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
