"""Logs as JSON or for people."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from multikueue.settings import Log
from multikueue.telemetry.logs import configure


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    logging.getLogger("asyncio").setLevel(logging.NOTSET)  # a command that ran in this process has made it quiet
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_of_json_with_time_level_and_fields() -> None:
    out = io.BytesIO()
    configure(Log(format="json"), stream=out)
    structlog.get_logger().info("workload.dispatched", cluster="worker-1", copies=2)

    [line] = lines(out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "workload.dispatched", "level": "info", "cluster": "worker-1", "copies": 2}


def test_what_is_bound_as_context_is_in_every_line() -> None:
    out = io.BytesIO()
    configure(Log(format="json"), stream=out)
    with structlog.contextvars.bound_contextvars(key="default/wl"):
        structlog.get_logger().info("workload.dispatched")
    structlog.get_logger().info("store.synced")
    assert [line.get("key") for line in lines(out)] == ["default/wl", None]


def test_events_below_the_level_are_not_written() -> None:
    out = io.BytesIO()
    configure(Log(format="json", level="warning"), stream=out)
    log = structlog.get_logger()
    log.debug("a.b")
    log.info("a.b")
    log.warning("c.d")
    log.error("e.f")
    assert [line["event"] for line in lines(out)] == ["c.d", "e.f"]


def test_an_exception_becomes_a_field_so_a_line_stays_a_line() -> None:
    out = io.BytesIO()
    configure(Log(format="json"), stream=out)
    structlog.get_logger().error("reconcile.crashed", exc_info=ValueError("boom"))
    [line] = lines(out)
    assert "ValueError: boom" in line["exception"]


def test_a_value_that_json_does_not_know_becomes_text() -> None:
    out = io.BytesIO()
    configure(Log(format="json"), stream=out)
    structlog.get_logger().info("a.b", error=ValueError("boom"))
    assert lines(out)[0]["error"] == "boom"


@pytest.mark.parametrize(
    ("format_", "stream", "is_json", "has_colours"),
    [
        pytest.param("auto", io.BytesIO, True, False, id="auto into a pipe is json"),
        pytest.param("auto", Terminal, False, True, id="auto on a terminal is for people"),
        pytest.param("console", io.BytesIO, False, False, id="for people into a pipe has no colours"),
        pytest.param("console", Terminal, False, True, id="for people on a terminal has colours"),
        pytest.param("json", Terminal, True, False, id="json on a terminal stays json"),
    ],
)
def test_the_format_follows_the_settings_and_the_terminal(
    format_: Any, stream: type[io.BytesIO], is_json: bool, has_colours: bool
) -> None:
    out = stream()
    configure(Log(format=format_), stream=out)
    structlog.get_logger().info("workload.dispatched", cluster="worker-1")
    text = out.getvalue()
    assert b"workload.dispatched" in text
    assert text.startswith(b"{") == is_json
    assert (b"\x1b[" in text) == has_colours


def test_who_wants_no_colours_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    configure(Log(format="console"), stream=out)
    structlog.get_logger().info("workload.dispatched", cluster="worker-1")

    assert b"cluster=worker-1" in out.getvalue()
    assert b"\x1b[" not in out.getvalue()


def test_people_see_tracebacks() -> None:
    out = io.BytesIO()
    configure(Log(format="console"), stream=out)
    structlog.get_logger().error("reconcile.crashed", exc_info=ValueError("boom"))
    assert b"ValueError: boom" in out.getvalue()


def test_warnings_of_libraries_go_the_same_way() -> None:
    out = io.BytesIO()
    configure(Log(format="json"), stream=out)
    logging.getLogger("aiohttp.client").info("not this")
    logging.getLogger("aiohttp.client").warning("closed %d connections", 3)
    [line] = lines(out)
    assert (line["event"], line["logger"], line["message"], line["level"]) == (
        "library.logged",
        "aiohttp.client",
        "closed 3 connections",
        "warning",
    )


def test_a_connection_that_broke_is_told_by_the_call_it_carried() -> None:
    out = io.BytesIO()
    configure(Log(format="json"), stream=out)
    logging.getLogger("asyncio").error("Fatal error on SSL protocol")
    logging.getLogger("asyncio").error("Task exception was never retrieved")
    assert [line["message"] for line in lines(out)] == ["Task exception was never retrieved"]
