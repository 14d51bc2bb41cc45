"""Kubernetes quantities, exactly: integers of nano-units inside, never floats.

Rules: quota-engine reference 1.6. A finer part than a nano-unit rounds up, as in Kubernetes.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from multikueue.errors import InvalidObject

NANO = 10**9

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_GRAMMAR = re.compile(r"^([+-]?)(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))$")
_BINARY_RESOURCES = ("memory", "ephemeral-storage")


@lru_cache(maxsize=4096)
def parse(text: str | int | float) -> int:
    """Nano-units of a quantity such as `100m`, `1.5Gi` or `2e3`; raises InvalidObject if it is not one."""
    match = _GRAMMAR.match(str(text))
    if match is None:
        raise InvalidObject("quantity", "value", "a number with a Kubernetes suffix such as 500m, 2 or 1Gi", text)
    sign, digits, exponent, suffix = match.groups()
    if exponent:
        scale = Fraction(10) ** int(exponent[1:])
    elif suffix in _BINARY:
        scale = Fraction(1024 ** _BINARY[suffix])
    else:
        scale = Fraction(10) ** _DECIMAL[suffix or ""]
    nanos = ceil(Fraction(digits) * scale * NANO)
    return -nanos if sign == "-" else nanos


def amount(resource: str, nanos: int) -> int:
    """The whole number Kueue counts with: milli-units of cpu, units of everything else, rounded up."""
    unit = NANO // 1000 if resource == "cpu" else NANO
    return -(-nanos // unit)


def render(resource: str, value: int) -> str:
    """An `amount` as the canonical text that Kueue's objects have for that resource."""
    if resource == "cpu":
        return _render_milli(value)
    if value % 1024 == 0 and (resource in _BINARY_RESOURCES or resource.startswith("hugepages-")):
        return _render_scaled(value, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    return _render_scaled(value, 1000, ("", "k", "M", "G", "T", "P", "E"))


def thousandths(value: int) -> str:
    """That many thousandths as canonical text, of whatever resource."""
    return _render_milli(value)


def _render_milli(value: int) -> str:
    return f"{value}m" if value % 1000 else _render_scaled(value // 1000, 1000, ("", "k", "M", "G", "T", "P", "E"))


def _render_scaled(value: int, base: int, suffixes: tuple[str, ...]) -> str:
    power = 0
    while value and value % base == 0 and power < len(suffixes) - 1:
        value, power = value // base, power + 1
    return f"{value}{suffixes[power]}"
