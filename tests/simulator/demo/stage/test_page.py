"""The console beside the demo."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from multikueue.errors import ConfigurationError
from multikueue_simulator.demo.stage import page as module
from multikueue_simulator.demo.stage.page import page
from multikueue_simulator.serving.serve import Plan, Sandbox

pytestmark = pytest.mark.anyio


async def test_its_link_opens_the_console_on_the_clusters_of_the_demo(tmp_path: Path) -> None:
    async with (
        Sandbox(Plan(workers=0), folder=tmp_path) as sandbox,
        page(sandbox["manager"].kubeconfig(), "manager", should_open=False) as link,
        aiohttp.ClientSession() as web,
        web.get(link, allow_redirects=False) as answer,
    ):
        assert answer.status == 303


async def test_without_the_console_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _name: None)

    with pytest.raises(ConfigurationError, match="multikueue-console"):
        async with page(tmp_path, "manager"):
            pass
