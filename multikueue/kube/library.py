"""kubernetes_asyncio without its models.

Its package imports the classes of the whole Kubernetes API on the way to the few functions we use: 64 MiB and seconds of
start-up for nothing. So its two packages are put in place with their paths but without running their `__init__`; what we
import from below them then loads itself and what it needs. Whoever imports the library first, whole, gets it whole.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

__all__ = ["spare_models"]

ROOT = "kubernetes_asyncio"
CLIENT = f"{ROOT}.client"


class ApiClient:
    """Takes the place of the library's client, which we never use, in the annotations of its configuration."""


def spare_models() -> None:
    """Let later imports of `kubernetes_asyncio.config` and `.client.Configuration` load these and no more."""
    if ROOT in sys.modules:
        return
    root = _bare_package(ROOT, None)
    client = _bare_package(CLIENT, list(root.__path__)) if root else None
    if client is None:
        sys.modules.pop(ROOT, None)  # not laid out as we know it: let it load in its own way
        return
    client.Configuration = import_module(f"{CLIENT}.configuration").Configuration  # type: ignore[attr-defined]
    client.ApiClient = ApiClient  # type: ignore[attr-defined]


def _bare_package(name: str, path: list[str] | None) -> ModuleType | None:
    """A package that is there, with its path, but was not run."""
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.submodule_search_locations is None:
        return None
    module = module_from_spec(spec)
    sys.modules[name] = module
    return module
