"""The peer's manager in the play of a script: which job it would have where, by its measured behaviour. Pure.

It fills a board like that of the living world. What is modelled: it admits one workload after the other at its measured rate; a
worker that hangs stops all admissions; a worker whose port is closed loses its jobs at once; and when such a worker is reached
again, its old copy unseats the winner that runs by then, whose job stays unfinished at home (F4 and F11, three of three).
Otherwise it is as good as it can be: it takes the emptiest worker, and nothing it does takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.demo.board.courses import Course
from multikueue_simulator.demo.peer import measured
from multikueue_simulator.demo.scripts.values import Die, Hang, Play, Recover, Return, ScriptedEvent, Submission

__all__ = ["Peer"]

_ENOUGH = 400.0
"""Seconds after which what is not finished counts as never finished."""


@dataclass(slots=True)
class _Run:
    """A job on a worker."""

    worker: str
    until: float


@dataclass(slots=True)
class Peer:
    """The peer at one moment of the play; `advance` moves it on."""

    play: Play
    board: Board
    _at: float = 0.0
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0
    _jobs: dict[str, Submission] = field(default_factory=dict)
    _waiting: list[str] = field(default_factory=list)
    _runs: dict[str, _Run] = field(default_factory=dict)
    _old: dict[str, dict[str, float]] = field(default_factory=dict)
    """By worker that is gone: the seconds that were left to its jobs."""
    _died: dict[str, float] = field(default_factory=dict)
    _hanging: dict[str, float] = field(default_factory=dict)
    _free_at: float = 0.0
    """When the next admission is possible."""
    _looks: set[float] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    """Jobs that stay unfinished at home forever."""

    @classmethod
    def of(cls, play: Play) -> Peer:
        """The peer at the start of a play."""
        layout = play.layout
        board = Board([each.name for each in layout.queues], {each.name: each.cpu for each in layout.workers})
        peer = cls(play, board)
        for each in play.script.submissions:
            peer._plan(each.at, lambda job=each: peer._submit(job))  # type: ignore[misc]  # its default is typed
        for act in play.script.acts:
            peer._plan(act.at, lambda act=act: peer._act(act))  # type: ignore[misc]
        return peer

    def advance(self, at: float) -> None:
        """Play until this moment."""
        while self._due and self._due[0][0] <= at:
            self._at, _, step = heappop(self._due)
            step()
            self._admit()
        self._at = max(self._at, at)

    def finish(self) -> float:
        """Play to the end; the time at which the last job finished."""
        self.advance(_ENOUGH)
        return max((course.finished or 0.0 for course in self.board.courses.values()), default=0.0)

    def _plan(self, at: float, step: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._due, (at, self._count, step))

    # Jobs.

    def _submit(self, job: Submission) -> None:
        self._jobs[job.name] = job
        self._waiting.append(job.name)
        self.board.courses[job.name] = Course(job.queue, self._at)

    def _admit(self) -> None:
        """Admit the next job that has quota and a worker, if it is time."""
        pause = self._stalled_until()
        if max(self._free_at, pause) > self._at:
            self._look_again(max(self._free_at, pause))
            return
        for name in self._waiting:
            worker = self._worker_for(self._jobs[name])
            if worker:
                self._start(name, worker, self._jobs[name].seconds)
                self._free_at = self._at + 1 / measured.ADMISSIONS_PER_SECOND
                self._look_again(self._free_at)
                return

    def _look_again(self, at: float) -> None:
        if self._waiting and at not in self._looks:
            self._looks.add(at)
            self._plan(at, lambda: None)

    def _stalled_until(self) -> float:
        """The end of the pause; a worker that hangs for longer stops nothing more."""
        ends = [since + measured.LONGEST_PAUSE for since in self._hanging.values()]
        return max((end for end in ends if end > self._at), default=0.0)

    def _worker_for(self, job: Submission) -> str:
        used = sum(self._jobs[name].cpu for name in self._runs if self._jobs[name].queue == job.queue)
        quota = next(share.cpu for share in self.play.layout.queues if share.name == job.queue)
        if used + job.cpu > quota:
            return ""
        room = {name: stand.cpu - stand.busy for name, stand in self.board.stands.items() if stand.reachable}
        best = max(room, key=lambda name: room[name], default="")
        return best if best and room[best] >= job.cpu else ""

    def _start(self, name: str, worker: str, seconds: float) -> None:
        course, stand = self.board.courses[name], self.board.stands[worker]
        self._waiting.remove(name)
        self._runs[name] = run = _Run(worker, self._at + seconds)
        course.winner = course.last = worker
        course.won, course.starts = self._at, course.starts + 1
        course.started = self._at if course.started is None else course.started
        stand.used[name], stand.won = self._jobs[name].cpu, stand.won + 1
        if course.left is not None:
            self.board.note(self._at, f"{name} runs on {worker} instead", "green")
        self._plan(run.until, lambda: self._end(name, run))

    def _end(self, name: str, run: _Run) -> None:
        if self._runs.get(name) is not run or name in self.lost:
            return
        self._stop(name)
        self.board.courses[name].finished = self._at

    def _stop(self, name: str) -> None:
        run = self._runs.pop(name)
        self.board.stands[run.worker].used.pop(name, None)

    # What goes wrong.

    def _act(self, act: ScriptedEvent) -> None:
        match act.step:
            case Die(worker):
                self._die(worker)
            case Return(worker):
                self._return(worker)
            case Hang(worker):
                self._hanging[worker] = self._at
                self.board.note(self._at, f"{worker} hangs: nothing is admitted anywhere", "red")
            case Recover(worker):
                self._hanging.pop(worker, None)
                self.board.note(self._at, f"{worker} answers again: admissions go on", "green")

    def _die(self, worker: str) -> None:
        self._died[worker] = self._at
        self.board.stands[worker].reachable = False
        hit = {name: run for name, run in self._runs.items() if run.worker == worker}
        self._old[worker] = {name: run.until - self._at for name, run in hit.items()}
        for name in hit:
            self._stop(name)
            self._plan(self._at + measured.EVICTED_AFTER, lambda name=name: self._evict(name))  # type: ignore[misc]

    def _evict(self, name: str) -> None:
        course = self.board.courses[name]
        course.evictions, course.left, course.winner, course.won = course.evictions + 1, self._at, "", None
        self.board.note(self._at, f"{name} is evicted at once: {course.last} is gone", "red")
        wait = measured.STARTED_ELSEWHERE_AFTER - measured.EVICTED_AFTER
        self._plan(self._at + wait, lambda: self._waiting.insert(0, name))

    def _return(self, worker: str) -> None:
        wait = measured.RECONNECT_SHARE * (self._at - self._died.pop(worker, self._at))
        self._plan(self._at + wait, lambda: self._reconnect(worker))

    def _reconnect(self, worker: str) -> None:
        self.board.stands[worker].reachable = True
        for name in self._old.pop(worker, {}):
            if name in self._runs:
                self._unseat(name, worker)

    def _unseat(self, name: str, worker: str) -> None:
        """The returning worker's older admission wins: the job that runs is killed, and the old one goes on."""
        winner = self._runs[name].worker
        self._stop(name)
        self.lost.add(name)
        course = self.board.courses[name]
        course.starts += 1
        text = f"{worker} is back: {name} is killed on {winner}, and never finishes at home"
        self.board.note(self._at, text, "bold red")
