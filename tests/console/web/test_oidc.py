"""Login by OpenID Connect, against a small issuer that may be hostile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from multikueue.runtime import SystemClock
from multikueue_console.watch.fleet_watch import FleetWatch
from multikueue_console.web.oidc import IdentityProvider, Issuer, LoginFailed, why_wrong
from multikueue_console.web.server import ConsoleServer, Options
from tests.console.web.issuer import CLIENT, CONSOLE, KnownTokens, SmallIssuer

pytestmark = pytest.mark.anyio


class Ticking:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


async def logged_in(small: SmallIssuer, **brought: str) -> str:
    """The ID token of a login that brings this in place of what the issuer says."""
    async with small.serving() as issuer:
        provider = IdentityProvider(issuer, Ticking())
        cookie, address = await provider.begin()
        return await provider.finish(cookie, small.agree(address) | brought)


@pytest.mark.parametrize("secret", ["", "a secret / of ours"], ids=["a public client", "a client with a secret"])
async def test_an_issuer_gives_the_token_that_was_asked_for(secret: str) -> None:
    small = SmallIssuer(secret=secret.replace(" ", "+").replace("/", "%2F"))
    async with small.serving() as issuer:
        told = Issuer(url=issuer.url, client=CLIENT, console=CONSOLE, secret=secret)
        provider = IdentityProvider(told, Ticking())
        cookie, address = await provider.begin()
        assert cookie not in address
        assert await provider.finish(cookie, small.agree(address)) == small.made[0]


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        ({"nonce": "of another login"}, "another login"),
        ({"nonce": ""}, "another login"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"aud": "another"}, "another client"),
        ({"aud": ["another", "more"]}, "another client"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "another client"),
        ({"aud": 5}, "no ID token"),
    ],
    ids=[
        "the nonce of another login",
        "no nonce",
        "another issuer",
        "another audience",
        "other audiences",
        "a token for another party",
        "an audience that is none",
    ],
)
async def test_a_token_that_was_not_asked_for_is_refused(lie: dict[str, Any], says: str) -> None:
    with pytest.raises(LoginFailed, match=says):
        await logged_in(SmallIssuer(lie=lambda claims: claims | lie))


@pytest.mark.parametrize(
    ("brought", "says"),
    [
        ({"state": "guessed"}, "another login"),
        ({"state": ""}, "another login"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"code": "guessed"}, "gives no ID token.*invalid_grant"),
        ({"code": ""}, "does not let you in"),
        ({"error": "access_denied"}, "does not let you in: access_denied"),
        ({"error": "<script>alert(1)</script>"}, r"does not let you in\."),
    ],
    ids=[
        "a guessed state",
        "no state",
        "an answer of another issuer",
        "a guessed code",
        "no code",
        "a refusal",
        "a refusal with markup",
    ],
)
async def test_an_answer_that_is_not_the_issuers_is_refused(brought: dict[str, str], says: str) -> None:
    with pytest.raises(LoginFailed, match=says):
        await logged_in(SmallIssuer(), **brought)


async def test_a_login_is_finished_once_and_by_the_browser_that_began_it() -> None:
    small, clock = SmallIssuer(), Ticking()
    async with small.serving() as issuer:
        provider = IdentityProvider(issuer, clock)
        cookie, address = await provider.begin()
        answer = small.agree(address)
        with pytest.raises(LoginFailed, match="not begun in this browser"):
            await provider.finish("of another browser", answer)
        await provider.finish(cookie, answer)
        with pytest.raises(LoginFailed, match="is finished"):
            await provider.finish(cookie, answer)
        again, elsewhere = await provider.begin()
        replayed = {**small.agree(elsewhere), "code": answer["code"]}
        with pytest.raises(LoginFailed, match="invalid_grant"):
            await provider.finish(again, replayed)
        late, address = await provider.begin()
        clock.time += 601
        with pytest.raises(LoginFailed, match="took too long"):
            await provider.finish(late, small.agree(address))


@pytest.mark.parametrize(
    ("tells", "says"),
    [
        ({"issuer": "https://evil.example"}, "of another issuer"),
        ({"token_endpoint": "http://evil.example/token"}, "not https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "not https"),
        ({"token_endpoint": None}, "no discovery document"),
        ({"more": "x" * 2**18}, "too long"),
    ],
    ids=["another issuer", "a token over plain http", "a script as address", "no address", "an answer without end"],
)
async def test_a_discovery_document_that_cannot_be_trusted_is_refused(tells: dict[str, Any], says: str) -> None:
    with pytest.raises(LoginFailed, match=says):
        await logged_in(SmallIssuer(tells=tells))


async def test_an_issuer_out_of_reach_is_told() -> None:
    async with SmallIssuer().serving() as issuer:
        pass
    with pytest.raises(LoginFailed, match="does not answer"):
        await IdentityProvider(issuer, Ticking()).begin()


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "a.%%%.c", "ü.ü.ü"])
def test_what_is_no_token_is_called_so(token: str) -> None:
    issuer = Issuer(url="https://id.example.org", client=CLIENT, console="https://console.example.org")

    assert why_wrong(token, issuer, "nonce") == "it is no ID token"


@pytest.mark.parametrize(
    ("url", "console"),
    [
        ("http://id.example.org", "https://console.example.org"),
        ("https://id.example.org", "http://console.example.org"),
        ("https://id.example.org", "https://console.example.org/there"),
    ],
    ids=["an issuer without TLS", "a console without TLS", "a console below a path"],
)
def test_an_address_that_is_not_safe_is_refused(url: str, console: str) -> None:
    with pytest.raises(ValueError, match="expected an"):
        Issuer(url=url, client=CLIENT, console=console)


@dataclass
class Browser:
    """One browser before a console that knows the small issuer."""

    http: aiohttp.ClientSession
    small: SmallIssuer
    access: KnownTokens
    url: str
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str) -> tuple[aiohttp.ClientResponse, str]:
        sent = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": sent} if sent else {}
        async with self.http.get(self.url + path, headers=headers, allow_redirects=False) as answer:
            for line in answer.headers.getall("Set-Cookie", []):
                self.cookies |= {name: each.value for name, each in SimpleCookie(line).items()}
            return answer, await answer.text()

    async def log_in(self) -> tuple[aiohttp.ClientResponse, str]:
        answer, _ = await self.get("/login/oidc")
        brought = self.small.agree(answer.headers["Location"])
        return await self.get("/login/callback?" + "&".join(f"{name}={value}" for name, value in brought.items()))


@pytest.fixture(name="browser")
async def _browser() -> AsyncIterator[Browser]:
    small = SmallIssuer()
    access, clock = KnownTokens(small.made), SystemClock()
    async with small.serving() as issuer, aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        watch: Any = FleetWatch(None, ("",), clock)  # type: ignore[arg-type]  # it does not run
        connect: Any = None
        server = ConsoleServer(watch, access, connect, clock, Options(issuer=issuer))
        async with server.serving() as url:
            yield Browser(http, small, access, url)


async def test_the_door_leads_to_the_issuer_and_back_in(browser: Browser) -> None:
    _, door = await browser.get("/")
    assert 'href="/login/oidc"' in door

    answer, _ = await browser.get("/login/oidc?next=https://evil.example")
    asked = parse_qs(urlsplit(answer.headers["Location"]).query)
    flags = {each.strip() for each in answer.headers["Set-Cookie"].split(";")}
    assert answer.headers["Location"].startswith(f"{browser.small.url}/auth?")
    assert asked["redirect_uri"] == [f"{CONSOLE}/login/callback"]
    assert {"HttpOnly", "Secure", "SameSite=Lax", "Path=/login", "Max-Age=600"} <= flags

    answer, page = await browser.log_in()
    session = next(each for each in answer.headers.getall("Set-Cookie") if each.startswith("multikueue-console="))
    assert (answer.status, 'content="0; url=/"' in page, "evil" in page) == (200, True, False)
    assert {"HttpOnly", "Secure", "SameSite=Strict"} <= {each.strip() for each in session.split(";")}
    assert browser.small.made[0] not in str(answer.headers) + page, "no browser gets the token"

    answer, page = await browser.get("/")
    assert (answer.status, "app.js" in page) == (200, True)


async def test_who_is_not_known_to_the_api_server_is_told_what_is_missing(browser: Browser) -> None:
    browser.access.valid = []

    answer, page = await browser.log_in()
    assert (answer.status, "its API server must be told of this issuer" in page) == (401, True)
    assert "multikueue-console=" not in str(answer.headers)
    assert (await browser.get("/"))[0].status == 401


async def test_a_session_ends_with_its_token(browser: Browser) -> None:
    await browser.log_in()
    assert (await browser.get("/api/places"))[0].status == 200

    browser.access.valid = []
    assert (await browser.get("/api/places"))[0].status == 401
    assert (await browser.get("/"))[0].status == 401, "the door, where one may log in again"


async def test_what_the_issuer_says_is_no_markup(browser: Browser) -> None:
    browser.small.tells = {"issuer": "https://evil.example/<script>"}

    answer, page = await browser.get("/login/oidc")
    assert (answer.status, "<script>" in page.replace('<script src="/assets/theme.js">', "")) == (401, False)


async def test_without_an_issuer_there_is_no_way_to_one() -> None:
    clock = SystemClock()
    watch: Any = FleetWatch(None, ("",), clock)  # type: ignore[arg-type]  # it does not run
    connect: Any = None
    async with (
        ConsoleServer(watch, KnownTokens([]), connect, clock, Options()).serving() as url,
        aiohttp.ClientSession() as http,
    ):
        async with http.get(f"{url}/login/oidc") as answer:
            assert answer.status == 404
        async with http.get(url) as door:
            assert "/login/oidc" not in await door.text()
