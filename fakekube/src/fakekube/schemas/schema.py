"""A compiled schema: prunes, defaults and validates objects as kube-apiserver does.

The cost of a write is in proportion to its changes. One call in Rust checks the structure; list keys and rules are
checked only where something below differs from the old object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from fakekube.model.refusals import Problem as FieldProblem
from fakekube.model.refusals import shown
from fakekube.model.remembered import Remembered
from fakekube.model.resources import Resource
from fakekube.model.wire import Json, Object
from fakekube.schemas.expressions import ABSENT, MapKey, Rule
from fakekube.schemas.pruning import Pruner
from fakekube.schemas.structure import Found, Path, Structure, render_path

__all__ = ["FieldProblem", "Schema"]


class Schema:
    """One OpenAPI v3 schema with Kubernetes' extensions, compiled at first use."""

    def __init__(self, openapi: Mapping[str, Any]) -> None:
        self.openapi = openapi

    @classmethod
    def of(cls, resource: Resource) -> Schema:
        """The compiled schema of a resource. Equal schemas share one, across servers."""
        return _compiled(resource.schema)

    def accepts(self, obj: Object) -> bool:
        """A quick check: nothing to prune or default, and valid except for rules and list keys, which it skips."""
        return not self.openapi or self._structure.accepts(obj)

    def prune_and_default(self, obj: Object) -> Object:
        """The object without unknown fields and with defaults; the same object if nothing changes."""
        if not self.openapi or self._structure.accepts(obj):
            return obj
        return self._pruner.prune_and_default(obj)

    def unknown_fields(self, obj: Object) -> list[str]:
        """The paths of the fields that pruning drops, for `fieldValidation`."""
        if not self.openapi or self._structure.accepts(obj):
            return []
        return self._pruner.unknown_fields(obj)

    def problems(self, new: Object, old: Object | None) -> list[FieldProblem]:
        """Problems of an object on an update of `old`, or on create (None), in the order of detection.

        The object must be pruned and defaulted. As in kube-apiserver, problems of unchanged values are ignored
        (ratcheting), and violated types, limits or required fields suppress the CEL rules, which adds a problem that
        says so.
        """
        if not self.openapi:
            return []
        found = [] if self._structure.accepts(new) else self._structural(new, old)
        problems = [each.problem for each in found]
        blocked = any(problem.reason in _BLOCKING for problem in problems)
        _look_at(self._root, new, ABSENT if old is None else old, (), problems, rules=not blocked)
        return [*problems, _NOT_ALL] if blocked and self._root.has_rules else problems

    def _structural(self, new: Object, old: Object | None) -> list[Found]:
        found = self._structure.problems(new)
        return found if old is None else [each for each in found if not _was_so(self._root, new, old, each.path)]

    @cached_property
    def _structure(self) -> Structure:
        return Structure(self.openapi)

    @cached_property
    def _pruner(self) -> Pruner:
        return Pruner(self.openapi)

    @cached_property
    def _root(self) -> _Place:
        return _Place(self.openapi)


_BLOCKING = frozenset(
    {"FieldValueTypeInvalid", "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany"}
)
_NOT_ALL = FieldProblem(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


_UNIQUE = frozenset({"map", "set"})


class _Place:
    """A place of the schema: its rules, its list keys, and the places below that have any."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        kind = str(schema.get("type", "object"))
        self.rules = [Rule(each, kind=kind) for each in schema.get("x-kubernetes-validations", ())]
        self.list_type: str = schema.get("x-kubernetes-list-type", "atomic") if kind == "array" else ""
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        self.identity = _identity(self.keys) if self.list_type == "map" else _hashable
        """The identity of an item within the list."""
        self.properties = {
            name: place for name, each in schema.get("properties", {}).items() if (place := _Place(each)).matters
        }
        self.items = self._below(schema.get("items"))
        self.others = self._below(schema.get("additionalProperties"))
        below = [*self.properties.values(), *(place for place in (self.items, self.others) if place)]
        self.has_rules: bool = bool(self.rules) or any(place.has_rules for place in below)
        self.matters: bool = bool(self.has_rules or below or self.list_type in _UNIQUE)
        self.is_steady: bool = all(rule.is_reflexive for rule in self.rules) and all(place.is_steady for place in below)
        """Whether an unchanged value needs no check."""

    @staticmethod
    def _below(schema: Any) -> _Place | None:
        place = _Place(schema) if isinstance(schema, Mapping) else None
        return place if place is not None and place.matters else None


def _look(place: _Place, new: Json, old: Json, path: Path, found: list[FieldProblem], *, rules: bool) -> None:
    """Add the problems of a value that replaces an old one, or ABSENT."""
    if not place.is_steady or (new is not old and new != old):
        _look_at(place, new, old, path, found, rules=rules)


def _look_at(place: _Place, new: Json, old: Json, path: Path, found: list[FieldProblem], *, rules: bool) -> None:
    if isinstance(new, dict):
        _look_inside(place, new, old, path, found, rules=rules)
    elif isinstance(new, list):
        _look_along(place, new, old, path, found, rules=rules)
    if rules and new is not None:
        asked = [rule for rule in place.rules if rule.must_be_asked(new, old)]
        found.extend(problem for rule in asked if (problem := rule.problem(new, old, path)) is not None)


def _look_inside(place: _Place, new: Object, old: Json, path: Path, found: list[FieldProblem], *, rules: bool) -> None:
    for name, below in place.properties.items():
        inner = new.get(name, ABSENT)
        if inner is not ABSENT:
            _look(below, inner, _member(old, name), (*path, name), found, rules=rules)
    if place.others is not None:
        for name, inner in new.items():
            if name not in place.properties:
                _look(place.others, inner, _member(old, name), (*path, MapKey(name)), found, rules=rules)


def _look_along(
    place: _Place, new: list[Json], old: Json, path: Path, found: list[FieldProblem], *, rules: bool
) -> None:
    if place.list_type in _UNIQUE and new != old:
        repeated = list(_duplicates(place, new, path))
        if repeated and not (isinstance(old, list) and any(_duplicates(place, old, path))):
            found.extend(repeated)
    if place.items is not None:
        before = _correlated(place, new, old)
        for index, inner in enumerate(new):
            _look(place.items, inner, before[index], (*path, index), found, rules=rules)


def _member(value: Json, name: str) -> Json:
    return value.get(name, ABSENT) if isinstance(value, dict) else ABSENT


def _correlated(place: _Place, new: list[Json], old: Json) -> list[Json]:
    """The old item of each new item; known only in lists with keys."""
    if not isinstance(old, list) or place.list_type != "map":
        return [ABSENT] * len(new)
    before = {place.identity(item): item for item in reversed(old)}
    return [before.get(place.identity(item), ABSENT) for item in new]


def _identity(keys: tuple[str, ...]) -> Callable[[Json], Json]:
    if len(keys) == 1:
        (key,) = keys
        return lambda item: _hashable(item.get(key)) if isinstance(item, dict) else repr(item)
    return lambda item: tuple(_hashable(item.get(key)) for key in keys) if isinstance(item, dict) else repr(item)


def _duplicates(place: _Place, items: list[Json], path: Path) -> Iterator[FieldProblem]:
    """A problem for each duplicated item, at its second occurrence."""
    identities = [place.identity(item) for item in items]
    if len(set(identities)) == len(items):
        return
    seen: Counter[Json] = Counter()
    for index, (identity, item) in enumerate(zip(identities, items, strict=True)):
        seen[identity] += 1
        if seen[identity] == 2 and (isinstance(item, dict) or place.list_type == "set"):  # else its type is the problem
            value = shown({key: item.get(key) for key in place.keys}) if place.list_type == "map" else shown(item)
            yield FieldProblem("FieldValueDuplicate", render_path((*path, index)), f"Duplicate value: {value}")


def _hashable(item: Json) -> Json:
    return msgspec.json.encode(item) if isinstance(item, dict | list) else item


def _was_so(place: _Place | None, new: Json, old: Json, path: Iterable[str | int]) -> bool:
    """Whether the value at a path, or one that contains it, is unchanged. Items of lists are matched by their keys."""
    for part in path:
        if new == old:
            return True
        if isinstance(part, int):
            old = _correlated(place, new, old)[part] if place is not None else ABSENT
            new, place = new[part], place.items if place is not None else None
        else:
            new, old = _member(new, part), _member(old, part)
            place = None if place is None else place.properties.get(part, place.others)
    return bool(new == old)


_compiled = Remembered(Schema)
