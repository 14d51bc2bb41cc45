"""Operations of server-side apply on objects and sets of fields: changes, claims, merge, and removal.

The `Shape` of the kind decides. Nothing is changed in place; results share unchanged parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fakekube.model.wire import Json, Object
from fakekube.server.patching.fields import MEMBER, Fields, common, is_member, member, minus, union
from fakekube.server.patching.shapes import DEDUCED, UNTYPED, Shape

__all__ = ["changes", "claims", "merged", "names_empty", "pruned"]

_CONTAINERS = (dict, list)

Node = Fields | None
"""The node of a place in a set; None if neither the place nor anything below it is in the set."""


def changes(old: Object, new: Object, shape: Shape) -> tuple[Fields, Fields]:
    """The new and changed fields, and the removed fields."""
    if old is new or old == new:
        return {}, {}
    changed, removed = _map_changes(old, new, shape)
    return changed or {}, removed or {}


def _changes(old: Json, new: Json, shape: Shape) -> tuple[Node, Node]:
    """Changed and removed nodes of two different values."""
    if old or new:  # a change between two empty values, such as null and {}, is the change of a leaf
        if shape.map_merges and _is(old, dict) and _is(new, dict):
            return _map_changes(old or {}, new or {}, shape)
        if shape.list_merges and _is(old, list) and _is(new, list):
            return _list_changes(old or [], new or [], shape)
    return _all(new, shape), _below(old, shape) or None


def _is(value: Json, type_: type) -> bool:
    """Whether a value is of the type, or null, which stands for any container."""
    return value is None or isinstance(value, type_)


def _map_changes(old: Object, new: Object, shape: Shape) -> tuple[Node, Node]:
    changed: Fields = {}
    removed: Fields = {}
    for name, value in new.items():
        if name not in old:
            changed[f"f:{name}"] = _all_of_field(name, value, shape)
            continue
        had = old[name]
        if had is value or had == value:
            continue
        if not isinstance(value, _CONTAINERS) and not isinstance(had, _CONTAINERS):
            changed[f"f:{name}"] = MEMBER
            continue
        there, gone = _changes(had, value, shape.field(name) or DEDUCED)
        if there is not None:
            changed[f"f:{name}"] = there
        if gone is not None:
            removed[f"f:{name}"] = gone
    for name, value in old.items():
        if name not in new:
            removed[f"f:{name}"] = _all_of_field(name, value, shape)
    return changed or None, removed or None


def _list_changes(old: list[Json], new: list[Json], shape: Shape) -> tuple[Node, Node]:
    changed: Fields = {}
    removed: Fields = {}
    before, after = _by_step(old, shape), _by_step(new, shape)
    for step in dict.fromkeys((*before, *after)):
        there, gone = _item_changes(before.get(step, []), after.get(step, []), shape.item)
        if there is not None:
            changed[step] = there
        if gone is not None:
            removed[step] = gone
    return changed or None, removed or None


def _by_step(items: list[Json], shape: Shape) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for item in items:
        if (step := shape.step(item)) is not None:
            found.setdefault(step, []).append(item)
    return found


def _item_changes(old: list[Json], new: list[Json], shape: Shape) -> tuple[Node, Node]:
    """Changed and removed nodes of the items with one key. Duplicate items count as one leaf."""
    if old == new:
        return None, None
    if len(old) > 1 and len(new) > 1:
        return MEMBER, None
    if len(old) == len(new):
        return _changes(old[0], new[0], shape)
    return _all_items(new, shape), _all_items(old, shape)


def _all_items(items: list[Json], shape: Shape) -> Node:
    if not items:
        return None
    return _all(items[0], shape) if len(items) == 1 else MEMBER


def _all(value: Json, shape: Shape) -> Fields:
    """The node of a place and of all places below it."""
    below = _below(value, shape)
    return {".": MEMBER, **below} if below else MEMBER


def _all_of_field(name: str, value: Json, shape: Shape) -> Fields:
    """The node of a field in a map of this shape."""
    return _all(value, shape.field(name) or DEDUCED) if isinstance(value, _CONTAINERS) else MEMBER


def _below(value: Json, shape: Shape) -> Fields:
    if isinstance(value, dict) and shape.map_merges:
        return {f"f:{name}": _all_of_field(name, part, shape) for name, part in value.items()}
    if isinstance(value, list) and shape.list_merges:
        found = {step: _all_items(items, shape.item) for step, items in _by_step(value, shape).items()}
        return {step: node for step, node in found.items() if node is not None}
    return {}


def claims(value: Object, shape: Shape) -> Fields:
    """The fields that an applied object claims: leaves, items, and map entries, but no declared containers."""
    return _claims(value, shape) or {}


def _claims(value: Json, shape: Shape) -> Node:
    if isinstance(value, dict) and shape.map_merges:
        return dict(_field_claims(value, shape)) or None
    if isinstance(value, list) and shape.list_merges:
        found = _by_step(value, shape)
        nodes = {step: member(_claims(i[0], shape.item)) if len(i) == 1 else MEMBER for step, i in found.items()}
        return nodes or None
    return MEMBER if value is not None or shape.scalar or not (shape.map_merges or shape.list_merges) else None


def _field_claims(value: Object, shape: Shape) -> Iterator[tuple[str, Fields]]:
    for name, part in value.items():
        node = _claims(part, shape.field(name) or DEDUCED)
        if part is None or part == {} or not shape.declares(name):
            node = member(node)
        if node is not None:
            yield f"f:{name}", node


def merged(live: Json, applied: Json, shape: Shape) -> Json:
    """The live value with the applied one merged in. A merge removes nothing."""
    if live is applied or live == applied:
        return live
    if shape.map_merges and isinstance(live, dict) and live:
        if applied is None:
            return live
        if isinstance(applied, dict):
            return _merged_map(live, applied, shape)
    if shape.list_merges and isinstance(live, list) and live:
        if applied is None:
            return live
        if isinstance(applied, list):
            return _merged_list(live, applied, shape)
    return applied


def _merged_map(live: Object, applied: Object, shape: Shape) -> Object:
    result = live
    for name, value in applied.items():
        if name not in live:
            now = value
        else:
            now = merged(live[name], value, shape.field(name) or DEDUCED)
            if now is live[name]:
                continue
        if result is live:
            result = dict(live)
        result[name] = now
    return result


def _merged_list(live: list[Json], applied: list[Json], shape: Shape) -> list[Json]:
    """The merged list. Applied items come in the applied order; other live items keep their places."""
    before = _by_step(live, shape)
    wanted = {step: _merged_item(before.get(step), items[0], shape) for step, items in _by_step(applied, shape).items()}
    shared = iter([step for step in wanted if step in before])
    due = next(shared, None)
    waiting = iter(wanted.items())
    result: list[Json] = []
    for item in live:
        step = shape.step(item)
        if step not in wanted:
            result.append(item)
        elif step == due:
            result += _until(waiting, step)
            due = next(shared, None)
    result += [item for _, item in waiting]
    return live if result == live else result


def _until(items: Iterator[tuple[str, Json]], last: str | None) -> Iterator[Json]:
    for step, item in items:
        yield item
        if step == last:
            return


def _merged_item(live: list[Json] | None, applied: Json, shape: Shape) -> Json:
    """The merged item. Duplicate live items are replaced."""
    return merged(live[0], applied, shape.item) if live and len(live) == 1 else applied


def pruned(value: Object, last: Fields, owned: Iterable[Fields], shape: Shape) -> Object:
    """A merged object without the fields that its applier applied last time and that have no owner now.

    `last` are the fields that the applier owned before. `owned` are the fields with an owner now, including the
    applier's new claims: one set per version that owners use, the version of `last` first.
    """
    last = _with_containers(last, shape)
    everything = _with_containers(claims(value, shape), shape)
    kept = _without(value, last, shape)
    for fields in owned:
        left = _with_containers(claims(kept, shape), shape)
        kept = _without(value, minus(everything, union(left, _with_containers(fields, shape))), shape)
    # Only the applier's fields may go: the steps above also drop unowned fields inside of removed ones.
    gone = minus(everything, _with_containers(claims(kept, shape), shape))
    result: Object = _without(value, common(gone, last), shape)
    return result


def names_empty(value: Json) -> bool:
    """Whether the value contains a null or an empty map. Such a claim may later cover a container that other owners
    filled."""
    if isinstance(value, dict):
        return not value or any(map(names_empty, value.values()))
    return value is None or (isinstance(value, list) and any(map(names_empty, value)))


def _with_containers(fields: Fields, shape: Shape) -> Fields:
    """The set with the declared fields that contain its members."""
    result: Fields = {}
    for step, node in fields.items():
        place = _place(step, shape)
        below = _with_containers(node, place) if node else node
        named = bool(node) and step.startswith("f:") and shape.is_map and shape.declares(step[2:])
        result[step] = member(below) if named else below
    return result


def _place(step: str, shape: Shape) -> Shape:
    if step.startswith("f:") and shape.is_map:
        return shape.field(step[2:]) or DEDUCED
    return shape.item if step.startswith("k:") and shape.is_list else UNTYPED


def _without(value: Json, fields: Fields, shape: Shape) -> Json:
    """The value without these items and fields. Emptied containers stay."""
    if isinstance(value, dict) and shape.map_merges:
        return _map_without(value, fields, shape)
    if isinstance(value, list) and shape.list_merges:
        return _list_without(value, fields, shape)
    return value


def _map_without(value: Object, fields: Fields, shape: Shape) -> Object:
    result = value
    for step, node in fields.items():
        name = step[2:]
        if not step.startswith("f:") or name not in value:
            continue
        left = None if is_member(node) else _without(value[name], node, shape.field(name) or DEDUCED)
        if left is value[name] and not is_member(node):
            continue
        if result is value:
            result = dict(value)
        if is_member(node):
            del result[name]
        else:
            result[name] = left
    return result


def _list_without(value: list[Json], fields: Fields, shape: Shape) -> list[Json]:
    result = []
    for item in value:
        node = fields.get(shape.step(item) or "")
        if node is None:
            result.append(item)
        elif not is_member(node):
            result.append(_without(item, node, shape.item))
    return value if result == value else result
