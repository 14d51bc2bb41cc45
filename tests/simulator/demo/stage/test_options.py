"""What the viewer asked for."""

from __future__ import annotations

from datetime import timedelta

from multikueue_simulator.demo.stage.options import Options, play_of, settings_of, timings_of


def test_an_act_is_played_instead_of_the_story() -> None:
    assert play_of(Options(act="ocm")).name == "ocm"
    assert play_of(Options()).name == "story"


def test_an_act_brings_its_own_settings() -> None:
    made = settings_of(Options(act="ocm"), play_of(Options(act="ocm")))
    assert made.dispatch.strategy.name == "external"
    assert settings_of(Options(), play_of(Options(act="elastic"))).integrations.elastic_jobs
    assert settings_of(Options(), play_of(Options(act="fair-sharing"))).quota.fair_sharing


def test_waits_are_in_step_with_the_speed_and_answers_are_not() -> None:
    options = [Options(speed=speed) for speed in (2.0, 1.0)]
    fast, slow = (settings_of(each, play_of(each)).dispatch for each in options)
    assert 2 * fast.worker_lost_timeout == slow.worker_lost_timeout == timedelta(seconds=4)
    fast_times, slow_times = map(timings_of, options)
    assert 2 * fast_times.reconnect_cap == slow_times.reconnect_cap
    assert fast_times.call_timeout == slow_times.call_timeout
