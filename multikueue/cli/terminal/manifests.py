"""Files with Kubernetes objects, read and written as kubectl does: several documents, lists, directories, `-`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from multikueue.cli.terminal.exit import CommandFailed

__all__ = ["Manifest", "load_text", "read_manifests", "yaml_text"]

Tree = dict[str, Any]

SUFFIXES = (".json", ".yaml", ".yml")
"""Files of a directory that are read, as kubectl chooses them."""

_LIKE_A_NUMBER = re.compile(r"[-+]?\.?[0-9][0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?|[yYnN]|0[box][0-9a-fA-F_]+")
"""Strings that YAML readers written in Go take for numbers or booleans, and PyYAML does not."""


class Manifest(msgspec.Struct, frozen=True):
    """One object of a file, and the place for messages: `queues.yaml, document 2`."""

    place: str
    tree: Tree

    def __str__(self) -> str:
        metadata = self.tree.get("metadata")
        meta = metadata if isinstance(metadata, dict) else {}
        name = meta.get("name") or meta.get("generateName") or ""
        return f"{self.place}: {self.tree.get('kind')}{f' {name}' if name else ''}"


def read_manifests(name: str, *, is_recursive: bool = False) -> Iterator[Manifest]:
    """The objects of a file, of a directory's files or of standard input (`-`), those of a list one by one.

    Raises CommandFailed for a file that cannot be read, for what is no YAML, and for what is no object.
    """
    path = Path(name)
    if name != "-" and path.is_dir():
        found = path.rglob("*") if is_recursive else path.glob("*")
        files = sorted(each for each in found if each.suffix in SUFFIXES and each.is_file())
        if not files:
            raise CommandFailed(f"{name}: there is no file ending with {', '.join(SUFFIXES)}")
        for each in files:
            yield from read_manifests(str(each))
        return
    try:
        text = sys.stdin.read() if name == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    place = "standard input" if name == "-" else name
    documents = load_text(text, place)
    for number, document in enumerate(documents, 1):
        where = f"{place}, document {number}" if len(documents) > 1 else place
        if document is not None:
            yield from _objects(document, where)


def _objects(document: Any, place: str) -> Iterator[Manifest]:
    is_object = isinstance(document, dict) and all(
        isinstance(document.get(each), str) for each in ("apiVersion", "kind")
    )
    if not is_object:
        raise CommandFailed(f"{place}: expected objects with apiVersion and kind")
    items = document.get("items")
    if not document["kind"].endswith("List") or not isinstance(items, list):
        yield Manifest(place, document)
        return
    for number, item in enumerate(items):
        kind = (
            {} if document["kind"] == "List" else {"apiVersion": document["apiVersion"], "kind": document["kind"][:-4]}
        )
        yield from _objects({**kind, **item} if isinstance(item, dict) else item, f"{place}, items[{number}]")


def load_text(text: str, place: str) -> list[Any]:
    """The documents of a text; dates stay text, as for Kubernetes. Raises CommandFailed for what is no YAML."""
    import yaml

    try:
        return [_keyed(document) for document in yaml.load_all(text, Loader=_loader())]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandFailed(f"{place}: no YAML: {' '.join(str(error).split())}") from None


def _keyed(value: Any) -> Any:
    """The value with text for keys, as JSON has them: `true` for `yes:`."""
    match value:
        case dict():
            return {
                str(key).lower() if isinstance(key, bool) else str(key): _keyed(each) for key, each in value.items()
            }
        case list():
            return [_keyed(each) for each in value]
    return value


def yaml_text(documents: Sequence[Any]) -> str:
    """The documents as YAML with their fields in the order given, `---` between them."""
    import yaml

    return yaml.dump_all(documents, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=10**6)


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in each if not tag.endswith((":timestamp", ":value"))]
        for first, each in base.yaml_implicit_resolvers.items()
    }
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


@cache
def _dumper() -> Any:
    import yaml

    def text(dumper: Any, value: str) -> Any:
        style = "'" if _LIKE_A_NUMBER.fullmatch(value) else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, text)
    return dumper
