"""What the manager's metrics tell of its workers: how each is reached, how fast it answers, and when its credential ends."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["Calls", "WorkerFigures", "calls_in", "worker_figures"]

REACH = "multikueue_cluster_reachability"
EXPIRY = "multikueue_cluster_credential_expiry_timestamp_seconds"
CONCURRENCY = "multikueue_cluster_concurrency"
SECONDS, CALLS = (f"multikueue_api_request_duration_seconds_{each}" for each in ("sum", "count"))


class WorkerFigures(msgspec.Struct, frozen=True, gc=False):
    """`reach`: connected, suspect, isolated, or empty if it is not told. `latency`: milliseconds until a call was answered, the
    mean since the look before; None without calls. `expires`: seconds since 1970, 0 for a credential without an end.
    `concurrency`: how many workloads may be written there at a time, 0 if nothing may be."""

    reach: str = ""
    latency: float | None = None
    expires: int = 0
    concurrency: int = 0


class Calls(msgspec.Struct, frozen=True, gc=False):
    """Calls to a worker since the manager began, without watches, and the seconds that they took."""

    count: float = 0.0
    seconds: float = 0.0


def worker_figures(text: str, before: Mapping[str, Calls]) -> dict[str, WorkerFigures]:
    """The figures of each worker, by name. `text`: the manager's metrics; `before`: `calls_in` them at the look before, empty
    if there was none. Raises ValueError for a text that is none."""
    reach: dict[str, str] = {}
    ends: dict[str, int] = {}
    wide: dict[str, int] = {}
    for name, labels, value in _samples(text, (REACH, EXPIRY, CONCURRENCY)):
        cluster = labels["cluster"]
        if name == REACH and value:
            reach[cluster] = labels["status"]
        elif name == EXPIRY:
            ends[cluster] = int(value)
        elif name == CONCURRENCY:
            wide[cluster] = int(value)
    calls = calls_in(text)
    return {
        name: WorkerFigures(
            reach=reach.get(name, ""),
            latency=_latency(calls.get(name, Calls()), before.get(name, Calls())) if before else None,
            expires=ends.get(name, 0),
            concurrency=wide.get(name, 0),
        )
        for name in reach.keys() | ends.keys() | wide.keys()
    }


def calls_in(text: str) -> dict[str, Calls]:
    """The calls to each worker so far, by its name. Raises ValueError."""
    found: dict[str, Calls] = {}
    for name, labels, value in _samples(text, (SECONDS, CALLS)):
        if labels["verb"] == "watch":
            continue
        sum_ = found.get(labels["cluster"], Calls())
        count, seconds = (value, 0.0) if name == CALLS else (0.0, value)
        found[labels["cluster"]] = Calls(sum_.count + count, sum_.seconds + seconds)
    return found


def _latency(now: Calls, before: Calls) -> float | None:
    """None also where they are of another process, which counts from zero."""
    count, seconds = now.count - before.count, now.seconds - before.seconds
    return round(1000 * seconds / count, 1) if count > 0 and seconds >= 0 else None


def _samples(text: str, names: tuple[str, ...]) -> list[tuple[str, Mapping[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families

    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(names))
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(lines)
        for sample in family.samples
        if sample.name in names and "cluster" in sample.labels
    ]
