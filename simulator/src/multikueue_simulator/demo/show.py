"""The demo itself: runs the script in a world, shows the board meanwhile, and ends with a summary."""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import yaml
from anyio.abc import TaskGroup
from rich.console import Console
from rich.live import Live

from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.model.storage import Change
from fakekube.network.link import State
from multikueue import registry
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.ocm import PLACEMENT_LABEL
from multikueue.runtime import SystemClock
from multikueue.settings import Cluster, Dispatch, InForce, Quota, Settings, StrategyChoice, Webhook
from multikueue.store.placements import PLACEMENT_ANNOTATION
from multikueue_simulator import definitions, objects
from multikueue_simulator.demo.board import Board
from multikueue_simulator.demo.script import Script, ScriptedEvent, Submission, layout, script
from multikueue_simulator.demo.view import picture, story, summary
from multikueue_simulator.processes import ManagerProcess
from multikueue_simulator.serve import merged
from multikueue_simulator.world import NAMESPACE, ClusterHandle, Layout, World

__all__ = ["Options", "play"]

FRAMES = 8
"""Pictures per second."""

PROGRESS = 5.0
"""Seconds between two progress lines without a terminal."""

PATIENCE = 60.0
"""Seconds from the last job until the demo gives up."""

NAME = "manager-0"
HOST = "127.0.0.1"
PLACEMENT = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`speed` is the factor by which the script is accelerated. With `keep` the clusters are served until the demo is
    cancelled."""

    strategy: str = "all-at-once"
    workers: int = 3
    jobs: int = 90
    speed: float = 1.0
    seed: int = 1
    keep: bool = False


@dataclass(slots=True)
class _Stage:
    """The world, the script, and the board that observes them."""

    options: Options
    world: World
    script: Script
    board: Board
    manager: ManagerProcess
    began: float = 0.0
    shown: int = field(default=0)

    @property
    def at(self) -> float:
        """Seconds of the script since the start."""
        return (anyio.current_time() - self.began) * self.options.speed

    async def until(self, at: float) -> None:
        await anyio.sleep(max(0.0, (at - self.at) / self.options.speed))

    # The script.

    async def submit_all(self) -> None:
        for submission in self.script.submissions:
            await self.until(submission.at)
            if submission.at == self.script.submissions[-1].at and self.script.burst and not self._bursting:
                self.board.announce(self.at, f"a burst: {self.script.burst} jobs at once")
                self._bursting = True
            await self._submit(submission)

    _bursting: bool = False

    async def _submit(self, submission: Submission) -> None:
        """Submit a Job with only a queue label, as any user would: the webhook does the rest."""
        body = objects.job(
            submission.name,
            NAMESPACE,
            queue=submission.queue,
            cpu=submission.cpu,
            seconds=submission.seconds / self.options.speed,
        )
        body["spec"] = {name: value for name, value in body["spec"].items() if name not in ("suspend", "managedBy")}
        await self.world.manager.ask("POST", kinds.JOBS.collection(NAMESPACE), body)

    async def act_all(self, tasks: TaskGroup) -> None:
        for act in self.script.acts:
            await self.until(act.at)
            self.board.announce(self.at, act.text)
            self._perform(act, tasks)

    def _perform(self, act: ScriptedEvent, tasks: TaskGroup) -> None:
        worker = self.world.workers[act.worker]
        link = self.world.network.link(NAME, act.worker)
        match act.deed:
            case "die":
                link.become(State.REFUSE)
                worker.kueue.kill()
                worker.runner.kill()
            case "return":
                link.become(State.UP)
                worker.kueue.begin(tasks)
                worker.runner.begin(tasks)
            case "fill":
                self._fill(worker.site, act.seconds / self.options.speed, cpu=self.board.stands[act.worker].cpu)

    def _fill(self, site: ClusterHandle, seconds: float, *, cpu: int) -> None:
        """Submit jobs directly on the worker, which fill it as the demo's own jobs end there."""
        queue = self.world.layout.queues[0].name
        for number in range(math.ceil(cpu / 2)):
            site.create(
                kinds.JOBS,
                objects.job(f"theirs-{number}", NAMESPACE, queue=queue, cpu=2, seconds=seconds, managed=False),
            )

    # The observers.

    def attend(self) -> None:
        """Report all changes to the board."""
        for site in self.world.sites:
            site.cluster.storage.subscribe(self._spectator(site.name))

    def _spectator(self, name: str) -> Callable[[Change], None]:
        def see(change: Change) -> None:
            self.board.see(name, change.type, change.version.object, self.at)

        return see

    @property
    def is_over(self) -> bool:
        return self.board.is_over(len(self.script.submissions))


async def play(options: Options, console: Console) -> bool:
    """Play the demo on a console. Returns whether every job finished. With `keep` it runs until it is cancelled.

    Raises ConfigurationError for an unknown strategy.
    """
    registry.load(options.strategy, {})
    plan = layout(options.workers)
    names = [share.name for share in plan.workers]
    world = World(plan, clock=SystemClock(), seed=options.seed)
    world.apply_fixtures(annotations={PLACEMENT_ANNOTATION: PLACEMENT} if options.strategy == "external" else None)
    if options.strategy == "external":
        _decide(world.manager, names, namespace=plan.secrets)
    manager = world.add_manager(NAME, InForce(_settings(options, plan)))
    stage = _Stage(
        options,
        world,
        script(options.jobs, names, seed=options.seed),
        Board([queue.name for queue in plan.queues], {share.name: share.cpu for share in plan.workers}),
        manager,
    )
    async with _open(world), _served(world, keep=options.keep) as file, anyio.create_task_group() as tasks:
        stage.began = anyio.current_time()
        await world.start(tasks)
        stage.attend()
        await manager.begin(tasks).wait()
        await _all_ready(world, manager)
        if file:
            _tell_how_to_use(console, file, names)
        stage.began = anyio.current_time()
        over = await _perform(stage, tasks, console)
        console.print()
        console.print(summary(stage.board))
        if file:
            await anyio.sleep_forever()
        manager.stop()
        tasks.cancel_scope.cancel()
    return over


def _decide(manager: ClusterHandle, workers: Sequence[str], *, namespace: str) -> None:
    """Create OCM's decision for all workers."""
    manager.cluster.install(definitions.ocm())
    key, metadata = ObjectKey(namespace, f"{PLACEMENT}-decision-1"), {"name": PLACEMENT, "namespace": namespace}
    placement = {"apiVersion": kinds.PLACEMENTS.api_version, "kind": kinds.PLACEMENTS.kind, "metadata": metadata}
    manager.create(kinds.PLACEMENTS, {**placement, "spec": {}})
    body = {
        "apiVersion": kinds.PLACEMENT_DECISIONS.api_version,
        "kind": kinds.PLACEMENT_DECISIONS.kind,
        "metadata": {"name": key.name, "namespace": namespace, "labels": {PLACEMENT_LABEL: PLACEMENT}},
    }
    manager.create(kinds.PLACEMENT_DECISIONS, body)
    decisions = [{"clusterName": worker, "reason": ""} for worker in workers]
    manager.patch(kinds.PLACEMENT_DECISIONS, key, {"status": {"decisions": decisions}}, subresource="status")


async def _perform(stage: _Stage, tasks: TaskGroup, console: Console) -> bool:
    """Run the script. Returns whether all jobs finished in time."""
    last = stage.script.submissions[-1].at if stage.script.submissions else 0.0
    deadline = last + PATIENCE * stage.options.speed
    with _screen(stage, console) as draw:
        async with anyio.create_task_group() as play:
            play.start_soon(stage.submit_all)
            play.start_soon(stage.act_all, tasks)
            while not stage.is_over and stage.at < deadline:
                _expect_to_run(stage.manager)
                await anyio.sleep(1 / FRAMES)
                draw()
            play.cancel_scope.cancel()
        draw()
    return stage.is_over


@contextmanager
def _screen(stage: _Stage, console: Console) -> Iterator[Callable[[], None]]:
    """The function that shows the present state: a live picture on a terminal, lines elsewhere."""
    jobs = len(stage.script.submissions)
    if not console.is_terminal:
        yield _lines(stage, console)
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield lambda: live.update(picture(stage.board, stage.at, jobs=jobs), refresh=True)


def _lines(stage: _Stage, console: Console) -> Callable[[], None]:
    told, due = -1.0, 0.0

    def draw() -> None:
        nonlocal told, due
        moments = stage.board.moments
        new = [moment for moment in moments if moment.style and moment.at > told] if moments else []
        for moment in new:
            console.print(story(moment), soft_wrap=True)
            told = moment.at
        if stage.at >= due:
            board = stage.board
            console.print(f"{stage.at:6.1f} s  {board.finished} of {len(stage.script.submissions)} jobs finished")
            due = stage.at + PROGRESS

    return draw


async def _all_ready(world: World, manager: ManagerProcess) -> None:
    """Wait until the manager has reached every worker and its webhook is installed."""
    with anyio.fail_after(PATIENCE):
        while not _is_ready(world.manager):
            _expect_to_run(manager)
            await anyio.sleep(0.02)


def _expect_to_run(manager: ManagerProcess) -> None:
    """Raise the manager's error if it has ended, which it must not do before the demo."""
    if not manager.is_running:
        raise manager.error or RuntimeError(f"{manager.name} ended too soon")


def _is_ready(manager: ClusterHandle) -> bool:
    return bool(manager.all(kinds.MUTATING_WEBHOOKS)) and all(map(_is_active, manager.all(kinds.MULTIKUEUE_CLUSTERS)))


def _is_active(body: dict[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)


def _settings(options: Options, plan: Layout) -> Settings:
    def seconds(number: float) -> timedelta:
        return timedelta(seconds=number / options.speed)

    # The machine does not answer faster at a higher speed, so the timeouts of answers are not scaled.
    return Settings(
        cluster=Cluster(namespace=plan.secrets),
        webhook=Webhook(enabled=True, host=HOST, port=0, url=f"https://{HOST}/"),
        dispatch=Dispatch(
            strategy=StrategyChoice(name=options.strategy),
            worker_lost_timeout=seconds(4),
            heartbeat_interval=seconds(1),
            heartbeat_timeout=timedelta(seconds=1),
            call_timeout=timedelta(seconds=2),
            reconnect_first=seconds(0.2),
            reconnect_cap=seconds(1),
        ),
        quota=Quota(requeue_first=seconds(0.5), requeue_cap=seconds(5)),
    )


@asynccontextmanager
async def _open(world: World) -> AsyncIterator[None]:
    """Close the API servers' connections to webhooks at the end, even on cancellation."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for site in world.sites:
                await site.cluster.admission.aclose()


@asynccontextmanager
async def _served(world: World, *, keep: bool) -> AsyncIterator[Path | None]:
    """A kubeconfig with a context for each cluster, of its name, so that our own commands find the workers. None without
    `keep`."""
    if not keep:
        yield None
        return
    authority = Authority()
    async with AsyncExitStack() as stack:
        file = Path(stack.enter_context(TemporaryDirectory(prefix="multikueue-demo-"))) / "kubeconfig"
        configs = []
        for site in world.sites:
            users = site.cluster.users
            users.add("admin", "system:masters", token=secrets.token_hex(16))
            authorization = AuthorizationFilter(site.cluster.api, site.cluster.authorizer)
            front_end = FrontEnd(authorization, users, authority=authority, now=world.clock.now, name=site.name)
            await stack.enter_async_context(front_end)
            configs.append(front_end.kubeconfig("admin"))
        await anyio.Path(file).write_text(yaml.safe_dump(merged(configs), sort_keys=False))
        yield file


def _tell_how_to_use(console: Console, file: Path, workers: Sequence[str]) -> None:
    console.print("The clusters stay until Ctrl-C. In another terminal:")
    console.print()
    for line in (
        f"export KUBECONFIG={file}",
        "multikueue jobs list -w",
        "multikueue jobs show job-001",
        "multikueue events job-001",
        "kubectl get multikueueclusters,clusterqueues,localqueues -o wide",
        "kubectl delete job job-001",
        f"kubectl --context {workers[0]} get jobs,workloads",
    ):
        console.print(f"  {line}", soft_wrap=True, highlight=False)
    console.print()
