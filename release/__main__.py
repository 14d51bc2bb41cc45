"""`python -m release VERSION`: see `release.artefacts`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from release.artefacts import release
from release.source import ReleaseError
from testbed.programs import NotInstalledError


def main(
    version: Annotated[str, typer.Argument(help="The version that the commit has.")],
    into: Annotated[Path, typer.Option(help="Where the files go.")] = Path("dist"),
    url: Annotated[str, typer.Option(help="The project's page, for metadata and provenance.")] = "",
    downloads: Annotated[str, typer.Option(help="Where the files of the release will be, for Krew's manifest.")] = "",
    key: Annotated[Path | None, typer.Option(help="An SSH key to sign the checksums with.")] = None,
) -> None:
    """Make everything that a release has out of the newest commit."""
    try:
        release(Path.cwd(), version, into, url=url, downloads=downloads, key=key, say=typer.echo)
    except (ReleaseError, NotInstalledError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None


if __name__ == "__main__":
    typer.run(main)
