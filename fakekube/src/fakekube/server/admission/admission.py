"""Admission webhooks: the selection for a request, the calls, and the effect of their answers.

Mutating webhooks are called one after the other, by the name of their configuration and in its order; then the
validating ones, until one refuses. Mutating webhooks are called once only (`reinvocationPolicy` counts as Never).
"""

from __future__ import annotations

import random
import uuid
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import msgspec

from fakekube.model.refusals import bad_request, forbidden
from fakekube.model.resources import Registry, Resource
from fakekube.model.selectors import LabelSelector, selector_of
from fakekube.model.storage import Storage
from fakekube.model.wire import Object, Refused, User
from fakekube.schemas import cel_library as cel
from fakekube.schemas.optionals import without_optionals
from fakekube.server.admission.webhooks import CallFailed, Local, Webhooks
from fakekube.server.patching.patches import json_patch

__all__ = ["Admission", "Write", "warning_header"]

_GROUP = "admissionregistration.k8s.io"
_MUTATING, _VALIDATING = f"mutatingwebhookconfigurations.{_GROUP}", f"validatingwebhookconfigurations.{_GROUP}"
_NAMESPACES = "namespaces."

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def warning_header(warnings: list[str]) -> str:
    """The value of a Warning header with these texts, in the format that kubectl prints."""
    return ", ".join(f"299 - {msgspec.json.encode(text).decode()}" for text in warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write for review by webhooks, before it happens. `new` is None on a deletion, `old` on a creation.

    `options` are those of the request; `warnings` collects the warnings of webhooks.
    """

    operation: str
    resource: Resource
    new: Object | None
    old: Object | None
    user: User
    dry_run: bool = False
    subresource: str = ""
    options: Mapping[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def metadata(self) -> Mapping[str, Any]:
        item = self.new if self.new is not None else self.old
        return item.get("metadata", {}) if item else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))


class Admission:
    """Calls the admission webhooks that are configured in the cluster. Costs next to nothing without webhooks.

    `local` has in-process webhooks by the host in their URL, `services` the addresses of services.
    """

    def __init__(self, storage: Storage, registry: Registry, *, rng: random.Random) -> None:
        self._storage, self._registry, self._rng = storage, registry, rng
        self._webhooks = Webhooks()
        self._hooks: dict[str, tuple[_Hook, ...]] = {_MUTATING: (), _VALIDATING: ()}
        self.is_asked = False
        """Whether there are webhooks at all; if not, callers skip admission."""
        for kept in self._hooks:
            storage.subscribe(lambda change: self._read(change.storage), kept)
            self._read(kept)

    @property
    def local(self) -> dict[str, Local]:
        return self._webhooks.local

    @property
    def services(self) -> dict[tuple[str, str, int], str]:
        return self._webhooks.services

    async def aclose(self) -> None:
        """Close the connections to webhooks over HTTPS."""
        await self._webhooks.aclose()

    async def admit(
        self,
        operation: str,
        resource: Resource,
        *,
        new: Object | None,
        old: Object | None,
        user: User,
        dry_run: bool,
        subresource: str = "",
        options: Mapping[str, Any] | None = None,
        warnings: list[str] | None = None,
    ) -> Object | None:
        """The object after all mutating webhooks, validated by all others. Raises Refused if a webhook denies it or
        fails."""
        if not self.is_asked:
            return new
        write = Write(
            operation=operation,
            resource=resource,
            new=new,
            old=old,
            user=user,
            dry_run=dry_run,
            subresource=subresource,
            options=options,
            warnings=[] if warnings is None else warnings,
        )
        new = await self.mutate(write)
        await self.validate(replace(write, new=new))
        return new

    async def mutate(self, write: Write) -> Object | None:
        """The mutating half of `admit`, for callers that act between the halves."""
        for hook in self._hooks[_MUTATING]:
            write = replace(write, new=await self._ask(hook, write))
        return write.new

    async def validate(self, write: Write) -> None:
        """The validating half of `admit`."""
        for hook in self._hooks[_VALIDATING]:
            await self._ask(hook, write)

    def _read(self, kept: str) -> None:
        configurations = (version.object for version in self._storage.select(kept))
        self._hooks[kept] = tuple(
            _Hook(each, mutating=kept == _MUTATING)
            for configuration in configurations
            for each in configuration.get("webhooks") or ()
        )
        self.is_asked = any(self._hooks.values())

    async def _ask(self, hook: _Hook, write: Write) -> Object | None:
        """The object after one webhook. Raises Refused."""
        resource = self._matched(hook, write)
        if resource is None or not self._selected(hook, write):
            return write.new
        request = self._request(write, resource)
        try:
            if not hook.wants(request):
                return write.new
            if write.dry_run and hook.has_side_effects:
                raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
            return await self._answered(hook, write, request)
        except _Failed as failure:
            if hook.ignores_failures:
                return write.new
            raise failure.refusal(hook, write) from failure

    def _matched(self, hook: _Hook, write: Write) -> Resource | None:
        """The resource in which the webhook sees the object: the requested one, or another version of it; None without
        match."""
        resource = write.resource
        if resource.storage in (_MUTATING, _VALIDATING):
            return None  # exempt, so that a broken webhook can be removed
        if hook.matches(resource, write):
            return resource
        if not hook.matches_equivalents:
            return None
        others = (other for other in self._registry if other.storage == resource.storage)
        return next((other for other in others if hook.matches(other, write)), None)

    def _selected(self, hook: _Hook, write: Write) -> bool:
        return self._is_in_namespace(hook, write) and hook.selects(write)

    def _is_in_namespace(self, hook: _Hook, write: Write) -> bool:
        if not hook.namespaces.requirements:
            return True
        if write.resource.storage == _NAMESPACES:
            return hook.namespaces.matches(write.metadata.get("labels"))
        if not write.resource.namespaced:
            return True
        found = self._storage.get(_NAMESPACES, write.metadata.get("namespace", ""))
        return found is not None and hook.namespaces.matches(found.object["metadata"].get("labels"))

    def _request(self, write: Write, shown: Resource) -> Object:
        own = write.resource
        names = {"name": write.name, "namespace": write.metadata.get("namespace", ""), "subResource": write.subresource}
        return {
            "uid": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            "kind": {"group": shown.group, "version": shown.version, "kind": shown.kind},
            "resource": {"group": shown.group, "version": shown.version, "resource": shown.plural},
            "requestKind": {"group": own.group, "version": own.version, "kind": own.kind},
            "requestResource": {"group": own.group, "version": own.version, "resource": own.plural},
            **{key: value for key, value in names.items() if value},
            **({"requestSubResource": write.subresource} if write.subresource else {}),
            "operation": write.operation,
            "userInfo": _user_info(write.user),
            "object": _as(write.new, shown),
            "oldObject": _as(write.old, shown),
            "dryRun": write.dry_run,
            "options": _options(write),
        }

    async def _answered(self, hook: _Hook, write: Write, request: Object) -> Object | None:
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        try:
            answer = await self._webhooks.ask(hook.config["clientConfig"], review, seconds=hook.seconds)
        except CallFailed as error:
            raise _Failed(f"failed to call webhook: {error}") from error
        response = _response(answer, request["uid"], mutating=hook.mutating)
        write.warnings.extend(str(text) for text in response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denied(hook.name, response.get("status") or {})
        operations = _patch(response)
        return _patched(write, operations) if operations else write.new


class _Hook:
    """One webhook of a configuration, parsed."""

    def __init__(self, config: Mapping[str, Any], *, mutating: bool) -> None:
        self.config, self.mutating = config, mutating
        self.name: str = config["name"]
        self.namespaces: LabelSelector = selector_of(config.get("namespaceSelector"))
        self.objects: LabelSelector = selector_of(config.get("objectSelector"))
        self.ignores_failures = config.get("failurePolicy") == "Ignore"
        self.matches_equivalents = config.get("matchPolicy", "Equivalent") == "Equivalent"
        self.seconds: int = config.get("timeoutSeconds") or 10
        self.has_side_effects = config.get("sideEffects") not in ("None", "NoneOnDryRun")

    def matches(self, resource: Resource, write: Write) -> bool:
        return any(_rule_matches(rule, resource, write) for rule in self.config.get("rules") or ())

    def selects(self, write: Write) -> bool:
        """Whether the object selector matches the object, new or old."""
        if not self.objects.requirements:
            return True
        present = (item for item in (write.new, write.old) if item is not None)
        return any(self.objects.matches(item.get("metadata", {}).get("labels")) for item in present)

    def wants(self, request: Object) -> bool:
        """Whether all match conditions hold. Raises _Failed if one fails to evaluate and no other one is false."""
        failure: _Failed | None = None
        for expression, program in self._conditions:
            try:
                if program(request) is not True:
                    return False
            except Exception as error:  # noqa: BLE001 - whatever an expression of a user does
                failure = failure or _Failed(f"expression '{expression}' resulted in error: {_cel_error(error)}", False)
        if failure is not None:
            raise failure
        return True

    @cached_property
    def _conditions(self) -> tuple[tuple[str, Callable[[Object], Any]], ...]:
        conditions = self.config.get("matchConditions") or ()
        return tuple((each["expression"], _condition(each["expression"])) for each in conditions)


def _condition(expression: str) -> Callable[[Object], Any]:
    @cache
    def program() -> cel.Program:
        return cel.compiled(without_optionals(expression))

    def holds(request: Object) -> Any:
        variables = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
        return program().execute(cel.Context(variables, cel.STDLIB_FUNCTIONS))

    return holds


def _cel_error(error: Exception) -> str:
    return f"no such key: {error.args[0]}" if isinstance(error, KeyError) and error.args else str(error)


def _rule_matches(rule: Mapping[str, Any], resource: Resource, write: Write) -> bool:
    return (
        _listed(rule, "operations", write.operation)
        and _listed(rule, "apiGroups", resource.group)
        and _listed(rule, "apiVersions", resource.version)
        and rule.get("scope", "*") in ("*", "Namespaced" if resource.namespaced else "Cluster")
        and any(_names(text, resource.plural, write.subresource) for text in rule.get("resources") or ())
    )


def _listed(rule: Mapping[str, Any], key: str, value: str) -> bool:
    listed = rule.get(key) or ()
    return value in listed or "*" in listed


def _names(text: str, plural: str, subresource: str) -> bool:
    wanted, _, part = text.partition("/")
    return wanted in ("*", plural) and part in ("*", subresource)


class _Failed(Exception):
    """A failed call of a webhook. Its failure policy decides about the write."""

    def __init__(self, why: str, called: bool = True) -> None:
        super().__init__(why)
        self.called = called

    def refusal(self, hook: _Hook, write: Write) -> Refused:
        if not self.called:
            return forbidden(write.resource, write.name, str(self))
        return _internal(f'failed calling webhook "{hook.name}": {self}')


def _internal(message: str) -> Refused:
    details = {"causes": [{"message": message}]}
    return Refused(500, "InternalError", f"Internal error occurred: {message}", details=details)


def _user_info(user: User) -> Object:
    return {"username": user.name, **({"uid": user.uid} if user.uid else {}), "groups": list(user.groups)}


def _options(write: Write) -> Object:
    own = {"kind": _OPTIONS.get(write.operation, "ConnectOptions"), "apiVersion": "meta.k8s.io/v1"}
    return {**(write.options or {}), **own, **({"dryRun": ["All"]} if write.dry_run else {})}


def _as(item: Object | None, resource: Resource) -> Object | None:
    if item is None:
        return None
    return {"kind": resource.kind, "apiVersion": resource.api_version, **_without_type(item)}


def _without_type(item: Object) -> Object:
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def _response(answer: Object, uid: str, *, mutating: bool) -> Mapping[str, Any]:
    """The response in an AdmissionReview. Raises _Failed if it is invalid or answers another request."""
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if response.get("uid") != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    if response.get("patch") and not mutating:
        raise _invalid("validating webhook may not return response.patch")
    if response.get("patch") and not response.get("patchType"):
        raise _invalid("webhook returned response.patch but not response.patchType")
    return response


def _invalid(why: str) -> _Failed:
    return _Failed(f"received invalid webhook response: {why}")


def _denied(name: str, status: Mapping[str, Any]) -> Refused:
    by, why = f'admission webhook "{name}" denied the request', status.get("message") or status.get("reason")
    code = status.get("code") or 400
    return Refused(
        max(int(code), 400),
        status.get("reason", ""),
        f"{by}: {why}" if why else f"{by} without explanation",
        details=status.get("details"),
    )


def _patch(response: Mapping[str, Any]) -> list[Any]:
    """The operations of a response's patch. Raises _Failed if it cannot be decoded."""
    text = response.get("patch")
    if not text:
        return []
    try:
        content = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise _Failed("failed to call webhook: illegal base64 data at input byte 0") from None
    try:
        return msgspec.json.decode(content, type=list[Any])
    except msgspec.DecodeError as error:
        raise _Failed(f"received undecodable patch in webhook response: json: {error}") from error


def _patched(write: Write, operations: list[Any]) -> Object:
    if write.new is None:
        raise _internal("admission webhook attempted to modify the object, which is not supported for this operation")
    try:
        return json_patch(write.new, operations)
    except Refused as error:
        raise _internal(error.message) from error
