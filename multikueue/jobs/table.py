"""The kinds of jobs we know, each with its adapter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from multikueue.api.meta import Object
from multikueue.jobs.adapter import Adapter
from multikueue.jobs.batch_job import BATCH_JOB

_ALL: tuple[Adapter[Any], ...] = (BATCH_JOB,)

ADAPTERS: Mapping[tuple[str, str], Adapter[Any]] = MappingProxyType(
    {(adapter.kind.api_version, adapter.kind.kind): adapter for adapter in _ALL}
)
"""By apiVersion and kind, as owner references name them."""

_BY_TYPE = {adapter.kind.type: adapter for adapter in _ALL}


def adapter_for(job: Object) -> Adapter[Any]:
    """The adapter of a job we hold as a value; KeyError if values of its type are no jobs."""
    return _BY_TYPE[type(job)]


def adapter_of(api_version: str, kind: str) -> Adapter[Any] | None:
    """The adapter of the kind an owner reference names; None if we know no such jobs."""
    return ADAPTERS.get((api_version, kind))
