"""Why a job does not run, asked by an administrator and by a user with one namespace, in situations of `tests/answers`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import yaml

from testbed.bed import Testbed
from testbed.client import ApiError, eventually
from testbed.kubeconfig import dump
from tests.answers.made import ADMIN, USER, Ground, all_are_true, come_about, leave
from tests.project.files import ROOT
from tests.real.harness import Manager, Team, team
from tests.real.skipping import needs_testbed
from tests.real.webhooking import SETTINGS, lead_to_us, registered, visibility_settings, with_webhook

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(900),
    needs_testbed("the webhook and the visibility API on loopback"),
]

ROLES = ROOT / "deploy/components/users/rights.yaml"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    patient = {"QUOTA__REQUEUE_FIRST": "1m"}  # what fits nowhere is looked at between two attempts
    return {**SETTINGS, **patient, **visibility_settings()}


@pytest.fixture(scope="module")
def manager(bed: Testbed, manager_settings: dict[str, str]) -> Iterator[Manager]:
    anyio.run(lead_to_us, bed)
    yield from with_webhook(bed, manager_settings)


@asynccontextmanager
async def a_ground(bed: Testbed, crew: Team, folder: Path) -> AsyncIterator[Ground]:
    kubeconfigs = {ADMIN: dump(bed.manager.kubeconfig()), USER: await _of_a_user(bed, crew)}
    for who, text in kubeconfigs.items():
        (folder / who).write_bytes(text)

    async def run(who: str, *words: str) -> str:
        environment = {**os.environ, "KUBECONFIG": str(folder / who)}
        command = [sys.executable, "-m", "multikueue", *words]
        begin = partial(
            subprocess.run, command, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        done = await anyio.to_thread.run_sync(begin)
        assert done.returncode == 0, f"{who}: {words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    here = crew.namespace
    ground = Ground(crew.manager, crew.clients, here, here, here, run, folder)
    try:
        yield ground
    finally:
        with anyio.CancelScope(shield=True):
            await leave(ground)


async def _of_a_user(bed: Testbed, crew: Team) -> bytes:
    """The kubeconfig of an account with the role of a batch user in the namespace. Its parts are put together here: not every
    cluster of these tests has the controller that does it."""
    parts = [each for each in yaml.safe_load_all(ROLES.read_text()) if f"rbac.kueue.x-k8s.io/{PART}" in _labels(each)]
    head: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": USER, "namespace": crew.namespace}}
    await crew.manager.apply({**head, "kind": "Role", "rules": [rule for part in parts for rule in part["rules"]]})
    whom = [{"kind": "ServiceAccount", "name": USER, "namespace": crew.namespace}]
    role = {"apiGroup": RBAC, "kind": "Role", "name": USER}
    token = await bed.manager.service_account_token(USER, namespace=crew.namespace)
    await crew.manager.apply({**head, "kind": "RoleBinding", "roleRef": role, "subjects": whom})
    return dump(bed.manager.kubeconfig(token=token))


PART = "batch-user"


def _labels(body: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = body["metadata"].get("labels", {})
    return labels


async def _is_served(crew: Team) -> bool:
    try:
        await crew.manager.request("GET", "/apis/visibility.multikueue.dev/v1alpha1")
    except ApiError as error:
        if error.status in (404, 503):  # it is registered, and nobody has found out yet that it answers
            return False
        raise
    return True


async def test_each_situation_is_told_to_both_and_its_repair_helps(
    bed: Testbed, manager: Manager, tmp_path: Path
) -> None:
    async with team(bed) as crew:
        await crew.all_active(manager)
        await registered(crew)
        await eventually(lambda: _is_served(crew), timeout=60)
        async with a_ground(bed, crew, tmp_path) as ground:
            await all_are_true(ground, await come_about(ground))
