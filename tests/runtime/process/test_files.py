"""Files in real directories: every way in which people and Kubernetes change them."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.runtime.process.files import _PathState, _settled, watch_files
from tests.mount import mount

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Real time: virtual time does not wait for threads."""
    return "asyncio"


OFTEN = timedelta(milliseconds=2)


@dataclass
class Watched:
    """What was told so far."""

    paths: list[str]
    told: list[str] = field(default_factory=list)
    _news: anyio.Event = field(default_factory=anyio.Event)

    def take(self, path: str) -> None:
        self.told.append(path)
        self._news.set()

    async def tells(self, *paths: str) -> None:
        """The next news are of these, in any order, and there are no others so far."""
        with anyio.fail_after(5):
            while len(self.told) < len(paths):
                self._news = anyio.Event()
                await self._news.wait()
        assert sorted(self.told) == sorted(paths)
        self.told.clear()


@asynccontextmanager
async def watching(*paths: Path) -> AsyncIterator[Watched]:
    """A watcher that has told of each path once."""
    watched = Watched([str(path) for path in paths])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: watch_files(lambda: watched.paths, watched.take, every=OFTEN))
        await watched.tells(*watched.paths)
        yield watched
        tasks.cancel_scope.cancel()


def written(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def overwrite(path: Path) -> None:
    path.write_text("more than before")


def replace(path: Path) -> None:
    os.replace(written(path.with_name("new")), path)


def touch_later(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def leave_to(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("is written to", overwrite),
    ("is replaced", replace),
    ("is removed", Path.unlink),
    ("is renamed", leave_to),
    ("has another time", touch_later),
    ("loses its directory", lambda path: shutil.rmtree(path.parent)),
]


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES])
async def test_a_change_is_told_once(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = written(tmp_path / "d" / "kubeconfig")
    async with watching(path) as watched:
        change(path)
        await watched.tells(str(path))
        await anyio.sleep(0.02)
        assert watched.told == []


async def test_a_swap_of_links_is_a_change_of_the_file(tmp_path: Path) -> None:
    path = mount(tmp_path, "kubeconfig", "one")
    async with watching(path) as watched:
        for text in ("two", "three"):
            mount(tmp_path, "kubeconfig", text)
            await watched.tells(str(path))
            assert path.read_text() == text


async def test_a_directory_that_is_missing_at_first_and_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "later" / "deep" / "kubeconfig"
    async with watching(path) as watched:
        for _ in range(2):
            written(path)
            await watched.tells(str(path))
            shutil.rmtree(tmp_path / "later")
            await watched.tells(str(path))


async def test_other_files_of_the_directory_are_no_news(tmp_path: Path) -> None:
    one, two = written(tmp_path / "one"), written(tmp_path / "two")
    async with watching(one, two) as watched:
        written(tmp_path / "three")
        overwrite(two)
        await watched.tells(str(two))


async def test_paths_may_come_and_go(tmp_path: Path) -> None:
    one, two = written(tmp_path / "one"), written(tmp_path / "two")
    async with watching(one) as watched:
        watched.paths = [str(two), str(two)]
        await watched.tells(str(two))
        overwrite(one)
        overwrite(two)
        await watched.tells(str(two))
        watched.paths.append(str(one))
        await watched.tells(str(one))


async def test_what_is_no_path_does_no_harm(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    async with watching(Path("a\0b"), loop, Path("x" * 5000), tmp_path, Path("relative")):
        pass


@given(st.lists(st.integers(0, 2), min_size=1, max_size=20))
def test_a_state_is_told_when_it_is_seen_twice_in_a_row(traces: list[int]) -> None:
    seen, known = [*traces, traces[-1]], dict[str, _PathState]()
    told = [trace for trace in seen for _ in _settled(known, {"p": (trace,)})]
    assert told == [trace for trace, run in groupby(seen) if len(list(run)) > 1]
