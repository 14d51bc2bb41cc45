"""What the viewer asked for, as a play and the settings of its manager."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from multikueue.settings import Cluster, Dispatch, Quota, Settings, StrategyChoice, Timings, Webhook
from multikueue.settings.tree import Integrations
from multikueue_simulator.demo.scripts.acts import ACTS
from multikueue_simulator.demo.scripts.story import story
from multikueue_simulator.demo.scripts.values import Play

__all__ = ["HOST", "Options", "play_of", "settings_of", "timings_of"]

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`speed` is the factor by which the script is accelerated. With `keep` the clusters are served until the demo is
    cancelled; `act` names a short play; with `versus` the peer plays, too; with `web` the
    console is opened beside it."""

    strategy: str = "all-at-once"
    workers: int = 3
    jobs: int = 90
    speed: float = 1.0
    seed: int = 1
    keep: bool = False
    act: str = ""
    versus: bool = False
    web: bool = False


def play_of(options: Options) -> Play:
    """The play that the options ask for."""
    if options.act:
        return ACTS[options.act]()
    faults = "race" if options.versus else "all"
    return story(workers=options.workers, jobs=options.jobs, seed=options.seed, faults=faults)


def settings_of(options: Options, play: Play, *, webhook: bool = True) -> Settings:
    """The settings of the manager, in step with the speed of the script."""

    def seconds(number: float) -> timedelta:
        return timedelta(seconds=number / options.speed)

    return Settings(
        cluster=Cluster(namespace=play.layout.secrets),
        webhook=Webhook(enabled=True, host=HOST, port=0, url=f"https://{HOST}/") if webhook else Webhook(),
        dispatch=Dispatch(
            strategy=StrategyChoice(name=play.strategy or options.strategy),
            worker_lost_timeout=seconds(4),
            heartbeat_interval=seconds(1),
        ),
        quota=Quota(requeue_first=seconds(0.5), requeue_cap=seconds(5), fair_sharing=play.fair_sharing),
        integrations=Integrations(elastic_jobs=play.elastic),
    )


def timings_of(options: Options) -> Timings:
    """The times of the manager. The machine does not answer faster at a higher speed: only the pauses are scaled."""
    return Timings(
        heartbeat_timeout=timedelta(seconds=1),
        call_timeout=timedelta(seconds=2),
        reconnect_first=timedelta(seconds=0.2 / options.speed),
        reconnect_cap=timedelta(seconds=1 / options.speed),
    )
