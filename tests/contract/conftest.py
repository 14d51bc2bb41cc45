"""One server for the whole suite, or one after the other; one namespace per test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from testbed.bed import Testbed
from tests.contract import builders, real, sandbox
from tests.contract.server import Server
from tests.contract.space import Collection, Forgotten, Space, needs

FACES = {"sandbox": ["https", "process"], "https": ["https"], "process": ["process"], "real": ["real"]}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what compares with a real server where there is none."""
    return True if collection_path.name == "test_alike.py" and config.getoption("--server") != "real" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" not in metafunc.fixturenames:
        return
    faces = FACES[metafunc.config.getoption("--server")]
    if "wire" in metafunc.fixturenames:
        faces = [front_end for front_end in faces if front_end != "process"]
    if "client" in metafunc.fixturenames and "process" in faces:
        faces = [*faces, "direct"]
    metafunc.parametrize("server", faces, indirect=True, scope="package")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test on a real control plane waits for its start too."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and callspec.params.get("server") == "real":
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Testbed | None]:
    """The real one, if that is wanted. It belongs to no event loop."""
    if request.config.getoption("--server") != "real":
        yield None
        return
    bed = anyio.run(real.opened)
    yield bed
    anyio.run(bed.close)


@pytest.fixture(scope="package")
async def server(request: pytest.FixtureRequest, control_plane: Testbed | None) -> AsyncIterator[Server]:
    if control_plane is not None:
        async with real.connected(control_plane) as plane:
            yield plane
        return
    faces = {"https": sandbox.over_https, "process": sandbox.within_process, "direct": sandbox.direct}
    async with faces[request.param]() as front_end:
        yield front_end


@pytest.fixture(scope="package", autouse=True)
async def forgotten(server: Server) -> Forgotten:
    """At once, since a real server takes up to fifteen seconds to notice that etcd has forgotten something."""
    space = await new_space(server)
    for name in "abc":
        await space.widgets.made(builders.widget(name))
    first = (await space.widgets.list(limit="1")).good()
    (await space.widgets.patch("b", {"spec": {"size": 2}})).good()
    await server.forget()
    return Forgotten(space.widgets, first["metadata"]["continue"])


@pytest.fixture
async def as_of_1_36(server: Server) -> None:
    """Leave a test out on an older real server."""
    await needs(server, 36)


@pytest.fixture
async def as_of_1_37(server: Server) -> None:
    """The same."""
    await needs(server, 37)


@pytest.fixture
async def space(server: Server) -> Space:
    return await new_space(server)


async def new_space(server: Server) -> Space:
    name = builders.unique("contract")
    await Collection(server, "/api/v1/namespaces").made(builders.namespace(name))
    return Space(server, name)


@pytest.fixture
def maps(space: Space) -> Collection:
    return space.maps


@pytest.fixture
def widgets(space: Space) -> Collection:
    return space.widgets


@pytest.fixture
def jobs(space: Space) -> Collection:
    return space.jobs
