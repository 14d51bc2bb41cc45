"""A plugin of pytest that judges mutants: are all tests that were collected green, with that text in place of the module's?

Each mutant is planted in a fork, after collection: the functions of the module get the code of the mutant, wherever they have
been taken to by now, as methods, properties or entries of a table. So nothing is imported again, and no file is changed. A
mutant is judged by the tests that call a function it has changed, the quickest first.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType, FunctionType

import msgspec
import pytest
from _pytest.main import pytest_runtestloop as run_all

__all__ = ["MUTANTS", "Mutants", "Verdict", "Watch", "can_be_planted", "plant"]

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
    began, calls = time.monotonic(), file.with_suffix(".calls")
    path = str(Path(mutants.module).resolve())
    if _run(partial(_watched, session, path, calls), patience=float("inf")) != _SURVIVED:
        raise pytest.UsageError("the tests fail without a mutant")
    patience = max(PATIENCE_SECONDS, TIMES_AS_LONG * (time.monotonic() - began))
    called = msgspec.json.decode(calls.read_bytes(), type=dict[str, list[int]])
    items, before = list(session.items), _codes(original, path)
    with file.with_suffix(".verdicts").open("wb") as verdicts:
        for name, text in mutants.texts.items():
            after = _codes(text, path)
            changed = [_place(code) for key, code in before.items() if after.get(key) != code]
            callers = dict.fromkeys(index for place in changed for index in called.get(place, ()))
            session.items = [items[index] for index in callers]
            judge = partial(_with_mutant, session, mutants.module, text)
            code = _run(judge, patience=patience) if session.items else _SURVIVED
            verdicts.write(msgspec.json.encode(Verdict(name, code != _SURVIVED)) + b"\n")
            verdicts.flush()
    return True


class Watch:
    """Which of the tests call which functions of a module, by their places, and how long each test takes."""

    def __init__(self, path: str, items: Sequence[pytest.Item]) -> None:
        self._path, self._indexes = path, {item.nodeid: index for index, item in enumerate(items)}
        self._test, self._seconds = 0, dict[int, float]()
        self._called: dict[str, set[int]] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test, began = self._indexes[item.nodeid], time.monotonic()
        yield
        self._seconds[self._test] = time.monotonic() - began

    def trace(self, frame: FrameType, _event: str, _arg: object) -> None:
        if frame.f_code.co_filename == self._path:
            self._called.setdefault(_place(frame.f_code), set()).add(self._test)

    def written(self) -> bytes:
        return msgspec.json.encode({p: sorted(each, key=self._seconds.__getitem__) for p, each in self._called.items()})


def _watched(session: pytest.Session, path: str, calls: Path) -> int:
    watch = Watch(path, session.items)
    session.config.pluginmanager.register(watch)
    threading.settrace(watch.trace)
    sys.settrace(watch.trace)
    code = _judged(session)
    sys.settrace(None)
    calls.write_bytes(watch.written())
    return code


def _with_mutant(session: pytest.Session, module: str, text: str) -> int:
    plant(module, text)
    return _judged(session)


def _run(judge: Callable[[], int], *, patience: float) -> int:
    child = os.fork()
    if not child:
        os._exit(judge())
    until = time.monotonic() + patience
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return _KILLED


def _judged(session: pytest.Session) -> int:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
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
    """The code of each function, by its name and its number among those of that name. The body of a class is none."""
    found: dict[tuple[str, int], CodeType] = {}
    for code in _within(compile(text, path, "exec", dont_inherit=True)):
        if not code.co_flags & CO_OPTIMIZED:
            continue
        number = sum(name == code.co_qualname for name, _ in found)
        found[code.co_qualname, number] = code
    return found


def _place(code: CodeType) -> str:
    return f"{code.co_qualname}:{code.co_firstlineno}"


def _within(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _within(each)
