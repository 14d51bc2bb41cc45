"""The start of a process: it waits for the manager cluster, and says for what."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from multikueue.errors import ClusterUnreachable
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Client
from multikueue.manager import process

pytestmark = pytest.mark.anyio


async def test_who_waits_for_the_manager_cluster_says_where_it_looks_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "FIRST_ANSWER_TIMEOUT", timedelta(seconds=0.1))
    nobody = Credentials(server="http://127.0.0.1:1", source="/home/me/config: context 'here'")
    with capture_logs() as logs:
        async with Client.connect(nobody) as client:
            with pytest.raises(ClusterUnreachable):
                await process._reach(client, nobody, 5.0)

    [told] = logs
    assert (told["event"], told["server"], told["source"]) == ("manager.waiting", nobody.server, nobody.source)
    assert "127.0.0.1" in told["why"]
