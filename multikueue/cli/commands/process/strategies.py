"""`multikueue strategies`: the installed ones, their options, and a check of one against the contract."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.access.groups import group
from multikueue.cli.terminal.exit import CommandFailed, ExitCode
from multikueue.cli.terminal.formats import Format, Output, is_document
from multikueue.cli.terminal.output import Column, PrintedList, heading, note, print_document, print_facts, print_items

if TYPE_CHECKING:
    from multikueue.registry import Description
    from multikueue.strategy import Strategy

__all__ = ["app"]

app = group("strategies", "See the installed strategies, and check your own.")

LISTED = (Column("NAME"), Column("PACKAGE"), Column("SUMMARY"), Column("OPTIONS", is_wide=True))
KEPT = {True: "ok", False: "failed", None: "not asked"}
CHECKED = (Column("PROMISE"), Column("KEPT"), Column("EXAMPLE", is_wide=True))


@app.command("list")
def list_strategies(output: Output = Format.TABLE) -> None:
    """List the installed strategies. Needs no cluster.

    \b
    Examples:
      multikueue strategies list -o wide
    """
    found = [_summary(name) for name in _names()]
    print_items(
        PrintedList(
            columns=LISTED,
            rows=[_row(item) for item in found],
            items=found,
            resource="strategy",
            nothing="No strategies are installed.",
        ),
        output,
    )


@app.command("show")
def show_strategy(
    name: Annotated[str, typer.Argument(help="Name of an installed strategy.")], output: Output = Format.TABLE
) -> None:
    """Show what a strategy does, and its options.

    \b
    Examples:
      multikueue strategies show incremental
    """
    from multikueue import registry

    found = registry.describe(name)
    if is_document(output):
        print_document(_item(found), output)
    elif output is Format.NAME:
        print(f"strategy/{found.name}")
    else:
        print_facts(f"Strategy {found.name}", [("Package", found.package)])
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
    strategy: Annotated[str, typer.Argument(help="Name of an installed strategy, or module:Class of your own.")],
    option: Annotated[
        list[str] | None, typer.Option("--option", help="An option of the strategy as name=value.", show_default=False)
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Check whether a strategy keeps the contract.

    It is asked some hundred questions. Ends with 1 if it breaks a promise.

    \b
    Examples:
      multikueue strategies check incremental --option step=2
      multikueue strategies check my_package:Cheapest --option 'prices={a: 0.5}' -o wide
    """
    from multikueue.testing.contract import PROMISES, broken_promises, promises_not_asked

    loaded = _load(strategy, dict(_pair(text) for text in option or ()))
    broken = broken_promises(loaded)
    unknown = promises_not_asked(loaded) if broken else ()
    kept = {promise: None if promise in unknown else True for promise in PROMISES} | dict.fromkeys(broken, False)
    items: list[dict[str, Any]] = [
        {"metadata": {"name": promise}, "kept": kept[promise], "example": broken.get(promise, "")}
        for promise in PROMISES
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


def _names() -> tuple[str, ...]:
    from multikueue import registry

    return registry.names()


def _summary(name: str) -> dict[str, Any]:
    """A strategy that cannot be imported is listed with the error, and hides none of the others."""
    from multikueue import registry
    from multikueue.errors import ConfigurationError

    try:
        return _item(registry.describe(name))
    except ConfigurationError as error:
        return {"metadata": {"name": name}, "package": "", "help": f"broken: {error}", "options": []}


def _item(found: Description) -> dict[str, Any]:
    options = [{"name": each.name, "type": each.type, "default": each.default} for each in found.options]
    return {"metadata": {"name": found.name}, "package": found.package, "help": found.help, "options": options}


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    return (
        item["metadata"]["name"],
        item["package"],
        next(iter(item["help"].splitlines()), ""),
        ", ".join(option["name"] for option in item["options"]),
    )


def _load(strategy: str, options: dict[str, Any]) -> Strategy:
    from multikueue import registry

    if ":" not in strategy:
        return registry.load(strategy, options)
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
