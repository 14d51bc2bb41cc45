"""Kubernetes quantities, exactly: integers of nano-units inside, never floats.

Rules: quota-engine 1.6, and for the extremes the documentation of resource.Quantity in Kubernetes'
apimachinery: no quantity is greater than 2^63-1 in magnitude, larger ones are capped, finer ones rounded up. The finest
unit here is the nano-unit, as in Kubernetes' arithmetic. Any text costs no more than reading it: it never becomes a
number longer than that.

Kueue counts in int64, so an `amount` is capped too. Sums of amounts are not: they are exact and never wrap around.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from functools import lru_cache

from multikueue.errors import InvalidObject

__all__ = ["MOST", "NANO", "amount", "billionths", "capped", "counted", "parse", "render", "scale"]

NANO = 10**9

MOST = 2**63 - 1
"""The largest quantity, and the largest amount."""

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NANOS = {suffix: Decimal(10) ** (power + 9) for suffix, power in _DECIMAL.items()} | {
    suffix: Decimal(1024**power * NANO) for suffix, power in _BINARY.items()
}
_GRAMMAR = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([eE][+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]?))").fullmatch
_BINARY_RESOURCES = ("memory", "ephemeral-storage")

_FAR = Context(prec=200, rounding=ROUND_UP, Emin=-999, Emax=999, traps=[])
"""Beyond its range a value is infinite, or nearly zero but not zero. Of a value below 2^63 times 1024^6 nanos no more
than 19 digits before the point and 69 behind it matter; of any other only whether there are any."""

_SHORT = 64
"""Characters. Longer texts are not cached: each may be as long as an object."""


def parse(text: object) -> int:
    """Nano-units of a quantity such as `100m`, `1.5Gi` or `2e3`. Raises InvalidObject, and nothing else, for anything
    else."""
    if type(text) is str:
        return _remembered(text) if len(text) <= _SHORT else _nanos(text)
    if type(text) is int:  # not by its text: Python renders only some thousand digits
        return max(-MOST, min(MOST, text)) * NANO
    return _nanos(repr(text) if type(text) is float else type(text).__name__)


def _nanos(text: str) -> int:
    match = _GRAMMAR(text)
    if match is None:
        raise InvalidObject("quantity", "value", "a number with a Kubernetes suffix such as 500m, 2 or 1Gi", text)
    sign, digits, exponent, suffix = match.groups()
    size = _FAR.multiply(_FAR.create_decimal(digits + (exponent or "")), _NANOS[suffix or ""])
    nanos = MOST * NANO if size >= MOST * NANO else int(size.to_integral_value(ROUND_CEILING))
    return -nanos if sign == "-" else nanos


_remembered = lru_cache(maxsize=4096)(_nanos)


def amount(resource: str, nanos: int) -> int:
    """The whole number that Kueue counts with, rounded up: milli-units of cpu, whole units of all else."""
    return capped(-(-nanos * scale(resource) // NANO))


def counted(resource: str, text: object) -> int:
    """The `amount` of a quantity that any user may have written: 0 for one below zero. Raises as `parse`."""
    return max(0, amount(resource, parse(text)))


def scale(resource: str) -> int:
    """Kueue's counting units in one unit of the resource: a cpu is 1000 milli-units."""
    return 1000 if resource == "cpu" else 1


def capped(value: int) -> int:
    """An amount within the limits: it is read back as it was written."""
    return max(-MOST, min(MOST, value))


def render(resource: str, value: int) -> str:
    """An `amount` as the canonical text that Kueue writes for that resource."""
    if resource == "cpu":
        return f"{value}m" if value % 1000 else _render_scaled(value // 1000, 1000, ("", "k", "M", "G", "T", "P", "E"))
    if value % 1024 == 0 and (resource in _BINARY_RESOURCES or resource.startswith("hugepages-")):
        return _render_scaled(value, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    return _render_scaled(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def billionths(value: int) -> str:
    """A number of billionths of any resource, as canonical text."""
    return _render_scaled(value, 1000, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")) if value else "0"


def _render_scaled(value: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while value and value % base == 0 and power < len(suffixes) - 1:
        value, power = value // base, power + 1
    return f"{value}{suffixes[power]}"
