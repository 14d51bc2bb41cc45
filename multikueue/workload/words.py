"""The messages of our check, in the words of the release of Kueue that is followed."""

from __future__ import annotations

from multikueue.workload.case import Case

__all__ = ["gone", "lost", "with_state_before", "won"]


def won(case: Case, cluster: str) -> str:
    verb = "was admitted on" if case.rules.compatibility.has_admitting_words else "got reservation on"
    return f'The workload {verb} "{cluster}"'


def lost(case: Case, cluster: str) -> str:
    return f'{_remote(case)} lost: worker cluster "{cluster}" is out of reach for too long'


def gone(case: Case, cluster: str) -> str:
    return f'{_remote(case)} no longer exists on worker cluster "{cluster}"'


def with_state_before(case: Case, message: str, *, is_required: bool = False, mark: str = ",") -> str:
    """The message with the previous state of the check. In some messages it `is_required`; the others have it since 0.19."""
    check = case.check_state
    told = check is not None and bool(check.state) and (is_required or case.rules.compatibility.has_admitting_words)
    return f'{message}{mark} Previously: "{check.state}"' if told and check is not None else message


def _remote(case: Case) -> str:
    return "Admitting remote" if case.rules.compatibility.has_admitting_words else "Reserving remote"
