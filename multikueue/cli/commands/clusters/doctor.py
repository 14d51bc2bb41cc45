"""`multikueue doctor`: the findings of `clusters check` by cause, each with its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import ManagerOptions, Namespace, now, run_async
from multikueue.cli.commands.clusters.sides import MeantClusters, connect_with, end_by
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.formats import Format, Output, is_document
from multikueue.cli.terminal.output import Column, note, print_document, print_table

if TYPE_CHECKING:
    from multikueue.cli.commands.clusters.inspection import Report
    from multikueue.errors import MultiKueueError

__all__ = ["doctor", "look_at"]

COLUMNS = (Column("RESULT"), Column("CHECK"), Column("WORKERS"), Column("DETAIL"), Column("REPAIR"))


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
    namespace: Namespace = "kueue-system",
    output: Output = Format.TABLE,
    manager: ManagerOptions,
) -> None:
    """Find what keeps workers from taking jobs, with repairs.

    These are the checks of `multikueue clusters check`, which shows them by worker. What one repair is good for is one row,
    on however many workers it is.

    Ends with 1 if anything is wrong, with 3 if a worker cannot be reached or checked from here.

    \b
    Examples:
      multikueue doctor
      multikueue doctor --all -l zone=eu
      multikueue doctor -o json
    """
    from multikueue.answers.obstacle import names as at_most_five
    from multikueue.cli.commands.clusters import inspection

    meant = MeantClusters(names=names, selector=selector)
    reports, failures = run_async(lambda: look_at(meant, namespace, manager))
    found = inspection.diagnoses(reports)
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
    async with manager.target.connect() as client:
        found, failures = await meant.find(client, namespace)
        if not found and not failures:
            raise CommandFailed("there are no clusters to check: multikueue clusters register --help")
        note(f"checking {', '.join(member.name for member in found)}")
        reports = await inspection.check_all(
            client, found, connect=connect_with, moment=now(), kinds=kinds, devices=devices, flavors=flavors
        )
        return [*await inspection.check_manager(client), *reports], failures
