"""The page of figures: each table stands between a marker with its name and an end, and a command writes it there."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DOCS", "FIGURES", "MIXES", "put"]

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = DOCS / "figures.md"
MIXES = DOCS / "mixes.md"
END = "<!-- end -->"


def put(page: Path, name: str, text: str) -> None:
    """Put a text between the marker `<!-- name -->` of a page and the next end. Raises ValueError if there is no such place."""
    marker = f"<!-- {name} -->"
    before, found, rest = page.read_text().partition(marker)
    _, end, after = rest.partition(END)
    if not (found and end):
        raise ValueError(f"{page.name} has no {marker} with an {END} behind it")
    page.write_text(f"{before}{marker}\n\n{text}\n\n{END}{after}")
