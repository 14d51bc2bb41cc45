"""kubeconfigs.example can be filled in and used, and holds no secret."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.project.files import CLUSTERS, read

PLACEHOLDER = "REPLACE_ME"
# What Kueue and we refuse in the kubeconfig of a worker.
INSECURE = {
    "insecure-skip-tls-verify",
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tokenFile",
    "username",
    "password",
    "exec",
    "auth-provider",
    "proxy-url",
}


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(read("kubeconfigs.example"))
    return loaded


def named(config: dict[str, Any], plural: str, singular: str) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry[singular] for entry in config[plural]}


def test_there_is_one_context_per_cluster(config: dict[str, Any]) -> None:
    assert list(named(config, "contexts", "context")) == CLUSTERS
    assert config["current-context"] == "manager"


def test_each_context_refers_to_its_own_cluster_and_user(config: dict[str, Any]) -> None:
    assert named(config, "contexts", "context") == {name: {"cluster": name, "user": name} for name in CLUSTERS}
    assert list(named(config, "clusters", "cluster")) == CLUSTERS
    assert list(named(config, "users", "user")) == CLUSTERS


def test_each_server_is_another_one_and_speaks_tls(config: dict[str, Any]) -> None:
    servers = [cluster["server"] for cluster in named(config, "clusters", "cluster").values()]

    assert len(set(servers)) == len(CLUSTERS)
    assert all(server.startswith("https://") for server in servers)


@pytest.mark.parametrize(("plural", "singular"), [("clusters", "cluster"), ("users", "user")])
def test_nothing_insecure_is_in_it(config: dict[str, Any], plural: str, singular: str) -> None:
    for settings in named(config, plural, singular).values():
        assert INSECURE.isdisjoint(settings)


def test_each_secret_is_a_placeholder(config: dict[str, Any]) -> None:
    users = named(config, "users", "user").values()
    clusters = named(config, "clusters", "cluster").values()

    assert all(user == {"token": PLACEHOLDER} for user in users)
    assert all(cluster["certificate-authority-data"] == PLACEHOLDER for cluster in clusters)


def test_the_quickstart_says_where_it_is_used() -> None:
    assert "cp kubeconfigs.example kubeconfigs/mine" in read("docs/quickstart.md")


def test_git_ignores_the_filled_in_file() -> None:
    assert "kubeconfigs/" in read(".gitignore").splitlines()
