"""Quantities, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.quantity import NANO, amount, parse, render
from multikueue.errors import InvalidObject


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**30, 2)),
        ("1e3", 1000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("2E2", 200),
        ("-3k", -3000),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        (7, 7),
        ("1n", Fraction(1, 10**9)),
        ("0.1n", Fraction(1, 10**9)),
        ("12u", Fraction(12, 10**6)),
    ],
    ids=str,
)
def test_parse(text: str | int, value: int | Fraction) -> None:
    assert parse(text) == value * NANO


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "1 Gi", "Gi", "1gi", "0x1", "--1", "1e", "1Kii"], ids=repr)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidObject, match="expected a number with a Kubernetes suffix"):
        parse(text)


@pytest.mark.parametrize(
    ("resource", "text", "units"),
    [
        ("cpu", "1500m", 1500),
        ("cpu", "0.1m", 1),
        ("memory", "1500m", 2),
        ("nvidia.com/gpu", "0.5", 1),
        ("memory", "1Ki", 1024),
    ],
    ids=["cpu counts in milli", "cpu rounds up", "memory rounds up to bytes", "half a device is one", "binary"],
)
def test_amount(resource: str, text: str, units: int) -> None:
    assert amount(resource, parse(text)) == units


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 2_000_000, "2k"),
        ("memory", 2**30, "1Gi"),
        ("memory", 1000, "1k"),
        ("memory", 3_000_000, "3M"),
        ("memory", 1000 * 1024, "1000Ki"),
        ("memory", 1536, "1536"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("pods", 5000, "5k"),
        ("cpu", 0, "0"),
    ],
    ids=str,
)
def test_render(resource: str, units: int, text: str) -> None:
    assert render(resource, units) == text


@given(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 2**62))
def test_what_is_rendered_reads_back(resource: str, units: int) -> None:
    assert amount(resource, parse(render(resource, units))) == units
