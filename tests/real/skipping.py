"""Which real tests are left out on other clusters than the testbed's, and how that is said.

Those are the clusters of a kubeconfig (`make test-kind`), and simulated ones (`make test-sandbox`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testbed.contexts import Unsupported
from testbed.programs import NotInstalledError

__all__ = ["CONTEXTS", "SIMULATED", "needs_kueue", "needs_nodes", "needs_programs", "needs_testbed", "skipping"]

CONTEXTS = [name for name in os.environ.get("MULTIKUEUE_TEST_CONTEXTS", "").split(",") if name]
"""The contexts of KUBECONFIG to run on, the manager's first. Without any, the tests start a testbed."""

SIMULATED = os.environ.get("MULTIKUEUE_TEST_BED") == "sandbox"
"""Whether the tests run on simulated clusters, without any program of the testbed."""


needs_nodes = pytest.mark.skipif(not CONTEXTS, reason="needs nodes that run pods, as kind has them")


def needs_testbed(reason: str) -> pytest.MarkDecorator:
    """A mark for what cannot work on clusters of others, for a reason they cannot tell by themselves."""
    return pytest.mark.skipif(bool(CONTEXTS), reason=f"needs the testbed: {reason}")


def needs_programs(reason: str) -> pytest.MarkDecorator:
    """A mark for what starts programs of the testbed by itself, or is about one of them."""
    return pytest.mark.skipif(bool(CONTEXTS) or SIMULATED, reason=f"needs the testbed's programs: {reason}")


def needs_kueue(reason: str) -> pytest.MarkDecorator:
    """A mark for what the simulated Kueue does not play."""
    return pytest.mark.skipif(SIMULATED, reason=f"needs a real Kueue: {reason}")


@contextmanager
def skipping() -> Iterator[None]:
    """Skip the test that came across something unsupported, with its reason."""
    try:
        yield
    except (*_UNSUPPORTED, BaseExceptionGroup) as error:
        if reason := _only_unsupported(error):
            pytest.skip(str(reason))
        raise


# Without the testbed's programs nothing is broken where tests are to run without.
_UNSUPPORTED = (Unsupported, NotInstalledError) if SIMULATED else (Unsupported,)


def _only_unsupported(error: BaseException) -> BaseException | None:
    """The first of them if there is nothing else: task groups wrap what ends them."""
    if isinstance(error, BaseExceptionGroup):
        reasons = [_only_unsupported(each) for each in error.exceptions]
        return reasons[0] if all(reasons) else None
    return error if isinstance(error, _UNSUPPORTED) else None
