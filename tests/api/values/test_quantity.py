"""Quantities, exactly."""

from __future__ import annotations

import contextlib
import re
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multikueue.api.values.quantity import MOST, NANO, amount, counted, parse, render
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


@pytest.mark.parametrize(
    "text", ["", "x", "1.2.3", "1 Gi", "Gi", "1gi", "0x1", "--1", "1e", "1Kii", "1\n", "\u0661", "1e1.5"], ids=repr
)
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


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        pytest.param("9" * 5000, MOST * NANO, id="more digits than Python reads as a number"),
        pytest.param("-" + "9" * 5000, -MOST * NANO, id="as many below zero"),
        pytest.param(10**5000, MOST * NANO, id="a number that has more digits than Python writes"),
        pytest.param("1e999999999", MOST * NANO, id="an exponent that would take for ever"),
        pytest.param("1e" + "9" * 100, MOST * NANO, id="an exponent of many digits"),
        pytest.param("1e-999999999", 1, id="next to nothing is something"),
        pytest.param("0e999999999", 0, id="nothing is nothing, however often"),
        pytest.param("0." + "0" * 5000 + "1Ei", 1, id="a digit far behind the point"),
        pytest.param("0" * 5000 + "1", NANO, id="zeros ahead"),
        pytest.param("8Ei", MOST * NANO, id="one more than fits"),
        pytest.param("9223372036854775807", MOST * NANO, id="the most that fits"),
        pytest.param("9223372036854775806.999999999", MOST * NANO - 1, id="a little less"),
        pytest.param(1e300, MOST * NANO, id="a number with an exponent"),
    ],
)
def test_what_is_too_large_or_too_fine_is_taken_for_the_nearest(text: str | float, nanos: int) -> None:
    assert parse(text) == nanos


@pytest.mark.parametrize(
    "value",
    [None, True, ["1"], {"cpu": "1"}, b"1", float("nan"), float("inf")],
    ids=["null", "a truth", "a list", "an object", "bytes", "no number", "infinity"],
)
def test_what_is_no_text_and_no_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidObject):
        parse(value)


@pytest.mark.parametrize("text", ["-1", "-1n", "-0", "-1e99", -3, -0.5])
def test_less_than_nothing_counts_as_nothing(text: str | float) -> None:
    assert counted("cpu", text) == 0
    assert counted("memory", "7") == 7


def test_a_long_text_is_not_repeated_whole_in_the_error() -> None:
    with pytest.raises(InvalidObject) as refused:
        parse("x" * 10**6)
    assert len(str(refused.value)) < 300


def _slowly(text: str) -> int:
    """What the documentation of resource.Quantity says, word by word."""
    number, exponent, suffix = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+))?([a-zA-Z]*)", text).groups()  # type: ignore[union-attr]
    powers = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    scale = Fraction(1024) ** " KMGTPE".index(suffix[0]) if suffix.endswith("i") else Fraction(10) ** powers[suffix]
    exact = abs(Fraction(number)) * Fraction(10) ** int(exponent or 0) * scale
    nanos = min(ceil(exact * NANO), (2**63 - 1) * NANO)
    return -nanos if number.startswith("-") else nanos


_SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
_EXPONENTS = st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 400))
_DIGITS = st.text("0123456789", max_size=120) | st.builds(str.__mul__, st.sampled_from("019"), st.integers(0, 300))
_NUMBERS = st.builds("{}.{}".format, _DIGITS, _DIGITS).filter(lambda text: text != ".") | _DIGITS.filter(bool)
_NEAR_WHOLE = st.builds(
    lambda nanos, fine: f"{nanos // NANO}.{nanos % NANO:09}{fine}",
    st.integers(0, (MOST + 2) * NANO),
    st.sampled_from(["", "0" * 80, "0" * 180 + "1", "9" * 180]),
)
QUANTITIES = st.builds("{}{}{}".format, st.sampled_from(["", "+", "-"]), _NUMBERS | _NEAR_WHOLE, _SUFFIXES | _EXPONENTS)
"""All that the grammar of Kubernetes knows."""


@given(QUANTITIES)
@example("0.000000000931322574615478515625Ki")
def test_every_quantity_is_what_the_documentation_says(text: str) -> None:
    assert parse(text) == _slowly(text)


@given(st.text() | st.from_regex(r"[+-]?[0-9.]*[eE]?[+-]?[0-9]*[a-zA-Z]*", fullmatch=True))
def test_a_text_is_a_quantity_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidObject):
        assert -MOST * NANO <= parse(text) <= MOST * NANO


@given(st.sampled_from(["cpu", "memory", "pods"]), QUANTITIES)
def test_every_amount_can_be_written_and_read_back(resource: str, text: str) -> None:
    counted = amount(resource, parse(text))
    assert -MOST <= counted <= MOST
    assert amount(resource, parse(render(resource, counted))) == counted
