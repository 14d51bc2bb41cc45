"""Strategic merge patch: a merge patch with rules for the lists of built-in kinds.

Lists whose schema says `x-kubernetes-patch-strategy: merge` merge by `x-kubernetes-patch-merge-key`, or as sets; other
lists are replaced. Directives in the patch: `$patch` (`replace`, `delete`) in a map or an item, `$retainKeys`,
`$deleteFromPrimitiveList/NAME` and `$setElementOrder/NAME` beside a field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fakekube.model.values.golang import json_kind, shown, type_name
from fakekube.model.wire import Json, Object, Refused

__all__ = ["strategic_merge"]

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"

_DIRECTIVES = (_PATCH, _RETAIN, _DELETE, _ORDER)

Schema = Mapping[str, Any]
_UNKNOWN: Schema = {}


def strategic_merge(obj: Object, patch: Json, schema: Schema) -> Object:
    """The object with the patch merged in. It shares the unchanged parts.

    Raises Refused: 400 for a malformed patch, 500 (as kube-apiserver does) for a patch that does not fit the kind.
    """
    if not isinstance(patch, dict):
        text = f"json: cannot unmarshal {json_kind(patch)} into Go value of type map[string]interface {{}}"
        raise Refused(400, "BadRequest", text)
    return _merged_map(obj, patch, schema)


def _merged_map(old: Object, patch: Object, schema: Schema) -> Object:
    if _PATCH in patch:
        return _directed(patch)
    result = dict(old)
    if _RETAIN in patch:
        retained = _retained(patch)
        result = {name: value for name, value in old.items() if name in retained}
    ordered = [key.removeprefix(_ORDER) for key in patch if key.startswith(_ORDER)]
    for name in ordered:
        _merge_ordered(result, name, patch, _field(schema, name))
    for key, value in patch.items():
        if key.startswith(_DELETE):
            _delete_values(result, key.removeprefix(_DELETE), value)
        elif key != _RETAIN and not key.startswith(_ORDER) and key not in ordered:
            _merge_field(result, key, value, _field(schema, key))
    return old if _same(old, result) else result


def _same(old: Object, new: Object) -> bool:
    return len(old) == len(new) and all(name in old and old[name] is value for name, value in new.items())


def _directed(patch: Object) -> Object:
    match patch[_PATCH]:
        case "replace":
            replaced: Object = _plain({name: value for name, value in patch.items() if name != _PATCH})
            return replaced
        case "delete":
            return {}
        case other:
            raise _wrong(f"unknown patch type: {other} in map: {shown(patch)}")


def _retained(patch: Object) -> list[Json]:
    """The fields that stay. Raises Refused (400) unless they include all fields that the patch sets."""
    names = patch[_RETAIN]
    set_ = [k for k, v in patch.items() if v is not None and k != _RETAIN and not k.startswith((_DELETE, _ORDER))]
    if not isinstance(names, list) or not all(name in names for name in set_):
        raise Refused(400, "BadRequest", "invalid patch format of retainKeys")
    return names


def _merge_field(result: Object, name: str, value: Json, schema: Schema) -> None:
    """Merge one field of a patch into a map, which is changed in place."""
    if value is None:
        result.pop(name, None)
        return
    old = result.get(name)
    if isinstance(old, dict) and isinstance(value, dict):
        result[name] = _plain(value) if _strategy(schema) == "replace" else _merged_map(old, value, schema)
    elif isinstance(old, list) and isinstance(value, list):
        result[name] = _merged_list(old, value, schema) if _strategy(schema) == "merge" else _plain(value)
    elif _is_directive(value):
        result.pop(name, None)
    else:
        result[name] = _plain(value)


def _merged_list(old: list[Json], patch: list[Json], schema: Schema) -> list[Json]:
    """The merge of a list. Items of the patch come in its order, other items keep their places."""
    if not old and not patch:
        return old
    _check_alike(old, patch)
    if not _are_maps(old, patch):
        return _ordered(list(dict.fromkeys((*old, *patch))), patch, old, "")
    key = _merge_key(schema)
    old, patch = _directed_items(old, patch, key)
    return _ordered(_merged_items(old, patch, key, schema), patch, old, key)


def _merged_items(old: list[Json], patch: list[Json], key: str, schema: Schema) -> list[Json]:
    result = list(old)
    for item in patch:
        wanted = _value(item, key)
        place = next((index for index, each in enumerate(result) if each.get(key) == wanted), None)
        if place is None:
            result.append(_plain(item))
        else:
            result[place] = _merged_map(result[place], item, schema.get("items", _UNKNOWN))
    return result


def _directed_items(old: list[Json], patch: list[Json], key: str) -> tuple[list[Json], list[Json]]:
    """Both lists after the directives among the items of the patch."""
    plain = [item for item in patch if _PATCH not in item]
    directives = [item for item in patch if _PATCH in item]
    for item in directives:
        match item[_PATCH]:
            case "delete":
                unwanted = _value(item, key)
                old = [each for each in old if each.get(key) != unwanted]
            case "replace":
                pass
            case "merge":
                raise _wrong("merging lists cannot yet be specified in the patch")
            case other:
                raise _wrong(f"unknown patch type: {other} in map: {shown(item)}")
    if any(item[_PATCH] == "replace" for item in directives):
        return _plain(plain), []
    return old, plain


def _merge_ordered(result: Object, name: str, patch: Object, schema: Schema) -> None:
    """Merge a list whose order the patch gives for all items it knows, changed or not."""
    order, old, new = patch[_ORDER + name], result.get(name), patch.get(name)
    for value in (order, old, new):
        if value is not None and not isinstance(value, list):
            raise _wrong(f"expected a []interface {{}}, but received a {type_name(value)}")
    key = schema.get("x-kubernetes-patch-merge-key", "")
    _check_order(new or [], order, key)
    if old is None and new is None:
        return
    if not old and not new:
        raise _wrong("no elements in any of the given slices")
    _check_alike(old or [], new or [])
    if old is None:
        merged = _plain(new)
    else:
        merged = old if new is None else _merged_list(old, new, schema) if _strategy(schema) == "merge" else _plain(new)
    result[name] = _ordered(merged, order, old or [], key)


def _check_order(patch: list[Json], order: list[Json], key: str) -> None:
    """Raise Refused unless the items of a patch are in the order that it gives."""
    if not patch or not order:
        return
    places = iter(order)
    for item in patch:
        if key and _PATCH in item:
            continue
        wanted = _value(item, key) if key else item
        if not any((_value(each, key) if key else each) == wanted for each in places):
            text = f"The order in patch list:\n{shown(patch)}\n doesn't match $setElementOrder list:\n{shown(order)}\n"
            raise _wrong(text)


def _ordered(items: list[Json], first: list[Json], before: list[Json], key: str) -> list[Json]:
    """The items in a new order: those in `first` in its order, the others in their order `before`.

    Of a named and another item, the other one precedes only if both were there and it did so before.
    """
    wanted = [_key(item, key) for item in first]
    places = {place: index for index, place in reversed(list(enumerate(_key(item, key) for item in before)))}
    named = sorted((i for i in items if _key(i, key) in wanted), key=lambda i: wanted.index(_key(i, key)))
    others = sorted(
        (i for i in items if _key(i, key) not in wanted), key=lambda i: places.get(_key(i, key), len(places))
    )
    result: list[Json] = []
    waiting = iter(named)
    head = next(waiting, None)
    for other in others:
        while head is not None and not _was_before(places, _key(other, key), _key(head, key)):
            result.append(head)
            head = next(waiting, None)
        result.append(other)
    return [*result, *([head] if head is not None else []), *waiting]


def _was_before(places: Mapping[Json, int], one: Json, other: Json) -> bool:
    return one in places and other in places and places[one] < places[other]


def _delete_values(result: Object, name: str, values: Json) -> None:
    old = result.get(name)
    if isinstance(old, list) and isinstance(values, list):
        result[name] = [value for value in old if value not in values]


def _plain(value: Json) -> Json:
    """A value of a patch that has no counterpart: without nulls in maps, and without directives."""
    if isinstance(value, dict):
        kept = {name: part for name, part in value.items() if part is not None and not name.startswith(_DIRECTIVES)}
        return {name: _plain(part) for name, part in kept.items() if not _is_directive(part)}
    if isinstance(value, list):
        return [_plain(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Json) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _field(schema: Schema, name: str) -> Schema:
    found: Schema | None = schema.get("properties", _UNKNOWN).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else _UNKNOWN


def _strategy(schema: Schema) -> str:
    """The patch strategy of a field. `retainKeys` is left out: it only limits what a client may send."""
    listed = schema.get("x-kubernetes-patch-strategy", "").split(",")
    return next((each for each in listed if each != "retainKeys"), "")


def _merge_key(schema: Schema) -> str:
    key: str = schema.get("x-kubernetes-patch-merge-key", "")
    if not key:
        raise _wrong("cannot merge lists without merge key for struct")
    return key


def _key(item: Json, key: str) -> Json:
    return _value(item, key) if key else item


def _value(item: Json, key: str) -> Json:
    if not isinstance(item, dict):
        raise _wrong(f"expected a map[string]interface {{}}, but received a {type_name(item)}")
    if key not in item:
        raise _wrong(f"map: {shown(item)} does not contain declared merge key: {key}")
    return item[key]


def _are_maps(*lists: Iterable[Json]) -> bool:
    return any(isinstance(item, dict) for items in lists for item in items)


def _check_alike(*lists: list[Json]) -> None:
    kinds = dict.fromkeys(type_name(item) for items in lists for item in items)
    if next(iter(kinds), "") == "[]interface {}":
        raise Refused(422, "Invalid", "the server rejected our request due to an error in our request")
    if len(kinds) > 1:
        raise _wrong(f"list element types are not identical: {shown(list(lists))}")


def _wrong(text: str) -> Refused:
    return Refused(500, "", text)
