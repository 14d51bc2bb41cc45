"""A small issuer of OpenID Connect, which may be hostile, and a cluster that knows its tokens."""

from __future__ import annotations

import hashlib
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from aiohttp import web

from multikueue_console.web.oidc import Issuer
from multikueue_console.web.rights import OpenAccess, Person, Visible

__all__ = ["CLIENT", "CONSOLE", "KnownTokens", "SmallIssuer"]

CLIENT, CONSOLE = "console", "http://127.0.0.1:8080"


def part(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def id_token(**claims: Any) -> str:
    """Of no key: who checks signatures is the API server."""
    return ".".join(part(each) for each in (b'{"alg":"RS256"}', msgspec.json.encode(claims), b"signature"))


@dataclass
class SmallIssuer:
    """Lets everybody in, and checks what an issuer must: the client, the place to go back to, one use of a code, PKCE.
    `lie`: changes the claims of ID tokens. `tells`: more in the discovery document."""

    url: str = ""
    secret: str = ""
    lie: Callable[[dict[str, Any]], dict[str, Any]] = dict
    tells: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    async def discovery(self, _request: web.Request) -> web.Response:
        own = {"issuer": self.url, "authorization_endpoint": f"{self.url}/auth", "token_endpoint": f"{self.url}/token"}
        return web.json_response(own | self.tells)

    def agree(self, address: str) -> dict[str, str]:
        """What somebody who logs in at this address brings back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{next(self.numbers)}"
        self.codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.url}

    async def authorize(self, request: web.Request) -> web.Response:
        """Nobody is asked who they are."""
        back = request.query["redirect_uri"]
        raise web.HTTPFound(f"{back}?{urlencode(self.agree(str(request.url)))}")

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.codes.pop(str(form["code"]), None)
        challenge = part(hashlib.sha256(str(form["code_verifier"]).encode()).digest())
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        if self.secret:
            pair = b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
            assert pair == f"{CLIENT}:{self.secret}"
        claims = {"iss": self.url, "aud": CLIENT, "sub": "alice", "nonce": asked["nonce"]}
        self.made.append(id_token(**self.lie(claims)))
        return web.json_response({"id_token": self.made[-1], "access_token": "unused", "token_type": "Bearer"})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Issuer]:
        app = web.Application()
        app.add_routes(
            [
                web.get("/.well-known/openid-configuration", self.discovery),
                web.get("/auth", self.authorize),
                web.post("/token", self.token),
            ],
        )
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield Issuer(url=self.url, client=CLIENT, console=CONSOLE, secret=self.secret)
        finally:
            await runner.cleanup()


class KnownTokens(OpenAccess):
    """An API server that accepts these tokens."""

    takes_tokens = True

    def __init__(self, valid: list[str]) -> None:
        self.valid = valid

    async def person(self, token: str) -> Person | None:
        return Person(name="alice", token=token) if token in self.valid else None

    async def visible(self, _person: Person, _namespaces: Any) -> Visible:
        return Visible(frozenset(), frozenset())
