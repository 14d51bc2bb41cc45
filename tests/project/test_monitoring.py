"""The dashboard and the alerts that are deployed ask for metrics, labels, settings, commands and pages that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from multikueue import settings
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import FLEET_LABEL
from multikueue.controllers.metrics import collector
from multikueue.controllers.metrics.collector import StateCollector
from multikueue.settings import Quota
from multikueue.telemetry.metrics import KUEUE, TURNS, Metrics
from multikueue_console.model import worker_figures
from tests.controllers.table import table
from tests.project.files import ROOT, objects, read, rows, section
from tests.project.test_commands import COMMANDS, calls
from tests.project.test_deploy import DEPLOY, SELECTED, kustomization, ports
from tests.project.test_docs import anchors

FOLDER = DEPLOY / "components/monitoring"
MONITOR, RULE = objects((FOLDER / "monitoring.yaml").read_text())
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
(GROUP,) = RULE["spec"]["groups"]
ALERTS: dict[str, dict[str, Any]] = {alert["alert"]: alert for alert in GROUP["rules"]}
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {f"alert {name}": alert["expr"] for name, alert in ALERTS.items()} | {
    f"panel {panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}

SERIES = re.compile(r"\b((?:multikueue|kueue|process|python)_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"[^"]*"')
GROUPING = re.compile(r"\b(?:by|on|without|ignoring) \(([^)]*)\)")
SCRAPED = {"instance"}
"""Labels that Prometheus adds."""


KUEUE_ASKS = {
    "kueue_cluster_queue_resource_usage": {"cluster_queue", "resource"},
    "kueue_cluster_queue_nominal_quota": {"cluster_queue", "resource"},
    "kueue_pending_workloads": {"cluster_queue", "status"},
    "kueue_admission_wait_time_seconds_bucket": {"cluster_queue", "le"},
    "kueue_admitted_workloads_total": {"cluster_queue"},
    "kueue_finished_workloads_total": {"cluster_queue"},
    "kueue_evicted_workloads_total": {"cluster_queue", "reason"},
    "kueue_cluster_queue_status": {"cluster_queue", "status"},
}
"""The series and labels that Kueue's page *Common Grafana Queries* (kueue.sigs.k8s.io, of 2026-02-03) asks for."""

FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


def samples(family: Metric) -> Iterator[tuple[str, set[str]]]:
    """The names of samples that a family has, each with its labels."""
    labels = {*getattr(family, "_labelnames", ())}
    match family:
        case CounterMetricFamily():
            yield f"{family.name}_total", labels
        case HistogramMetricFamily():
            yield f"{family.name}_bucket", labels | {"le"}
            yield from ((f"{family.name}_{part}", labels) for part in ("count", "sum"))
        case _:
            yield family.name, labels


def counted() -> Iterator[tuple[str, set[str]]]:
    """What the instruments have."""
    registry = Metrics(has_local_queues=True).registry
    for each in registry._collector_to_names:
        if isinstance(each, MetricWrapperBase):
            made = FAMILIES[str(each._type)](each._name, "", labels=each._labelnames)
            yield from samples(made)
        else:
            for family in each.collect():
                yield from samples(family)


def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, set[str]]]:
    """What is read from the state at a scrape, whether there is any or not: each family that is made."""
    made: list[Metric] = []

    class Noted(GaugeMetricFamily):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, **more)
            made.append(self)

    monkeypatch.setattr(collector, "GaugeMetricFamily", Noted)
    world = table(rules=Quota(unadmitted_reasons=True))
    labels = {"metadata": {"labels": {FLEET_LABEL: "multikueue"}}}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), labels)
    figures = StateCollector(store=world.store, queues=world.queues, has_resources=True, has_local_queues=True)
    for family in (*figures.collect(), *made):
        yield from samples(family)


@pytest.fixture(name="served")
def _served(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """All samples of /metrics by name, with their labels."""
    found = {**dict(counted()), **dict(shown(monkeypatch))}
    return {name: labels | ({"replica_role"} if name.startswith(KUEUE) else set()) for name, labels in found.items()}


def unknown(query: str, served: dict[str, set[str]]) -> set[str]:
    """What a query asks for and nothing has."""
    asked = SERIES.findall(query)
    wrong = {name for name, _ in asked if name not in served} or (set() if asked else {"no metric at all"})
    labels = [served.get(name, set()) for name, _ in asked]
    for (name, matchers), known in zip(asked, labels, strict=True):
        wrong |= {f"{name}: {label}" for label in MATCHER.findall(matchers) if label not in known | SCRAPED}
    for group in GROUPING.findall(query):
        wrong |= {label for label in group.split(", ") if label not in SCRAPED.union(*labels)}
    return wrong


def test_each_query_asks_for_metrics_and_labels_that_are_served(served: dict[str, set[str]]) -> None:
    wrong = {place: found for place, query in QUERIES.items() if (found := unknown(query, served))}

    assert wrong == {}


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("multikueue_copies > 0", set()),
        ("sum by (cluster) (multikueue_copy)", {"multikueue_copy", "cluster"}),
        ('multikueue_copies{queue="a"}', {"multikueue_copies: queue"}),
        ("max by (cluster, reason) (multikueue_copies)", {"reason"}),
        ("up > 0", {"no metric at all"}),
    ],
    ids=["nothing wrong", "no such metric", "no such label", "grouped by no label of it", "of others only"],
)
def test_what_is_not_served_is_found(query: str, wrong: set[str], served: dict[str, set[str]]) -> None:
    assert unknown(query, served) == wrong


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_each_query_is_well_formed_as_far_as_brackets_and_quotes_go(query: str) -> None:
    bare = re.sub(r'"[^"]*"', "", query)
    assert '"' not in bare
    for opening, closing in ("()", "{}", "[]"):
        assert bare.count(opening) == bare.count(closing)
    assert all(re.search(r"\b(rate|increase)\([^()]*$", bare[: found.start()]) for found in re.finditer(r"\[", bare))
    assert set(re.findall(r'le="([^"]*)"', query)) <= {str(float(bound)) for bound in TURNS}


def test_what_the_console_reads_is_served(served: dict[str, set[str]]) -> None:
    of_worker, of_calls = {"cluster"}, {"cluster", "verb"}
    read_ = {
        worker_figures.REACH: {"cluster", "status"},
        worker_figures.EXPIRY: of_worker,
        worker_figures.CONCURRENCY: of_worker,
        worker_figures.RELEASE: {"cluster", "release"},
        worker_figures.ROOM: {"cluster", "flavor", "resource", "quota"},
        worker_figures.WASTE: of_worker,
        worker_figures.PREEMPTED: of_worker,
        worker_figures.SECONDS: of_calls,
        worker_figures.CALLS: of_calls,
    }

    assert {name: served.get(name) for name in read_} == read_


def test_what_kueue_s_own_queries_for_grafana_ask_for_is_served(served: dict[str, set[str]]) -> None:
    lacking = {name: labels - served.get(name, set()) for name, labels in KUEUE_ASKS.items()}
    assert {name: labels for name, labels in lacking.items() if labels} == {}


def test_each_alert_says_how_bad_it_is_what_helps_and_where_more_is() -> None:
    known = {leaf.name for leaf in settings.leaves()}
    for name, alert in ALERTS.items():
        notes = alert["annotations"]
        page, _, anchor = notes["runbook"].partition("#")
        assert notes.keys() == {"summary", "description", "runbook"}, name
        assert alert["labels"].keys() == {"severity"}, name
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}, name
        assert anchor in anchors(ROOT / page), name
        typed = re.findall(r"`([^`]+)`", notes["description"])
        assert typed, f"{name}: no command helps"
        assert all(command in COMMANDS for text in typed for _, command, _ in calls(text)), name
        prose = re.sub(r"`[^`]+`", "", notes["description"])
        assert {*re.findall(r"\b[a-z_]+\.[a-z_]+\b", prose)} <= known, name


def test_each_alert_is_documented_with_its_metric() -> None:
    documented = {name: " ".join(cells) for name, cells in rows(section(read("docs/metrics.md"), "Alerts"))}

    assert list(documented) == list(ALERTS)
    for name, alert in ALERTS.items():
        used = {re.sub(r"_(bucket|count)$", "", metric) for metric, _ in SERIES.findall(alert["expr"])}
        assert all(f"`{metric}`" in documented[name] for metric in used), name


def test_labels_that_a_text_shows_are_left_by_the_query() -> None:
    for name, alert in ALERTS.items():
        left = {label for group in GROUPING.findall(alert["expr"]) for label in group.split(", ")}
        assert {*re.findall(r"\$labels\.(\w+)", str(alert["annotations"]))} <= left, name
    for panel in PANELS:
        for target in panel["targets"]:
            left = {label for group in GROUPING.findall(target["expr"]) for label in group.split(", ")}
            assert {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])} <= left, panel["title"]


def test_the_monitor_asks_where_metrics_are_and_keeps_their_labels() -> None:
    (endpoint,) = MONITOR["spec"]["endpoints"]

    assert MONITOR["spec"]["selector"] == {"matchLabels": SELECTED}
    assert endpoint["port"] in ports("standalone")
    assert endpoint["honorLabels"], "the label namespace of a LocalQueue would be that of the manager"


def test_the_dashboard_is_found_by_grafana_and_asks_the_source_that_is_chosen() -> None:
    (generated,) = kustomization(FOLDER)["configMapGenerator"]
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    chosen = {"type": "prometheus", "uid": "${datasource}"}

    assert generated["files"] == ["dashboard.json"]
    assert generated["options"] == {"disableNameSuffixHash": True, "labels": {"grafana_dashboard": "1"}}
    assert len(ids) == len(set(ids))
    assert variables["datasource"]["type"] == "datasource"
    assert all(each["datasource"] == chosen for panel in PANELS for each in (panel, *panel["targets"]))
    assert all(each["datasource"] == chosen for name, each in variables.items() if name != "datasource")
    used = {*re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))} - {"__rate_interval", "__all"}
    assert used == variables.keys()
    assert "://" not in json.dumps(DASHBOARD)
    assert "id" not in DASHBOARD, "the number of a dashboard is that Grafana's own"


def test_what_the_variables_of_the_dashboard_list_is_served(served: dict[str, set[str]]) -> None:
    asked = re.findall(r'"label_values\((\w+), (\w+)\)"', json.dumps(DASHBOARD))

    assert asked
    assert all(label in served[metric] for metric, label in asked)


def test_no_panel_covers_another_one() -> None:
    covered = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(covered) == len(set(covered))
    assert max(x for x, _ in covered) < 24
