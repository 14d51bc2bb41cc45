"""How mistakes read: names and values of anybody in one short line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.settings.problems import instead_of, shown, spelled


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("a",), "a"),
        (("a", "b", "c"), "a.b.c"),
        (("a", 0, "b"), "a[0].b"),
        (("a", "Workload.kueue.x-k8s.io"), "a[Workload.kueue.x-k8s.io]"),
        (("a.b",), "a.b"),
        (("a\nb", "c"), r"'a\nb'.c"),
        (("",), "''"),
    ],
)
def test_a_path_is_written_as_people_do(path: tuple[str | int, ...], text: str) -> None:
    assert spelled(path) == text


@given(st.lists(st.text() | st.integers(0), min_size=1, max_size=4))
def test_a_path_of_anything_is_one_line(parts: list[str | int]) -> None:
    assert len(spelled(tuple(parts)).splitlines()) == 1


def test_the_likeliest_name_is_proposed_alone() -> None:
    assert instead_of("orign", ["origin", "level"]) == "'origin'; there is no 'orign'"
    assert instead_of("colour", ["origin", "level"]) == "one of origin, level"


def test_a_value_is_short_whatever_it_is() -> None:
    endless: list[object] = []
    endless.append(endless)
    for value in ("x" * 10_000, 10**6000, list(range(10_000)), {n: [n] * 99 for n in range(999)}, endless, "a\nb"):
        text = shown(value)
        assert len(text) < 1000
        assert "\n" not in text
