"""Jobs drawn after traces: they are the same for a seed, fit the fleet, and have the medians that were published."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.mixes.traces import LOCAL, MIXES, PARTS, Mix, drawn, fleet

TEN = fleet(10, equal=False)


@pytest.mark.parametrize("mix", MIXES.values(), ids=lambda mix: mix.name)
def test_a_mix_is_a_distribution(mix: Mix) -> None:
    assert sum(share for _, share in mix.sizes) == pytest.approx(1, abs=0.01)
    shares, times = zip(*mix.run_times, strict=True)
    assert (shares[0], shares[-1]) == (0, 1)
    assert list(shares) == sorted(shares)
    assert list(times) == sorted(times)


@pytest.mark.parametrize("mix", MIXES.values(), ids=lambda mix: mix.name)
def test_each_job_fits_a_cluster_that_it_may_use(mix: Mix) -> None:
    clusters = {each.name: each for each in TEN}
    for job in drawn(mix, TEN, days=0.2, load=0.9, seed=1):
        assert any(job.parts <= each.parts and job.gpu in ("", each.gpu) for each in TEN)
        if job.local:
            assert job.parts <= clusters[job.local].parts
            assert job.gpu in ("", clusters[job.local].gpu)


def test_the_same_seed_gives_the_same_jobs_and_another_others() -> None:
    first, again, other = (drawn(MIXES["seren"], TEN, days=0.1, load=0.9, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_jobs_ask_for_the_load() -> None:
    jobs = drawn(MIXES["pai"], TEN, days=2, load=0.9, seed=1)
    asked = sum(job.work for job in jobs) / (sum(each.parts for each in TEN) * 2 * 86_400)
    assert asked == pytest.approx(0.9, rel=0.02)
    assert [job.at for job in jobs] == sorted(job.at for job in jobs)
    assert 0 <= jobs[0].at <= jobs[-1].at <= 2 * 86_400
    assert sum(bool(job.local) for job in jobs) / len(jobs) == pytest.approx(LOCAL, abs=0.03)


def test_run_times_are_those_of_the_trace_but_for_what_fails() -> None:
    whole = Mix("whole", "", MIXES["openb"].run_times, ((PARTS, 1.0),), 0.0)
    times = [job.seconds for job in drawn(whole, TEN, days=3, load=0.9, seed=1)]
    assert statistics.median(times) == pytest.approx(616, rel=0.15)
