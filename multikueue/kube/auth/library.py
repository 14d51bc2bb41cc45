"""kubernetes_asyncio without its models.

Its package imports the classes of the whole Kubernetes API together with the few functions we use: 64 MiB and seconds
of start-up for nothing. So its two packages enter `sys.modules` with their paths, but their `__init__` does not run;
modules below them then load with only their own imports. A process that imported the library before has it whole.
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
    """Stands for the library's client, which we never use, in the annotations of its configuration."""


def spare_models() -> None:
    """Let later imports of `kubernetes_asyncio.config` and `.client.Configuration` load these and no more."""
    if ROOT in sys.modules:
        return
    root = _bare_package(ROOT, None)
    client = _bare_package(CLIENT, list(root.__path__)) if root else None
    if client is None:
        sys.modules.pop(ROOT, None)  # an unknown layout of the library: it loads whole
        return
    client.Configuration = import_module(f"{CLIENT}.configuration").Configuration  # type: ignore[attr-defined]
    client.ApiClient = ApiClient  # type: ignore[attr-defined]


def _bare_package(name: str, path: list[str] | None) -> ModuleType | None:
    """A package in `sys.modules` with its path, whose `__init__` did not run."""
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.submodule_search_locations is None:
        return None
    module = module_from_spec(spec)
    sys.modules[name] = module
    return module
