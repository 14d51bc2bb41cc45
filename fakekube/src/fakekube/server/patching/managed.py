"""Managed fields: `metadata.managedFields`, maintained by all writes and used by server-side apply.

An owner is a manager with its operation, its subresource and, for updates, its version. An update takes the ownership
of the fields that it changes; an apply owns the fields that it names, and is refused if another owner set one to
another value.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fakekube.model.values.golang import json_text
from fakekube.model.wire import Object, Refused
from fakekube.server.patching.fields import MEMBER, Fields, besides, common, minus, path_text, paths, union
from fakekube.server.patching.merging import changes, claims, merged, names_empty, pruned
from fakekube.server.patching.owners import (
    Entry,
    Owner,
    Owners,
    cap,
    entry_of,
    fields_of,
    given,
    listed,
    owners_of,
    take,
    with_entries,
)
from fakekube.server.patching.shapes import Shape, problems, shape_of

__all__ = ["RESETS", "apply", "settled", "track"]

ANYTHING: Mapping[str, Any] = {}
"""A schema without rules."""

RESETS: Mapping[str, Collection[str]] = {"": ("status",), "status": ("spec",)}
"""Top-level fields that the server restores after a request to an object (``""``) or one of its subresources, so that
the request does not own them."""

_UNTRACKED: Fields = {
    **dict.fromkeys(("f:apiVersion", "f:kind"), MEMBER),
    "f:metadata": dict.fromkeys(
        (
            *(".", "f:name", "f:namespace", "f:uid", "f:resourceVersion", "f:generation", "f:creationTimestamp"),
            *("f:managedFields", "f:selfLink", "f:clusterName"),
        ),
        MEMBER,
    ),
}
"""Fields that have no owners."""

_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_ANNOTATIONS_LIMIT = 256 * 1024


def track(
    old: Object | None,
    new: Object,
    *,
    manager: str,
    api_version: str,
    subresource: str,
    now: datetime,
    schema: Mapping[str, Any] = ANYTHING,
    resets: Collection[str] | None = None,
    blank: Object = {},  # noqa: B006  # never changed
) -> Object:
    """The result `new` of a create, update or patch of `old`, with updated managedFields.

    `old` is None on create. Call it before the server's own changes to the object. `managedFields` in the request count
    on the main resource only. An empty list, or a list of one empty entry, ends the tracking; an object without owners
    stays untracked until an apply. `resets` are the top-level fields that the server ignores in this request, by
    default those of `RESETS`. `blank` is the zero value of the kind.
    """
    owners = _before(old, new, subresource)
    if old is not None and not owners:
        return with_entries(new, [])
    scope = _Scope.of(api_version, subresource, resets)
    change = _Change(old or blank, new, shape_of(schema), scope)
    if change.is_any:
        take(owners, change.taken_from)
        owner = Owner(manager or "unknown", "Update", api_version, subresource)
        if own := minus(change.made, _UNTRACKED):
            owners[owner] = entry_of(owner, union(fields_of(owners, owner), own), api_version, now)
        cap(owners)
    return with_entries(new, listed(owners))


class _Scope(NamedTuple):
    """The scope of a request: API version, subresource, and the fields that the server restores."""

    api_version: str
    subresource: str
    resets: Collection[str]

    @classmethod
    def of(cls, api_version: str, subresource: str, resets: Collection[str] | None) -> _Scope:
        return cls(api_version, subresource, RESETS.get(subresource, ()) if resets is None else resets)

    def sees_all(self, entry: Entry) -> bool:
        """Whether an owner loses even restored fields: owners in another version do, on the main resource."""
        return not self.subresource and entry["apiVersion"] != self.api_version


class _Change:
    """The effect of a request: the fields it sets (`made`), and these with the fields it removes (`taken`)."""

    def __init__(self, old: Object, new: Object, shape: Shape, scope: _Scope) -> None:
        self._scope = scope
        self._made, self._removed = changes(old, new, shape)
        self.made = besides(self._made, scope.resets)
        self.taken = union(self.made, besides(self._removed, scope.resets))
        self.is_any = bool(self._made or self._removed)

    def made_for(self, entry: Entry) -> Fields:
        return self._made if self._scope.sees_all(entry) else self.made

    def taken_from(self, entry: Entry) -> Fields:
        return union(self._made, self._removed) if self._scope.sees_all(entry) else self.taken


def _before(old: Object | None, new: Object, subresource: str) -> Owners:
    """The owners before an update: the request's, if they are valid and allowed there, otherwise the object's."""
    entries = new["metadata"].get("managedFields")
    if entries is None or subresource or (old and entries is old["metadata"].get("managedFields")):
        return owners_of(old)
    named = given(entries)
    return owners_of(old) if named is None else named


def apply(
    live: Object | None,
    applied: Object,
    *,
    manager: str,
    force: bool,
    api_version: str,
    subresource: str,
    schema: Mapping[str, Any],
    now: datetime,
    resets: Collection[str] | None = None,
) -> Object:
    """The live object (None: a new one) after a server-side apply of the given fields, with its managedFields.

    The live object itself if nothing changes, not even an owner. Raises Refused: 409 Conflict with causes
    FieldManagerConflict if another owner set a field to another value, unless `force`; 400 for another version or for
    managedFields in the request; 500, as kube-apiserver, if the applied object does not fit the schema.
    """
    shape, scope = shape_of(schema), _Scope.of(api_version, subresource, resets)
    _check(live, applied, api_version, shape)
    owner = Owner(manager or "unknown", "Apply", "", subresource)
    others = owners_of(live) or _before_first_apply(live, shape, scope, now)
    mine = others.pop(owner, None)
    named = besides(claims(applied, shape), scope.resets)
    last: Fields = mine["fieldsV1"] if mine else {}
    result: Object = merged(live or {}, applied, shape)
    if minus(last, named) or (last and names_empty(applied)):
        version = mine["apiVersion"] if mine else api_version
        result = pruned(result, last, _owned(version, {api_version: named}, others), shape)

    change = _Change(live or {}, result, shape, scope)
    if not force:
        _refuse_conflicts(others, change, _yielded(live, shape, api_version) if manager == _KUBECTL else {})
    take(others, change.taken_from)
    if own := minus(named, _UNTRACKED):
        time = now if result != live else (mine or {}).get("time")
        others[owner] = entry_of(owner, own, api_version, time)
    if manager == _KUBECTL:
        result = _with_last_applied(result, applied)
    result = with_entries(result, listed(others))
    return live if live is not None and result == live else result


def _owned(first: str, named: Mapping[str, Fields], others: Owners) -> list[Fields]:
    """The fields with an owner after an apply of the `named` fields, by version, `first` first."""
    found = dict(named)
    for entry in others.values():
        version = entry["apiVersion"]
        found[version] = union(found.get(version, {}), entry["fieldsV1"])
    return [found[version] for version in sorted(found, key=lambda each: (each != first, each))]


def settled(old: Object, new: Object) -> Object:
    """`new`, or `old` if they differ only in times of managedFields: such a write stores nothing.

    Call it last before the object is stored.
    """
    before, after = old["metadata"].get("managedFields"), new["metadata"].get("managedFields")
    if before == after:
        return old if old == new else new
    if not before or not after or len(before) != len(after):
        return new
    if any({**one, "time": None} != {**other, "time": None} for one, other in zip(before, after, strict=True)):
        return new
    return old if with_entries(new, before) == old else new


def _check(live: Object | None, applied: Object, api_version: str, shape: Shape) -> None:
    kind = applied.get("kind", "")
    if applied.get("apiVersion") != api_version or (live and live["kind"] != kind):
        raise Refused(400, "BadRequest", f"invalid object type: {_shown(applied.get('apiVersion', ''), kind)}")
    metadata = applied.get("metadata") or {}
    if metadata.get("managedFields") is not None:
        raise Refused(400, "BadRequest", "metadata.managedFields must be nil")
    if found := problems(applied, shape):
        what = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {_shown(api_version, kind)}"
        text = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
        raise Refused(500, "", f"failed to create typed patch object ({what}): {text}")


def _shown(api_version: str, kind: str) -> str:
    return f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"


def _before_first_apply(live: Object | None, shape: Shape, scope: _Scope, now: datetime) -> Owners:
    """The owner of all fields of an object without owners, at the first apply to it."""
    owner = Owner("before-first-apply", "Update", scope.api_version, scope.subresource)
    fields = minus(_Change({}, live or {}, shape, scope).made, _UNTRACKED)
    return {owner: entry_of(owner, fields, scope.api_version, now)} if fields else {}


def _refuse_conflicts(others: Owners, change: _Change, spared: Fields) -> None:
    """Raise Refused if other owners own a changed field that is not in `spared`."""
    conflicts = {owner: common(others[owner]["fieldsV1"], change.made_for(others[owner])) for owner in others}
    yielded = set(paths(spared))
    left = [
        (str(owner), path_text(path))
        for owner in sorted(conflicts, key=lambda each: each.rank)
        for path in paths(conflicts[owner])
        if path not in yielded
    ]
    if left:
        causes = [("FieldManagerConflict", f"conflict with {who}", path) for who, path in left]
        raise Refused(409, "Conflict", _conflict_message(left), causes=causes)


def _conflict_message(conflicts: list[tuple[str, str]]) -> str:
    if len(conflicts) == 1:
        who, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {who}: {path}"
    lines = []
    for who in dict.fromkeys(who for who, _ in conflicts):
        lines.append(f"conflicts with {who}:")
        lines += [f"- {path}" for each, path in conflicts if each == who]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _yielded(live: Object | None, shape: Shape, api_version: str) -> Fields:
    """The fields of a client-side `kubectl apply` that are unchanged since; a server-side apply by kubectl may take
    them."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED) if live else None
    if live is None or not text:
        return {}
    try:
        config = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(config, dict) or config.get("apiVersion") != api_version or problems(config, shape):
        return {}
    changed, removed = changes(config, live, shape)
    return minus(claims(config, shape), union(changed, removed))


def _with_last_applied(result: Object, applied: Object) -> Object:
    """Update the annotation of an earlier client-side `kubectl apply`, if there is one."""
    metadata = result["metadata"]
    annotations = metadata.get("annotations") or {}
    if not annotations.get(_LAST_APPLIED):
        return result
    updated = {**annotations, _LAST_APPLIED: _last_applied(applied)}
    if sum(len(name.encode()) + len(value.encode()) for name, value in updated.items()) > _ANNOTATIONS_LIMIT:
        del updated[_LAST_APPLIED]
    return {**result, "metadata": {**metadata, "annotations": updated}}


def _last_applied(applied: Object) -> str:
    metadata = applied["metadata"]
    if _LAST_APPLIED in (metadata.get("annotations") or {}):
        others = {name: value for name, value in metadata["annotations"].items() if name != _LAST_APPLIED}
        applied = {**applied, "metadata": {**metadata, "annotations": others}}
    return json_text(applied) + "\n"
