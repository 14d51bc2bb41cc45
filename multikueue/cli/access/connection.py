"""The connection of a command to its cluster. Heavy modules are imported when a command needs them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from multikueue.cli.access.contexts import contexts
from multikueue.cli.terminal.exit import leaves
from multikueue.cli.terminal.inherited import inherited
from multikueue.errors import ClusterUnreachable

if TYPE_CHECKING:
    from multikueue.api.kind import Kind
    from multikueue.api.meta import Object
    from multikueue.cli.access.server_facts import ServerFacts
    from multikueue.kube import client as kube
    from multikueue.kube.auth.credentials import Credentials
    from multikueue.kube.cluster_client import ClusterClient

__all__ = [
    "Context",
    "ContextChoice",
    "Kubeconfig",
    "ManagerContext",
    "ManagerKubeconfig",
    "ManagerOptions",
    "Namespace",
    "Origin",
    "SettingsFile",
    "Yes",
    "context_option",
    "fetch",
    "fetch_pairs",
    "kubeconfig_option",
    "noting_source",
    "now",
    "run_async",
    "settings_option",
]

T = TypeVar("T")
V = TypeVar("V", bound="Object")

PAGE = 500
"""Objects per request of a long list."""

KUBECONFIG = "MULTIKUEUE_CLUSTER__KUBECONFIG"
CONTEXT = "MULTIKUEUE_CLUSTER__CONTEXT"
NAMESPACE = "MULTIKUEUE_CLUSTER__NAMESPACE"
ORIGIN = "MULTIKUEUE_DISPATCH__ORIGIN"

_MANAGER = "Manager cluster"


def kubeconfig_option(*names: str, also: str = "", envvar: str | None = KUBECONFIG) -> Any:
    """The option for the kubeconfig of the manager cluster; its help names `also` as another source."""
    return typer.Option(
        *names,
        envvar=envvar,
        help=f"Kubeconfig of the manager cluster{also}. (default: as kubectl: $KUBECONFIG, ~/.kube/config)",
        callback=inherited("kubeconfig"),
        show_default=False,
        rich_help_panel=_MANAGER,
        exists=True,
        dir_okay=False,
    )


def context_option(*names: str, also: str = "", envvar: str | None = CONTEXT) -> Any:
    """The option for the context in the kubeconfig of the manager cluster."""
    return typer.Option(
        *names,
        envvar=envvar,
        help=f"Context of the manager cluster{also}. (default: the current one)",
        callback=inherited("context"),
        autocompletion=contexts,
        show_default=False,
        rich_help_panel=_MANAGER,
    )


def _take_settings(ctx: typer.Context, param: typer.CallbackParam, path: Path | None) -> Path | None:
    """The file's settings become the defaults of the options that have the same environment variable."""
    path = inherited("config")(ctx, param, path)
    if path is not None and not ctx.resilient_parsing:
        from multikueue import settings

        found = settings.load(path)
        values = {
            KUBECONFIG: found.cluster.kubeconfig,
            CONTEXT: found.cluster.context,
            NAMESPACE: found.cluster.namespace,
            ORIGIN: found.dispatch.origin,
        }
        ctx.default_map = {
            option.name: values[option.envvar]
            for option in ctx.command.params
            if option.name and isinstance(option.envvar, str) and values.get(option.envvar) is not None
        }
    return path


def settings_option(*names: str) -> Any:
    """The option for the manager's settings file."""
    return typer.Option(
        *names,
        envvar="MULTIKUEUE_CONFIG",
        callback=_take_settings,
        is_eager=True,
        help="The manager's file with settings: its cluster, namespace and origin are used here too.",
        show_default=False,
        rich_help_panel=_MANAGER,
        exists=True,
        dir_okay=False,
    )


SettingsFile = Annotated[Path | None, settings_option("--config", "-f")]
Kubeconfig = Annotated[Path | None, kubeconfig_option("--kubeconfig", "--manager-kubeconfig")]
Context = Annotated[str | None, context_option("--context", "--manager-context")]
ManagerKubeconfig = Annotated[Path | None, kubeconfig_option("--manager-kubeconfig")]
ManagerContext = Annotated[str | None, context_option("--manager-context")]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        envvar=NAMESPACE,
        help="Where the Secrets with the workers' kubeconfigs are.",
        rich_help_panel=_MANAGER,
    ),
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

Origin = Annotated[
    str,
    typer.Option(
        "--origin",
        envvar=ORIGIN,
        help="The manager's origin, as in its settings: names what is made on the worker.",
        rich_help_panel="Worker cluster",
    ),
]


class ContextChoice(msgspec.Struct, frozen=True):
    """A cluster as the operator named it; `cluster` is its name in messages, empty for the manager."""

    kubeconfig: Path | None
    context: str | None
    cluster: str = ""

    async def credentials(self) -> Credentials:
        """Raises ConfigurationError with file and context."""
        from multikueue.kube.auth.credentials import from_environment

        return await from_environment(self.kubeconfig, self.context)

    @asynccontextmanager
    async def connect(self, facts: ServerFacts | None = None) -> AsyncIterator[kube.Client]:
        async with self.connect_in(None, facts) as (client, _):
            yield client

    @asynccontextmanager
    async def connect_in(
        self, namespace: str | None, facts: ServerFacts | None = None
    ) -> AsyncIterator[tuple[kube.Client, str]]:
        """The client, and the namespace as given, else that of the context, as with kubectl. Answers set the facts."""
        from multikueue.kube.client import Client
        from multikueue.kube.transport.session import open_session

        # asyncio logs connections that break when Ctrl-C or a closed pipe ends the process: no news for a user.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        credentials = await self.credentials()
        with noting_source(self.cluster, credentials):
            transport = facts.transport if facts is not None else open_session
            async with Client.connect(credentials, cluster=self.cluster, transport=transport) as client:
                yield client, namespace or credentials.namespace


@dataclass(frozen=True)
class ManagerOptions:
    """The options that lead to the manager cluster."""

    kubeconfig: Kubeconfig = None
    context: Context = None
    config: SettingsFile = None

    @property
    def target(self) -> ContextChoice:
        return ContextChoice(self.kubeconfig, self.context)


@contextmanager
def noting_source(cluster: str, credentials: Credentials) -> Iterator[None]:
    """Adds to ClusterUnreachable a note of the URL, file and context in use."""
    try:
        yield
    except (ClusterUnreachable, BaseExceptionGroup) as error:
        for each in leaves(error):
            if isinstance(each, ClusterUnreachable) and each.cluster == cluster and not hasattr(each, "__notes__"):
                each.add_note(f"{credentials.server}, {credentials.source}")
        raise


def run_async(work: Callable[[], Awaitable[T]]) -> T:
    """Run the async part of a command, on uvloop where that is installed."""
    import anyio

    import multikueue.cli.access.without_trust_store  # noqa: F401

    libraries = logging.getLogger("asyncio")
    level = libraries.level
    try:
        return anyio.run(work, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    finally:
        libraries.setLevel(level)  # `connect_in` silences it, until the loop is closed


def now() -> datetime:
    from multikueue.runtime.clock import SystemClock

    return SystemClock().now()


class _ListMeta(msgspec.Struct):
    cont: str = msgspec.field(name="continue", default="")


class _RawPage(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] = []


async def fetch(
    client: ClusterClient, kind: Kind[Any], *, namespace: str = "", params: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """All objects of a kind as the server has them, with their apiVersion and kind, by namespace and in the natural order of
    names.

    Raw, unlike the client's own list: `-o json` also shows fields that our types do not have. One that is nested too deeply to
    be read is left out, with a note: a tenant's object is no reason to show nothing.
    """
    path = kind.collection(namespace) if namespace else kind.path()
    items: list[dict[str, Any]] = []
    query = {"limit": str(PAGE), **(params or {})}
    while True:
        answer = await client.request("GET", path, params=query)
        try:
            page = msgspec.json.decode(answer, type=_RawPage)
            items += [with_kind(kind, msgspec.json.decode(raw)) for raw in page.items]
        except RecursionError:
            page = await _cut_page(answer)
            items += [with_kind(kind, item) for raw in page.items if (item := _whole(kind, raw)) is not None]
        if not page.metadata.cont:
            return sorted(items, key=_place)
        query["continue"] = page.metadata.cont


def _place(item: dict[str, Any]) -> tuple[Any, ...]:
    from multikueue.api.meta import natural

    meta = item["metadata"]
    return meta.get("namespace", ""), natural(meta["name"])


async def _cut_page(answer: bytes) -> _RawPage:
    """The page without the levels that are too deep."""
    from multikueue.kube.decode import without_depths

    return msgspec.json.decode(await without_depths(answer), type=_RawPage)


def _whole(kind: Kind[Any], raw: msgspec.Raw) -> dict[str, Any] | None:
    """An item of a page that was cut, if it was not."""
    from multikueue.kube.decode import whole

    try:
        found: dict[str, Any] = msgspec.json.decode(whole(raw))
    except RecursionError as error:
        _note_left_out(kind, msgspec.json.decode(raw), error)
        return None
    return found


def _note_left_out(kind: Kind[Any], item: Any, error: Exception) -> None:
    from multikueue.api.meta import ObjectKey
    from multikueue.api.values.foreign import why_unreadable
    from multikueue.cli.terminal.output import note

    meta = item["metadata"]
    key = ObjectKey(meta.get("namespace", ""), meta["name"])
    note(f"{kind.kind} {key} is left out, since it cannot be read: {why_unreadable(error)}")


async def fetch_pairs(
    client: ClusterClient, kind: Kind[V], *, namespace: str = "", params: Mapping[str, str] | None = None
) -> list[tuple[dict[str, Any], V]]:
    """All objects of a kind, each as the server sent it and as a value; those that cannot be read are left out, with a note."""
    from multikueue.api.meta import decoder, encode

    decode, found = decoder(kind.type), list[tuple[dict[str, Any], V]]()
    for item in await fetch(client, kind, namespace=namespace, params=params):
        try:
            found.append((item, decode(encode(item))))
        except (msgspec.DecodeError, RecursionError) as error:
            _note_left_out(kind, item, error)
    return found


def with_kind(kind: Kind[Any], item: dict[str, Any]) -> dict[str, Any]:
    """The object with apiVersion and kind in front: the items of a list have neither."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **item}
