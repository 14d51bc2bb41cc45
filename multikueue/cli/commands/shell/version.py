"""`multikueue version`."""

from __future__ import annotations

from multikueue.cli.terminal.formats import Format, Output, is_document
from multikueue.cli.terminal.output import print_document

__all__ = ["version"]


def version(output: Output = Format.TABLE) -> None:
    """Show the version."""
    from platform import python_version

    from multikueue import __version__

    if is_document(output):
        print_document({"version": __version__, "python": python_version()}, output)
    else:
        print(f"multikueue {__version__}")
