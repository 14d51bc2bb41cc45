"""What the tests of `clusters` share."""

from __future__ import annotations

from base64 import b64decode
from datetime import timedelta
from typing import Any

import yaml

from multikueue.api.kinds import SECRETS
from multikueue.registration.credentials import Credential, Endpoint, build_kubeconfig
from tests.cli.cluster import NOW, json_web_token
from tests.cli.conftest import World

REGISTER = ("clusters", "register", "w1", "--context", "worker")


def token_until(expires: timedelta) -> bytes:
    """A kubeconfig whose token ends in that time."""
    credential = Credential(kind="token", user={"token": json_web_token(NOW + expires)}, expires=None)
    return build_kubeconfig("w1", Endpoint(server="https://w1.example"), credential)


def stored(world: World) -> dict[str, Any]:
    found = world.manager.named(SECRETS, "multikueue-w1", "kueue-system")
    assert found is not None
    tree: dict[str, Any] = yaml.safe_load(b64decode(found["data"]["kubeconfig"]))
    return tree
