"""Random JSON trees of a shape that an OpenAPI schema tells, as CustomResourceDefinitions have them.

Few of the many fields are drawn at a time, those that matter always: so objects stay small and still go everywhere. What
is drawn comes from one seed: a millisecond for each object, where a strategy for each part would take seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

__all__ = ["anything", "of_schema"]

Schema = Mapping[str, Any]
Words = Mapping[str, Sequence[str]]

FAR = 12
"""Levels below which only what is required is drawn."""

_TEXTS = ("", "a", "main", "x" * 64, "long-" * 60, 'é\u2028"\\\x01', "null", "1", "\U0001f600", " ")
_KEYS = ("a", "Z", "x/y", "a.b", "a-b", "_", 'é\u2028"\\', "~1", "suspend", "k" * 64)
_INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_QUANTITIES = ("1", "500m", "0.1", "1Gi", "1e3", "12E", 2, 0)
_TIMES = ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00.123456Z")


def anything(chance: Random, *, far: int = 0) -> Any:
    """Any JSON that an API server can hold: its integers have 64 bits, its other numbers are finite."""
    match chance.randrange(8 if far < 3 else 5):
        case 0:
            return None
        case 1:
            return chance.random() < 0.5
        case 2:
            return _between(chance, *_INTEGERS["int64"])
        case 3:
            return _number(chance)
        case 4:
            return chance.choice(_TEXTS)
        case 5:
            return [anything(chance, far=far + 1) for _ in range(chance.randrange(3))]
    return {chance.choice(_KEYS): anything(chance, far=far + 1) for _ in range(chance.randrange(3))}


def of_schema(chance: Random, schema: Schema, *, always: Words, far: int = 0) -> Any:
    """A tree that the schema allows.

    It has nearly always the fields of the names in `always`, wherever there may be such; texts among them have one of
    the words given for the name, if there are any and the schema does not choose. The words for no name are the keys of
    maps of objects.
    """
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if schema.get("nullable") and chance.randrange(10) == 0:
        return None
    if schema.get("x-kubernetes-int-or-string") or "oneOf" in schema:
        return chance.choice(_QUANTITIES)
    match schema.get("type"):
        case "object":
            return _object(chance, schema, always, far)
        case "array":
            least = schema.get("minItems", 0)
            most = max(least, min(schema.get("maxItems", 2), 2)) if far < FAR else least
            size = chance.randint(least, most)
            return [of_schema(chance, schema.get("items", {}), always=always, far=far + 1) for _ in range(size)]
        case "string":
            return _string(chance, schema)
        case "integer":
            low, high = _INTEGERS[schema.get("format", "int64")]
            return _between(chance, max(low, schema.get("minimum", low)), min(high, schema.get("maximum", high)))
        case "number":
            return _number(chance)
        case "boolean":
            return chance.random() < 0.5
    return anything(chance)


def _between(chance: Random, low: int, high: int) -> int:
    """Small ones and the ends more often than any others."""
    few = [number for number in (low, high, 0, 1, 2, 3) if low <= number <= high]
    return chance.choice(few) if chance.randrange(3) else chance.randint(low, high)


def _number(chance: Random) -> float:
    """Of any size, with as many digits as there may be."""
    (number,) = struct.unpack("d", struct.pack("Q", chance.getrandbits(64)))
    return number if abs(number) < 1e308 else 0.1


def _string(chance: Random, schema: Schema) -> str:
    if schema.get("format") == "date-time":
        return chance.choice(_TIMES)
    least, most = schema.get("minLength", 0), schema.get("maxLength", 300)
    return chance.choice(_TEXTS).ljust(least, "x")[:most]


def _worded(schema: Schema, words: Sequence[str] | None) -> Schema:
    return {"enum": words} if words and schema.get("type") == "string" and "enum" not in schema else schema


def _object(chance: Random, schema: Schema, always: Words, far: int) -> dict[str, Any]:
    fields: Schema = schema.get("properties", {})
    wanted = {name: None for name in schema.get("required", ()) if name in fields}
    if far < FAR:
        wanted |= {name: None for name in fields if name in always and chance.randrange(8)}
        wanted |= dict.fromkeys(chance.choice(list(fields)) for _ in range(chance.randrange(3) if fields else 0))
    made = {
        name: of_schema(chance, _worded(fields[name], always.get(name)), always=always, far=far + 1) for name in wanted
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") and chance.randrange(2):
        made |= {f"x{chance.choice(_KEYS)}": anything(chance) for _ in range(2)}
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and far < FAR:
        names = always.get("", ()) if "properties" in values else ()
        keys = [chance.choice(names or _KEYS) for _ in range(chance.randrange(3))]
        made |= {key: of_schema(chance, values, always=always, far=far + 1) for key in keys}
    return made
