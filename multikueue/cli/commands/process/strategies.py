"""`multikueue strategies`: the installed ones and their parts, a check of one, and what one thinks of each worker."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, run_async
from multikueue.cli.access.groups import group
from multikueue.cli.terminal.exit import CommandFailed, ExitCode
from multikueue.cli.terminal.formats import Format, Output, is_document
from multikueue.cli.terminal.output import Column, PrintedList, heading, note, print_document, print_facts, print_items
from multikueue.cli.workload.lookup import InNamespace, Named, fetch_workloads, pick

if TYPE_CHECKING:
    from multikueue.cli.workload.explanation import ManagerExplanation
    from multikueue.registry import Description, Group
    from multikueue.workload.nomination.choice import WorkerChoice

__all__ = ["app"]

app = group("strategies", "See the installed strategies, and check your own.")

LISTED = (Column("NAME"), Column("KIND"), Column("PACKAGE"), Column("SUMMARY"), Column("OPTIONS", is_wide=True))
KEPT = {True: "ok", False: "failed", None: "not asked"}
CHECKED = (Column("PROMISE"), Column("KEPT"), Column("EXAMPLE", is_wide=True))


@app.command("list")
def list_strategies(output: Output = Format.TABLE) -> None:
    """List the installed strategies, filters and scorers.

    Needs no cluster.

    \b
    Examples:
      multikueue strategies list -o wide
    """
    from multikueue import registry

    found = [_summary(name, group) for group in registry.GROUPS for name in registry.names(group)]
    print_items(
        PrintedList(
            columns=LISTED,
            rows=[_row(item) for item in found],
            items=found,
            resource="",
            nothing="No strategies are installed.",
        ),
        output,
    )


@app.command("show")
def show_strategy(
    name: Annotated[str, typer.Argument(help="Name of an installed strategy, filter or scorer.")],
    output: Output = Format.TABLE,
) -> None:
    """Show what a strategy or a part of one does, and its options.

    \b
    Examples:
      multikueue strategies show incremental
      multikueue strategies show scorer/tiers
    """
    from multikueue import registry

    group, bare = _located(name)
    found = registry.describe(bare, group)
    if is_document(output):
        print_document(_item(found, group), output)
    elif output is Format.NAME:
        print(f"{group.noun}/{found.name}")
    else:
        print_facts(f"{group.noun.capitalize()} {found.name}", [("Package", found.package)])
        heading("What it does")
        for line in found.help.splitlines():
            print(f"  {line}".rstrip())
        heading("Options")
        for option in found.options:
            print(f"  {option}")
        if not found.options:
            print("  none")


@app.command("check")
def check_strategy(
    strategy: Annotated[
        str, typer.Argument(help="Name of an installed strategy, filter or scorer, or module:Class of your own.")
    ],
    option: Annotated[
        list[str] | None, typer.Option("--option", help="An option of it as name=value.", show_default=False)
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Check whether a strategy, or a part, keeps the contract.

    It is asked some hundred questions. Ends with 1 if it breaks a promise.

    \b
    Examples:
      multikueue strategies check incremental --option step=2
      multikueue strategies check my_package:Cheapest --option 'prices={a: 0.5}' -o wide
      multikueue strategies check scorer/tiers --option 'order=[reserved, spot]'
    """
    from multikueue.testing.contract import broken_promises, promises, promises_not_asked

    loaded = _load(strategy, dict(_pair(text) for text in option or ()))
    broken = broken_promises(loaded)
    unknown = promises_not_asked(loaded) if broken else ()
    asked = promises(loaded)
    kept = {promise: None if promise in unknown else True for promise in asked} | dict.fromkeys(broken, False)
    items: list[dict[str, Any]] = [
        {"metadata": {"name": promise}, "kept": kept[promise], "example": broken.get(promise, "")} for promise in asked
    ]
    print_items(
        PrintedList(
            columns=CHECKED,
            rows=[(i["metadata"]["name"], KEPT[i["kept"]], i["example"]) for i in items],
            items=items,
            resource="promise",
            nothing="",
        ),
        output,
    )
    for story in broken.values():
        note(f"error: {story}")
    if broken:
        raise typer.Exit(ExitCode.FAILED)


@app.command("explain")
def explain_choice(
    name: Named,
    namespace: InNamespace = None,
    output: Output = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain which workers a waiting workload goes to.

    For each worker: whether it has a copy, its total, and what each scorer gave it, or which filter refuses it. The manager is
    asked, by its visibility API.

    
    Examples:
      multikueue strategies explain -n team-a my-job
      multikueue strategies explain my-job -o json
    """
    from multikueue.cli.workload.choices import CHOICES, choice_row

    found = run_async(lambda: _explained(ContextChoice(kubeconfig, context), namespace, name))
    if found.choice is None:
        raise CommandFailed(f"{name} does not wait for a worker: {found.answer or 'the manager tells no more'}")
    if found.choice.problem:
        note(f"{found.choice.strategy or 'its strategy'} cannot be asked: {found.choice.problem}")
    elif not is_document(output) and output is not Format.NAME:
        print_facts(f"Strategy {found.choice.strategy}", [("Reason", found.choice.reason)])
    items = [_choice_item(each) for each in found.choice.workers]
    print_items(
        PrintedList(
            columns=CHOICES,
            rows=[choice_row(each) for each in found.choice.workers],
            items=items,
            resource="multikueuecluster.kueue.x-k8s.io",
            nothing="It may use no worker.",
        ),
        output,
    )


async def _explained(target: ContextChoice, namespace: str | None, name: str) -> ManagerExplanation:
    """Raises CommandFailed if the manager does not say."""
    from multikueue.cli.workload.explanation import fetch_explanation
    from multikueue.cli.workload.seen import look_without_workload
    from multikueue.cli.workload.session import WithoutWorkload
    from multikueue.errors import ApiError

    async with target.connect_in(namespace) as (client, where):
        mine = await fetch_workloads(client, where)
        alone = await look_without_workload(client, where, name, mine)
        if alone is not None:
            raise WithoutWorkload(alone)
        _, workload = pick(mine, name, where)
        try:
            return await fetch_explanation(client, workload.key)
        except ApiError as error:
            raise CommandFailed(f"the manager's visibility API does not say (docs/metrics.md): {error}") from None


def _choice_item(found: WorkerChoice) -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(found)
    return {"metadata": {"name": told.pop("worker")}, **told}


def _located(name: str) -> tuple[Group, str]:
    """The group of a name, given as `scorer/tiers` or else by the first group that has it, and the name in there."""
    from multikueue import registry

    noun, _, bare = name.rpartition("/")
    groups = [group for group in registry.GROUPS if group.noun == noun or (not noun and bare in registry.names(group))]
    return (groups[0], bare) if groups else (registry.STRATEGIES, name)


def _summary(name: str, group: Group) -> dict[str, Any]:
    """One that cannot be imported is listed with the error, and hides none of the others."""
    from multikueue import registry
    from multikueue.errors import ConfigurationError

    try:
        return _item(registry.describe(name, group), group)
    except ConfigurationError as error:
        return {
            "kind": group.noun,
            "metadata": {"name": name},
            "package": "",
            "help": f"broken: {error}",
            "options": [],
        }


def _item(found: Description, group: Group) -> dict[str, Any]:
    options = [{"name": each.name, "type": each.type, "default": each.default} for each in found.options]
    return {
        "kind": group.noun,
        "metadata": {"name": found.name},
        "package": found.package,
        "help": found.help,
        "options": options,
    }


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    return (
        item["metadata"]["name"],
        item["kind"],
        item["package"],
        next(iter(item["help"].splitlines()), ""),
        ", ".join(option["name"] for option in item["options"]),
    )


def _load(strategy: str, options: dict[str, Any]) -> Any:
    from multikueue import registry

    if ":" not in strategy:
        group, name = _located(strategy)
        return registry.load(name, options, group)
    sys.path.insert(0, "")  # as `python -m` does: a strategy in development is in the working directory
    return registry.load_from(strategy, options)


def _pair(text: str) -> tuple[str, Any]:
    """`name=value`, the value in YAML."""
    import yaml

    name, found, value = text.partition("=")
    if not found or not name:
        raise CommandFailed(f"--option {text}: expected name=value")
    try:
        return name, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise CommandFailed(f"--option {text}: expected a value in YAML: {' '.join(str(error).split())}") from None
