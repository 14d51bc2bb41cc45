"""Kueue's CRDs of one release as one file: for manager clusters without a Kueue that reach no network.

They are as `kind-configs/crds` has them: with `v1beta2` alone, for where no Kueue runs nobody converts. They come from
Kueue's Go module, whose checksum is in the testbed's `go.sum`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from testbed.programs import Release, fetched

__all__ = ["crds", "served_alone"]

MODULE = "sigs.k8s.io/kueue"
FILES = "config/components/crd/bases/kueue.x-k8s.io_*.yaml"
SERVED = "v1beta2"
HEADER = """\
# The CustomResourceDefinitions of Kueue {version} (Apache-2.0), from its Go module. {served} alone is served.
# kubectl apply --server-side -f {name}
"""


def crds(release: Release, name: str) -> str:
    """The file called `name`. Raises NotInstalledError where the module cannot be fetched."""
    folder = fetched(MODULE, release)
    documents = [_read(file) for file in sorted(folder.glob(FILES))]
    assert documents, f"no CRDs in {folder}"
    served = [served_alone(document, SERVED) for document in documents if _has(document, SERVED)]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump_all(served, Dumper=dumper, sort_keys=False, width=120)
    return HEADER.format(version=release.kueue, served=SERVED, name=name) + text


def served_alone(definition: dict[str, Any], version: str) -> dict[str, Any]:
    """The definition with that version as the only one that is served."""
    spec = definition["spec"]
    versions = [{**each, "served": each["name"] == version} for each in spec["versions"]]
    return {**definition, "spec": {**spec, "versions": versions}}


def _has(definition: dict[str, Any], version: str) -> bool:
    return any(each["name"] == version for each in definition["spec"]["versions"])


def _read(file: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition: dict[str, Any] = yaml.load(file.read_bytes(), Loader=loader)
    return definition
