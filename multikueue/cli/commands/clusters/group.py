"""`multikueue clusters`: join workers to the manager, look at them, take them out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import (
    ORIGIN,
    Context,
    Kubeconfig,
    ManagerContext,
    ManagerKubeconfig,
    Namespace,
    SettingsFile,
    Target,
    now,
    run_async,
)
from multikueue.cli.terminal.durations import parse_duration
from multikueue.cli.terminal.exit import EPILOG, ExitCode
from multikueue.cli.terminal.output import Format, Output, note, print_document, print_facts, print_items, since
from multikueue.errors import ConfigurationError
from multikueue.registration.choices import DEFAULT_VALIDITY, OUR_NAME, CredentialKind

if TYPE_CHECKING:
    from multikueue.cli.access.worker_clusters import Member
    from multikueue.cli.commands.clusters.inspection import Report
    from multikueue.kube.client import Client
    from multikueue.registration.credentials import Endpoint
    from multikueue.registration.join import Joined
    from multikueue.registration.ownership import Side
    from multikueue.registration.plan import Registration

__all__ = ["app"]

app = typer.Typer(
    name="clusters",
    help="Register, show, check and remove worker clusters.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
)

_WORKER = "Worker cluster"

Name = Annotated[str, typer.Argument(help="Name of the MultiKueueCluster.", show_default=False)]
OptionalName = Annotated[
    str | None, typer.Argument(help="Name of the MultiKueueCluster. (default: all)", show_default=False)
]
WorkerKubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        "--worker-kubeconfig",
        help="Kubeconfig of an administrator of the worker. (default: as kubectl)",
        show_default=False,
        rich_help_panel=_WORKER,
        exists=True,
        dir_okay=False,
    ),
]
WorkerContext = Annotated[
    str | None,
    typer.Option(
        "--context",
        "--worker-context",
        help="Context of an administrator of the worker.",
        show_default=False,
        rich_help_panel=_WORKER,
    ),
]
Origin = Annotated[
    str,
    typer.Option(
        "--origin",
        envvar=ORIGIN,
        help="The manager's origin, as in its settings: names what is made on the worker.",
        rich_help_panel=_WORKER,
    ),
]


@app.command("register")
def register(
    name: Annotated[str, typer.Argument(help="Name the worker gets on the manager.", show_default=False)],
    context: WorkerContext = None,
    kubeconfig: WorkerKubeconfig = None,
    server: Annotated[
        str,
        typer.Option(
            help="URL of the worker as the manager reaches it. (default: the one in the kubeconfig)",
            show_default=False,
            rich_help_panel=_WORKER,
        ),
    ] = "",
    tls_server_name: Annotated[
        str,
        typer.Option(
            help="Name in the worker's certificate, if it is not the host of --server.",
            show_default=False,
            rich_help_panel=_WORKER,
        ),
    ] = "",
    credential: Annotated[
        CredentialKind,
        typer.Option(help="auto: a token, or a certificate if there is none.", rich_help_panel=_WORKER),
    ] = CredentialKind.AUTO,
    validity: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="How long the credential shall be good for; the worker may grant less. (default: 30d)",
            show_default=False,
            rich_help_panel=_WORKER,
        ),
    ] = None,
    run_kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLURAL.GROUP",
            help="The manager may also make jobs of this declared or external kind. Once for each; without it, not any more.",
            show_default=False,
            rich_help_panel=_WORKER,
        ),
    ] = None,
    run_in: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMESPACE",
            help="Rights in this namespace of the worker only: jobs of others are not sent there. Once for each; without it,"
            " in all.",
            show_default=False,
            rich_help_panel=_WORKER,
        ),
    ] = None,
    run_pods: Annotated[
        bool,
        typer.Option(
            "--run-pods",
            help="The manager may also make Pods, for the integrations `pod` and `deployment`. Without it, not any more.",
            rich_help_panel=_WORKER,
        ),
    ] = False,
    view_pods: Annotated[
        bool,
        typer.Option(
            "--view-pods",
            help="The credential may also read pods, their logs and events, for `workloads logs`. Without it, not any more.",
            rich_help_panel=_WORKER,
        ),
    ] = False,
    origin: Origin = OUR_NAME,
    config_name: Annotated[
        str,
        typer.Option(
            help="Also put the worker into this MultiKueueConfig; created if missing.",
            show_default=False,
            rich_help_panel="Manager cluster",
        ),
    ] = "",
    namespace: Namespace = "kueue-system",
    _config: SettingsFile = None,
    manager_context: ManagerContext = None,
    manager_kubeconfig: ManagerKubeconfig = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if workloads run or wait in namespaces that are left out with --run-in."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print the objects and what would become of them.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Join a worker cluster to the manager, or renew its credential.

    On the worker: a ServiceAccount that may do what the manager needs and nothing else. On the manager: a Secret with a
    kubeconfig, and a MultiKueueCluster that names it. Then the worker is looked at with the new credential.

    With --run-in the rights are Roles in these namespaces, and what else it may in the cluster is to see which one it is and
    what its ClusterQueues have.

    Run it again at any time: it mends what is missing and renews the credential, and touches nothing that is not ours.

    \b
    Examples:
      multikueue clusters register worker-1 --context kind-worker-1
      multikueue clusters register worker-1 --context kind-worker-1 --server https://10.0.0.5:6443 --config-name all
      multikueue clusters register worker-1 --context kind-worker-1 --run-in team-a --run-in team-b
      multikueue clusters register worker-1 --kubeconfig worker-1.yaml --manager-context prod --dry-run
    """
    if context is None and kubeconfig is None:
        raise typer.BadParameter("say which cluster joins: give --context or --kubeconfig of the worker")
    from multikueue.registration.plan import Registration

    registration = Registration(
        cluster=name,
        namespace=namespace,
        origin=origin,
        run_pods=run_pods,
        view_pods=view_pods,
        run_kinds=tuple(run_kind or ()),
        run_in=tuple(run_in or ()),
    )
    wanted_validity = DEFAULT_VALIDITY if validity is None else validity
    at_worker, at_manager = Target(kubeconfig, context, name), Target(manager_kubeconfig, manager_context)

    async def work() -> Joined | None:
        from multikueue.cli.commands.clusters import inspection
        from multikueue.registration.join import Request, join

        here = await _endpoint(at_worker)
        request = Request(
            registration=registration,
            here=here,
            endpoint=replace(
                here, server=server or here.server, tls_server_name=tls_server_name or here.tls_server_name
            ),
            credential=credential,
            validity=wanted_validity,
            config=config_name,
        )
        async with _side(at_manager, "the manager", dry_run) as manager, _side(at_worker, name, dry_run) as worker:
            await inspection.refuse_narrowing(manager, registration, force=force)
            return await join(request, worker=worker, manager=manager, connect=partial(connect_with, name), say=note)

    joined = run_async(work)
    if joined is None:
        _print_plan(registration, with_user=credential is CredentialKind.CERTIFICATE, output=output)
    else:
        _print_joined(name, joined, wanted_validity, output)


@app.command("list")
def list_clusters(
    namespace: Namespace = "kueue-system",
    _config: SettingsFile = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List the worker clusters and whether the manager is connected to them.

    \b
    Examples:
      multikueue clusters list
      multikueue clusters list -o wide --context prod
    """
    from multikueue.cli.access import worker_clusters

    members = _gather(Target(kubeconfig, context), namespace, secrets=output is Format.WIDE)
    print_items(worker_clusters.listing(members, now()), output)


@app.command("show")
def show_cluster(
    name: Name,
    namespace: Namespace = "kueue-system",
    _config: SettingsFile = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show one worker cluster: connection, credential, and the configs that use it.

    \b
    Examples:
      multikueue clusters show worker-1
    """
    from multikueue.cli.access import worker_clusters

    member = worker_clusters.pick(_gather(Target(kubeconfig, context), namespace), name)
    match output:
        case Format.JSON | Format.YAML:
            print_document(member.item, output)
        case Format.NAME:
            print(f"{worker_clusters.RESOURCE}/{name}")
        case _:
            print_facts(f"MultiKueueCluster {name}", worker_clusters.facts(member, now()))


@app.command("check")
def check_clusters(
    name: OptionalName = None,
    namespace: Namespace = "kueue-system",
    config: SettingsFile = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Look at workers with the manager's own credentials: do they answer, and have they what the manager needs?

    Kinds, of your own too, rights, and the LocalQueues that the manager's queues lead to. Credentials that only the
    manager has (a file, a ClusterProfile) cannot be checked from here; what the manager says of its connection is
    shown all the same. Kinds that are declared in settings are known from --config.

    Ends with 1 if anything is wrong, with 3 if a worker cannot be reached or checked from here.

    \b
    Examples:
      multikueue clusters check
      multikueue clusters check worker-1 -o json
    """
    from multikueue import settings
    from multikueue.cli.access import worker_clusters
    from multikueue.cli.commands.clusters import inspection

    own = settings.load(config).integrations.declared

    async def work() -> list[Report]:
        async with Target(kubeconfig, context).connect() as client:
            members = await worker_clusters.gather(client, namespace)
            kinds = await inspection.declared(client, own)
            chosen = members if name is None else [worker_clusters.pick(members, name)]
            note(f"checking {', '.join(member.name for member in chosen) or 'nothing: there are no clusters'}")
            return await inspection.check_all(client, chosen, connect=connect_with, moment=now(), kinds=kinds)

    reports = run_async(work)
    print_items(inspection.findings_listing(reports), output)
    _end_by(reports)


@app.command("capacity")
def show_capacity(
    queue: Annotated[
        str | None, typer.Argument(help="Name of a ClusterQueue. (default: all)", show_default=False)
    ] = None,
    namespace: Namespace = "kueue-system",
    config: SettingsFile = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what the workers have for each ClusterQueue, and what its nominal quotas would be if they followed that.

    Nothing is changed. Workers are read with the manager's own credentials, as by `check`. The settings in --config say
    reserve and flavors; what is away now counts for nothing, though the manager waits a while before it takes quota away.

    Ends with 3 if a worker cannot be reached or read from here.

    \b
    Examples:
      multikueue clusters capacity
      multikueue clusters capacity team-a -o wide --config multikueue.yaml
    """
    from multikueue import settings
    from multikueue.cli.access import worker_clusters
    from multikueue.cli.commands.clusters import capacity
    from multikueue.controllers.quota.capacity import rules_of

    rules = rules_of(settings.load(config).capacity_follow)

    async def work() -> capacity.Survey:
        async with Target(kubeconfig, context).connect() as client:
            members = await worker_clusters.gather(client, namespace)
            return await capacity.survey(client, members, connect=connect_with, rules=rules, moment=now())

    found = run_async(work).of(queue)
    print_items(capacity.listing(found), output)
    for text in found.remarks:
        note(text)
    if found.unread:
        raise typer.Exit(ExitCode.UNREACHABLE)


@app.command("remove")
def remove_cluster(
    name: Name,
    context: WorkerContext = None,
    kubeconfig: WorkerKubeconfig = None,
    force: Annotated[bool, typer.Option("--force", help="Even if workloads run there or wait there.")] = False,
    origin: Origin = OUR_NAME,
    namespace: Namespace = "kueue-system",
    _config: SettingsFile = None,
    manager_context: ManagerContext = None,
    manager_kubeconfig: ManagerKubeconfig = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would become of what.")] = False,
) -> None:
    """Take a worker cluster out of the manager.

    Removes the MultiKueueCluster and its Secret; with --context or --kubeconfig of the worker also the account and the
    rights there. Only what `register` made: objects of somebody else stay.

    \b
    Examples:
      multikueue clusters remove worker-1
      multikueue clusters remove worker-1 --context kind-worker-1
    """
    from multikueue.registration.plan import Registration

    registration = Registration(cluster=name, namespace=namespace, origin=origin)
    at_worker = Target(kubeconfig, context, name) if context is not None or kubeconfig is not None else None
    at_manager = Target(manager_kubeconfig, manager_context)

    async def work() -> None:
        from multikueue.cli.commands.clusters import inspection
        from multikueue.registration.join import leave

        async with AsyncExitStack() as stack:
            manager = await stack.enter_async_context(_side(at_manager, "the manager", dry_run))
            await inspection.refuse_removal(manager, registration, force=force)
            worker = await stack.enter_async_context(_side(at_worker, name, dry_run)) if at_worker else None
            await leave(registration, manager=manager, worker=worker)

    run_async(work)
    if at_worker is None and not dry_run:
        note(f"The account and the rights on {name} are still there; with --context of the worker they go too.")


# --- connections -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _side(target: Target, where: str, dry_run: bool) -> AsyncIterator[Side]:
    from multikueue.registration.ownership import Side

    async with target.connect() as client:
        yield Side(client=client, where=where, report=lambda step: note(str(step)), dry_run=dry_run)


@asynccontextmanager
async def connect_with(name: str, kubeconfig: bytes) -> AsyncIterator[Client]:
    """A connection to worker `name` by a kubeconfig such as the manager's Secrets hold."""
    from multikueue.kube.client import Client
    from multikueue.kube.credentials import from_kubeconfig

    credentials = await from_kubeconfig(kubeconfig, where=f"the kubeconfig of {name}")
    async with Client.connect(credentials, cluster=name) as client:
        yield client


async def _endpoint(target: Target) -> Endpoint:
    """Where the worker is, as its administrator's kubeconfig says."""
    from multikueue.registration.credentials import Endpoint

    found = await target.credentials()
    if not found.verify:
        raise ConfigurationError(
            f"{found.source}: insecure-skip-tls-verify: the manager verifies its workers, so their authority must be"
            " known: put it into certificate-authority-data"
        )
    return Endpoint(server=found.server, ca=found.authority, tls_server_name=found.tls_server_name)


def _gather(target: Target, namespace: str, *, secrets: bool = True) -> list[Member]:
    from multikueue.cli.access import worker_clusters

    async def work() -> list[Member]:
        async with target.connect() as client:
            return await worker_clusters.gather(client, namespace, secrets=secrets)

    return run_async(work)


# --- words -----------------------------------------------------------------------------------------------------------


def _print_plan(registration: Registration, *, with_user: bool, output: Format) -> None:
    """The manifests of a dry run, first the worker's. The Secret has no data: there is no credential yet."""
    from multikueue.registration.plan import manager_objects, worker_objects

    plan = {"worker": worker_objects(registration, with_user=with_user), "manager": manager_objects(registration)}
    if output is Format.JSON:
        print_document({side: [one.manifest for one in wanted] for side, wanted in plan.items()}, output)
        return
    for side, wanted in plan.items():
        for one in wanted:
            print(f"--- # on the {side}")
            print_document(one.manifest, Format.YAML)


def _print_joined(name: str, joined: Joined, validity: timedelta, output: Format) -> None:
    from multikueue.cli.commands.clusters import inspection

    report = inspection.Report(name, joined.findings)
    print_items(inspection.findings_listing([report]), output)
    note(f"{name} is registered. {_renewal(joined, validity)}")
    _end_by([report])


def _renewal(joined: Joined, validity: timedelta) -> str:
    """When the credential ends and what to do before; whether the worker granted what was asked for."""
    ends = joined.credential.expires
    if ends is None:
        return f"Its {joined.credential.kind} has no end that could be read."
    granted = ends - now() + timedelta(minutes=1)  # the moments since it was granted shall not make 29 days of 30
    less = f" ({since(validity)} were asked for, the worker grants no more)" if granted < 0.9 * validity else ""
    return (
        f"Its {joined.credential.kind} is good until {ends:%Y-%m-%d %H:%M} UTC, for {since(granted)}{less};"
        " run the same command again before that to renew it."
    )


def _end_by(reports: Sequence[Report]) -> None:
    """End the command by the worst that was found: something wrong goes before what is out of reach, or of sight."""
    levels = {finding.level for report in reports for finding in report.findings}
    if "failed" in levels:
        raise typer.Exit(ExitCode.FAILED)
    if levels & {"unreachable", "unchecked"}:
        raise typer.Exit(ExitCode.UNREACHABLE)
