"""The demo itself: plays on a console, live with keys on a terminal and as lines elsewhere, and ends with a summary."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
from rich.console import Console, RenderableType
from rich.live import Live

from multikueue import registry
from multikueue.api import kinds
from multikueue.runtime import SystemClock
from multikueue.settings import InForce
from multikueue_simulator.demo.peer.model import Peer
from multikueue_simulator.demo.screen import keys
from multikueue_simulator.demo.screen.lines import Lines
from multikueue_simulator.demo.screen.picture import picture, summary
from multikueue_simulator.demo.screen.versus import NAMES, comparison, side_by_side
from multikueue_simulator.demo.stage.director import Director
from multikueue_simulator.demo.stage.hands import BUTTONS, CLUSTER_BUTTONS, Hands
from multikueue_simulator.demo.stage.options import Options, play_of, settings_of, timings_of
from multikueue_simulator.demo.stage.page import Page, page
from multikueue_simulator.demo.stage.scene import scene
from multikueue_simulator.demo.stage.served import Served, serve
from multikueue_simulator.demo.stage.stage import Stage, board_of
from multikueue_simulator.world.processes import ManagerProcess
from multikueue_simulator.world.world import MANAGER, ClusterHandle, World

__all__ = ["NAME", "play"]

FRAMES = 8
"""Pictures per second."""

START_PATIENCE = 60.0
"""Seconds in which the manager must have reached every worker."""

NAME = "manager-0"

Take = Callable[[RenderableType], None]


async def play(options: Options, console: Console, take: Take | None = None) -> bool:
    """Play the demo on a console. Returns whether every job finished. With `keep` it runs until it is cancelled. `take` gets
    each picture, on a terminal or not.

    Raises ConfigurationError for an unknown strategy.
    """
    registry.load(options.strategy, {})
    chosen = play_of(options)
    world = scene(chosen, clock=SystemClock(), seed=options.seed, strategy=options.strategy)
    manager = world.add_manager(NAME, InForce(settings_of(options, chosen), timings_of(options)))
    async with _open(world), serve(world) as served, anyio.create_task_group() as tasks:
        board = board_of(chosen)
        director = Director(world=world, board=board, manager=manager, tasks=tasks, speed=options.speed, served=served)
        stage = Stage(options=options, play=chosen, world=world, board=board, director=director)
        _tell_how_to_look(console, served, [*world.workers], job=chosen.script.submissions[0].name, keep=options.keep)
        await world.start(tasks)
        stage.began = anyio.current_time()
        stage.attend()
        await manager.begin(tasks).wait()
        await _all_ready(world, manager)
        stage.began = anyio.current_time()
        async with AsyncExitStack() as stack:
            hands = Hands(stage, served.kubeconfig) if not options.versus else None
            if options.web:
                opened = await stack.enter_async_context(_page(served, has_buttons=hands is not None))
                console.print(f"in the browser: {opened.link}\n", soft_wrap=True, highlight=False)
                stage.began = anyio.current_time()
                if hands is not None:
                    tasks.start_soon(_push, hands, opened)
            over = await _perform(stage, console, hands, take)
            if options.keep:
                console.print(
                    "\nThe clusters and the manager go on until Ctrl-C; the keys of the terminal are off.",
                    highlight=False,
                )
                await anyio.sleep_forever()
        manager.stop()
        tasks.cancel_scope.cancel()
    return over


async def _perform(stage: Stage, console: Console, buttons: Hands | None, take: Take | None) -> bool:
    """Run the play. Returns whether all jobs finished in time."""
    peer = Peer.of(stage.play) if stage.options.versus else None
    hands = buttons if console.is_terminal and keys.is_keyboard(sys.stdin) else None
    console.print(f"{stage.play.title}\n", highlight=False)
    with _screen(stage, console, peer, hands, take) as draw:
        async with anyio.create_task_group() as script:
            script.start_soon(stage.submit_all)
            script.start_soon(stage.act_all)
            if hands is not None:
                script.start_soon(_listen, hands)
            while not _is_enough(stage, hands):
                _expect_to_run(stage.director)
                await anyio.sleep(1 / FRAMES)
                draw()
            script.cancel_scope.cancel()
        draw()
    console.print()
    console.print(_facts(stage, peer))
    return stage.board.is_over(stage.jobs) or _is_left(hands)


def _is_enough(stage: Stage, hands: Hands | None) -> bool:
    return stage.is_over or stage.at >= stage.deadline or _is_left(hands)


def _is_left(hands: Hands | None) -> bool:
    """Whether the viewer does not want to see the end."""
    return hands is not None and hands.is_done


def _facts(stage: Stage, peer: Peer | None) -> RenderableType:
    if peer is None:
        return summary(stage.board)
    peer.finish()
    never = sum(course.finished is None for course in peer.board.courses.values())
    return comparison(stage.board, peer.board, never=never)


def _page(served: Served, *, has_buttons: bool) -> AbstractAsyncContextManager[Page]:
    if not has_buttons:
        return page(served.kubeconfig, MANAGER)
    return page(served.kubeconfig, MANAGER, buttons=BUTTONS, cluster_buttons=CLUSTER_BUTTONS)


async def _push(hands: Hands, opened: Page) -> None:
    async for button, cluster in opened.pressed:
        await hands.push(button, cluster)


async def _listen(hands: Hands) -> None:
    descriptor = sys.stdin.fileno()
    with keys.raw(descriptor):
        async for key in keys.pressed(descriptor):
            await hands.press(key)


# The screen.


@contextmanager
def _screen(
    stage: Stage, console: Console, peer: Peer | None, hands: Hands | None, take: Take | None
) -> Iterator[Callable[[], None]]:
    """The function that shows the present state: a live picture on a terminal, lines elsewhere, and to `take` a picture."""

    def shown() -> RenderableType:
        view = _view(stage, peer, hands)
        if take is not None:
            take(view)
        return view

    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            yield lambda: live.update(shown(), refresh=True)
        return
    lines = _lines(stage, console, peer)

    def draw() -> None:
        lines()
        if take is not None:
            shown()

    yield draw


def _view(stage: Stage, peer: Peer | None, hands: Hands | None) -> RenderableType:
    if peer is None:
        return picture(stage.board, stage.at, jobs=stage.jobs, hand=hands.hand if hands is not None else None)
    peer.advance(stage.at)
    return side_by_side(stage.board, peer.board, stage.at, jobs=stage.jobs)


def _lines(stage: Stage, console: Console, peer: Peer | None) -> Callable[[], None]:
    if peer is None:
        lines = Lines(stage.board, console, stage.jobs)
        return lambda: lines.draw(stage.at)
    both = [
        Lines(board, console, stage.jobs, f"{name:24}")
        for board, name in ((stage.board, NAMES[0]), (peer.board, NAMES[1]))
    ]

    def draw() -> None:
        peer.advance(stage.at)
        for each in both:
            each.draw(stage.at)

    return draw


def _tell_how_to_look(console: Console, served: Served, workers: Sequence[str], *, job: str, keep: bool) -> None:
    """The first line has all that is needed: one kubeconfig, with a context for each cluster."""
    ends = "until Ctrl-C" if keep else "while the demo runs; --keep: until Ctrl-C"
    console.print(f"export KUBECONFIG={served.kubeconfig}", soft_wrap=True, highlight=False)
    console.print(
        f"# in another terminal, {ends}; contexts: manager, {', '.join(workers)}", soft_wrap=True, highlight=False
    )
    for line in (
        "multikueue jobs list -w",
        f"multikueue why {job}",
        "multikueue clusters check",
        "kubectl get jobs -L multikueue.dev/cluster",
    ):
        console.print(f"  {line}", soft_wrap=True, highlight=False)
    console.print()


# The beginning and the end.


async def _all_ready(world: World, manager: ManagerProcess) -> None:
    """Wait until the manager has reached every worker and its webhook is installed."""
    with anyio.fail_after(START_PATIENCE):
        while not _is_ready(world.manager):
            if not manager.is_running:
                raise manager.error or RuntimeError(f"{manager.name} ended too soon")
            await anyio.sleep(0.02)


def _expect_to_run(director: Director) -> None:
    """Raise the manager's error if it ended without being killed."""
    if not director.manager.is_running and not director.is_manager_down:
        raise director.manager.error or RuntimeError(f"{director.manager.name} ended too soon")


def _is_ready(manager: ClusterHandle) -> bool:
    return bool(manager.all(kinds.MUTATING_WEBHOOKS)) and all(map(_is_active, manager.all(kinds.MULTIKUEUE_CLUSTERS)))


def _is_active(body: dict[str, Any]) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)


@asynccontextmanager
async def _open(world: World) -> AsyncIterator[None]:
    """Close the API servers' connections to webhooks at the end, even on cancellation."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for site in world.sites:
                await site.cluster.admission.aclose()
