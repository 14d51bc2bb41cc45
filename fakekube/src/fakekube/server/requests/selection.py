"""The selection of objects for a list, a watch or a deletion of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fakekube.builtins.rules.rules import Rules
from fakekube.model.refusals import bad_request
from fakekube.model.resources import Resource
from fakekube.model.selectors import (
    EVERYTHING,
    Alias,
    FieldSelector,
    LabelSelector,
    field_selector,
    label_selector,
)
from fakekube.model.wire import Object
from fakekube.server.requests.options import ListOptions
from fakekube.server.requests.routes import Route

__all__ = ["Selection", "selection"]

_ALWAYS = frozenset({"metadata.name", "metadata.namespace"})
_EVERY_FIELD = FieldSelector()


@dataclass(frozen=True, slots=True)
class Selection:
    """A namespace (empty for all) and selectors."""

    namespace: str = ""
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = _EVERY_FIELD
    aliases: Mapping[str, Alias] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the selection has no selectors."""
        return not self.labels.requirements and not self.fields.terms

    def holds(self, item: Object) -> bool:
        """Whether the selectors match an object of the namespace."""
        if self.labels.requirements and not self.labels.matches(item["metadata"].get("labels")):
            return False
        return not self.fields.terms or self.fields.matches(item, self.aliases or {})


def selection(route: Route, options: ListOptions, rules: Rules) -> Selection:
    """The selection of a request. Raises Refused (400) for an invalid selector or an unsupported field."""
    if not options.labels and not options.fields:
        return Selection(route.namespace)
    fields = field_selector(options.fields) if options.fields else _EVERY_FIELD
    _check(fields, route.resource, rules)
    labels = label_selector(options.labels) if options.labels else EVERYTHING
    return Selection(_namespace(route, fields), labels, fields, rules.aliases)


def _namespace(route: Route, fields: FieldSelector) -> str:
    if route.namespace or not route.resource.namespaced:
        return route.namespace
    return fields.exactly("metadata.namespace") or ""


def _check(fields: FieldSelector, resource: Resource, rules: Rules) -> None:
    for path in fields.paths:
        if path not in _ALWAYS and path not in rules.fields and path not in resource.selectable:
            raise bad_request(rules.unknown_field(resource, path))
