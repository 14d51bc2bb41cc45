"""The end of a command: one line for a user's mistake, an exit code for scripts, a traceback only for a defect of ours."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum

from multikueue.cli.terminal.output import note
from multikueue.errors import ClusterUnreachable, ConfigurationError, MultiKueueError

__all__ = ["EPILOG", "CommandFailed", "ExitCode", "code_of", "leaves", "open_streams", "reported"]


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


def open_streams() -> None:
    """Opens the standard streams that the caller has closed (`>&-`), on nothing: else the first file or socket of ours
    would have its number, and get what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # for as long as the process runs


def reported(command: Callable[[], object]) -> int:
    """Run `command` and answer its exit code.

    Errors of our tree become one line each on stderr. An interrupt, an exit, a closed pipe and a full disk are ends as
    well. Each may come alone or in a group. Any other error is a defect of ours and passes through.
    """
    try:
        return _ended(command)
    except OSError as error:  # from what was still to be written, or from the error line itself
        if not _is_end(error):
            raise
        return _code_of_ends([error])


def _ended(command: Callable[[], object]) -> int:
    code: int = ExitCode.OK
    try:
        command()
    except (*_ENDS, OSError, BaseExceptionGroup) as error:
        ends = list(leaves(error))
        if not all(map(_is_end, ends)):
            raise
        code = _code_of_ends(ends)
    sys.stdout.flush()  # here: a failure at Python's own flush could only be reported as a traceback
    return code


def _is_end(error: BaseException) -> bool:
    return isinstance(error, _ENDS) or _is_full(error)


def _is_full(error: BaseException) -> bool:
    """Whether there is no room for what is written."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _is_closed_pipe(error: BaseException) -> bool:
    """Also as an exit with 1, which click and rich make of it."""
    return isinstance(error, BrokenPipeError) or (
        isinstance(error, SystemExit) and isinstance(error.__context__, BrokenPipeError)
    )


def _code_of_ends(ends: list[BaseException]) -> int:
    """An act of the user, such as Ctrl-C, goes before the errors that it caused."""
    if any(isinstance(end, KeyboardInterrupt) for end in ends):
        return ExitCode.INTERRUPTED
    if any(map(_is_closed_pipe, ends)):
        _drop_output()
        return ExitCode.READER_GONE
    full = next(filter(_is_full, ends), None)
    if full is not None:
        _drop_output()
        note(f"error: {full}")
        return ExitCode.FAILED
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


def _drop_output() -> None:
    """Lets go of a stream that takes no more: Python flushes both at its end, and would complain again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
