"""Requests of the real client over links in the same process: what it meets is what it meets on sockets."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from fakekube.model.wire import Request, Response, User, Watch
from fakekube.network.link import State, Weather
from fakekube.network.transport import Line, Network
from multikueue.errors import ClusterUnreachable, Unauthorized
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client, Stream
from multikueue_simulator.time import process, run, the_loop
from multikueue_simulator.world.transport import over

HOST = "worker1"


class Server:
    """Counts what arrives and answers with the count; a watch is handed out to the test."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.watch = Watch()

    async def handle(self, request: Request) -> Response | Watch:
        self.requests.append(request)
        if "watch" in request.query:
            return self.watch
        return Response(body=msgspec.json.encode({"count": len(self.requests)}))


class Bench:
    """A server, a line to it, and a client on the line."""

    def __init__(self) -> None:
        self.server = Server()
        self.network = Network(random.Random(1))
        self.host = self.network.add(HOST, self.server)
        self.line = self.network.line("manager")
        self.link = self.network.link("manager", HOST)

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[Client]:
        credentials = Credentials(server=f"http://{HOST}", token=FixedToken("Bearer t"))
        line: Line = options.pop("line", self.line)
        async with Client.connect(credentials, cluster=HOST, transport=over(line), **options) as client:
            yield client

    @asynccontextmanager
    async def stream(self, *, idle: float = 60.0) -> AsyncGenerator[Stream]:
        async with self.client() as client, client.stream("/api/v1/pods", {"watch": "1"}, idle=idle) as stream:
            yield stream


def on_bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test runs on virtual time, with a bench of its own."""

    def wrapped() -> None:
        async def main() -> None:
            await test(Bench())

        run(main)

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


@on_bench
async def test_a_request_arrives_whole_and_its_answer_comes_back(bench: Bench) -> None:
    async with bench.client(user_agent="me/1") as client:
        answer = await client.request("POST", "/api/v1/a%20b", body={"x": 1}, params={"q": "1 2"})
    (request,) = bench.server.requests
    assert (request.method, request.path, request.query) == ("POST", "/api/v1/a b", {"q": "1 2"})
    assert (request.body, request.content_type, request.user_agent) == (b'{"x":1}', "application/json", "me/1")
    assert msgspec.json.decode(answer) == {"count": 1}


@on_bench
async def test_users_are_known_by_their_tokens(bench: Bench) -> None:
    bench.host.users["Bearer t"] = User("tina")
    async with bench.client() as client:
        await client.request("GET", "/api")
        assert bench.server.requests[-1].user == User("tina")
        bench.host.users, bench.host.stranger = {"Bearer other": User("otto")}, None
        with pytest.raises(Unauthorized):
            await client.request("GET", "/api")


@on_bench
async def test_a_host_may_have_the_name_of_a_port(bench: Bench) -> None:
    bench.network.aliases["127.0.0.1:8443"] = HOST
    credentials = Credentials(server="https://127.0.0.1:8443", token=FixedToken("Bearer t"))
    async with Client.connect(credentials, cluster=HOST, transport=over(bench.line)) as client:
        await client.request("GET", "/api")
        assert len(bench.server.requests) == 1
        bench.link.become(State.REFUSE)
        with pytest.raises(ClusterUnreachable):
            await client.request("GET", "/api")


@on_bench
async def test_where_nobody_listens_nothing_is_sent(bench: Bench) -> None:
    bench.link.become(State.REFUSE)
    async with bench.client(call_timeout=2) as client:
        with pytest.raises(ClusterUnreachable) as caught:
            await client.request("POST", "/api", body={})
    assert not caught.value.was_sent
    assert "Connection refused" in str(caught.value)
    assert bench.server.requests == []


@on_bench
async def test_a_lost_answer_leaves_open_whether_it_was_done(bench: Bench) -> None:
    bench.link.weather = Weather(lost_answer=1.0)
    async with bench.client(call_timeout=2) as client:
        with pytest.raises(ClusterUnreachable) as caught:
            await client.request("POST", "/api", body={})
    assert caught.value.was_sent
    assert len(bench.server.requests) == 1


@pytest.mark.parametrize(("state", "arrived"), [(State.HANG, 0), (State.NAMELESS, 0), (State.MUTE, 1)], ids=str)
def test_silence_ends_at_the_deadline(state: State, arrived: int) -> None:
    @on_bench
    async def body(bench: Bench) -> None:
        bench.link.become(state)
        async with bench.client(call_timeout=3) as client:
            with pytest.raises(ClusterUnreachable, match="no answer in time"):
                await client.request("POST", "/api", body={})
        assert anyio.current_time() == pytest.approx(3, abs=0.1)
        assert len(bench.server.requests) == arrived

    body()


@on_bench
async def test_calls_in_flight_are_limited_and_the_rest_waits_its_turn(bench: Bench) -> None:
    bench.link.weather = Weather(latency=(0.5, 0.5))
    async with bench.client(limit=2) as client, anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(client.request, "GET", "/api")
        await anyio.sleep(0.6)
        assert len(bench.server.requests) == 2
    assert anyio.current_time() == pytest.approx(3, abs=0.1)


class Reaper:
    """Lets a line die around the arrival of its n-th request."""

    def __init__(self, number: int, *, before: bool) -> None:
        self.number, self.before, self.seen = number, before, 0

    def arriving(self, line: Line, _host: str, _request: Request) -> None:
        self.seen += 1
        line.dead = self.before and self.seen == self.number

    def arrived(self, line: Line, _host: str, _request: Request, _answer: Response | Watch) -> None:
        line.dead = self.seen == self.number


@pytest.mark.parametrize(("before", "arrived"), [(True, 1), (False, 2)], ids=["before", "after"])
def test_of_a_dead_process_nothing_arrives_and_nothing_is_answered(*, before: bool, arrived: int) -> None:
    @on_bench
    async def body(bench: Bench) -> None:
        bench.line.observer = Reaper(2, before=before)
        async with bench.client(call_timeout=5) as client:
            await client.request("GET", "/api")
            for _ in range(5):
                with pytest.raises(ClusterUnreachable):
                    await client.request("POST", "/api", body={})
        assert len(bench.server.requests) == arrived

    body()


@on_bench
async def test_of_what_a_process_sent_before_it_died_half_arrives(bench: Bench) -> None:
    bench.link.weather = Weather(latency=(1, 1))
    async with bench.client(call_timeout=5) as client, anyio.create_task_group() as tasks:

        async def write() -> None:
            with pytest.raises(ClusterUnreachable):
                await client.request("POST", "/api", body={})

        for _ in range(30):
            tasks.start_soon(write)
        await anyio.sleep(0.5)
        bench.line.dead = True
    assert 5 < len(bench.server.requests) < 25


@on_bench
async def test_what_was_sent_arrives_though_its_sender_gave_up(bench: Bench) -> None:
    bench.link.weather = Weather(latency=(1, 1))
    async with bench.client() as client:
        with anyio.move_on_after(0.5):
            await client.request("POST", "/api", body={})
        await anyio.sleep(1)
    assert len(bench.server.requests) == 1


@pytest.mark.parametrize(
    ("waits", "arrives"), [(5, 1), (1, 0)], ids=["it arrives late", "not if the sender gave up before"]
)
def test_what_meets_a_hanging_link_waits_for_it(waits: float, arrives: int) -> None:
    @on_bench
    async def body(bench: Bench) -> None:
        bench.link.become(State.HANG)
        async with bench.client() as client, anyio.create_task_group() as tasks:

            async def write() -> None:
                with anyio.move_on_after(waits):
                    await client.request("POST", "/api", body={})

            tasks.start_soon(write)
            await anyio.sleep(2)
            assert bench.server.requests == []
            bench.link.become(State.UP)
        assert len(bench.server.requests) == arrives

    body()


@on_bench
async def test_the_answer_that_a_mute_link_kept_comes_when_it_is_up(bench: Bench) -> None:
    bench.link.become(State.MUTE)
    async with bench.client() as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.request, "GET", "/api")
        await anyio.sleep(2)
        assert len(bench.server.requests) == 1
        bench.link.become(State.UP)
    assert anyio.current_time() == pytest.approx(2, abs=0.1)


@on_bench
async def test_who_waits_on_a_silent_link_hears_that_it_broke(bench: Bench) -> None:
    bench.link.become(State.HANG)
    async with bench.client(call_timeout=30) as client, anyio.create_task_group() as tasks:

        async def write() -> None:
            with pytest.raises(ClusterUnreachable, match="disconnected"):
                await client.request("POST", "/api", body={})

        tasks.start_soon(write)
        await anyio.sleep(2)
        bench.link.become(State.RESET)
    assert anyio.current_time() == pytest.approx(2, abs=0.1)


@on_bench
async def test_a_stopped_process_hears_of_nothing_until_it_goes_on(bench: Bench) -> None:
    times = []

    async def ask() -> None:
        async with bench.client(call_timeout=60) as client:
            for _ in range(2):
                await client.request("GET", "/api")
                times.append(anyio.current_time())
                await anyio.sleep(1)

    async with anyio.create_task_group() as tasks:
        with process("manager"):
            tasks.start_soon(ask)
        await anyio.sleep(0.5)
        the_loop().stop_process("manager")
        await anyio.sleep(20)
        assert len(times) == 1
        the_loop().continue_process("manager")
    assert times == pytest.approx([0, 20.5], abs=0.1)


@on_bench
async def test_the_lines_of_a_watch_come_in_order_and_then_its_end(bench: Bench) -> None:
    bench.link.weather = Weather(latency=(0.1, 2.0))
    for number in range(20):
        bench.server.watch.feed(b"%d\n" % number)
    async with bench.stream() as stream:
        bench.server.watch.feed(b"20\n")
        bench.server.watch.end()
        assert [await stream.line() for _ in range(22)] == [*(b"%d\n" % n for n in range(21)), b""]


@on_bench
async def test_a_silent_watch_is_taken_for_dead_after_its_idle_time(bench: Bench) -> None:
    async with bench.stream(idle=30) as stream:
        began = anyio.current_time()
        with pytest.raises(ClusterUnreachable):
            await stream.line()
        assert anyio.current_time() - began == pytest.approx(30)
    assert bench.server.watch.ended


@on_bench
async def test_lines_wait_while_the_link_hangs_and_come_when_it_is_up(bench: Bench) -> None:
    async with bench.stream() as stream:
        bench.link.become(State.HANG)
        bench.server.watch.feed(b"1\n")
        with anyio.move_on_after(10) as waited:
            await stream.line()
        assert waited.cancelled_caught
        bench.link.become(State.UP)
        assert await stream.line() == b"1\n"


@on_bench
async def test_a_watch_goes_on_though_nobody_looks_up_the_name_of_its_server(bench: Bench) -> None:
    async with bench.stream() as stream:
        bench.link.become(State.NAMELESS)
        bench.server.watch.feed(b"1\n")
        assert await stream.line() == b"1\n"


@on_bench
async def test_a_server_may_take_its_time_for_some_requests(bench: Bench) -> None:
    bench.host.delays.append(lambda request: 2.0 if request.method == "POST" else 0.0)
    async with bench.client() as client:
        await client.request("GET", "/api")
        assert anyio.current_time() < 1
        await client.request("POST", "/api", body={})
        assert anyio.current_time() >= 2


@on_bench
async def test_a_watch_breaks_when_its_link_does(bench: Bench) -> None:
    async with bench.stream() as stream, anyio.create_task_group() as tasks:

        async def read() -> None:
            with pytest.raises(ClusterUnreachable, match="broke"):
                await stream.line()

        tasks.start_soon(read)
        await anyio.sleep(1)
        bench.link.cut()
    assert bench.server.watch.ended


@on_bench
async def test_bad_weather_breaks_watches_and_doubles_lines(bench: Bench) -> None:
    bench.link.weather = Weather(doubled_line=1.0)
    async with bench.stream() as stream:
        bench.server.watch.feed(b"1\n")
        assert [await stream.line(), await stream.line()] == [b"1\n", b"1\n"]
        bench.link.weather = Weather(broken_watch=1.0)
        bench.server.watch.feed(b"2\n")
        with pytest.raises(ClusterUnreachable):
            await stream.line()


@on_bench
async def test_a_line_may_be_torn_off(bench: Bench) -> None:
    bench.link.weather = Weather(torn_line=1.0)
    async with bench.stream() as stream:
        bench.server.watch.feed(b"12345678\n")
        bench.server.watch.feed(b"next\n")
        with pytest.raises(ClusterUnreachable):  # the client hands out whole lines, and this one has no end
            await stream.line()
