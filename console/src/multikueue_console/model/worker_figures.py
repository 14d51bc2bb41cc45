"""What the manager's metrics tell of its workers: reach, latency, the end of credentials, Kueue's release, and room."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["Calls", "Room", "WorkerFigures", "calls_in", "worker_figures"]

REACH = "multikueue_cluster_reachability"
EXPIRY = "multikueue_cluster_credential_expiry_timestamp_seconds"
CONCURRENCY = "multikueue_cluster_concurrency"
ROOM = "multikueue_cluster_room"
RELEASE = "multikueue_cluster_kueue_release"
WASTE = "multikueue_losers_quota_seconds_total"
PREEMPTED = "multikueue_losers_preemptions_total"
SECONDS, CALLS = (f"multikueue_api_request_duration_seconds_{each}" for each in ("sum", "count"))


class Room(msgspec.Struct, frozen=True, gc=False):
    """What the queues of a worker have of one resource of one flavor, in the units that Kueue counts with: milli-units of cpu,
    whole units of all else. `free`: of their own quotas, as `multikueue_cluster_room` has it."""

    flavor: str
    resource: str
    nominal: int = 0
    used: int = 0
    free: int = 0


class WorkerFigures(msgspec.Struct, frozen=True, gc=False):
    """`reach`: connected, suspect, isolated, or empty if it is not told. `latency`: milliseconds until a call was answered, the
    mean since the look before; None without calls. `expires`: seconds since 1970, 0 for a credential without an end.
    `concurrency`: how many workloads may be written there at a time, 0 if nothing may be. `release`: of Kueue, and `room`, by
    flavor and resource: nothing where no strategy of the manager reads it. Since the manager began, `wasted` are the seconds
    for which copies that lost had quota there, and `preempted` is how many workloads had to go for them."""

    reach: str = ""
    latency: float | None = None
    expires: int = 0
    concurrency: int = 0
    release: str = ""
    room: tuple[Room, ...] = ()
    wasted: int = 0
    preempted: int = 0


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
    wasted: dict[str, int] = {}
    preempted: dict[str, int] = {}
    releases: dict[str, str] = {}
    rooms: dict[str, dict[tuple[str, str], dict[str, int]]] = {}
    for name, labels, value in _samples(text, (REACH, EXPIRY, CONCURRENCY, RELEASE, ROOM, WASTE, PREEMPTED)):
        cluster = labels["cluster"]
        if name == REACH and value:
            reach[cluster] = labels["status"]
        elif name == EXPIRY:
            ends[cluster] = int(value)
        elif name == CONCURRENCY:
            wide[cluster] = int(value)
        elif name == WASTE:
            wasted[cluster] = int(value)
        elif name == PREEMPTED:
            preempted[cluster] = int(value)
        elif name == RELEASE:
            releases[cluster] = labels["release"]
        elif name == ROOM:
            amount = round(1000 * value) if labels["resource"] == "cpu" else int(value)
            room = rooms.setdefault(cluster, {}).setdefault((labels["flavor"], labels["resource"]), {})
            room[labels["quota"]] = amount
    calls = calls_in(text)
    return {
        name: WorkerFigures(
            reach=reach.get(name, ""),
            latency=_latency(calls.get(name, Calls()), before.get(name, Calls())) if before else None,
            expires=ends.get(name, 0),
            concurrency=wide.get(name, 0),
            release=releases.get(name, ""),
            room=tuple(_room(*fr, amounts) for fr, amounts in sorted(rooms.get(name, {}).items())),
            wasted=wasted.get(name, 0),
            preempted=preempted.get(name, 0),
        )
        for name in reach.keys() | ends.keys() | wide.keys()
    }


def _room(flavor: str, resource: str, amounts: Mapping[str, int]) -> Room:
    nominal, used, free = (amounts.get(each, 0) for each in ("nominal", "used", "free"))
    return Room(flavor, resource, nominal, used, free)


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
