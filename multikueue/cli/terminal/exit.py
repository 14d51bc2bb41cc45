"""The end of a command: one line for a user's mistake, an exit code for scripts, a traceback only for a defect of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum

from multikueue.cli.terminal.output import note
from multikueue.errors import ClusterUnreachable, ConfigurationError, MultiKueueError

__all__ = ["EPILOG", "CommandFailed", "ExitCode", "code_of", "leaves", "reported"]


class CommandFailed(MultiKueueError):  # named by the situation, as in errors.py
    """The command cannot do its work; the message has the reason and the remedy."""


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130
    READER_GONE = 141
    """The exit code of a program that SIGPIPE ended, as in a shell."""


EPILOG = "Exit codes: 0 done, 1 failed or not found, 2 wrong usage or configuration, 3 a cluster cannot be reached."

_CODES: tuple[tuple[type[MultiKueueError], ExitCode], ...] = (
    (ConfigurationError, ExitCode.USAGE),
    (ClusterUnreachable, ExitCode.UNREACHABLE),
    (MultiKueueError, ExitCode.FAILED),
)


_ENDS = (KeyboardInterrupt, SystemExit, BrokenPipeError, MultiKueueError)


def code_of(error: MultiKueueError) -> ExitCode:
    """The exit code of one of our errors; documented in `EPILOG`."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def reported(command: Callable[[], object]) -> int:
    """Run `command` and answer its exit code.

    Errors of our tree become one line each on stderr. An interrupt, an exit and a closed pipe are ends as well. Each may
    come alone or in a group. Any other error is a defect of ours and passes through.
    """
    try:
        return _ended(command)
    except BrokenPipeError:  # from what was still to be written, or from the error line itself
        return _reader_is_gone()


def _ended(command: Callable[[], object]) -> int:
    code: int = ExitCode.OK
    try:
        command()
    except (*_ENDS, BaseExceptionGroup) as error:
        ends = list(leaves(error))
        if not all(isinstance(end, _ENDS) for end in ends):
            raise
        code = _code_of_ends(ends)
    sys.stdout.flush()  # here: a failure at Python's own flush could only be reported as a traceback
    return code


def _code_of_ends(ends: list[BaseException]) -> int:
    """An act of the user, such as Ctrl-C, goes before the errors that it caused."""
    if any(isinstance(end, KeyboardInterrupt) for end in ends):
        return ExitCode.INTERRUPTED
    if any(isinstance(end, BrokenPipeError) for end in ends):
        return _reader_is_gone()
    exits = [end for end in ends if isinstance(end, SystemExit)]
    if exits:
        return _system_exit(exits[0])
    return _report([end for end in ends if isinstance(end, MultiKueueError)])


def _report(errors: list[MultiKueueError]) -> int:
    for line in dict.fromkeys(f"error: {error}{_notes(error)}" for error in errors):
        note(line)
    return code_of(errors[0])


def _notes(error: MultiKueueError) -> str:
    """The notes of the error, such as URL, file and context of the cluster."""
    notes = getattr(error, "__notes__", ())
    return f" ({'; '.join(notes)})" if notes else ""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The error itself, or the leaves of a group."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error


def _system_exit(end: SystemExit) -> int:
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
        return ExitCode.FAILED
    return ExitCode.OK if end.code is None else end.code


def _reader_is_gone() -> int:
    # `multikueue workloads list | head`: the reader is gone. Python flushes stdout at exit and would complain again.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    return ExitCode.READER_GONE
