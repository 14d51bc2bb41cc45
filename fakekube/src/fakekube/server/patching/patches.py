"""JSON patch, merge patch and strategic merge patch.

No patch changes its input: the result shares the unchanged parts of the object.
"""

from __future__ import annotations

import jsonpatch
from jsonpointer import JsonPointer, JsonPointerException

from fakekube.model.values.golang import json_kind
from fakekube.model.wire import Json, Object, Refused
from fakekube.server.patching.strategic import strategic_merge

__all__ = ["json_patch", "merge_patch", "strategic_merge"]

_MOST_OPERATIONS = 10_000


def json_patch(obj: Object, operations: Json) -> Object:
    """RFC 6902, as lenient as kube-apiserver: `replace` also adds a field, and a missing field passes as null in
    `test`.

    Raises Refused: 400 for an invalid list of operations, 413 for too many operations, 422 if an operation does not
    apply or a `test` fails.
    """
    _check_operations(operations)
    document: Json = obj
    try:
        for operation in operations:
            document = _operated(document, operation)
    except (jsonpatch.JsonPatchException, JsonPointerException, KeyError, TypeError, ValueError) as error:
        raise _unprocessable() from error
    if not isinstance(document, dict):
        raise _unprocessable()
    return document


def _check_operations(operations: Json) -> None:
    if not isinstance(operations, list):
        raise _undecodable(operations, "[]handlers.jsonPatchOp")
    for operation in operations:
        if not isinstance(operation, dict):
            raise _undecodable(operation, "handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            if not isinstance(operation.get(name, ""), str):
                where = f"Go struct field jsonPatchOp.{name} of type string"
                raise Refused(400, "BadRequest", f"error decoding patch: {_cannot(operation[name])} {where}")
    if len(operations) > _MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        raise Refused(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def _operated(document: Json, operation: Object) -> Json:
    """The document after one operation. The containers on its path are copied first, so the library may change them in
    place."""
    kind, path = operation.get("op"), JsonPointer(operation["path"])
    sources = [JsonPointer(operation["from"])] if kind in ("copy", "move") else []
    for pointer in (path, *sources):
        document = _opened(document, pointer.parts[:-1])
    if kind in ("replace", "test") and _is_missing_field(document, path):
        if kind == "test" and operation.get("value", "") is None:
            return document
        kind = "add" if kind == "replace" else kind
    patch = jsonpatch.JsonPatch([{**operation, "op": kind}])
    return patch.apply(document, in_place=True)


def _opened(value: Json, parts: list[str]) -> Json:
    """The value with copies of the containers on the path into it."""
    if isinstance(value, dict):
        opened = dict(value)
        if parts and parts[0] in opened:
            opened[parts[0]] = _opened(opened[parts[0]], parts[1:])
        return opened
    if isinstance(value, list):
        items = list(value)
        if parts and parts[0].isdecimal() and int(parts[0]) < len(items):
            items[int(parts[0])] = _opened(items[int(parts[0])], parts[1:])
        return items
    return value


def _is_missing_field(document: Json, path: JsonPointer) -> bool:
    container, name = path.to_last(document)
    return isinstance(container, dict) and name is not None and name not in container


def merge_patch(obj: Object, patch: Json) -> Object:
    """RFC 7386, which also removes nulls from objects in lists. Raises Refused (400) if the patch is not an object."""
    if patch is None:
        raise Refused(400, "BadRequest", "Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise _undecodable(patch, "map[string]interface {}")
    return _merged(obj, patch)


def _merged(target: Object, patch: Object) -> Object:
    result = target
    for name, value in patch.items():
        had = target.get(name)
        if isinstance(had, dict) and value is not None:
            value = _merged(had, value) if isinstance(value, dict) else value
        elif value is not None:
            value = _without_nulls(value)
        if value is had and (value is not None or name not in target):
            continue
        if result is target:
            result = dict(target)
        if value is None:
            del result[name]
        else:
            result[name] = value
    return result


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _unprocessable() -> Refused:
    return Refused(422, "Invalid", "the server rejected our request due to an error in our request")


def _undecodable(value: Json, wanted: str) -> Refused:
    return Refused(400, "BadRequest", f"error decoding patch: {_cannot(value)} Go value of type {wanted}")


def _cannot(value: Json) -> str:
    return f"json: cannot unmarshal {json_kind(value)} into"
