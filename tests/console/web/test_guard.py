"""Which requests are refused, by their headers."""

from __future__ import annotations

import pytest

from multikueue_console.web.guard import HEADERS, spelled, why_refused

HOST = "127.0.0.1:8080"
OWN = {"Host": HOST, "Origin": f"http://{HOST}"}


@pytest.mark.parametrize(
    ("method", "headers", "refused"),
    [
        ("GET", {"Host": HOST}, ""),
        ("GET", {"Host": HOST, "Sec-Fetch-Site": "same-origin"}, ""),
        ("POST", OWN, ""),
        ("GET", {"Host": "evil.example:8080"}, "not known"),
        ("GET", {}, "not known"),
        ("GET", {"Host": HOST, "Origin": "http://evil.example"}, "another origin"),
        ("GET", {"Host": HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, "another site"),
        ("GET", {"Host": HOST, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, "another site"),
        (
            "GET",
            {"Host": HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
            "another site",
        ),
        (
            "GET",
            {"Host": HOST, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
            "",
        ),
        ("POST", {"Host": HOST}, "must name its origin"),
    ],
    ids=[
        "a program",
        "a page of ours",
        "a form of ours",
        "a foreign name that leads here",
        "no name",
        "a page of another origin",
        "a script of another site",
        "a script of a neighbour",
        "a frame in another site",
        "a link on another site",
        "a change without an origin",
    ],
)
def test_a_request_is_refused_by_its_headers(method: str, headers: dict[str, str], refused: str) -> None:
    told = why_refused(method, headers, {HOST})

    assert refused in told
    assert bool(told) == bool(refused)


def test_a_name_with_the_port_of_https_is_known_as_browsers_send_it() -> None:
    known = spelled({"console.example.org:443", "127.0.0.1:8443"})

    assert not why_refused("GET", {"Host": "console.example.org"}, known)
    assert why_refused("GET", {"Host": "127.0.0.1"}, known)


def test_no_script_or_style_may_stand_in_a_page_or_come_from_elsewhere() -> None:
    policy = HEADERS["Content-Security-Policy"]

    assert "unsafe" not in policy
    assert "http" not in policy
    assert HEADERS["Referrer-Policy"] == "same-origin", "else a browser sends the form to log in with no origin"
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
