"""`multikueue convert`: manifests of Kueue from v1beta1 to v1beta2."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.terminal.exit import ExitCode
from multikueue.cli.terminal.manifests import Manifest, load_text, read_manifests, yaml_text
from multikueue.cli.terminal.output import note

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["convert"]

Tree = dict[str, Any]


class Form(StrEnum):
    YAML = "yaml"
    JSON = "json"


def convert(
    files: Annotated[
        list[str],
        typer.Option(
            "--filename", "-f", help="YAML or JSON file, or a directory; - for standard input.", show_default=False
        ),
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Directories with all that is below them.", show_default=False)
    ] = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="How the objects are printed.")] = Form.YAML,
) -> None:
    """Print manifests of Kueue in v1beta2.

    Takes every kind of kueue.x-k8s.io/v1beta1, the older v1alpha1 of Cohorts, Topologies and MultiKueue, and Kueue's
    Configuration, also within a ConfigMap. Other objects are printed as they are, and so are fields that v1beta2 has under
    the same name. Comments are lost. No cluster is asked.

    If an object cannot be converted, nothing is printed, and each error names its document, kind, name and field.

    \b
    Examples:
      multikueue convert -f queues.yaml | kubectl apply -f -
      multikueue convert -f manifests/ -R -o json
    """
    converted: list[Tree] = []
    failures: list[str] = []
    for name in files:
        for manifest in read_manifests(name, is_recursive=recursive):
            converted += _converted(manifest, failures)
    for failure in failures:
        note(f"error: {failure}")
    if failures:
        raise typer.Exit(ExitCode.FAILED)
    if not converted:
        note("There is no object in these files.")
        raise typer.Exit(ExitCode.FAILED)
    _print(converted, output)


def _converted(manifest: Manifest, failures: list[str]) -> Iterator[Tree]:
    """The object in v1beta2; what cannot be converted is added to the failures."""
    from multikueue.api.kueue import conversion

    try:
        if manifest.tree["kind"] == "ConfigMap":
            yield _config_map(manifest)
            return
        tree, told = conversion.convert(manifest.tree)
    except conversion.Unconvertible as error:
        failures.append(f"{manifest}: {error}")
        return
    for each in told:
        note(f"{manifest}: {each}")
    yield tree


def _config_map(manifest: Manifest) -> Tree:
    """The ConfigMap with Kueue's Configuration in v1beta2, if it holds one."""
    from multikueue.api.kueue import conversion

    data = manifest.tree.get("data")
    if not isinstance(data, dict):
        return manifest.tree
    texts = dict(data)
    for key, text in data.items():
        if not isinstance(text, str) or f"{conversion.CONFIGURATION_GROUP}/" not in text:
            continue
        found = load_text(text, f"{manifest}: data[{key}]")
        if len(found) != 1 or not isinstance(found[0], dict):
            continue
        try:
            tree, told = conversion.convert(found[0])
        except conversion.Unconvertible as error:
            raise conversion.Unconvertible(f"data[{key}].{error.field}", error.why) from None
        for each in told:
            note(f"{manifest}: data[{key}].{each}")
        if tree is not found[0]:
            texts[key] = yaml_text([tree])
    return {**manifest.tree, "data": texts}


def _print(trees: list[Tree], output: Form) -> None:
    if output is Form.YAML:
        print(yaml_text(trees), end="")
        return
    import msgspec

    document = trees[0] if len(trees) == 1 else {"apiVersion": "v1", "kind": "List", "items": trees}
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
