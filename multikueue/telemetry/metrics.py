"""The instruments, counters and histograms of Prometheus: one file, as it is a table of their names and labels.

Metrics named `kueue_*` are Kueue's own (quota-engine 7, contract 6.1) with the same meaning; ours are named
`multikueue_*`. A restart resets all, as Prometheus expects of counters.

Counting must be cheap: API calls go into plain numbers, the rest is counted a few times per workload.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Generic, ParamSpec, Protocol, TypeVar

import msgspec
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from multikueue.telemetry.logger import get_logger
from multikueue.telemetry.sink import STDERR

__all__ = [
    "CONTENT_TYPE",
    "KUEUE",
    "KUEUES_MULTIKUEUE",
    "MANAGER",
    "LabelledInstrument",
    "Metrics",
    "QueueInstruments",
    "kueue_buckets",
    "outbox_of",
]

log = get_logger()

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

MANAGER = "(manager)"
"""The value of the label `cluster` for the manager cluster. The parentheses rule out a worker of that name."""

KUEUES_MULTIKUEUE = ("multikueue_workloads_dispatched", "multikueue_workloads_admitted")
"""Metrics of Kueue's MultiKueue; all others that begin with `multikueue_` are ours."""

KUEUE = ("kueue_", *KUEUES_MULTIKUEUE)
"""Prefixes of all of Kueue's metrics."""

LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
TURNS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
CALLS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

# Without *_created samples, as in Go's client: they would only double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]


def outbox_of(cluster: str) -> str:
    """The controller name of a worker's outbox."""
    return f"outbox {cluster}"


def kueue_buckets(count: int) -> tuple[float, ...]:
    """Kueue's `count` buckets, in seconds: 1, 2.5, 5, 10 and so on, doubling (quota-engine 7)."""
    return (1.0, *(2.5 * 2**power for power in range(count - 1)))


class ApiCall(Protocol):
    """One API call, as `kube.client.Call` has it. `cluster` is empty for the manager."""

    @property
    def cluster(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def subresource(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def seconds(self) -> float: ...


_I = TypeVar("_I", Counter, Histogram)
P = ParamSpec("P")


class LabelledInstrument(Generic[_I]):
    """An instrument with labels that caches its children by label values: a lookup costs a tenth of the library's."""

    __slots__ = ("_children", "_instrument")

    def __init__(self, instrument: _I) -> None:
        self._instrument: _I = instrument
        self._children: dict[tuple[str, ...], _I] = {}

    def __call__(self, *labels: str) -> _I:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._instrument.labels(*labels)
        return child

    def forget(self, labels: dict[str, str]) -> None:
        """Drop the series with these label values, if the instrument has such labels."""
        with suppress(ValueError):
            self._instrument.remove_by_labels(labels)
            self._children.clear()


class QueueInstruments(msgspec.Struct, frozen=True):
    """Kueue's metrics per ClusterQueue or, with another prefix and labels, per LocalQueue."""

    reserved: LabelledInstrument[Counter]
    reserved_wait: LabelledInstrument[Histogram]
    admitted: LabelledInstrument[Counter]
    admitted_wait: LabelledInstrument[Histogram]
    checks_wait: LabelledInstrument[Histogram]
    ready_wait: LabelledInstrument[Histogram]
    ready_since_admitted: LabelledInstrument[Histogram]
    evicted: LabelledInstrument[Counter]
    finished: LabelledInstrument[Counter]

    @classmethod
    def of(cls, registry: CollectorRegistry, prefix: str, labels: tuple[str, ...], *, most: int) -> QueueInstruments:
        """`most` is the number of buckets of the admission wait time."""

        def counter(name: str, text: str, *more: str) -> LabelledInstrument[Counter]:
            return LabelledInstrument(Counter(f"kueue_{prefix}{name}", text, (*labels, *more), registry=registry))

        def histogram(name: str, text: str, *, buckets: int = 14) -> LabelledInstrument[Histogram]:
            bounds, names = kueue_buckets(buckets), (*labels, "priority_class")
            return LabelledInstrument(
                Histogram(f"kueue_{prefix}{name}", text, names, buckets=bounds, registry=registry)
            )

        of = "per LocalQueue" if prefix else "per ClusterQueue"
        return cls(
            reserved=counter("quota_reserved_workloads", f"Workloads that got quota, {of}", "priority_class"),
            reserved_wait=histogram(
                "quota_reserved_wait_time_seconds",
                f"Time from creation, or from the last requeueing, to the reservation of quota, {of}",
            ),
            admitted=counter("admitted_workloads", f"Workloads that were admitted, {of}", "priority_class"),
            admitted_wait=histogram(
                "admission_wait_time_seconds",
                f"Time from creation, or from the last requeueing, to admission, {of}",
                buckets=most,
            ),
            checks_wait=histogram(
                "admission_checks_wait_time_seconds", f"Time from the reservation of quota to admission, {of}"
            ),
            ready_wait=histogram(
                "ready_wait_time_seconds",
                f"Time from creation, or from the last requeueing, until all pods were ready, {of}",
            ),
            ready_since_admitted=histogram(
                "admitted_until_ready_wait_time_seconds", f"Time from admission until all pods were ready, {of}"
            ),
            evicted=counter("evicted_workloads", f"Evictions, {of}", "reason", "underlying_cause", "priority_class"),
            finished=counter("finished_workloads", f"Workloads that finished, {of}", "priority_class"),
        )


class Metrics:
    """All instruments. One event loop counts; `render` may run in another thread.

    `role` is the value of the label `replica_role`: standalone, leader or follower, as in Kueue. `has_local_queues` enables
    the instruments per LocalQueue, which Kueue has behind a feature gate. `told` has the prefixes of Kueue's metrics
    that we expose: beside a Kueue, that one exposes most of them itself.
    """

    def __init__(self, *, has_local_queues: bool = False, told: tuple[str, ...] = KUEUE) -> None:
        self.role, self._told = "standalone", told
        self.registry = registry = CollectorRegistry()
        self.queues = QueueInstruments.of(registry, "", ("cluster_queue",), most=16)
        self.local_queues = (
            QueueInstruments.of(registry, "local_queue_", ("name", "namespace"), most=14) if has_local_queues else None
        )
        self.evicted_once = LabelledInstrument(
            Counter(
                "kueue_evicted_workloads_once",
                "Workloads that were evicted for the first time, per ClusterQueue",
                ("cluster_queue", "reason", "detailed_reason", "priority_class"),
                registry=registry,
            )
        )
        self.ready_until_evicted = LabelledInstrument(
            Histogram(
                "kueue_pods_ready_to_evicted_time_seconds",
                "Time from when all pods were ready to an eviction, per ClusterQueue",
                ("cluster_queue", "reason", "underlying_cause"),
                buckets=kueue_buckets(14),
                registry=registry,
            )
        )
        self.preempted = LabelledInstrument(
            Counter(
                "kueue_preempted_workloads",
                "Workloads that were told to go for another one, by its ClusterQueue",
                ("preempting_cluster_queue", "reason"),
                registry=registry,
            )
        )
        self.attempts = LabelledInstrument(
            Counter(
                "kueue_admission_attempts", "Quota cycles that had a head to look at", ("result",), registry=registry
            )
        )
        self.attempt_seconds = LabelledInstrument(
            Histogram(
                "kueue_admission_attempt_duration_seconds", "Duration of these cycles", ("result",), registry=registry
            )
        )
        self.dispatched = LabelledInstrument(
            Counter(
                "multikueue_workloads_dispatched",
                "Copies that were created on workers",
                ("cluster_queue", "cluster"),
                registry=registry,
            )
        )
        self.won = LabelledInstrument(
            Counter(
                "multikueue_workloads_admitted",
                "Workloads whose MultiKueue check became Ready",
                ("cluster_queue", "cluster"),
                registry=registry,
            )
        )
        self.phases = LabelledInstrument(
            Histogram(
                "multikueue_dispatch_phase_duration_seconds",
                "Time from the milestone before to this one, on the way of a workload",
                ("phase",),
                buckets=LATENCIES,
                registry=registry,
            )
        )
        self.dispatch = Histogram(
            "multikueue_dispatch_duration_seconds",
            "Time from when a job was first seen to when it was dispatched",
            buckets=LATENCIES,
            registry=registry,
        )
        self.copies_removed = LabelledInstrument(
            Counter(
                "multikueue_copies_removed",
                "Copies that left a worker, by why: lost (another worker won), finished, deleted, orphan, withdrawn",
                ("cluster", "reason"),
                registry=registry,
            )
        )
        self.held_by_losers = LabelledInstrument(
            Counter(
                "multikueue_losers_quota_seconds",
                "Time for which copies had quota on a worker until they were removed, as others won or they were withdrawn",
                ("cluster",),
                registry=registry,
            )
        )
        self.preempted_by_losers = LabelledInstrument(
            Counter(
                "multikueue_losers_preemptions",
                "Workloads seen to be preempted on a worker for copies that did not stay, as others won or they were withdrawn",
                ("cluster",),
                registry=registry,
            )
        )
        self.retries = LabelledInstrument(
            Counter(
                "multikueue_retries",
                "Workloads whose MultiKueue check became Retry, by the worker that had them",
                ("cluster",),
                registry=registry,
            )
        )
        self._calls = _Calls()
        registry.register(self._calls)
        self.watch_failures = LabelledInstrument(
            Counter(
                "multikueue_watch_failures",
                "Failed attempts to list and watch, by cluster and resource",
                ("cluster", "resource"),
                registry=registry,
            )
        )
        self.cluster_changes = LabelledInstrument(
            Counter(
                "multikueue_cluster_status_changes",
                "How often a worker became connected, suspect or isolated",
                ("cluster", "status"),
                registry=registry,
            )
        )
        self.identity_proofs = LabelledInstrument(
            Counter(
                "multikueue_identity_proofs",
                "Proofs whether a worker with the identity of another one is the same cluster: same or other",
                ("cluster", "told"),
                registry=registry,
            )
        )
        self.reconcile_errors = LabelledInstrument(
            Counter(
                "multikueue_reconcile_errors",
                "Reconciles that ended with an error, by its class; a Conflict only means to look again",
                ("controller", "error"),
                registry=registry,
            )
        )
        self.strategy_failures = LabelledInstrument(
            Counter(
                "multikueue_strategy_failures",
                "How often a strategy raised, took too long or named nonsense",
                ("strategy",),
                registry=registry,
            )
        )
        self._acting = Gauge(
            "multikueue_acting",
            "1 while this process acts: it leads, or there is no election; 0 while it stands by",
            registry=registry,
        )
        self.dispatch_stalled = Gauge(
            "multikueue_dispatch_stalled",
            "1 while workloads wait and no controller has looked at one for a minute, as /readyz says",
            registry=registry,
        )
        self._longest_turn = Gauge(
            "multikueue_event_loop_longest_turn_seconds",
            "Longest time since the start that the event loop was busy with one thing",
            registry=registry,
        )
        self._longest_own_turn = Gauge(
            "multikueue_event_loop_longest_turn_own_seconds",
            "The same without the time for which its thread was ready to run and others had the processors",
            registry=registry,
        )
        self._turns = Histogram(
            "multikueue_event_loop_turn_seconds",
            "How late timers fired that are set 50 times a second: how long the event loop was busy with something else",
            buckets=TURNS,
            registry=registry,
        )
        self._longest = self._longest_own = 0.0
        self.lost_fields = Gauge(
            "multikueue_objects_with_lost_fields",
            "ClusterQueues and MultiKueueClusters that lost fields, written in a version that nobody converts",
            registry=registry,
        )
        self.sweeps = Counter("multikueue_sweeps", "Sweeps over what is on the workers", registry=registry)
        self.events = LabelledInstrument(
            Counter(
                "multikueue_events",
                "Kubernetes events by what became of them: sent, suppressed (said before, or too often) or lost",
                ("reason", "outcome"),
                registry=registry,
            )
        )
        registry.register(_Log())
        self._look_failures = LabelledInstrument(
            Counter(
                "multikueue_look_failures",
                "Errors in what only looks, by what it looks at: a count or a log line is missing, nothing else",
                ("what",),
                registry=registry,
            )
        )
        self._failed_looks: set[str] = set()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

    def look_failed(self, what: str, error: Exception) -> None:
        """Counts an error of an observer, and logs the first of each. Never raises."""
        with suppress(Exception):
            if what not in self._failed_looks:
                self._failed_looks.add(what)
                log.error("look.failed", what=what, exc_info=error)
            self._look_failures(what).inc()

    def guarded(self, what: str, look: Callable[P, object]) -> Callable[P, None]:
        """`look`, whose errors are counted (`look_failed`) instead of raised."""

        def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                look(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # the boundary: who looks is no part of what is done
                self.look_failed(what, error)

        return guarded

    def called(self, call: ApiCall) -> None:
        """Count one API call; passed to the client as `on_call`."""
        try:
            self._calls.count(call)
        except Exception as error:  # noqa: BLE001  # the boundary, as in `guarded`, with one call less
            self.look_failed("calls", error)

    def turned(self, seconds: float, own: float) -> None:
        """Record a busy turn of the event loop, in seconds; `own` excludes the time in which others had the
        processors."""
        self._turns.observe(seconds)
        if seconds > self._longest:
            self._longest = seconds
            self._longest_turn.set(seconds)
        if own > self._longest_own:
            self._longest_own = own
            self._longest_own_turn.set(own)

    def forget_cluster(self, name: str) -> None:
        """Drop the series of a worker that was removed."""
        self._forget(cluster=name)
        self._forget(controller=outbox_of(name))
        self._calls.forget(name)

    def forget_cluster_queue(self, name: str) -> None:
        self._forget(cluster_queue=name)

    def forget_local_queue(self, namespace: str, name: str) -> None:
        self._forget(namespace=namespace, name=name)

    def _forget(self, **labels: str) -> None:
        queues = [group for group in (self.queues, self.local_queues) if group is not None]
        for each in (
            *vars(self).values(),
            *(getattr(group, name) for group in queues for name in group.__struct_fields__),
        ):
            if isinstance(each, LabelledInstrument):
                each.forget(labels)

    def failing(self, controller: str) -> Callable[[object, Exception], None]:
        """A callback for the errors of a controller: it takes the key and the error."""

        def failed(_key: object, error: Exception) -> None:
            for name in _names(error):
                self.reconcile_errors(controller, name).inc()

        return self.guarded("reconciles", failed)

    def render(self, state: Iterable[Metric] = ()) -> bytes:
        """All metrics in the text format of Prometheus, after `state`. Takes milliseconds: call it in a thread."""
        self._acting.set(self.role != "follower")
        return generate_latest(_Exposition(self.registry, tuple(state), self.role, self._told))


class _Tally:
    """Number of calls, their seconds in total, and the number per bucket."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count, self.seconds, self.buckets = 0, 0.0, [0] * (len(CALLS) + 1)


class _Calls(Collector):
    """Requests and their duration. Our own instrument for speed: it counts about ten times per workload."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str, str, str, str], _Tally] = {}

    def count(self, call: ApiCall) -> None:
        key = (call.cluster, call.verb, call.plural, call.subresource, call.status)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally()
        tally.count += 1
        tally.seconds += call.seconds
        tally.buckets[bisect_left(CALLS, call.seconds)] += 1

    def forget(self, cluster: str) -> None:
        for key in [key for key in self._tallies if key[0] == cluster]:
            del self._tallies[key]

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "multikueue_api_requests",
            "Requests to API servers as they went over the wire; code is the HTTP status of a success, else the error",
            labels=("cluster", "verb", "resource", "code"),
        )
        durations: dict[tuple[str, str], _Tally] = {}
        for (cluster, verb, plural, subresource, code), tally in tuple(self._tallies.items()):
            resource = f"{plural}/{subresource}" if subresource else plural
            requests.add_metric((cluster or MANAGER, verb, resource, code), tally.count)
            total = durations.setdefault((cluster or MANAGER, verb), _Tally())
            total.seconds += tally.seconds
            total.buckets = [a + b for a, b in zip(total.buckets, tally.buckets, strict=True)]
        yield requests
        yield _durations(durations)


class _Log(Collector):
    """The lines of the log that were lost."""

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "multikueue_log_lines_dropped",
            "Lines of the log that could not be written: a full disk, or a reader that is gone or too slow",
            value=STDERR.dropped,
        )


def _durations(totals: Mapping[tuple[str, str], _Tally]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        "multikueue_api_request_duration_seconds",
        "Time until the answer was read; for a watch, until it began",
        labels=("cluster", "verb"),
    )
    for labels, total in totals.items():
        up_to = zip((*(str(bound) for bound in CALLS), "+Inf"), accumulate(total.buckets), strict=True)
        family.add_metric(labels, list(up_to), total.seconds)
    return family


def _names(error: Exception) -> set[str]:
    if isinstance(error, ExceptionGroup):
        return {name for inner in error.exceptions for name in _names(inner)}
    return {type(error).__name__}


class _Exposition:
    """The exposed metrics. Kueue's all carry `replica_role`, which is added here instead of at each count."""

    def __init__(
        self, registry: CollectorRegistry, state: tuple[Metric, ...], role: str, told: tuple[str, ...]
    ) -> None:
        self._registry, self._state, self._role, self._told = registry, state, role, told

    def collect(self) -> Iterator[Metric]:
        for metric in (*self._state, *self._registry.collect()):
            if not metric.name.startswith(KUEUE):
                yield metric
            elif metric.name.startswith(self._told):
                yield self._with_role(metric)

    def _with_role(self, metric: Metric) -> Metric:
        marked = Metric(metric.name, metric.documentation, metric.type)
        marked.samples = [
            Sample(s.name, s.labels | {"replica_role": self._role}, s.value, s.timestamp, s.exemplar)
            for s in metric.samples
        ]
        return marked
