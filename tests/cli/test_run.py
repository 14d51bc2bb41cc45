from __future__ import annotations

from pathlib import Path

import pytest

from multikueue import manager
from multikueue.errors import ClusterUnreachable
from multikueue.settings import Settings
from tests.cli.conftest import Run


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings the manager was started with; it does not really start."""
    started: list[Settings] = []

    async def run(settings: Settings) -> None:
        started.append(settings)

    monkeypatch.setattr(manager, "run", run)
    return started


def test_flags_go_before_the_environment_and_this_before_the_file(
    seen: list[Settings], cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, kubeconfig = tmp_path / "config.yaml", tmp_path / "kubeconfig"
    config.write_text("cluster: {context: from-file}\ndispatch: {origin: from-file}\nlog: {level: error}\n")
    kubeconfig.touch()
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__ORIGIN", "from-environment")

    words = ("--context", "from-flag", "--kubeconfig", str(kubeconfig), "--log-format", "json")
    assert cli("run", "--config", str(config), *words).code == 0

    (settings,) = seen
    assert settings.cluster.context == "from-flag"
    assert settings.cluster.kubeconfig == kubeconfig
    assert settings.dispatch.origin == "from-environment"
    assert (settings.log.level, settings.log.format) == ("error", "json")


def test_without_words_it_runs_with_the_defaults(seen: list[Settings], cli: Run) -> None:
    assert cli("run").code == 0
    assert seen == [Settings()]


def test_wrong_settings_end_with_2_and_name_the_place(seen: list[Settings], cli: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dispatch: {orgin: x}\n")

    result = cli("run", "--config", str(config))

    assert result.code == 2
    assert result.err == f"error: {config}: dispatch.orgin: expected 'origin'; there is no 'orgin'\n"
    assert seen == []


def test_a_file_that_is_not_there_is_wrong_usage(seen: list[Settings], cli: Run) -> None:
    assert cli("run", "--config", "/does/not/exist").code == 2


def test_an_error_of_the_running_manager_is_one_line(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(_: Settings) -> None:
        raise ExceptionGroup("tasks", [ClusterUnreachable("", "refused")])

    monkeypatch.setattr(manager, "run", run)

    result = cli("run")
    assert (result.code, result.err) == (3, "error: cluster manager is unreachable: refused\n")
