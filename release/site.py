"""`python -m release.site`: the documentation as a site, built by MkDocs of what mkdocs.yml lists; a dead link is an error.

The pages link each other as files of the repository, so they are built in its layout, README.md as the home page. A page with
the help of all commands is made on the way.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
import yaml

from multikueue.cli import app

__all__ = ["COMMANDS", "linked", "main", "pages", "stage"]

COMMANDS = "docs/help.md"
"""The page that is made of the commands."""

_LINK = re.compile(r"""(?:\]\(|(?:src|srcset)=")([^)"#:\s]+)(?=[)"#])""")


def pages(root: Path) -> list[str]:
    """The pages of the site in their order, as paths in the repository."""
    return list(_leaves(_configuration(root)["nav"]))


def linked(root: Path, page: str) -> set[str]:
    """The files of the repository that a page shows or links to. Raises FileNotFoundError for a link that leads nowhere."""
    folder = (root / page).parent
    found = {(folder / target).resolve(strict=True) for target in _LINK.findall((root / page).read_text())}
    return {str(path.relative_to(root.resolve())) for path in found if path.is_file()}


def stage(root: Path, into: Path) -> None:
    """Copy the pages, and the files that they link to, into an empty folder. Links to folders become links to nothing."""
    shutil.rmtree(into, ignore_errors=True)
    written = [page for page in pages(root) if page != COMMANDS]
    for name in {*written, *(name for page in written for name in linked(root, page))}:
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            target.write_text(_without_folders((root / name).read_text(), (root / name).parent))
        else:
            shutil.copyfile(root / name, target)
    (into / COMMANDS).write_text(_help())


def main(root: Path) -> None:
    """Raises SystemExit where a page is missing or a link is dead."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    stage(root, root / "build/pages")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        build(load_config(str(root / "mkdocs.yml"), strict=True))
    except Abort as error:
        raise SystemExit(str(error)) from None


class _Loader(yaml.SafeLoader):
    """Reads MkDocs' own tags as nothing."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, _suffix, _node: None)


def _configuration(root: Path) -> Any:
    return yaml.load((root / "mkdocs.yml").read_text(), _Loader)


def _leaves(nav: Any) -> Iterator[str]:
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for under in entry.values():
                yield from _leaves([under] if isinstance(under, str) else under)


def _without_folders(text: str, folder: Path) -> str:
    def plain(match: re.Match[str]) -> str:
        return match[1] if (folder / match[2]).is_dir() else match[0]

    return re.sub(r"\[([^\]]+)\]\(([^)#:\s]+)\)", plain, text)


def _help() -> str:
    """The help of each command, as the program prints it."""
    parts = ["# Help of all commands", "", "What `--help` prints of each. [Commands](commands.md) is the overview."]
    for path, text in _helps(typer.main.get_command(app), ("multikueue",)):
        parts += ["", f"## {' '.join(path)}", "", "```text", text.rstrip(), "```"]
    return "\n".join(parts) + "\n"


def _helps(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """A command is click's, which typer may bring itself: Any."""
    context = command.context_class(command, info_name=" ".join(path), terminal_width=100, max_content_width=100)
    yield path, command.get_help(context)
    for name in command.list_commands(context) if hasattr(command, "commands") else ():
        under = command.get_command(context, name)
        if not under.hidden:
            yield from _helps(under, (*path, name))


if __name__ == "__main__":
    main(Path.cwd())
