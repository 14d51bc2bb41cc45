"""The one etcd behind all control planes: each keeps its objects under a prefix of its own."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from testbed.ports import free_port
from testbed.process import RARE_COLLECTIONS, Process

__all__ = ["Etcd"]


class Etcd:
    """An etcd on loopback that trades durability for speed."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self.process = Process(
            "etcd",
            [
                str(program),
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            log=folder / "etcd.log",
            env=RARE_COLLECTIONS,
        )

    async def start(self) -> None:
        self.process.start()
        await self.process.wait_until(self._is_healthy)

    async def _is_healthy(self) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.url}/health") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def stop(self) -> None:
        # Its data is not needed again.
        await self.process.kill()
