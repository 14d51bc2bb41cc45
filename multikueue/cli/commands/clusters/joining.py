"""`multikueue clusters register` and `remove`: a worker joins the manager, gets a new credential, or is taken out."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from multikueue.cli.access.connection import ContextChoice, now, run_async
from multikueue.cli.commands.clusters.sides import (
    WORKER,
    Name,
    Origin,
    RegistrarOptions,
    WorkerContext,
    WorkerKubeconfig,
    connect_with,
    end_by,
    side,
)
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.durations import parse_duration
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.output import note, print_document, print_items, since
from multikueue.errors import ConfigurationError
from multikueue.registration.choices import DEFAULT_VALIDITY, OUR_NAME, CredentialKind

if TYPE_CHECKING:
    from multikueue.registration.credentials import Endpoint
    from multikueue.registration.join import Joined, Request
    from multikueue.registration.plan import Registration
    from multikueue.registration.preflight import Finding

__all__ = ["register", "remove_cluster"]


@dataclass(frozen=True)
class JoiningWorker:
    """The options that lead to a worker: ours now, and the manager's from then on."""

    context: WorkerContext = None
    kubeconfig: WorkerKubeconfig = None
    server: Annotated[
        str,
        typer.Option(
            help="URL of the worker as the manager reaches it. (default: the one in the kubeconfig)",
            show_default=False,
            rich_help_panel=WORKER,
        ),
    ] = ""
    tls_server_name: Annotated[
        str,
        typer.Option(
            help="Name in the worker's certificate, if it is not the host of --server.",
            show_default=False,
            rich_help_panel=WORKER,
        ),
    ] = ""
    credential: Annotated[
        CredentialKind,
        typer.Option(help="auto: a token, or a certificate if there is none.", rich_help_panel=WORKER),
    ] = CredentialKind.AUTO
    validity: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="How long the credential should be good for; the worker may grant less. (default: 30d)",
            show_default=False,
            rich_help_panel=WORKER,
        ),
    ] = None


@dataclass(frozen=True)
class RightsOptions:
    """The options that say what the manager may do on a worker."""

    framework: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Make Jobs and this kind only. (default: all but Pods)",
            show_default=False,
            rich_help_panel=WORKER,
        ),
    ] = None
    run_kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PLURAL.GROUP",
            help="The manager may also make jobs of this declared or external kind. Once for each; without it, not any more.",
            show_default=False,
            rich_help_panel=WORKER,
        ),
    ] = None
    run_in: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMESPACE",
            help="Rights in this namespace of the worker only: jobs of others are not sent there. Once for each; without it,"
            " in all.",
            show_default=False,
            rich_help_panel=WORKER,
        ),
    ] = None
    run_pods: Annotated[
        bool,
        typer.Option(
            "--run-pods",
            help="The manager may also make Pods, for the integrations `pod` and `deployment`. Without it, not any more.",
            rich_help_panel=WORKER,
        ),
    ] = False
    view_pods: Annotated[
        bool,
        typer.Option(
            "--view-pods",
            help="The credential may also read pods, their logs and events, for `workloads logs`. Without it, not any more.",
            rich_help_panel=WORKER,
        ),
    ] = False


@bundled
def register(
    name: Annotated[str, typer.Argument(help="Name the worker gets on the manager.", show_default=False)],
    *,
    joining: JoiningWorker,
    rights: RightsOptions,
    origin: Origin = OUR_NAME,
    config_name: Annotated[
        str,
        typer.Option(
            help="Also put the worker into this MultiKueueConfig; created if missing.",
            show_default=False,
            rich_help_panel="Manager cluster",
        ),
    ] = "",
    at: RegistrarOptions,
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if workloads run or wait in namespaces that are left out with --run-in."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print the objects and what would become of them.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Join a worker to the manager, or renew its credential.

    On the worker: a ServiceAccount that may do what the manager needs and nothing else. On the manager: a Secret with a
    kubeconfig, and a MultiKueueCluster that names it. Then the worker is looked at with the new credential.

    With --framework, once for each, the manager may make jobs of these kinds only, by the names of Kueue's integrations
    (jobset.x-k8s.io/jobset, ray.io/rayjob, ...) and not all that it knows. Jobs of other kinds go elsewhere.

    With --run-in the rights are Roles in these namespaces, and what else it may in the cluster is to see which one it is and
    what its ClusterQueues have.

    Run it again at any time: it adds what is missing and renews the credential, and touches nothing that is not ours.

    \b
    Examples:
      multikueue clusters register worker-1 --context kind-worker-1
      multikueue clusters register worker-1 --context kind-worker-1 --server https://10.0.0.5:6443 --config-name all
      multikueue clusters register worker-1 --context kind-worker-1 --run-in team-a --run-in team-b
      multikueue clusters register worker-1 --kubeconfig worker-1.yaml --manager-context prod --dry-run
    """
    if joining.context is None and joining.kubeconfig is None:
        raise typer.BadParameter("say which cluster joins: give --context or --kubeconfig of the worker")
    from multikueue.registration.plan import Registration

    registration = Registration(
        cluster=name,
        namespace=at.namespace,
        origin=origin,
        may_run_pods=rights.run_pods,
        frameworks=tuple(rights.framework or ()),
        may_view_pods=rights.view_pods,
        run_kinds=tuple(rights.run_kind or ()),
        run_in=tuple(rights.run_in or ()),
    )
    wanted_validity = DEFAULT_VALIDITY if joining.validity is None else joining.validity
    at_worker, at_manager = ContextChoice(joining.kubeconfig, joining.context, name), at.target

    async def work() -> Joined | None:
        from multikueue.cli.commands.clusters import inspection
        from multikueue.cli.terminal.progress import spinner
        from multikueue.registration.join import Request, join

        here = await _endpoint(at_worker)
        request = Request(
            registration=registration,
            here=here,
            endpoint=replace(
                here,
                server=joining.server or here.server,
                tls_server_name=joining.tls_server_name or here.tls_server_name,
            ),
            credential=joining.credential,
            validity=wanted_validity,
            config=config_name,
        )
        async with side(at_manager, "the manager", dry_run) as manager, side(at_worker, name, dry_run) as worker:
            await inspection.refuse_narrowing(manager, registration, is_forced=force)
            async with spinner(f"registering {name}"):
                joined = await join(
                    request, worker=worker, manager=manager, connect=partial(connect_with, name), say=note
                )
            return joined and replace(joined, findings=(*joined.findings, *_untried(request)))

    joined = run_async(work)
    if joined is None:
        _print_plan(registration, should_name_user=joining.credential is CredentialKind.CERTIFICATE, output=output)
    else:
        _print_joined(name, joined, wanted_validity, output)


async def _endpoint(target: ContextChoice) -> Endpoint:
    """URL, authority and TLS name of the worker, from its administrator's kubeconfig."""
    from multikueue.registration.credentials import Endpoint

    found = await target.credentials()
    if not found.should_verify:
        raise ConfigurationError(
            f"{found.source}: insecure-skip-tls-verify: the manager verifies its workers, so their authority must be"
            " known: put it into certificate-authority-data"
        )
    return Endpoint(server=found.server, ca=found.authority, tls_server_name=found.tls_server_name)


def _print_plan(registration: Registration, *, should_name_user: bool, output: Form) -> None:
    """The manifests of a dry run, first the worker's. The Secret has no data: there is no credential yet."""
    from multikueue.registration.plan import manager_objects, worker_objects

    plan = {"worker": worker_objects(registration, has_user=should_name_user), "manager": manager_objects(registration)}
    if is_document(output) and output is not Format.YAML:
        print_document({where: [one.manifest for one in wanted] for where, wanted in plan.items()}, output)
        return
    for where, wanted in plan.items():
        for one in wanted:
            print(f"--- # on the {where}")
            print_document(one.manifest, Format.YAML)


def _print_joined(name: str, joined: Joined, validity: timedelta, output: Form) -> None:
    from multikueue.cli.commands.clusters import inspection

    report = inspection.Report(name, joined.findings)
    print_items(inspection.findings_listing([report]), output)
    note(f"{name} is registered. {_renewal(joined, validity)}")
    end_by([report])


def _untried(request: Request) -> list[Finding]:
    """A warning if the manager is to use another URL of the worker than the checks did."""
    from multikueue.registration.preflight import Finding

    server = request.endpoint.server
    if server == request.here.server:
        return []
    look = f"`multikueue clusters show {request.registration.cluster}` says whether the manager gets there"
    return [Finding("warning", "manager's way", f"{server} was not tried from here: {look}")]


def _renewal(joined: Joined, validity: timedelta) -> str:
    """Expiry of the credential, the command that renews it, and whether the worker granted less than requested."""
    ends = joined.credential.expires
    if ends is None:
        from multikueue.cli.access.worker_clusters import NO_END

        return f"Its {joined.credential.kind} has {NO_END}."
    granted = ends - now() + timedelta(minutes=1)  # the seconds since the grant must not turn 30 days into 29
    less = f" ({since(validity)} were asked for, the worker grants no more)" if granted < 0.9 * validity else ""
    return (
        f"Its {joined.credential.kind} is good until {ends:%Y-%m-%d %H:%M} UTC, for {since(granted)}{less};"
        " run the same command again before that to renew it."
    )


@bundled
def remove_cluster(
    name: Name,
    context: WorkerContext = None,
    kubeconfig: WorkerKubeconfig = None,
    force: Annotated[bool, typer.Option("--force", help="Even if workloads run there or wait there.")] = False,
    origin: Origin = OUR_NAME,
    *,
    at: RegistrarOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would become of what.")] = False,
) -> None:
    """Take a worker cluster out of the manager.

    Removes the MultiKueueCluster and its Secret; with --context or --kubeconfig of the worker also the account and the
    rights there. Only what `register` made: objects of somebody else stay, and so do finished jobs that are kept for their
    logs, with the command that removes them.

    \b
    Examples:
      multikueue clusters remove worker-1
      multikueue clusters remove worker-1 --context kind-worker-1
    """
    from multikueue.registration.plan import Registration

    registration = Registration(cluster=name, namespace=at.namespace, origin=origin)
    at_worker = ContextChoice(kubeconfig, context, name) if context is not None or kubeconfig is not None else None
    at_manager = at.target

    async def work() -> None:
        from multikueue.cli.commands.clusters import inspection
        from multikueue.cli.terminal.progress import spinner
        from multikueue.registration.join import leave

        async with AsyncExitStack() as stack:
            manager = await stack.enter_async_context(side(at_manager, "the manager", dry_run))
            await inspection.refuse_removal(manager, registration, is_forced=force)
            stays = await inspection.what_stays(manager, registration, context or "")
            worker = await stack.enter_async_context(side(at_worker, name, dry_run)) if at_worker else None
            async with spinner(f"removing {name}"):
                await leave(registration, manager=manager, worker=worker)
            if stays:
                note(stays)

    run_async(work)
    if at_worker is None and not dry_run:
        note(f"The account and the rights on {name} are still there; with --context of the worker they go too.")
