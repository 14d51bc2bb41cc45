"""Settings: what wins, and what a user is told when something is wrong."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from multikueue.errors import ConfigurationError
from multikueue.settings import Settings, load
from multikueue.settings.sources import read
from multikueue.settings.tree import GONE


def file(folder: Path, text: str) -> Path:
    path = folder / "multikueue.yaml"
    path.write_text(text)
    return path


def refusal(config: Path | None = None, **flags: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(config, **flags)
    return str(caught.value)


# What wins.


def test_without_any_source_there_are_the_defaults() -> None:
    assert load() == Settings()


def test_defaults_are_those_of_kueue() -> None:
    """Contract 6.3."""
    settings = Settings()
    assert settings.cluster.namespace == "kueue-system"
    assert settings.dispatch.origin == "multikueue"
    assert settings.dispatch.gc_interval == timedelta(minutes=1)
    assert settings.dispatch.worker_lost_timeout == timedelta(minutes=15)
    assert settings.dispatch.strategy.name == "all-at-once"
    assert settings.roles == {"jobs", "quota", "dispatch"}


def test_a_file_is_read(tmp_path: Path) -> None:
    config = file(tmp_path, "dispatch: {origin: a, worker_lost_timeout: 3s}\nroles: [dispatch]\n")
    settings = load(config)
    assert settings.dispatch.origin == "a"
    assert settings.dispatch.worker_lost_timeout == timedelta(seconds=3)
    assert settings.roles == {"dispatch"}
    assert settings.quota == Settings().quota


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert load(file(tmp_path, "# nothing yet\n")) == Settings()


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = file(tmp_path, "dispatch: {origin: file, gc_interval: 3s, concurrency: 3}")
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__ORIGIN", "environment")
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__GC_INTERVAL", "2s")

    dispatch = load(config, dispatch__origin="flag").dispatch

    assert dispatch.origin == "flag"
    assert dispatch.gc_interval == timedelta(seconds=2)
    assert dispatch.concurrency == 3
    assert dispatch.concurrency_per_cluster == Settings().dispatch.concurrency_per_cluster


def test_a_flag_that_is_none_was_not_given(tmp_path: Path) -> None:
    config = file(tmp_path, "cluster: {context: from-file}")
    assert load(config, cluster__context=None, log__level=None).cluster.context == "from-file"


def test_flags_of_one_group_come_together() -> None:
    cluster = load(cluster__context="c", cluster__kubeconfig="/k").cluster
    assert (cluster.context, cluster.kubeconfig) == ("c", Path("/k"))


def test_lists_in_the_environment_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIKUEUE_ROLES", "jobs, dispatch,quota,")
    monkeypatch.setenv("MULTIKUEUE_QUOTA__EXCLUDE_RESOURCE_PREFIXES", "example.com/,other.io/")
    settings = load()
    assert settings.roles == {"jobs", "quota", "dispatch"}
    assert settings.quota.exclude_resource_prefixes == ("example.com/", "other.io/")


def test_options_of_a_strategy_come_as_json_or_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__STRATEGY__NAME", "cheapest")
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__STRATEGY__OPTIONS", '{"prices": {"a": 1.5}}')
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__STRATEGY__OPTIONS__PATIENCE", "5m")
    strategy = load().dispatch.strategy
    assert (strategy.name, strategy.options) == ("cheapest", {"prices": {"a": 1.5}, "patience": "5m"})


def test_variables_that_kubernetes_makes_for_a_service_of_our_name_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIKUEUE_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("MULTIKUEUE_WEBHOOK_PORT", "tcp://10.0.0.1:9443")
    assert load() == Settings()


def test_an_empty_variable_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIKUEUE_CLUSTER__CONTEXT", "")
    assert load().cluster.context is None


def test_a_webhook_may_be_found_by_its_url() -> None:
    assert load(webhook__url="https://10.0.0.1:9443/").webhook.url == "https://10.0.0.1:9443/"


def test_the_tree_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().dispatch.origin = "other"


# What a user is told.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("dispatch: {orign: x}", "dispatch.orign: expected 'origin'; there is no 'orign'", id="misspelt"),
        pytest.param(
            "quota: {concurrent_admission: true}",
            "quota.concurrent_admission: this setting is gone: Kueue rejects its feature beside a check of MultiKueue",
            id="gone",
        ),
        pytest.param(
            "log: {colour: x}", "log.colour: expected one of level, format", id="a name that is like none of ours"
        ),
        pytest.param("dispatch: {concurrency: 0}", "expected greater than or equal to 1, got 0", id="too small"),
        pytest.param("dispatch: {concurrency: many}", "expected a whole number", id="no number"),
        pytest.param(
            "log: {level: loud}", "expected 'debug', 'info', 'warning' or 'error', got 'loud'", id="no choice"
        ),
        pytest.param(
            "roles: [jobs, cook]",
            "roles[1]: expected 'jobs', 'quota', 'dispatch' or 'nominate', got 'cook'",
            id="no such role",
        ),
        pytest.param("roles: []", "roles: expected jobs, quota, dispatch (without Kueue), dispatch", id="no role"),
        pytest.param("roles: [jobs, dispatch]", "or nominate alone", id="roles that leave work to nobody"),
        pytest.param("roles: [dispatch, nominate]", "roles: expected jobs, quota", id="roles that do work twice"),
        pytest.param(
            "dispatch: {gc_interval: soon}",
            "dispatch.gc_interval: expected a duration such as 15m, 1m30s or 500ms, got 'soon'",
            id="no duration",
        ),
        pytest.param(
            "dispatch: {gc_interval: -1s}",
            "dispatch.gc_interval: expected a duration of 0 or more, got '-1s'",
            id="a negative duration",
        ),
        pytest.param(
            "dispatch: {heartbeat_interval: 0}", "expected a duration longer than 0, got 0", id="no time at all"
        ),
        pytest.param("dispatch: {gc_interval: 99999999999999h}", "expected a duration of less than", id="for ever"),
        pytest.param("dispatch: {origin: -a}", "dispatch.origin: expected a label value", id="no label value"),
        pytest.param(
            "webhook: {url: 'http://x'}", "webhook.url: expected a URL that starts with https://", id="no TLS"
        ),
        pytest.param("webhook: 7", "webhook: expected a group of settings, got 7", id="no group"),
        pytest.param(
            "quota: {requeue_first: 2h}", "expected requeue_first not to be longer than requeue_cap", id="out of order"
        ),
        pytest.param(
            "leader_election: {renew_deadline: 15s}",
            "expected renew_deadline to be shorter than lease_duration",
            id="acts as long as its lease lasts",
        ),
        pytest.param(
            "leader_election: {retry_period: 9s}",
            "expected 1.2 times retry_period to be shorter than renew_deadline",
            id="one chance to renew",
        ),
        pytest.param(
            "leader_election: {lease_duration: 2h}", "expected lease_duration not to be longer than 1h", id="too long"
        ),
        pytest.param(
            "leader_election: {resource_name: Not_A_Name}", "expected the name of an object", id="no object's name"
        ),
    ],
)
def test_a_mistake_in_a_file_is_told_with_file_field_and_expectation(tmp_path: Path, text: str, message: str) -> None:
    config = file(tmp_path, text)
    said = refusal(config)
    assert said.startswith(f"{config}: {text.split(':', maxsplit=1)[0]}")
    assert message in said
    assert "pydantic" not in said


@pytest.mark.parametrize("name", GONE)
def test_a_setting_that_is_gone_is_told_so_wherever_it_is_given(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *groups, last = name.split(".")
    text = "".join(f"{group}: {{" for group in groups) + f"{last}: 1" + "}" * len(groups)
    config, variable = file(tmp_path, text), f"MULTIKUEUE_{name.upper().replace('.', '__')}"
    assert refusal(config) == f"{config}: {name}: this setting is gone: {GONE[name]}"
    monkeypatch.setenv(variable, "1")
    assert refusal() == f"environment {variable}: {name}: this setting is gone: {GONE[name]}"


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        pytest.param(
            "{webhook: {enabled: true}, probes: {port: 9443}}", "webhook.port and probes.port", id="webhook, probes"
        ),
        pytest.param(
            "{webhook: {enabled: true, host: 127.0.0.1}, metrics: {port: 9443}}",
            "webhook.port and metrics.port",
            id="one of them on all addresses",
        ),
        pytest.param(
            "{webhook: {enabled: true, port: 8082}, visibility: {enabled: true}}",
            "webhook.port and visibility.port",
            id="webhook, visibility",
        ),
        pytest.param(
            "{visibility: {enabled: true}, metrics: {port: 8082}, probes: {port: 8082}}",
            "visibility.port and probes.port",
            id="visibility, probes",
        ),
    ],
)
def test_a_port_for_two_is_refused(tmp_path: Path, text: str, pair: str) -> None:
    config = file(tmp_path, text)
    assert f"expected {pair} to differ, got " in refusal(config)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{metrics: {port: 8081}, probes: {port: 8081}}", id="metrics with the probes"),
        pytest.param("{metrics: {port: 9443}}", id="no webhook"),
        pytest.param("{webhook: {enabled: true, port: 0}, visibility: {enabled: true, port: 0}}", id="free ports"),
        pytest.param(
            "{webhook: {enabled: true, host: 127.0.0.1}, probes: {host: 127.0.0.2, port: 9443}}", id="two addresses"
        ),
        pytest.param(
            "{roles: [dispatch], visibility: {enabled: true}, probes: {port: 8082}}", id="visibility is Kueue's"
        ),
    ],
)
def test_a_port_may_be_named_twice_where_nobody_is_in_the_way(tmp_path: Path, text: str) -> None:
    load(file(tmp_path, text))


def test_all_mistakes_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = file(tmp_path, "dispatch: {concurrency: 0}\n")
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__GC_INTERVAL", "soon")
    said = refusal(config, log__level="loud").splitlines()
    assert sorted(line.split(": expected")[0] for line in said) == [
        f"{config}: dispatch.concurrency",
        "environment MULTIKUEUE_DISPATCH__GC_INTERVAL: dispatch.gc_interval",
        "flag log.level",
    ]


def test_the_source_that_won_is_the_one_that_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__CONCURRENCY", "none")
    said = refusal(file(tmp_path, "dispatch: {concurrency: 5}"))
    assert said == (
        "environment MULTIKUEUE_DISPATCH__CONCURRENCY: dispatch.concurrency: expected a whole number, got 'none'"
    )


def test_options_that_are_no_json_are_told_with_their_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIKUEUE_DISPATCH__STRATEGY__OPTIONS", "{patience}")
    assert refusal() == "environment MULTIKUEUE_DISPATCH__STRATEGY__OPTIONS: expected JSON, got '{patience}'"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nope.yaml") == f"{tmp_path}/nope.yaml: cannot be read: No such file or directory"


def test_a_file_that_is_no_yaml(tmp_path: Path) -> None:
    config = file(tmp_path, "dispatch: {origin")
    assert refusal(config).startswith(f"{config}: expected YAML: ")
    assert "\n" not in refusal(config)


def test_a_file_that_is_no_mapping(tmp_path: Path) -> None:
    config = file(tmp_path, "- dispatch\n")
    assert refusal(config) == f"{config}: expected a mapping of settings, got list"


# Variables that are no settings.


@pytest.mark.parametrize(
    ("name", "likely"),
    [
        ("MULTIKUEUE_ROLE", "MULTIKUEUE_ROLES"),
        ("MULTIKUEUE_DISPATCH_ORIGIN", "MULTIKUEUE_DISPATCH__ORIGIN"),
        ("multikueue_dispatch_origin", "MULTIKUEUE_DISPATCH__ORIGIN"),
    ],
)
def test_a_misspelt_variable_is_told_without_its_value(name: str, likely: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "a-secret")

    [told] = read().ignored

    assert str(told).startswith(f"{name}: its value is ignored: expected '{likely}'; there is no")
    assert told.place == "environment"
    assert "a-secret" not in str(told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MULTIKUEUE_ROLES", "dispatch"),
        ("MULTIKUEUE_DISPATCH__ORIGIN", "a"),
        ("MULTIKUEUE_CONFIG", "/etc/multikueue.yaml"),
        ("MULTIKUEUE_SERVICE_HOST", "10.0.0.1"),
        ("MULTIKUEUE_WEBHOOK_SERVICE_PORT_HTTPS", "443"),
        ("MULTIKUEUE_WEBHOOK_PORT", "tcp://10.0.0.1:443"),
        ("MULTIKUEUE_WEBHOOK_PORT_443_TCP_ADDR", "10.0.0.1"),
        ("PATH", "/bin"),
    ],
)
def test_settings_and_what_kubernetes_puts_into_each_pod_are_not_told(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    assert read().ignored == ()


@pytest.mark.parametrize(("lost", "is_told"), [("0s", True), ("4999ms", True), ("5s", False), ("15m", False)])
def test_a_worker_that_would_be_lost_before_it_is_isolated_is_told(tmp_path: Path, lost: str, is_told: bool) -> None:
    config = file(tmp_path, f"dispatch: {{worker_lost_timeout: {lost}}}\n")
    told = [str(each) for each in read(config).ignored]
    assert len(told) == is_told
    assert not told or "dispatch.worker_lost_timeout" in told[0]


def test_that_is_told_of_the_names_of_kueues_file_too(tmp_path: Path) -> None:
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    (told,) = read(file(tmp_path, f"{head}multiKueue: {{workerLostTimeout: 1s}}\n")).ignored
    assert "multiKueue.workerLostTimeout" in told.field
    assert told.why == "a worker is isolated before it is lost, and that takes 5s"
