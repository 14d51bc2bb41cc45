"""Every builder is there, and says what it builds."""

from __future__ import annotations

import inspect

from tests import builders


def test_every_name_is_there_and_sorted() -> None:
    assert builders.__all__ == sorted(builders.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(builders, name) for name in builders.__all__)


def test_every_builder_says_what_it_builds() -> None:
    classes = [each for each in map(builders.__dict__.__getitem__, builders.__all__) if inspect.isclass(each)]
    assert [each.__name__ for each in classes if not (each.__doc__ or "").endswith(".")] == []
