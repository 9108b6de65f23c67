"""Who comes in: with the token that the terminal printed, or as the one whom a proxy names.

The token opens one session, once: URLs stay in histories. Browsers send a cookie to every port of a host, also to one
where another user of the machine listens. So a session has two secrets, and each request needs both: the cookie, and a
part of the path of its pages. The cookie is sent below that path alone, so no other port gets it unless it knows the
path, and the cookie alone can neither read a page nor change anything.

A name that another site's DNS points at this machine is refused by the Host header. Behind a proxy, the proxy
authenticates, each request carries its header, and its sessions are its own.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

COOKIE: Final = "zae-limiter-console"
IDLE_SECONDS: Final = 3_600
SESSION_SECONDS: Final = 12 * 3_600
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer`, a browser sends the forms with the origin `null`
    "Cache-Control": "no-store",
}


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(slots=True)
class Session:
    """What one browser has: ``cookie``, and ``path``, which the addresses of its pages begin with."""

    began: float
    used: float
    cookie: str = field(default_factory=_secret)
    path: str = field(default_factory=_secret)


@dataclass(slots=True)
class Access:
    """``identity_header``: the header of a proxy that names the user; without it, the token lets one browser in.

    When a session ends, the next one needs a new token, and ``ended`` is called. Only the event loop's thread asks.
    """

    identity_header: str | None = None
    ended: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.time  # a monotonic one may stand still while the machine sleeps
    token: str = field(default_factory=_secret)
    _session: Session | None = None

    def fits(self, token: str) -> bool:
        """Return whether the token would open a session."""
        return self._current() is None and compare_digest(token.encode(), self.token.encode())

    def enter(self, token: str) -> Session | None:
        """Open the session, once; return ``None`` for another token, or a second time."""
        if self.identity_header is not None or not self.fits(token):
            return None
        now = self.clock()
        self._session = Session(now, now)
        return self._session

    def leave(self) -> None:
        """End the session, and take another token for the next one."""
        self._session, self.token = None, _secret()
        self.ended()

    def user(self, headers: Mapping[str, str], cookies: Mapping[str, str], path: str, *, idle: bool) -> str | None:
        """Return who sends a request; ``None`` if the sender may not. ``idle``: the page asks, and no person."""
        if self.identity_header is not None:
            return headers.get(self.identity_header) or None
        session = self._current()
        if session is None:
            return None
        has_cookie = compare_digest(cookies.get(COOKIE, "").encode(), session.cookie.encode())
        if not (has_cookie and compare_digest(path.encode(), session.path.encode())):
            return None
        if not idle:
            session.used = self.clock()
        return "console"

    def _current(self) -> Session | None:
        """Return the session, unless it is too old or was unused for too long: then it ends."""
        now, session = self.clock(), self._session
        if session is not None and (now - session.began > SESSION_SECONDS or now - session.used > IDLE_SECONDS):
            self.leave()
        return self._session


def same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether a change is asked for by a page of this host and port."""
    return headers.get("origin", "").partition("://")[2] == headers.get("host")
