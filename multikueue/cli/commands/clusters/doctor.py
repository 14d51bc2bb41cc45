"""`multikueue doctor`: the findings of `clusters check` by cause, each with its repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from multikueue.cli.access.connection import ManagerOptions, Namespace, Origin, Yes, now, run_async
from multikueue.cli.access.server_facts import ServerFacts
from multikueue.cli.commands.clusters.sides import MeantClusters, connect_with, end_by
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.output import Column, note, print_document, print_table, say
from multikueue.registration.choices import OUR_NAME

if TYPE_CHECKING:
    from multikueue.answers.findings import Report
    from multikueue.cli.access.worker_clusters import WorkerCluster
    from multikueue.cli.access.worker_repairs import Reach, RepairPlan
    from multikueue.cli.commands.clusters.inspection import Connect
    from multikueue.errors import MultiKueueError
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["doctor", "fixable", "look_at", "repairs"]

FIXED = ("LocalQueue ", "rights on ")
"""The subjects of the failures that `--fix` repairs, by how they begin."""

COLUMNS = (Column("RESULT"), Column("CHECK"), Column("WORKERS"), Column("DETAIL"), Column("REPAIR"))


@dataclass(frozen=True)
class FixOptions:
    """Whether something is repaired, and how."""

    fix: Annotated[
        bool, typer.Option("--fix", help="Make what is missing on workers: namespaces, LocalQueues, rights.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: say what would be made.")] = False
    yes: Yes = False
    origin: Origin = OUR_NAME


@bundled
def doctor(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Names of the workers. (default: all)", show_default=False),
    ] = None,
    selector: Annotated[
        str, typer.Option("--selector", "-l", help="In place of names: all with these labels.", show_default=False)
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Show warnings too.")] = False,
    fixing: FixOptions,
    namespace: Namespace = "kueue-system",
    output: Output = Format.TABLE,
    manager: ManagerOptions,
) -> None:
    """Find what keeps workers from taking jobs, with repairs.

    These are the checks of `multikueue clusters check`, which shows them by worker. What one repair is good for is one row,
    on however many workers it is.

    With --fix it shows what can be made on workers without taking anything away, asks, makes it, and looks again: namespaces
    and LocalQueues that are missing, and rights of the manager's account. That takes rights of your own: those of your
    context with the name of the worker.

    Ends with 1 if anything is wrong, with 3 if a worker cannot be reached or checked from here.

    \b
    Examples:
      multikueue doctor
      multikueue doctor --all -l zone=eu
      multikueue doctor --fix --dry-run
      multikueue doctor -o json
    """
    from multikueue.answers.findings import diagnoses
    from multikueue.answers.obstacle import names as at_most_five
    from multikueue.cli.commands.clusters import inspection

    meant = MeantClusters(names=names, selector=selector)
    reports, failures = run_async(lambda: look_at(meant, namespace, manager))
    if fixing.fix:
        unmade = run_async(lambda: _fix(meant, namespace, manager, reports, fixing, output))
        failures += unmade
        if not fixing.dry_run:
            reports, _ = run_async(lambda: look_at(meant, namespace, manager))
    found = diagnoses(reports)
    shown = [each for each in found if everything or each.finding.level != "warning"]
    if is_document(output):
        items = [{**inspection.item_of(each.finding), "workers": list(each.clusters)} for each in shown]
        print_document({"summary": inspection.summary(reports), "problems": items}, output)
    else:
        print(inspection.summary(reports))
        told = ((each.finding, at_most_five(each.clusters)) for each in shown)
        rows = [(one.level, one.cause[1], workers, one.detail, one.repair) for one, workers in told]
        if rows:
            print()
            print_table(COLUMNS, rows, output)
        if len(shown) < len(found):
            note(f"{len(found) - len(shown)} warnings are not shown: --all")
    if failures:
        raise ExceptionGroup("not checked", failures)
    end_by(reports)


async def look_at(
    meant: MeantClusters, namespace: str, manager: ManagerOptions
) -> tuple[list[Report], list[MultiKueueError]]:
    """The reports of the manager cluster and of those that are meant, or of all; and the names that no cluster has. Raises
    CommandFailed if there is nothing to look at."""
    from multikueue.cli.access.manager_settings import load_settings
    from multikueue.cli.commands.clusters import inspection

    settings, devices, flavors = load_settings(manager.config), None, None
    kinds = inspection.declared(settings.integrations.declared) if settings is not None else ()
    if settings is not None:
        from multikueue.manager.engine import device_rules

        devices, flavors = device_rules(settings.quota), settings.capacity_follow.flavors
    facts = {"": ServerFacts()}
    async with manager.target.connect(facts[""]) as client:
        found, failures = await meant.find(client, namespace)
        if not found and not failures:
            raise CommandFailed("there are no clusters to check: multikueue clusters register --help")
        note(f"checking {', '.join(member.name for member in found)}")
        reports = await inspection.check_all(
            client,
            found,
            connect=partial(connect_with, facts=facts),
            moment=now(),
            kinds=kinds,
            devices=devices,
            flavors=flavors,
            settings=settings,
            facts=facts,
        )
        roles = settings.roles if settings is not None else None
        return [*await inspection.check_manager(client, now(), roles), *reports], failures


async def _fix(
    meant: MeantClusters,
    namespace: str,
    manager: ManagerOptions,
    reports: Sequence[Report],
    fixing: FixOptions,
    output: Form,
) -> list[MultiKueueError]:
    """Make what the reports say is missing, after a yes; what could not be made."""
    from multikueue.cli.access.worker_access import WorkerAccess
    from multikueue.cli.access.worker_repairs import administrators, make, print_plans

    async with manager.target.connect() as client:
        found, _ = await meant.find(client, namespace)
        reach = administrators(client, WorkerAccess(manager=manager.target, namespace=namespace))
        plans, failures = await repairs(client, fixable(found, reports), reach, connect_with, fixing.origin, namespace)
        if not is_document(output):
            print_plans(plans, output)
        failures += [problem for plan in plans for problem in plan.problems]
        lacking = [plan for plan in plans if plan.wanted]
        if fixing.dry_run or not lacking:
            note("Nothing is changed." if lacking else "There is nothing to fix here.")
            return failures
        if not fixing.yes:
            typer.confirm("Go on?", abort=True, err=True)
        _, refused = await make(lacking, reach, note if is_document(output) else say)
        return [*failures, *refused]


def fixable(members: Sequence[WorkerCluster], reports: Sequence[Report]) -> list[WorkerCluster]:
    """The workers with a failure that `repairs` may know something against."""
    failing = {
        report.cluster
        for report in reports
        for finding in report.findings
        if finding.level == "failed" and finding.subject.startswith(FIXED)
    }
    return [member for member in members if member.name in failing]


async def repairs(
    client: ClusterClient, members: Sequence[WorkerCluster], reach: Reach, connect: Connect, origin: str, namespace: str
) -> tuple[list[RepairPlan], list[MultiKueueError]]:
    """What is to be made on these workers: rights that the manager's account lacks, then queues; and what failed. `connect`:
    with that account. `namespace`: where it is there."""
    from multikueue.cli.access.worker_repairs import QueueWish, look_for_queues
    from multikueue.cli.terminal.progress import each
    from multikueue.registration.plan import IDENTITY, RIGHTS, Registration
    from multikueue.registration.preflight import missing_rights
    from multikueue.registration.repairs import role_repairs
    from multikueue.store.workers.watch_scope import EVERYWHERE, namespaces_of

    plans, failures = await look_for_queues(client, members, reach, QueueWish(origin))

    async def with_rights(plan: RepairPlan) -> RepairPlan:
        offered = namespaces_of(plan.member.cluster)
        async with connect(plan.name, plan.member.kubeconfig) as account:
            missing = await missing_rights(account, (IDENTITY, *RIGHTS), namespaces=offered)
        if not any(missing.values()):
            return plan
        run_in = () if offered == EVERYWHERE else offered
        registration = Registration(cluster=plan.name, namespace=namespace, origin=origin, run_in=run_in)
        async with reach(plan.member) as worker:
            roles, refused = await role_repairs(worker.client, registration, missing)
        return replace(plan, wanted=(*roles, *plan.wanted), refused={**refused, **plan.refused})

    whole, unread = await each("comparing rights on", plans, with_rights)
    return whole, [*failures, *unread]
