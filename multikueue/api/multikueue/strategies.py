"""The strategy that an AdmissionCheck, a Workload or its job names by annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.values.foreign import excerpt
from multikueue.errors import ConfigurationError

__all__ = ["OPTIONS_ANNOTATION", "STRATEGY_ANNOTATION", "strategy_of"]

STRATEGY_ANNOTATION = "multikueue.dev/strategy"
"""The name of a strategy: on an AdmissionCheck, a Workload, or its job."""

OPTIONS_ANNOTATION = "multikueue.dev/strategy-options"
"""On an AdmissionCheck: the options of the strategy it names, as a JSON object."""


def strategy_of(check: AdmissionCheck) -> tuple[str, Mapping[str, Any]] | None:
    """The name and options of the strategy that the check names; None if it names none. Raises ConfigurationError for options
    without a name, or of another form."""
    annotations = check.metadata.annotations
    name, options = annotations.get(STRATEGY_ANNOTATION), annotations.get(OPTIONS_ANNOTATION)
    if name is None and options is None:
        return None
    if name is None:
        raise _wrong(check, f"annotation {STRATEGY_ANNOTATION} beside it, to say whose they are")
    decoded = _decoded(options) if options is not None else {}
    if decoded is None:
        raise _wrong(check, f"a JSON object, got {excerpt(options or '')[:100]!r}")
    return name[:100], decoded


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        decoded = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _wrong(check: AdmissionCheck, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"AdmissionCheck {check.metadata.name}: annotation {OPTIONS_ANNOTATION}: expected {expected}"
    )
