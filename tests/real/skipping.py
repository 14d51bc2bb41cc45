"""Which real tests are left out on the clusters of a kubeconfig (`make test-kind`), and how that is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testbed.contexts import Unsupported

__all__ = ["CONTEXTS", "needs_testbed", "skipping"]

CONTEXTS = [name for name in os.environ.get("MULTIKUEUE_TEST_CONTEXTS", "").split(",") if name]
"""The contexts of KUBECONFIG to run on, the manager's first. Without any, the tests start a testbed."""


def needs_testbed(reason: str) -> pytest.MarkDecorator:
    """A mark for what cannot work on clusters of others, for a reason they cannot tell by themselves."""
    return pytest.mark.skipif(bool(CONTEXTS), reason=f"needs the testbed: {reason}")


@contextmanager
def skipping() -> Iterator[None]:
    """Skip the test that came across something unsupported, with its reason."""
    try:
        yield
    except (Unsupported, BaseExceptionGroup) as error:
        if reason := _only_unsupported(error):
            pytest.skip(str(reason))
        raise


def _only_unsupported(error: BaseException) -> Unsupported | None:
    """The first of them if there is nothing else: task groups wrap what ends them."""
    if isinstance(error, BaseExceptionGroup):
        reasons = [_only_unsupported(each) for each in error.exceptions]
        return reasons[0] if all(reasons) else None
    return error if isinstance(error, Unsupported) else None
