from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multikueue.errors import ClusterUnreachable
from multikueue.manager import process
from multikueue.settings import Loaded, Settings
from tests.cli.conftest import Run


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings the manager was started with; it does not really start."""
    started: list[Settings] = []

    async def run(loaded: Loaded, _environment: process.ProcessEnvironment) -> None:
        started.append(loaded.settings)

    monkeypatch.setattr(process, "run", run)
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


def test_a_dry_run_tells_a_variable_of_the_cluster_from_a_flag(
    cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    monkeypatch.setenv("MULTIKUEUE_CLUSTER__CONTEXT", "prod")
    monkeypatch.setenv("MULTIKUEUE_CLUSTER__KUBECONFIG", str(kubeconfig))

    from_environment = cli("run", "--dry-run").lines
    from_flag = cli("run", "--dry-run", "--manager-context", "other").lines

    rows = {line.split()[0]: line.split()[1:] for line in from_environment}
    assert rows["cluster.context"] == ["prod", "MULTIKUEUE_CLUSTER__CONTEXT"]
    assert rows["cluster.kubeconfig"] == [str(kubeconfig), "MULTIKUEUE_CLUSTER__KUBECONFIG"]
    assert ["cluster.context", "other", "flag"] in [line.split() for line in from_flag]


def test_without_words_it_runs_with_the_defaults(seen: list[Settings], cli: Run) -> None:
    assert cli("run").code == 0
    assert seen == [Settings()]


@pytest.mark.parametrize(
    ("words", "told"),
    [((), False), (("--webhook-url", "https://192.0.2.1:9443"), True)],
    ids=["without a webhook", "with one that was reached here"],
)
def test_what_stays_of_a_manager_that_was_stopped_by_hand_is_told(
    seen: list[Settings], cli: Run, words: tuple[str, ...], told: bool
) -> None:
    result = cli("run", *words)
    assert (result.code, len(seen)) == (0, 1)
    assert ("multikueue webhook remove" in result.err) is told


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
    async def run(_loaded: Loaded, _environment: process.ProcessEnvironment) -> None:
        raise ExceptionGroup("tasks", [ClusterUnreachable("", "refused")])

    monkeypatch.setattr(process, "run", run)

    result = cli("run")
    assert (result.code, result.err) == (3, "error: cluster manager is unreachable: refused\n")


KUEUES = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {origin: prod}
integrations: {externalFrameworks: [other]}
"""


def test_a_dry_run_shows_what_is_in_force_and_from_where_without_a_cluster(
    seen: list[Settings], cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dispatch: {origin: from-file}\n")
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__GC_INTERVAL", "90s")

    result = cli("run", "--dry-run", "--config", str(config), "--log-level", "debug")

    assert (result.code, result.err, seen) == (0, "", [])
    rows = {line.split()[0]: line.split()[1:] for line in result.lines}
    assert rows["SETTING"] == ["VALUE", "FROM"]
    assert rows["dispatch.origin"] == ["from-file", str(config)]
    assert rows["dispatch.gc_interval"] == ["1m30s", "MULTIKUEUE_DISPATCH__GC_INTERVAL"]
    assert rows["log.level"] == ["debug", "flag"]
    assert rows["probes.port"] == ["-", "default"]


def test_a_dry_run_names_what_of_kueues_file_has_no_effect(cli: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(KUEUES)

    result = cli("run", "--dry-run", "--config", str(config), "-o", "wide")

    assert result.err == (
        f"warning: {config}: integrations.externalFrameworks: ['other'] is ignored: any Workload is queued, whoever made it\n"
    )
    (origin,) = [line for line in result.lines if line.startswith("dispatch.origin ")]
    assert origin.split() == ["dispatch.origin", "prod", f"{config}:", "multiKueue.origin", "multikueue", "no"]


def test_a_dry_run_may_give_the_names_alone(cli: Run) -> None:
    result = cli("run", "--dry-run", "-o", "name")
    assert (result.code, "dispatch.origin" in result.lines, " " in result.out) == (0, True, False)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_dry_run_for_programs(cli: Run, tmp_path: Path, form: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(KUEUES)

    result = cli("run", "--dry-run", "--config", str(config), "-o", form)

    found = yaml.safe_load(result.out)
    (origin,) = [each for each in found["settings"] if each["name"] == "dispatch.origin"]
    assert origin == {
        "name": "dispatch.origin",
        "value": "prod",
        "source": f"{config}: multiKueue.origin",
        "default": "multikueue",
        "live": False,
    }
    assert found["ignored"] == [
        {
            "field": "integrations.externalFrameworks",
            "value": "['other']",
            "why": "any Workload is queued, whoever made it",
            "place": str(config),
        }
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dispatch: {concurrency: 0}", "dispatch.concurrency: expected greater than or equal to 1, got 0"),
        (
            "dispatch: {strategy: {name: none}}",
            "dispatch.strategy.name: strategy 'none': expected one that is installed: "
            "all-at-once, composed, external, incremental",
        ),
    ],
)
def test_a_dry_run_of_what_cannot_work_ends_with_2(cli: Run, tmp_path: Path, text: str, message: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)

    result = cli("run", "--dry-run", "--config", str(config))

    assert (result.code, result.out, result.err) == (2, "", f"error: {config}: {message}\n")


@pytest.mark.parametrize("words", [(), ("--force",)], ids=["as it is", "with --force"])
def test_it_looks_for_others_unless_it_is_forced(
    cli: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    looked = list[bool]()

    async def run(_loaded: Loaded, environment: process.ProcessEnvironment) -> None:
        looked.append(environment.should_look_for_others)

    monkeypatch.setattr(process, "run", run)

    assert cli("run", *words).code == 0
    assert looked == [not words]
