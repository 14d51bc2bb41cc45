"""One control plane: a kube-apiserver with its own users, over a prefix of the shared etcd."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from fakekube.front_end.authority import Authority
from testbed.audit import Audit
from testbed.certificates import new_authority, rsa_key
from testbed.client import ApiError, Client, Kind
from testbed.kubeconfig import kubeconfig
from testbed.ports import free_port
from testbed.process import RARE_COLLECTIONS, Process
from testbed.programs import Programs, Release

__all__ = ["ADMINISTRATORS", "ControlPlane", "Identity"]

ADMINISTRATORS = "system:masters"

# Each program is a user of its own, so that the audit log can tell them apart. `manager` may do nothing until a test
# grants it something.
USERS = {
    "admin": ADMINISTRATORS,
    "kueue": ADMINISTRATORS,
    "controller-manager": ADMINISTRATORS,
    "placement": ADMINISTRATORS,
    "registration": ADMINISTRATORS,
    "agent": ADMINISTRATORS,
    "manager": "",
}

FRONT_PROXY = "front-proxy-client"

SERVICE_ACCOUNT = Kind("v1", "ServiceAccount")


@dataclass(frozen=True, slots=True)
class Identity:
    """Keys shared by all control planes of a testbed: the authority, the key that signs service account tokens, and the
    authority by which API servers prove themselves to aggregated API servers."""

    authority: Authority
    service_account_key: bytes
    front_proxy: Authority

    @classmethod
    def create(cls) -> Identity:
        return cls(new_authority(), rsa_key(), new_authority())


class ControlPlane:
    """A kube-apiserver called `name`; it keeps its port, its users and its objects over restarts."""

    def __init__(self, name: str, programs: Programs, *, etcd: str, identity: Identity, folder: Path) -> None:
        self.name = name
        self.programs = programs
        self.identity = identity
        self.folder = folder / name
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca = identity.authority.pem
        self.tokens = {user: f"{name}-{user}-{secrets.token_hex(8)}" for user in USERS}
        self.audit = Audit(self.folder / "audit.log", self)
        self.process = Process(name, self._command(etcd), log=self.folder / "kube-apiserver.log", env=RARE_COLLECTIONS)

    @property
    def release(self) -> Release:
        """The release of Kueue that the plane's API server, CRDs and Kueue belong to."""
        return self.programs.release

    async def start(self) -> None:
        """Write the files and start; ready means that RBAC's bootstrap roles are there."""
        self._write_files()
        await self.restart()

    async def restart(self) -> None:
        """Start again on the same port, after `stop` or `kill`."""
        self.process.start()
        await self.process.wait_until(self._is_ready)

    async def stop(self) -> None:
        await self.process.stop()

    async def kill(self) -> None:
        await self.process.kill()

    def client(
        self, user: str = "admin", *, server: str | None = None, user_agent: str = "testbed", timeout: float = 30
    ) -> Client:
        """A client as one of the users of the token file; `server` may be a proxy before the plane."""
        return Client(server or self.url, ca=self.ca, token=self.tokens[user], user_agent=user_agent, timeout=timeout)

    def kubeconfig(self, user: str = "admin", *, server: str | None = None, token: str | None = None) -> dict[str, Any]:
        """A kubeconfig with inline CA and token, of a user of the token file or for a given token."""
        return kubeconfig(server or self.url, ca=self.ca, token=token or self.tokens[user], name=self.name)

    async def service_account_token(
        self, name: str, *, namespace: str, rules: Sequence[dict[str, Any]] = (), seconds: int = 3600
    ) -> str:
        """A token of a ServiceAccount with these RBAC rules in the whole cluster; deleting the account revokes it.

        The API server trusts a token it has seen for up to 10 s more.
        """
        async with self.client() as client:
            for body in _account_objects(name, namespace, rules):
                await client.apply(body)
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
            answer = await client.request("POST", path, body={"spec": {"expirationSeconds": seconds}})
        token: str = json.loads(answer)["status"]["token"]
        return token

    async def grant(self, user: str, rules: Sequence[dict[str, Any]]) -> None:
        """Give a user of the token file, say `manager`, these RBAC rules in the whole cluster."""
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        async with self.client() as client:
            for body in _role_objects(f"testbed:{user}", subject, rules):
                await client.apply(body)

    async def _is_ready(self) -> bool:
        try:
            async with self.client() as client:
                return await client.request("GET", "/readyz") == b"ok"
        except (aiohttp.ClientError, ApiError, TimeoutError):
            return False

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.identity.authority.issue("kube-apiserver", "127.0.0.1", "localhost").write(self.folder)
        self._file("ca.crt").write_bytes(self.ca)
        self._file("ca.key").write_bytes(self.identity.authority.key_pem)
        self._file("front-proxy-ca.crt").write_bytes(self.identity.front_proxy.pem)
        self.identity.front_proxy.issue(FRONT_PROXY).write(self._file("front-proxy"))
        self._file("service-account.key").write_bytes(self.identity.service_account_key)
        self._file("tokens.csv").write_text(
            "".join(f'{self.tokens[user]},{user},{user},"{group}"\n' for user, group in USERS.items())
        )
        self._file("audit-policy.yaml").write_text(AUDIT_POLICY)

    def _file(self, name: str) -> Path:
        return self.folder / name

    def _command(self, etcd: str) -> list[str]:
        return [
            str(self.programs.kube_apiserver),
            f"--etcd-servers={etcd}",
            f"--etcd-prefix=/{self.name}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={self._file('tls.crt')}",
            f"--tls-private-key-file={self._file('tls.key')}",
            f"--client-ca-file={self._file('ca.crt')}",
            f"--token-auth-file={self._file('tokens.csv')}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={self.url}",
            f"--service-account-key-file={self._file('service-account.key')}",
            f"--service-account-signing-key-file={self._file('service-account.key')}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            f"--requestheader-client-ca-file={self._file('front-proxy-ca.crt')}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._file('front-proxy') / 'tls.crt'}",
            f"--proxy-client-key-file={self._file('front-proxy') / 'tls.key'}",
            "--shutdown-delay-duration=0",
            f"--audit-policy-file={self._file('audit-policy.yaml')}",
            f"--audit-log-path={self.audit.path}",
            # No rotation: marks are offsets into one file.
            "--audit-log-maxsize=1000000",
        ]


# The API server's own calls and health checks are noise, and logging them costs.
AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
"""


def _account_objects(name: str, namespace: str, rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    account = {
        "apiVersion": SERVICE_ACCOUNT.api_version,
        "kind": SERVICE_ACCOUNT.kind,
        "metadata": {"name": name, "namespace": namespace},
    }
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return [account, *_role_objects(f"testbed:{namespace}:{name}", subject, rules)]


def _role_objects(name: str, subject: dict[str, str], rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    group = "rbac.authorization.k8s.io"
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    return [
        {**common, "kind": "ClusterRole", "rules": list(rules)},
        {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]
