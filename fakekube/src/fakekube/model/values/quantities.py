"""Quantities in Kubernetes' canonical form: the shortest form in the notation of the input."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from functools import lru_cache

from fakekube.model.wire import Json

__all__ = ["canonical", "canonical_map", "is_quantity"]

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([A-Za-z]{0,2}))").fullmatch
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LONGEST, _LONGEST_EXPONENT = 24, len("e+18")
"""The maximum length of a quantity that is converted. A longer one is no sensible amount, and stays as it is."""

_SMALLEST = Decimal(1).scaleb(-9)
_EXACT = Context(prec=2048)
"""Has room for each digit of what is converted, which an exponent may make a thousand of."""


def is_quantity(text: str) -> bool:
    """Whether the API server takes the text for a quantity."""
    match = _QUANTITY(text)
    return match is not None and (match[3] or "") in (*_DECIMAL, *_BINARY)


def canonical_map(amounts: Mapping[str, Json]) -> dict[str, Json]:
    return {name: canonical(str(amount)) for name, amount in amounts.items()}


@lru_cache(4096)
def canonical(text: str) -> str:
    """`1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`. Any other text stays as it is."""
    match = _QUANTITY(text)
    if match is None:
        return text
    number, exponent, suffix = Decimal(match[1]), match[2], match[3] or ""
    if len(text) > _LONGEST or len(exponent or "") > _LONGEST_EXPONENT:
        return text
    if exponent is not None:
        return _scaled(number.scaleb(int(exponent[1:])), lambda power: f"e{power}" if power else "", most=1000)
    if suffix in _BINARY:
        return _binary(number * 1024 ** (_BINARY.index(suffix) + 1))
    if suffix not in _DECIMAL:
        return text
    power = 3 * (_DECIMAL.index(suffix) - 3)
    return _scaled(number.scaleb(power), lambda power: _DECIMAL[power // 3 + 3])


def _scaled(value: Decimal, suffix: Callable[[int], str], *, most: int = 18) -> str:
    """The value with the largest power of 1000 that leaves an integer, up to 10 to the power of `most`; a fraction of a
    nano unit is rounded up."""
    if not value:
        return "0"
    power = -9
    if value != value.quantize(_SMALLEST, rounding=ROUND_DOWN, context=_EXACT):
        value = value.quantize(_SMALLEST, rounding=ROUND_UP, context=_EXACT)
    while power < most and value == value.quantize(Decimal(1).scaleb(power + 3), context=_EXACT):
        power += 3
    return f"{value.scaleb(-power):f}".partition(".")[0] + suffix(power)


def _binary(value: Decimal) -> str:
    if abs(value) < 1024:
        return _scaled(value, lambda power: _DECIMAL[power // 3 + 3])
    whole = int(value.to_integral_value(rounding=ROUND_UP))
    power = 0
    while power < len(_BINARY) and whole % 1024 == 0:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power - 1] if power else ''}"
