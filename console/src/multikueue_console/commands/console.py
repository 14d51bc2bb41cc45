"""`multikueue console`: queues, workloads and clusters in the browser."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, run_async
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.output import note
from multikueue_console.commands.stored import HistoryUrl, opened

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import WatchingClient
    from multikueue_console.history.store import RunHistory
    from multikueue_console.web.oidc import Issuer
    from multikueue_console.web.rights import Access, Person
    from multikueue_console.web.server import Options

__all__ = ["console"]

Spaces = Annotated[
    list[str],
    typer.Option("--namespace", "-n", help="Show this namespace; may be given again. (default: all that may be seen)"),
]
Listen = Annotated[str, typer.Option("--listen", help="The address and port of the page; port 0: any that is free.")]
Login = Annotated[
    bool, typer.Option("--login", help="People log in with a token of the cluster, and see what they may list.")
]
KnownAs = Annotated[
    list[str], typer.Option("--known-as", help="A name, with the port, under which browsers reach the page.")
]
Certificate = Annotated[
    Path | None, typer.Option("--tls-certificate", help="PEM, for https.", exists=True, dir_okay=False)
]
Key = Annotated[Path | None, typer.Option("--tls-key", help="PEM, of that certificate.", exists=True, dir_okay=False)]
Actions = Annotated[
    bool, typer.Option("--actions", help="Let pages change workloads and clusters, with the rights of who looks.")
]
Button = Annotated[
    list[str],
    typer.Option("--button", help="NAME=TITLE of a button on all pages; its name is printed when it is pressed."),
]
ClusterButton = Annotated[
    list[str],
    typer.Option("--cluster-button", help="The same, for one cluster, which is printed, too."),
]
Metrics = Annotated[
    str,
    typer.Option("--metrics", help="The manager's metrics, for latency and credentials of clusters.", metavar="URL"),
]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")]


@dataclass(frozen=True)
class OidcOptions:
    """Whose ID tokens people may log in with."""

    oidc_issuer: Annotated[
        str,
        typer.Option(
            help="With --login: people may log in there, by OpenID Connect; the API server must know this issuer.",
            metavar="URL",
        ),
    ] = ""
    oidc_client: Annotated[
        str, typer.Option(help="The client ID of the console there, which the API server accepts as audience.")
    ] = ""
    oidc_secret_file: Annotated[
        Path | None,
        typer.Option(help="The secret of that client; none for a public client.", exists=True, dir_okay=False),
    ] = None
    oidc_scope: Annotated[
        list[str] | None,
        typer.Option(help="What to ask for; may be given again. (default: openid, email, profile)", show_default=False),
    ] = None
    oidc_ca: Annotated[
        Path | None, typer.Option(help="PEM, of who signed the certificate of the issuer.", exists=True, dir_okay=False)
    ] = None

    public_url: Annotated[
        str,
        typer.Option(
            help="The https address at which people open the console; the issuer sends them back there.", metavar="URL"
        ),
    ] = ""

    def issuer(self) -> Issuer | None:
        """Raises BadParameter for options that do not go together."""
        from multikueue_console.web.oidc import SCOPES, Issuer

        if not self.oidc_issuer:
            return None
        if not self.oidc_client or not self.public_url:
            raise typer.BadParameter("--oidc-issuer takes --oidc-client and --public-url")
        try:
            return Issuer(
                url=self.oidc_issuer,
                client=self.oidc_client,
                console=self.public_url,
                secret=self.oidc_secret_file.read_text().strip() if self.oidc_secret_file else "",
                scopes=tuple(self.oidc_scope or ()) or SCOPES,
                tls=ssl.create_default_context(cafile=self.oidc_ca) if self.oidc_ca else None,
            )
        except (ValueError, ssl.SSLError) as error:
            raise typer.BadParameter(str(error), param_hint="--oidc-issuer, --public-url") from error


@bundled
def console(
    namespace: Spaces = [],  # noqa: B006  # as typer has it
    listen: Listen = "127.0.0.1:0",
    login: Login = False,
    known_as: KnownAs = [],  # noqa: B006
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    actions: Actions = False,
    button: Button = [],  # noqa: B006
    cluster_button: ClusterButton = [],  # noqa: B006
    browser: Browser = True,
    url: HistoryUrl = None,
    metrics: Metrics = "",
    *,
    oidc: OidcOptions,
    manager: ManagerOptions,
) -> None:
    """See queues, workloads and clusters in the browser.

    The page shows what your kubeconfig may see to everybody who has the printed link, until Ctrl-C.
    With --login it is for many people: each logs in with a token of the cluster and sees what they may list.
    With --oidc-issuer, --oidc-client and --public-url they may also log in by OpenID Connect.
    With a history it shows who used how much before, and estimates when jobs start.

    \b
    Examples:
      multikueue console
      multikueue console -n team-a --no-browser
      multikueue console --login --listen 0.0.0.0:8443 --tls-certificate tls.crt --tls-key tls.key
    """
    from multikueue_console.commands.acts import ACTIONS
    from multikueue_console.web.buttons import Buttons, button_of
    from multikueue_console.web.server import Options

    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter("expected an address and a port, such as 127.0.0.1:8080", param_hint="--listen")
    if (tls_certificate is None) != (tls_key is None):
        raise typer.BadParameter("give both --tls-certificate and --tls-key, or none")
    if not login and host not in ("127.0.0.1", "localhost", "::1"):
        raise typer.BadParameter("without --login the page shows your rights to everybody: listen on 127.0.0.1")
    issuer = oidc.issuer()
    if issuer is not None and not login:
        raise typer.BadParameter("--oidc-issuer takes --login")
    tls = None
    if tls_certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(tls_certificate, tls_key)
    try:
        general = [button_of(each, is_of_cluster=False) for each in button]
        of_cluster = [button_of(each, is_of_cluster=True) for each in cluster_button]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--button") from None
    options = Options(
        host=host,
        port=int(port),
        hosts=tuple(known_as),
        actions=ACTIONS if actions else {},
        buttons=Buttons([*general, *of_cluster], lambda *pressed: print(*pressed, flush=True)),
        tls=tls,
        issuer=issuer,
    )
    with opened(url) if url else nullcontext() as history:
        run_async(lambda: _serve(manager.target, namespace, options, history, metrics, login=login, browser=browser))


async def _serve(
    target: ContextChoice,
    namespaces: list[str],
    options: Options,
    history: RunHistory | None,
    metrics: str,
    *,
    login: bool,
    browser: bool,
) -> None:
    import anyio

    from multikueue.kube.auth.tokens import FixedToken
    from multikueue.kube.client import Client
    from multikueue.runtime.clock import SystemClock
    from multikueue_console.commands.foreseen_starts import Outlook
    from multikueue_console.watch.fleet_watch import FleetWatch, scope_of
    from multikueue_console.watch.manager_metrics import follow_metrics
    from multikueue_console.web.rights import OpenAccess, ReviewedAccess
    from multikueue_console.web.server import ConsoleServer

    clock, credentials = SystemClock(), await target.credentials()
    async with target.connect() as client, anyio.create_task_group() as tasks:
        watch = FleetWatch(client, await scope_of(client, namespaces, credentials.namespace), clock)
        outlook = Outlook(watch)
        access: Access = ReviewedAccess(client, clock.monotonic) if login else OpenAccess()

        @asynccontextmanager
        async def connect(person: Person) -> AsyncIterator[WatchingClient]:
            if not person.token:
                yield client
                return
            own = replace(credentials, token=FixedToken(f"Bearer {person.token}"), certificate=b"", key=b"")
            async with Client.connect(own) as theirs:
                yield theirs

        named = replace(options, name=credentials.server)
        server = ConsoleServer(watch, access, connect, clock, named, history=history, starts=lambda: outlook.told)
        await tasks.start(watch.run)
        if history is not None:
            tasks.start_soon(outlook.run, client, history)
        if metrics:
            tasks.start_soon(follow_metrics, metrics, watch, clock)
        async with server.serving() as url:
            link = url if login else f"{url}/login?ticket={server.sessions.ticket()}"
            print(link, flush=True)
            if not login:
                note("The link opens one browser, once. Ctrl-C ends the console.")
                if browser:
                    await _open(link)
            await anyio.sleep_forever()


async def _open(link: str) -> None:
    import webbrowser

    import anyio.to_thread

    await anyio.to_thread.run_sync(webbrowser.open, link)
