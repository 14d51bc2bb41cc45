"""One write: the request, and the steps that all writes share."""

from __future__ import annotations

from dataclasses import dataclass, field

from fakekube.builtins.rules.rules import Rules, without_nulls
from fakekube.model import metadata
from fakekube.model.bodies import repeated_fields
from fakekube.model.refusals import bad_request
from fakekube.model.resources import Resource
from fakekube.model.storage import Version
from fakekube.model.wire import Object, Refused, Request, Response
from fakekube.server.admission.admission import Write, warning_header
from fakekube.server.patching import managed
from fakekube.server.printers.tables import Form
from fakekube.server.requests import answers
from fakekube.server.requests.options import WriteOptions
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server

__all__ = ["Call"]

_OBJECT_LIMIT = 3 * 2**19
"""The maximum request size of etcd in bytes."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One create, update or patch. `warnings` are for the client."""

    server: Server
    route: Route
    request: Request
    options: WriteOptions
    form: Form
    warnings: list[str] = field(default_factory=list)
    resource: Resource = field(init=False)
    rules: Rules = field(init=False)

    def __post_init__(self) -> None:
        self.resource = self.route.resource
        self.rules = self.server.rules(self.resource)

    @property
    def manager(self) -> str:
        """The manager that owns the written fields."""
        return self.options.manager or self.request.user_agent.partition("/")[0] or "unknown"

    def decoded(self, item: Object, live: Object | None = None) -> Object:
        """An object as the server decodes it: right types, no unknown fields, with defaults.

        Parts that it shares with a live object are not decoded again. Raises Refused (400).
        """
        if self.options.validation != "Ignore" and (unknown := metadata.unknown_fields(item)):
            self._mind_unknown(unknown)
        if self.options.validation == "Strict":
            self._mind_repeated()
        if self.resource.custom:
            return self._pruned(metadata.cleaned(item, self.resource))
        if live is None:
            return self.rules.defaulted(self._typed(metadata.cleaned(item, self.resource)))
        changed = {name: value for name, value in item.items() if value is not live.get(name) or name == "metadata"}
        read = self._typed(metadata.cleaned(changed, self.resource))
        kept = {name: value for name, value in item.items() if name not in changed}
        return self.rules.defaulted({**kept, **read})

    def _typed(self, item: Object) -> Object:
        """An object of a built-in kind, or its changed part, as Go's types decode it."""
        self.rules.check(item)
        # Metadata is clean already, and managedFields are a large part of it.
        said = {name: value for name, value in item.items() if name != "metadata"}
        told = without_nulls(said)
        item = {**told, "metadata": item["metadata"]}
        schema = self.server.schema(self.resource)
        if told is said and schema.accepts(item):
            return item
        item = self._pruned(item)
        # Only types count here; the kind's rules validate the rest later. An empty list is dropped, and may yet stand where
        # no list may.
        for problem in schema.problems(item if told is said else without_nulls(said, keep_lists=True), None):
            if problem.reason == "FieldValueTypeInvalid":
                raise bad_request(f"{self._cannot_be_handled()}: {problem.field}: {problem.message}")
        return item

    def _pruned(self, item: Object) -> Object:
        schema = self.server.schema(self.resource)
        if schema.accepts(item):
            return item
        if self.options.validation != "Ignore" and (unknown := schema.unknown_fields(item)):
            self._mind_unknown(unknown)
        return schema.prune_and_default(item)

    def _mind_unknown(self, paths: list[str]) -> None:
        told = [f'unknown field "{path}"' for path in dict.fromkeys(paths)]
        if self.options.validation == "Strict":
            raise bad_request(f"{self._cannot_be_handled()}: strict decoding error: {', '.join(told)}")
        self.warnings.extend(each for each in told if each not in self.warnings)

    def _mind_repeated(self) -> None:
        """Refuse duplicate fields. Only strict validation calls it, as it costs a second parse. Patches are not
        checked."""
        if self.request.method == "PATCH":
            return
        if paths := repeated_fields(self.request.body):
            told = ", ".join(f'duplicate field "{path}"' for path in paths)
            raise bad_request(f"{self._cannot_be_handled()}: strict decoding error: {told}")

    def _cannot_be_handled(self) -> str:
        kind = self.resource.kind
        return f'{kind} in version "{self.resource.version}" cannot be handled as a {kind}'

    def check_name(self, item: Object, *, must_be_there: bool = False) -> None:
        """Raise Refused (400) unless the object has the name in the path."""
        name, wanted = item["metadata"].get("name"), self.route.name
        if not name and must_be_there:
            raise bad_request(
                f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            )
        if name and name != wanted:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({wanted})")

    def tracked(self, old: Object | None, new: Object) -> Object:
        """The object with updated managedFields."""
        if not self.server.managed_fields:
            return new
        return managed.track(
            old,
            new,
            manager=self.manager,
            api_version=self.resource.api_version,
            subresource=self.route.subresource,
            now=self.server.now(),
            schema=self.resource.schema,
            resets=self.resets,
            blank=self.rules.blank,
        )

    @property
    def resets(self) -> tuple[str, ...]:
        """The top-level fields that this request cannot change, and so does not own. Built-in kinds let it own metadata
        even where it is restored."""
        if self.route.is_status:
            return ("spec", "metadata") if self.resource.custom else ("spec",)
        return ("status",) if "status" in self.resource.subresources else ()

    async def mutated(self, new: Object, old: Object | None) -> Object:
        """The object after mutating webhooks, decoded again if they changed it."""
        admission = self.server.admission
        if admission is None or not admission.is_asked:
            return new
        mutated = await admission.mutate(self._write(new, old))
        assert mutated is not None, "only a deletion has no new object"
        return new if mutated == new else self.decoded(mutated)

    async def validated(self, new: Object, old: Object | None) -> None:
        """Call the validating webhooks. Raises Refused."""
        admission = self.server.admission
        if admission is not None and admission.is_asked:
            await admission.validate(self._write(new, old))

    def _write(self, new: Object, old: Object | None) -> Write:
        return Write(
            operation="CREATE" if old is None else "UPDATE",
            resource=self.resource,
            new=new,
            old=old,
            user=self.request.user,
            dry_run=self.options.dry_run,
            subresource=self.route.subresource,
            warnings=self.warnings,
        )

    def check_size(self, item: Object, current: Version | None) -> None:
        """Raise Refused (500) for an object too large for etcd."""
        # Encoding costs time, so an upper bound is checked first, which is rarely exceeded.
        most = len(self.request.body) + (len(current.rest) if current is not None else 0)
        if most > _OBJECT_LIMIT and len(Version(0, "", item).rest) > _OBJECT_LIMIT:
            raise Refused(500, "", "etcdserver: request is too large")

    def respond(self, answer: Version | Object, code: int) -> Response:
        headers = {"Warning": warning_header(self.warnings)} if self.warnings else None
        return answers.item(self.resource, answer, self.form, now=self.server.now(), code=code, headers=headers)
