"""The picture of `multikueue top` in the docs: `python -m tests.console.terminal.picture docs/top.svg`."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from multikueue.api.meta import ObjectKey
from multikueue_console.terminal.app import TopApp
from tests.console.terminal.fleets import a_fleet

__all__ = ["picture"]


async def _no_logs(key: ObjectKey) -> AsyncIterator[str]:
    yield str(key)


async def picture() -> str:
    """The table of workloads as SVG, which asks for no font of another site and is the same each time."""
    app = TopApp(a_fleet(), title="all namespaces", logs=_no_logs)
    async with app.run_test(size=(120, 14)) as pilot:
        await pilot.press("j")
        await pilot.pause()
        svg = app.export_screenshot(title="multikueue top")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "ui-monospace, monospace").replace("Fira Code", "ui-monospace")
    unique = re.search(r"terminal-(\d+)-", svg)
    assert unique is not None, "each class of textual's pictures has it"
    return re.sub(r"[ \t]+$", "", svg.replace(unique[0], "top-"), flags=re.MULTILINE)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(anyio.run(picture))
