"""The shortest way to write an amount."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.model.values.quantities import canonical, canonical_map
from multikueue.api.values.quantity import parse


@pytest.mark.parametrize(
    ("given_", "written"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("100m", "100m"),
        ("0", "0"),
        ("0Ki", "0"),
        ("-1000m", "-1"),
        ("1000k", "1M"),
        ("1500", "1500"),
        ("10000000", "10M"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1023Ki", "1023Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("0.1n", "1n"),
        ("2E", "2E"),
        ("nonsense", "nonsense"),
        ("5Zi", "5Zi"),
        ("1e20000", "1e20000"),
        ("1e30", "1e30"),
        ("-1000e27", "-1e30"),
        ("2e31", "20e30"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1e-40", "1e-9"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_amounts(given_: str, written: str) -> None:
    assert canonical(given_) == written


@given(st.integers(0, 10**12), st.sampled_from(["m", "", "k", "M", "Ki", "Mi", "e3"]))
def test_the_amount_stays_the_same(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert parse(canonical(text)) == parse(text)
    assert canonical(canonical(text)) == canonical(text)


def test_numbers_are_amounts_too() -> None:
    assert canonical_map({"cpu": 0.5, "pods": 3}) == {"cpu": "500m", "pods": "3"}
