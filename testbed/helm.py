"""Helm, for the tests of the chart: a Go tool of a module of its own, as the other programs are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from testbed.programs import MODULE_FILES, Build, Say, cache_folder, on_demand

__all__ = ["helm"]

FOLDER = MODULE_FILES / "helm"
PACKAGE = "helm.sh/helm/v3/cmd/helm"


def helm(say: Say = print) -> Path:
    """The program, built at the first call. Raises NotInstalledError without Go."""
    files = [(FOLDER / name).read_bytes() for name in ("go.mod", "go.sum")]
    key = hashlib.sha256(b"".join(files)).hexdigest()[:16]
    return on_demand(Build("helm", PACKAGE, FOLDER, (_flags(files[0].decode()),)), cache_folder() / f"helm-{key}", say)


def _flags(module: str) -> str:
    # Without them it takes itself for one of Kubernetes 1.20, which the chart refuses.
    (version,) = re.findall(r"helm\.sh/helm/v3 (\S+)", module)
    (minor,) = re.findall(r"k8s\.io/client-go v0\.(\d+)", module)
    values = {
        "internal/version.version": version,
        "pkg/chartutil.k8sVersionMajor": "1",
        "pkg/chartutil.k8sVersionMinor": minor,
    }
    return "-ldflags=-s -w " + " ".join(f"-X helm.sh/helm/v3/{name}={value}" for name, value in values.items())
