"""Who comes in: with the token that the terminal printed, or as the one whom a proxy names.

The token opens one session, whose cookie other sites cannot send; a second use of it is refused, because a URL stays in
histories. A name that another site's DNS points at this machine is refused by the Host header. Behind a proxy, the
proxy authenticates, and each request carries its header.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

COOKIE: Final = "zae-limiter-console"
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer`, a browser sends the forms with the origin `null`
    "Cache-Control": "no-store",
}


@dataclass(slots=True)
class Access:
    """``identity_header``: the header of a proxy that names the user; without it, the token lets one browser in."""

    identity_header: str | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _session: str | None = None

    def enter(self, token: str) -> str | None:
        """Return the value of the session's cookie for the token, once; ``None`` for any other, or a second time."""
        if self._session is not None or not compare_digest(token.encode(), self.token.encode()):
            return None
        self._session = secrets.token_urlsafe(32)
        return self._session

    def user(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
        """Return who sends a request; ``None`` for nobody who may."""
        if self.identity_header is not None:
            return headers.get(self.identity_header) or None
        given = cookies.get(COOKIE, "")
        known = self._session is not None and compare_digest(given.encode(), self._session.encode())
        return "console" if known else None


def same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether a change is asked for by a page of this host."""
    return headers.get("origin", "").partition("://")[2] == headers.get("host")
