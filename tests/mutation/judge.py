"""A plugin of pytest that judges mutants: are all tests that were collected green, with that text in place of the module's?

Each mutant is planted in a fork, after collection: the functions of the module get the code of the mutant, wherever they have
been taken to by now, as methods, properties or entries of a table. So nothing is imported again, and no file is changed.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType

import msgspec
import pytest
from _pytest.main import pytest_runtestloop as run_all

__all__ = ["MUTANTS", "Mutants", "Verdict", "can_be_planted", "plant"]

MUTANTS = "MULTIKUEUE_TEST_MUTANTS"
"""The environment variable that names the file with them. The verdicts come beside it, as `.verdicts`, a line each."""

PATIENCE_SECONDS, TIMES_AS_LONG = 60, 10
"""How long a mutant may take: so long, or so many times as long as none takes."""

_KILLED, _SURVIVED = 1, 0


class Mutants(msgspec.Struct, frozen=True):
    """A module, by its path, and its whole text with a fault, by some name."""

    module: str
    texts: Mapping[str, str]


class Verdict(msgspec.Struct, frozen=True):
    """`killed`: some test failed, or did not end."""

    name: str
    killed: bool


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    file = Path(os.environ[MUTANTS])
    mutants = msgspec.json.decode(file.read_bytes(), type=Mutants)
    original = Path(mutants.module).read_text()
    began = time.monotonic()
    if _run(session, mutants.module, original, patience=float("inf")) != _SURVIVED:
        raise pytest.UsageError("the tests fail without a mutant")
    patience = max(PATIENCE_SECONDS, TIMES_AS_LONG * (time.monotonic() - began))
    with file.with_suffix(".verdicts").open("wb") as verdicts:
        for name, text in mutants.texts.items():
            code = _run(session, mutants.module, text, patience=patience)
            verdicts.write(msgspec.json.encode(Verdict(name, code != _SURVIVED)) + b"\n")
            verdicts.flush()
    return True


def _run(session: pytest.Session, module: str, text: str, *, patience: float) -> int:
    child = os.fork()
    if not child:
        os._exit(_judge(session, module, text))
    until = time.monotonic() + patience
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return _KILLED


def _judge(session: pytest.Session, module: str, text: str) -> int:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    plant(module, text)
    try:
        run_all(session)
    except BaseException:  # noqa: BLE001  -- pytest ends the loop with one at the first test that fails
        return _KILLED
    return _KILLED if session.testsfailed else _SURVIVED


def plant(module: str, text: str) -> None:
    """Gives each function of the module, by its path, its code in this text. Functions within functions come with these."""
    path = str(Path(module).resolve())
    old = {(code.co_qualname, code.co_firstlineno): key for key, code in _codes(Path(module).read_text(), path).items()}
    new = _codes(text, path)
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == path:
            code = function.__code__
            found = new.get(old[code.co_qualname, code.co_firstlineno], code)
            if found.co_freevars == code.co_freevars:
                function.__code__ = found


def can_be_planted(text: str, mutated: str) -> bool:
    """Whether some function has other code: the default of a parameter is not in it."""
    return _codes(text, "") != _codes(mutated, "")


def _codes(text: str, path: str) -> dict[tuple[str, int], CodeType]:
    """The code of each function, by its name and its number among those of that name."""
    found: dict[tuple[str, int], CodeType] = {}
    for code in _within(compile(text, path, "exec", dont_inherit=True)):
        number = sum(name == code.co_qualname for name, _ in found)
        found[code.co_qualname, number] = code
    return found


def _within(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _within(each)
