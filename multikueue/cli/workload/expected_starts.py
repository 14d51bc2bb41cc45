"""When jobs start that wait, by the history of multikueue-console, which is found by entry point where it is installed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from multikueue.cli.terminal.output import since

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.api.meta import ObjectKey
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.settings import Settings

__all__ = ["UNKNOWN", "ExpectedStart", "HistoryPlace", "Starts", "as_counted", "expected_starts", "sentence"]

GROUP, NAME = "multikueue.estimates", "history"

UNKNOWN = "unknown"

HistoryPlace = Annotated[
    str | None,
    typer.Option(
        "--history",
        envvar="MULTIKUEUE_HISTORY",
        metavar="URL",
        help="History for an estimate of the start: sqlite:///FILE or postgresql://...",
        show_default=False,
    ),
]


class ExpectedStart(NamedTuple):
    """The range in which a job starts in four of five cases, and the middle."""

    low: datetime
    middle: datetime
    high: datetime

    def within(self, now: datetime) -> str:
        """How long it takes from now on, as a cell of a list."""
        return f"{since(self.low - now)} - {since(self.high - now)}"


Starts = Mapping["ObjectKey", ExpectedStart | None]
"""By job that waits; None where it is unknown. A job of which nothing is computed is missing."""

Estimate = Callable[["ClusterClient", str, Sequence["Workload"]], Awaitable[Starts]]
"""What the entry point names: computes the starts of all that wait, by the history at the URL, with these workloads as if they
were submitted. Raises MultiKueueError for a history that cannot be read, Forbidden for a kind that may not be listed."""


async def expected_starts(client: ClusterClient, url: str, more: Sequence[Workload] = ()) -> Starts | str:
    """A text says in a few words why nothing is known."""
    from importlib.metadata import entry_points

    from multikueue.errors import Forbidden, MultiKueueError

    points = [*entry_points(group=GROUP, name=NAME)]
    if not points:
        return "multikueue-console is not installed"
    try:
        estimate: Estimate = points[0].load()
        return await estimate(client, url, more)
    except Forbidden:
        return "it takes the right to list workloads, queues, flavors and namespaces"
    except MultiKueueError as error:
        return str(error)
    except ImportError as error:
        return f"multikueue-console cannot be loaded: {error}"


def sentence(starts: Starts | str, key: ObjectKey) -> str:
    """When that job starts, in UTC, or that this is unknown; empty for one that does not wait for quota."""
    if isinstance(starts, str):
        return f"{UNKNOWN}: {starts}"
    if key not in starts:
        return ""
    found = starts[key]
    if found is None:
        return f"{UNKNOWN}: too few jobs were seen, or too many wait before it"
    low, middle, high = (f"{each:%m-%d %H:%M}" for each in found)
    return f"about {middle}, in 4 of 5 cases from {low} to {high} UTC"


def as_counted(workload: Workload, settings: Settings | None) -> Workload:
    """A workload that no manager has looked at yet, with what it asks for in its status."""
    from msgspec.structs import replace

    from multikueue.cli.workload.explanation import demand_by
    from multikueue.quota.requests.amounts import resource_requests
    from multikueue.quota.visibility.differences import PodPolicies

    demand = demand_by(PodPolicies(), workload, settings)
    asked = resource_requests(demand.pod_sets, should_count_pods=False)
    return replace(workload, status=replace(workload.status, resource_requests=asked))
