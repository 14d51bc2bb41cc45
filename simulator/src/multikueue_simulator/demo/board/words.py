"""Sentences about what happens to jobs and workers, as people say them."""

from __future__ import annotations

from multikueue_simulator.demo.board.courses import Course

__all__ = ["back", "evicted", "gone", "won"]

_PREEMPTIONS = {
    "prioritization": "for a job of higher priority",
    "reclamation": "for the queue that its quota belongs to",
    "Fair Sharing": "for a queue that has less",
}
"""Why Kueue preempts, by a word of its message."""


def won(job: str, course: Course, at: float, losers: list[str]) -> str:
    """A job has a worker. A second time it says how long that took."""
    against = f" against {', '.join(losers)}" if losers else ""
    if course.left is None or not course.last:
        return f"{job} runs on {course.winner}, {at - course.submitted:.2f} s after its submission{against}"
    where = "again" if course.winner == course.last else "elsewhere"
    return f"{job} runs {where}: on {course.winner}, {at - course.left:.1f} s after it had to leave {course.last}"


def evicted(job: str, course: Course, *, lost: bool, reason: str, message: str) -> str:
    """A job goes back to its queue."""
    if lost:
        return f"{course.last or 'its worker'} is lost: {job} queues again"
    if reason == "Preempted":
        why = next((words for word, words in _PREEMPTIONS.items() if word in message), "for another job")
        place = f" on {course.last}" if course.last else ""
        return f"{job} makes way{place} {why}, and queues again"
    return f"{job} goes back to its queue: {message}"


def gone(worker: str, message: str) -> str:
    return f"the manager cannot reach {worker}: {message}"


def back(worker: str) -> str:
    return f"the manager reaches {worker} again"
