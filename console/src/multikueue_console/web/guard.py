"""What every request must keep to, and what every answer says about itself: decided from headers alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

__all__ = ["HEADERS", "spelled", "why_refused"]

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without one, browsers send the forms here with the origin `null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On each answer: scripts and styles from here alone, none inline, and nobody may frame a page or read an answer elsewhere."""


def spelled(hosts: Collection[str]) -> frozenset[str]:
    """These names as browsers send them: the port of https or http is left out."""
    return frozenset(hosts) | {each.removesuffix(port) for each in hosts for port in (":443", ":80")}


def why_refused(method: str, headers: Mapping[str, str], hosts: Collection[str]) -> str:
    """Why a request is refused; empty if it is not. `hosts`: the names, with the port, under which the console is known.

    A page of somebody else cannot make a browser read from here or act here: the name must be ours (a foreign name that leads
    to this address is DNS rebinding), and a request that another site started is only good to open a page.
    """
    host = headers.get("Host", "")
    if host not in hosts:
        return f"the console is not known as {host[:100]!r}"
    origin = headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return "the request comes from another origin"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        is_opening = method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate"
        if not is_opening or headers.get("Sec-Fetch-Dest") != "document":
            return "the request was started by another site"
    if method not in ("GET", "HEAD") and origin is None:
        return "a request that changes something must name its origin"
    return ""
