"""Login by OpenID Connect: the authorization code flow with PKCE, state and nonce, for one issuer.

It ends in an ID token, which the API server must accept: its TokenReview checks signature, audience and expiry, and says who it
is. So nothing here knows keys. What the API server cannot know is checked here: that this browser asked for the token (state,
nonce), and that it is of this issuer for this client. Sources: OpenID Connect Core 1.0, sections 3.1.2 and 3.1.3;
Discovery 1.0, section 4; RFC 7636 (PKCE); RFC 9207 (`iss` of the answer).
"""

from __future__ import annotations

import secrets
import ssl
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import msgspec

from multikueue.errors import MultiKueueError

__all__ = ["CALLBACK", "LOGIN_COOKIE", "LOGIN_TIME", "SCOPES", "IdentityProvider", "Issuer", "LoginFailed"]

LOGIN_COOKIE = "multikueue-console-login"

CALLBACK = "/login/callback"
"""The path to which the issuer sends a browser back."""

LOGIN_TIME = 600.0
"""Seconds for a login, from its begin to the answer of the issuer."""

MOST_LOGINS = 2_000
"""Logins that have begun and are kept: the oldest goes first."""

TIMEOUT = 10.0
"""Seconds for a call of the issuer."""

KNOWN_FOR = 300.0
"""Seconds for which the discovery document holds: who begins a login without end must not make the issuer work."""

MOST_BYTES = 2**18
"""Of an answer of the issuer."""

SCOPES = ("openid", "email", "profile")

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class LoginFailed(MultiKueueError):
    """Nobody is logged in; the message says why, to who wanted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An issuer, and this console as its client. `url`: as in `iss` of its tokens. `secret`: empty for a public client.
    `console`: the address of the console, without a path. `tls`: for a certificate that the system does not trust.

    Raises ValueError for an address that is not https; http is good for loopback.
    """

    url: str
    client: str
    console: str
    secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = SCOPES
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for each in (self.url, self.console):
            if not _is_safe(each):
                raise ValueError(f"expected an https address, got {each!r}")
        if urlsplit(self.console).path not in ("", "/"):
            raise ValueError(f"expected an address without a path, got {self.console!r}")
        if "openid" not in self.scopes:
            raise ValueError("expected the scope openid among the scopes")

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def console_host(self) -> str:
        """The name of the console, as browsers send it."""
        return urlsplit(self.console).netloc

    @property
    def callback(self) -> str:
        return self.console.rstrip("/") + CALLBACK


class _Discovered(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Granted(msgspec.Struct):
    id_token: str


class _Refused(msgspec.Struct):
    error: str = ""


class _Claims(msgspec.Struct):
    iss: str
    aud: str | tuple[str, ...]
    nonce: str = ""
    azp: str = ""


@dataclass(frozen=True, slots=True)
class _Login:
    """A login that has begun. `until`: by the clock that never jumps, in seconds."""

    state: str
    nonce: str
    verifier: str
    until: float


class IdentityProvider:
    """The logins of one issuer. Each is known by a cookie of the browser that began it, and is finished once at most."""

    def __init__(self, issuer: Issuer, monotonic: Callable[[], float]) -> None:
        self._issuer, self._monotonic = issuer, monotonic
        self._begun: dict[str, _Login] = {}
        self._found: tuple[float, _Discovered] | None = None

    @property
    def host(self) -> str:
        """The name by which people know the issuer."""
        return self._issuer.host

    async def begin(self) -> tuple[str, str]:
        """The value of `LOGIN_COOKIE`, and the address of the issuer to which the browser goes. Raises LoginFailed."""
        found = await self._discovered()
        cookie, state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        self._begun[cookie] = _Login(state, nonce, verifier, self._monotonic() + LOGIN_TIME)
        while len(self._begun) > MOST_LOGINS:
            del self._begun[next(iter(self._begun))]
        asked = {
            "response_type": "code",
            "client_id": self._issuer.client,
            "redirect_uri": self._issuer.callback,
            "scope": " ".join(self._issuer.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": _encoded(sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        address = found.authorization_endpoint
        return cookie, f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"

    async def finish(self, cookie: str, answer: Mapping[str, str]) -> str:
        """The ID token for the answer that the browser brings from the issuer. Raises LoginFailed."""
        login = self._begun.pop(cookie, None)
        if login is None or login.until < self._monotonic():
            raise LoginFailed("This login was not begun in this browser, is finished, or took too long: begin again.")
        if not secrets.compare_digest(login.state.encode(), answer.get("state", "").encode()):
            raise LoginFailed("The answer belongs to another login: begin again.")
        if answer.get("iss", self._issuer.url) != self._issuer.url:
            raise LoginFailed("The answer comes from another issuer.")
        if "error" in answer or not answer.get("code"):
            raise LoginFailed(f"{self.host} does not let you in{_word(answer.get('error', ''))}.")
        token = await self._exchanged(answer["code"], login.verifier)
        why = why_wrong(token, self._issuer, login.nonce)
        if why:
            raise LoginFailed(f"The ID token of {self.host} is refused: {why}.")
        return token

    async def _discovered(self) -> _Discovered:
        if self._found is not None and self._found[0] > self._monotonic():
            return self._found[1]
        address = f"{self._issuer.url.rstrip('/')}/.well-known/openid-configuration"
        status, body = await self._call("GET", address)
        try:
            found = msgspec.json.decode(body, type=_Discovered)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise LoginFailed(f"{address} is no discovery document (status {status}).") from None
        if found.issuer != self._issuer.url:
            raise LoginFailed(f"{address} is of another issuer than {self._issuer.url}.")
        if not _is_safe(found.authorization_endpoint) or not _is_safe(found.token_endpoint):
            raise LoginFailed(f"{address} names an address that is not https.")
        self._found = self._monotonic() + KNOWN_FOR, found
        return found

    async def _exchanged(self, code: str, verifier: str) -> str:
        found, issuer = await self._discovered(), self._issuer
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": issuer.callback,
            "client_id": issuer.client,
            "code_verifier": verifier,
        }
        headers = {"Accept": "application/json"}
        if issuer.secret and "client_secret_basic" in found.token_endpoint_auth_methods_supported:
            pair = f"{quote_plus(issuer.client)}:{quote_plus(issuer.secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        elif issuer.secret:
            form["client_secret"] = issuer.secret
        status, body = await self._call("POST", found.token_endpoint, form, headers)
        try:
            if status != 200:
                why = _word(msgspec.json.decode(body, type=_Refused).error)
                raise LoginFailed(f"{self.host} gives no ID token (status {status}){why}.")
            return msgspec.json.decode(body, type=_Granted).id_token
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise LoginFailed(f"{self.host} gives no ID token (status {status}).") from None

    async def _call(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """One call, without redirects: status and body. Raises LoginFailed without an answer, or for one that is too long."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        tls = self._issuer.tls or True
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.request(method, url, data=form, headers=headers, ssl=tls, allow_redirects=False) as answer,
            ):
                body = bytearray()
                async for piece in answer.content.iter_any():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise LoginFailed(f"The answer of {self.host} is too long.")
                return answer.status, bytes(body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise LoginFailed(f"{self.host} does not answer: {str(error) or type(error).__name__}.") from error


def why_wrong(token: str, issuer: Issuer, nonce: str) -> str:
    """Why this is not the ID token that was asked for with this nonce, by its claims; empty if it is. Its signature is not
    looked at: it came from the issuer itself, and the API server checks it."""
    try:
        _, payload, _ = token.split(".")
        claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=_Claims)
    except (ValueError, msgspec.DecodeError):
        return "it is no ID token"
    audience = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
    if claims.iss != issuer.url:
        return "it is of another issuer"
    if issuer.client not in audience or claims.azp not in ("", issuer.client):
        return "it is for another client"
    if not secrets.compare_digest(claims.nonce.encode(), nonce.encode()):
        return "it belongs to another login"
    return ""


def _is_safe(url: str) -> bool:
    """Whether what is sent there is for the other side alone."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK))


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _word(error: str) -> str:
    """An error code of OAuth in a sentence. Others are left out: what stands in an address is anybody's."""
    return f": {error}" if error and len(error) < 50 and error.replace("_", "").isalpha() else ""
