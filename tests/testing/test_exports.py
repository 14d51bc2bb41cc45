"""What `multikueue.testing` promises to authors is there, and documented."""

from __future__ import annotations

import inspect

from multikueue import testing


def test_every_name_is_there_and_sorted() -> None:
    assert testing.__all__ == sorted(testing.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(testing, name) for name in testing.__all__)


def test_every_builder_says_what_it_builds() -> None:
    classes = [each for each in map(testing.__dict__.__getitem__, testing.__all__) if inspect.isclass(each)]
    assert [each.__name__ for each in classes if not (each.__doc__ or "").endswith(".")] == []
