"""kube-controller-manager beside a control plane, with only the controllers a scenario needs.

There are no nodes: the Job controller creates pods, and they stay pending.
"""

from __future__ import annotations

from collections.abc import Collection

import aiohttp

from testbed.kubeconfig import dump
from testbed.plane import ControlPlane
from testbed.ports import free_port
from testbed.process import Process

__all__ = ["GARBAGE", "JOBS", "NAMESPACES", "ROLES", "SERVICE_ACCOUNTS", "SIGNING", "ControllerManager"]

JOBS = "job-controller"
GARBAGE = "garbage-collector-controller"
NAMESPACES = "namespace-controller"
ROLES = "clusterrole-aggregation-controller"
SERVICE_ACCOUNTS = "serviceaccount-controller"
SIGNING = "certificatesigningrequest-signing-controller"


class ControllerManager:
    """One kube-controller-manager process for one plane."""

    def __init__(self, plane: ControlPlane, controllers: Collection[str]) -> None:
        self.plane = plane
        self._kubeconfig = plane.folder / "controller-manager.kubeconfig"
        self._port = free_port()
        self.process = Process(
            f"kube-controller-manager of {plane.name}",
            [
                str(plane.programs.kube_controller_manager),
                f"--kubeconfig={self._kubeconfig}",
                f"--controllers={','.join(sorted(controllers))}",
                f"--service-account-private-key-file={plane.folder / 'service-account.key'}",
                f"--root-ca-file={plane.folder / 'ca.crt'}",
                f"--cluster-signing-cert-file={plane.folder / 'ca.crt'}",
                f"--cluster-signing-key-file={plane.folder / 'ca.key'}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._port}",
                f"--cert-dir={plane.folder / 'controller-manager'}",
                "--concurrent-job-syncs=20",
                "--kube-api-qps=300",
                "--kube-api-burst=500",
            ],
            log=plane.folder / "kube-controller-manager.log",
        )

    async def start(self) -> None:
        self._kubeconfig.write_bytes(dump(self.plane.kubeconfig("controller-manager")))
        await self.restart()

    async def restart(self) -> None:
        """Start again after `stop` or `kill`."""
        self.process.start()
        await self.process.wait_until(self._is_healthy)

    async def stop(self) -> None:
        await self.process.stop()

    async def kill(self) -> None:
        await self.process.kill()

    async def _is_healthy(self) -> bool:
        try:
            connector = aiohttp.TCPConnector(ssl=False)  # it signs its own certificate
            url = f"https://127.0.0.1:{self._port}/healthz"
            async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False
