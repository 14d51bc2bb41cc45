"""Go's formats of values, which Kubernetes uses in errors, paths and annotations."""

from __future__ import annotations

import json

from fakekube.model.wire import Json

__all__ = ["json_kind", "json_text", "literal", "shown", "type_name"]

_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}
_JSON_KINDS: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "bool"}


def shown(value: Json) -> str:
    """The value as `%v` prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return f"map[{' '.join(f'{name}:{shown(part)}' for name, part in sorted(value.items()))}]"
        case list():
            return f"[{' '.join(map(shown, value))}]"
        case None:
            return "<nil>"
    return str(value)


def literal(value: Json) -> str:
    """The value as `%#v` prints it."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            parts = (f"{json.dumps(name, ensure_ascii=False)}:{literal(part)}" for name, part in sorted(value.items()))
            return f"{type_name(value)}{{{', '.join(parts)}}}"
        case list():
            return f"{type_name(value)}{{{', '.join(map(literal, value))}}}"
        case None:
            return "interface {}(nil)"
    return shown(value)


def type_name(value: Json) -> str:
    """The Go type of a decoded JSON value."""
    return _TYPES.get(type(value), "<nil>")


def json_kind(value: Json) -> str:
    """The name of a JSON type in errors of Go's decoder."""
    return _JSON_KINDS.get(type(value), "number")


def json_text(value: Json) -> str:
    """Compact JSON with sorted keys, and with the special characters of HTML escaped, as Go does."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
