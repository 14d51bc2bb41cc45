"""What is read of the manager's metrics."""

from __future__ import annotations

import pytest

from multikueue_console.model.worker_figures import Calls, Room, WorkerFigures, calls_in, worker_figures

METRICS = """\
# HELP multikueue_cluster_reachability 1 for the state of a worker
# TYPE multikueue_cluster_reachability gauge
multikueue_cluster_reachability{cluster="oslo",status="connected"} 1.0
multikueue_cluster_reachability{cluster="oslo",status="isolated"} 0.0
multikueue_cluster_reachability{cluster="dublin",status="connected"} 0.0
multikueue_cluster_reachability{cluster="dublin",status="isolated"} 1.0
multikueue_cluster_credential_expiry_timestamp_seconds{cluster="oslo"} 1.8e+09
multikueue_cluster_concurrency{cluster="oslo"} 16.0
multikueue_api_request_duration_seconds_bucket{cluster="oslo",le="+Inf",verb="get"} 30.0
multikueue_api_request_duration_seconds_count{cluster="oslo",verb="get"} 30.0
multikueue_api_request_duration_seconds_sum{cluster="oslo",verb="get"} 0.5
multikueue_api_request_duration_seconds_count{cluster="oslo",verb="create"} 10.0
multikueue_api_request_duration_seconds_sum{cluster="oslo",verb="create"} 0.5
multikueue_api_request_duration_seconds_count{cluster="oslo",verb="watch"} 2.0
multikueue_api_request_duration_seconds_sum{cluster="oslo",verb="watch"} 600.0
multikueue_cluster_kueue_release{cluster="oslo",release="0.19.2"} 1.0
multikueue_cluster_room{cluster="oslo",flavor="spot",quota="nominal",resource="cpu"} 10.0
multikueue_cluster_room{cluster="oslo",flavor="spot",quota="used",resource="cpu"} 2.5
multikueue_cluster_room{cluster="oslo",flavor="spot",quota="free",resource="cpu"} 7.5
multikueue_cluster_room{cluster="oslo",flavor="h100",quota="nominal",resource="nvidia.com/gpu"} 8.0
multikueue_losers_quota_seconds_total{cluster="oslo"} 91.5
multikueue_losers_preemptions_total{cluster="oslo"} 2.0
multikueue_acting 1.0
"""


def test_each_worker_has_its_state_its_room_and_the_end_of_its_credential() -> None:
    found = worker_figures(METRICS, {})

    assert found == {
        "oslo": WorkerFigures(
            reach="connected",
            expires=1_800_000_000,
            concurrency=16,
            release="0.19.2",
            room=(Room("h100", "nvidia.com/gpu", nominal=8), Room("spot", "cpu", nominal=10_000, used=2500, free=7500)),
            wasted=91,
            preempted=2,
        ),
        "dublin": WorkerFigures(reach="isolated"),
    }


@pytest.mark.parametrize(
    ("before", "latency"),
    [
        (Calls(count=20, seconds=0.5), 25.0),
        (Calls(count=40, seconds=1.0), None),
        (Calls(count=900, seconds=4.0), None),
    ],
    ids=["a mean since the look before", "no call since", "another process of the manager"],
)
def test_how_fast_it_answers_is_the_mean_of_the_calls_between_two_looks(before: Calls, latency: float | None) -> None:
    assert calls_in(METRICS)["oslo"] == Calls(count=40, seconds=1.0), "without watches, which stay open"
    assert worker_figures(METRICS, {"oslo": before})["oslo"].latency == latency


def test_what_is_no_text_of_metrics_is_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        worker_figures('multikueue_cluster_concurrency{cluster="oslo"} much', {})
