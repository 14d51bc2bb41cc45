"""Scripts and notebooks: the notebook and the programs of the page run on simulated clusters."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import anyio.to_thread
import pytest

from multikueue.client import MultiKueue
from multikueue.errors import ConfigurationError
from testbed.client import Client
from testbed.objects import JOB
from tests.client.conftest import TEAM
from tests.project.files import blocks, read

pytestmark = pytest.mark.anyio

CELLS = [
    "".join(cell["source"]) for cell in json.loads(read("docs/client.ipynb"))["cells"] if cell["cell_type"] == "code"
]


def run_all(cells: list[str]) -> dict[str, Any]:
    """As a kernel does it: one after the other, with the same names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)
    return names


async def test_the_notebook_of_the_docs_runs(manager: Client) -> None:
    names = await anyio.to_thread.run_sync(run_all, CELLS)

    assert names["job"].name == "job/hello"
    assert names["codes"] == {"job/rate-0": 0, "job/rate-1": 0, "job/rate-2": 0}
    assert "job/long" not in {f"job/{each['metadata']['name']}" for each in await manager.list(JOB, TEAM)}


@pytest.mark.usefixtures("manager")
async def test_the_programs_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    for program in blocks(read("docs/client.md"), "python"):
        await anyio.to_thread.run_sync(partial(run_all, [program]))

    assert "[0, 0, 0]" in capsys.readouterr().out


def test_a_kubeconfig_that_is_not_there_is_an_error_at_once() -> None:
    with pytest.raises(ConfigurationError):
        MultiKueue(kubeconfig="nonesuch")
