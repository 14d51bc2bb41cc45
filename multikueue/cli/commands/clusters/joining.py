"""`multikueue clusters register`, `rotate` and `remove`: one file, the life of a worker's account."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, Namespace, Yes, now, run_async
from multikueue.cli.commands.clusters.discovery import Inventory, candidates
from multikueue.cli.commands.clusters.sides import (
    WORKER,
    MeantClusters,
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
from multikueue.cli.terminal.progress import conclude, each
from multikueue.errors import ConfigurationError, MultiKueueError
from multikueue.registration.choices import DEFAULT_VALIDITY, OUR_NAME, CredentialKind

if TYPE_CHECKING:
    from multikueue.answers.findings import Finding, Report
    from multikueue.cli.access.worker_clusters import WorkerCluster
    from multikueue.kube.client import Client
    from multikueue.registration.credentials import Endpoint
    from multikueue.registration.discovery import PossibleWorker
    from multikueue.registration.join import Joined, Request
    from multikueue.registration.ownership import Side
    from multikueue.registration.plan import Registration

__all__ = ["register", "remove_clusters", "rotate"]


@dataclass(frozen=True)
class JoiningWorker:
    """The options that lead to a worker, or to several: ours now, and the manager's from then on."""

    inventory: Annotated[
        Inventory | None,
        typer.Option(
            "--from",
            help="Several at once: by contexts of their names in your kubeconfig, also for the ManagedClusters of OCM, or by"
            " ClusterProfiles, which take no credentials of yours. (default for several names: kubeconfig)",
            show_default=False,
        ),
    ] = None
    by_agents: Annotated[
        bool,
        typer.Option(
            "--managed-accounts",
            help="With --from ocm: make a ManagedServiceAccount, and a ManifestWork with its rights, for each on the hub. Takes"
            " no context of theirs; a fleet with that service_account does the rest.",
        ),
    ] = False
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
    make_queues: Annotated[
        bool,
        typer.Option(
            "--make-queues",
            help="The manager may also make LocalQueues and namespaces, for `fleet.queues: keep`. Without it, not any more.",
            rich_help_panel=WORKER,
        ),
    ] = False
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if workloads run or wait in namespaces that are left out with --run-in."),
    ] = False


@bundled
def register(
    *,
    meant: MeantClusters,
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
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print the objects and what would happen to them.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Register worker clusters.

    On the worker: a ServiceAccount that may do what the manager needs and nothing else. On the manager: a Secret with a
    kubeconfig, and a MultiKueueCluster that names it. Then the worker is looked at with that credential.

    With --framework, once for each, the manager may make jobs of these kinds only, by the names of Kueue's integrations
    (jobset.x-k8s.io/jobset, ray.io/rayjob, ...) and not all that it knows. Jobs of other kinds go elsewhere.

    With --run-in the rights are Roles in these namespaces, and what else it may in the cluster is to see which one it is and
    what its ClusterQueues have.

    Run it again at any time: it adds what is missing, and touches nothing that is not ours. A credential that is good for a
    while yet is kept, unless --validity asks for a new one. Of several workers, one that fails keeps no other from it.

    \b
    Examples:
      multikueue clusters register worker-1 --context kind-worker-1
      multikueue clusters register worker-1 --context kind-worker-1 --server https://10.0.0.5:6443 --config-name all
      multikueue clusters register worker-1 --context kind-worker-1 --run-in team-a --run-in team-b
      multikueue clusters register worker-1 --kubeconfig worker-1.yaml --manager-context prod --dry-run
      multikueue clusters register worker-1 worker-2 --config-name all
      multikueue clusters register --from ocm -l region=eu-west --config-name eu
      multikueue clusters register --from ocm --all --managed-accounts --dry-run
    """
    has_worker = joining.context is not None or joining.kubeconfig is not None
    is_alone = joining.inventory is None and len(meant.names or ()) == 1
    if is_alone and not has_worker:
        raise typer.BadParameter("say which cluster joins: give --context or --kubeconfig of the worker")
    if not is_alone:
        meant.refuse_unclear()
        if joining.context or joining.server or joining.tls_server_name:
            raise typer.BadParameter(
                "--context, --server and --tls-server-name are those of one worker, without --from"
            )
    if joining.by_agents and (joining.inventory is not Inventory.OCM or rights.run_in or config_name):
        raise typer.BadParameter("--managed-accounts takes --from ocm, and neither --run-in nor --config-name")
    wanted_validity = DEFAULT_VALIDITY if joining.validity is None else joining.validity

    def registration(name: str) -> Registration:
        from multikueue.registration.plan import Registration

        return Registration(
            cluster=name,
            namespace=at.namespace,
            origin=origin,
            may_run_pods=rights.run_pods,
            frameworks=tuple(rights.framework or ()),
            may_view_pods=rights.view_pods,
            may_make_queues=rights.make_queues,
            run_kinds=tuple(rights.run_kind or ()),
            run_in=tuple(rights.run_in or ()),
            profile=name if joining.inventory is Inventory.CLUSTERPROFILES else "",
        )

    async def register_one(manager: Side, name: str) -> tuple[str, Joined | None]:
        from multikueue.cli.commands.clusters import inspection
        from multikueue.registration.join import Request, adopt, grant, join

        wanted = registration(name)
        if joining.by_agents:
            await grant(wanted, manager)
            return name, None
        await inspection.refuse_narrowing(manager, wanted, is_forced=rights.force)
        if wanted.profile:
            await adopt(wanted, config_name, manager)
            return name, None
        at_worker = ContextChoice(joining.kubeconfig, joining.context if is_alone else name, name)
        here = await _endpoint(at_worker)
        request = Request(
            registration=wanted,
            here=here,
            endpoint=replace(
                here,
                server=joining.server or here.server,
                tls_server_name=joining.tls_server_name or here.tls_server_name,
            ),
            credential=joining.credential,
            validity=wanted_validity,
            config=config_name,
            moment=now() if joining.validity is None else None,
        )
        async with side(at_worker, name, dry_run, is_terse=not is_alone) as worker:
            joined = await join(request, worker=worker, manager=manager, connect=partial(connect_with, name), say=note)
            return name, joined and replace(joined, findings=(*joined.findings, *_untried(request)))

    async def work() -> list[tuple[str, Joined | None]]:
        async with side(at.target, "the manager", dry_run, is_terse=not is_alone) as manager:
            names, failures = meant.names or [], list[MultiKueueError]()
            if not is_alone:
                found = await candidates(
                    joining.inventory or Inventory.KUBECONFIG,
                    manager.client,
                    at,
                    joining.kubeconfig,
                    meant.selector,
                    by_agents=joining.by_agents,
                )
                names, failures = _chosen(found, meant)
                if names and not (meant.names or yes or dry_run):
                    typer.confirm(f"Register {', '.join(names)}?", abort=True, err=True)
            done, failed = await each("registering", names, lambda name: register_one(manager, name))
            for name, _ in done if dry_run else ():
                should_name_user = joining.credential is CredentialKind.CERTIFICATE
                _print_plan(
                    registration(name), should_name_user=should_name_user, output=output, by_agents=joining.by_agents
                )
            _print_findings(done, output, is_alone=is_alone)
            if done and joining.by_agents:
                account = registration(done[0][0]).account.name
                note(
                    f"The agents of the hub make the accounts. They join by the setting fleet.service_account: {account}."
                )
            for name, joined in () if dry_run or joining.by_agents else done:
                note(f"{name} is registered. {_renewal(joined, wanted_validity) if joined else ''}".rstrip())
            conclude("would be registered" if dry_run else "registered", len(done), [*failures, *failed])
            return done

    reports = _reports(run_async(work))
    end_by(reports)


def _chosen(found: Sequence[PossibleWorker], meant: MeantClusters) -> tuple[list[str], list[MultiKueueError]]:
    """The names of those that are meant and can be registered, and why others that were named cannot. What is not named and
    cannot be one is left out with a note."""
    from multikueue.cli.terminal.exit import CommandFailed
    from multikueue.cli.terminal.nearest import there_are

    known = {candidate.name: candidate for candidate in found}
    names, failures = list[str](), list[MultiKueueError]()
    for name in dict.fromkeys(meant.names or known):
        if name not in known:
            failures.append(CommandFailed(f"there is no cluster {name!r} to register; {there_are(name, known)}"))
        elif not known[name].refusal:
            names.append(name)
        elif meant.names:
            failures.append(CommandFailed(f"{name} cannot be registered: {known[name].refusal}"))
        else:
            note(f"{name} is left out: {known[name].refusal}")
    if not names and not failures:
        note("There is nothing to register: `multikueue clusters discover` says why.")
    return names, failures


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


def _print_plan(registration: Registration, *, should_name_user: bool, output: Form, by_agents: bool) -> None:
    """The manifests of a dry run, first the worker's. The Secret has no data: there is no credential yet."""
    from multikueue.registration.accounts import hub_objects
    from multikueue.registration.plan import manager_objects, worker_objects

    plan = {"worker": worker_objects(registration, has_user=should_name_user), "manager": manager_objects(registration)}
    if by_agents:
        plan = {"manager": hub_objects(registration)}
    if is_document(output) and output is not Format.YAML:
        print_document({where: [one.manifest for one in wanted] for where, wanted in plan.items()}, output)
        return
    for where, wanted in plan.items():
        for one in wanted:
            print(f"--- # on the {where}")
            print_document(one.manifest, Format.YAML)


def _reports(done: Sequence[tuple[str, Joined | None]]) -> list[Report]:
    from multikueue.answers.findings import Report

    return [Report(name, joined.findings) for name, joined in done if joined is not None]


def _print_findings(done: Sequence[tuple[str, Joined | None]], output: Form, *, is_alone: bool) -> None:
    """All that was found of one worker; of several what is not as it should be, unless a program reads it."""
    from multikueue.cli.commands.clusters.inspection import findings_listing

    reports = _reports(done)
    if not is_alone and output in (Format.TABLE, Format.WIDE):
        reports = [
            replace(report, findings=tuple(each for each in report.findings if each.level != "ok"))
            for report in reports
        ]
    if any(report.findings for report in reports):
        print_items(findings_listing(reports), output)


def _untried(request: Request) -> list[Finding]:
    """A warning if the manager is to use another URL of the worker than the checks did."""
    from multikueue.answers.findings import Finding

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
    renews = "the manager renews it" if joined.credential.kind == "token" else "run the same command again to renew it"
    until = f"is good until {ends:%Y-%m-%d %H:%M} UTC, for {since(granted)}{less}"
    return f"Its {joined.credential.kind} {until}; {renews} before that."


@bundled
def rotate(*, meant: MeantClusters, namespace: Namespace = "kueue-system", manager: ManagerOptions) -> None:
    """Give workers a new token now.

    It is asked for with the one in the Secret, for as long as that was granted for, and put in its place. A running manager
    tries it before it uses it. The one before stays valid until its end. The manager does the same by itself once a third of
    the time is left.

    \b
    Examples:
      multikueue clusters rotate worker-1
      multikueue clusters rotate --all
    """
    meant.refuse_unclear()

    async def work() -> None:
        from multikueue.cli.terminal.output import say

        async with manager.target.connect() as client:
            found, unknown = await meant.find(client, namespace)

            async def one(worker: WorkerCluster) -> None:
                await _rotate(client, worker, namespace)
                say(f"{worker.name} rotated")

            done, failures = await each("rotating", found, one)
            conclude("rotated", len(done), [*unknown, *failures])

    run_async(work)


async def _rotate(manager: Client, worker: WorkerCluster, namespace: str) -> None:
    """Raises CommandFailed for a worker whose credential is in no Secret, or is no token that can be renewed."""
    from multikueue.api.kinds import SECRETS
    from multikueue.api.meta import ObjectKey
    from multikueue.cli.terminal.exit import CommandFailed
    from multikueue.errors import Forbidden
    from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig
    from multikueue.kube.renewal import renew

    name, source = worker.name, worker.cluster.spec.cluster_source.kube_config
    if worker.problem or source is None:
        raise CommandFailed(f"{name} cannot be rotated: {worker.problem}")
    check_worker_kubeconfig(worker.kubeconfig)
    secret = await manager.get(SECRETS, ObjectKey(namespace, source.location))
    try:
        async with connect_with(name, worker.kubeconfig) as client:
            is_renewed = await renew(client, manager, secret)
    except Forbidden as error:
        why = f"{name} does not let its token be renewed: {error.message}; register it again"
        raise CommandFailed(why) from error
    if not is_renewed:
        raise CommandFailed(f"{name} has no token that can be renewed: register it again, with --validity")


@bundled
def remove_clusters(
    *,
    meant: MeantClusters,
    context: WorkerContext = None,
    kubeconfig: WorkerKubeconfig = None,
    force: Annotated[bool, typer.Option("--force", help="Even if workloads run there or wait there.")] = False,
    yes: Yes = False,
    origin: Origin = OUR_NAME,
    at: RegistrarOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; print what would happen.")] = False,
) -> None:
    """Unregister worker clusters.

    Removes the MultiKueueCluster and its Secret; with --context or --kubeconfig of the worker also the account and the
    rights there. Only what `register` made: other objects stay, and so do finished jobs that are kept for their
    logs, with the command that removes them.

    \b
    Examples:
      multikueue clusters remove worker-1
      multikueue clusters remove worker-1 --context kind-worker-1
      multikueue clusters remove -l zone=eu --yes
    """
    meant.refuse_unclear()
    has_worker = context is not None or kubeconfig is not None
    if has_worker and len(meant.names or ()) != 1:
        raise typer.BadParameter("--context and --kubeconfig are those of one worker: remove it by its name, alone")

    async def work() -> None:
        from multikueue.cli.commands.clusters import inspection
        from multikueue.registration.join import leave
        from multikueue.registration.plan import Registration

        async with side(at.target, "the manager", dry_run) as manager:
            names = [*dict.fromkeys(meant.names or ())]
            if not names:
                found, _ = await meant.find(manager.client, should_read_secrets=False)
                names = [member.name for member in found]
                if names and not (yes or dry_run):
                    typer.confirm(f"Remove {', '.join(names)}?", abort=True, err=True)

            async def remove(name: str) -> None:
                registration = Registration(cluster=name, namespace=at.namespace, origin=origin)
                await inspection.refuse_removal(manager, registration, is_forced=force)
                stays = await inspection.what_stays(manager, registration, context or "")
                async with AsyncExitStack() as stack:
                    at_worker = side(ContextChoice(kubeconfig, context, name), name, dry_run)
                    worker = await stack.enter_async_context(at_worker) if has_worker else None
                    await leave(registration, manager=manager, worker=worker)
                if stays:
                    note(stays)
                if not (has_worker or dry_run):
                    note(
                        f"The account and the rights on {name} are still there; with --context of the worker they go too."
                    )

            done, failures = await each("removing", names, remove)
        conclude("would be removed" if dry_run else "removed", len(done), failures)

    run_async(work)
