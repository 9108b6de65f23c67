"""The gate before this AWS: it refuses web pages, other names of this machine, and callers without the access key.

It refuses every path and every method alike, without a look at the content. The key comes in a header or in the URL,
never in a cookie, which a browser would send to every port of this machine: none is read, none is set.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from secrets import compare_digest
from typing import Any, Final, Protocol
from xml.sax.saxutils import escape

from .wsgi import Answer, Application, Environ, StartResponse, key_of, reply

NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
BY_A_PAGE: Final = "the local AWS of zae-limiter does not answer web pages"
WITHOUT_THE_KEY: Final = (
    'this local stack has an access key of its own, new with each start: eval "$(zae-limiter local env)" exports it'
)

_HTTP_PORT: Final = 80
_FOR_PAGES: Final = ("access-control-", "set-cookie")
_ERROR_CODE: Final = "UnrecognizedClientException"  # AWS's own for a key that it does not know


class Gate:
    """``application`` for callers that may ask it, at a port of this machine."""

    def __init__(self, application: Application, port: int, access_key_id: str) -> None:
        self._application = application
        self._hosts = hosts_at(port)
        self._access_key_id = access_key_id

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return the application's answer, without what is for web pages, or a refusal."""
        refused = self.refusal(environ)
        if refused is not None:
            return reply(start_response, refused)
        return self._application(environ, _for_programs(start_response))

    def refusal(self, environ: Environ) -> Answer | None:
        """Return the answer to a request that is refused, without a look at its body; ``None`` to let it in."""
        foreign = foreign_to(_headers(environ), self._hosts)
        if foreign is not None:
            return forbidden(foreign)
        if not compare_digest(key_of(environ).encode(), self._access_key_id.encode()):
            return _unknown_key(environ)
        return None


class Headers(Protocol):
    """Headers of a request, by name."""

    def get(self, name: str, /) -> str | None:
        """Return the value, if there is one."""


def foreign_to(headers: Headers, hosts: Sequence[str]) -> str | None:
    """Return why to refuse a request that a browser sends for a page, or that is for none of the hosts; else ``None``.

    A page whose name was made to lead here sends no ``Origin``, but its own name as ``Host``.
    """
    if headers.get("Origin") is not None or headers.get("Sec-Fetch-Site") not in (None, "none"):
        return BY_A_PAGE
    host = headers.get("Host") or ""
    if host.lower() not in hosts:
        return f"the local AWS of zae-limiter answers at {' and '.join(hosts)}, not at {host[:100]!r}"
    return None


def forbidden(reason: str) -> Answer:
    """Return the answer to a caller that may not ask at all."""
    return 403, [("Content-Type", "text/plain")], f"{reason}\n".encode()


def hosts_at(port: int) -> tuple[str, ...]:
    """Return the values of ``Host`` that a program on this machine sends, which leave out HTTP's own port."""
    return (*(f"{name}:{port}" for name in NAMES), *(NAMES if port == _HTTP_PORT else ()))


def _headers(environ: Environ) -> dict[str, str]:
    names = {"Origin": "HTTP_ORIGIN", "Sec-Fetch-Site": "HTTP_SEC_FETCH_SITE", "Host": "HTTP_HOST"}
    return {name: environ[variable] for name, variable in names.items() if variable in environ}


def _unknown_key(environ: Environ) -> Answer:
    """Return AWS's error for an unknown key, in the protocol of the service, as far as that is known."""
    if "HTTP_X_AMZ_TARGET" in environ or environ["PATH_INFO"].startswith("/20"):
        body = json.dumps({"__type": _ERROR_CODE, "message": WITHOUT_THE_KEY})
        return 403, [("Content-Type", "application/x-amz-json-1.0"), ("X-Amzn-ErrorType", _ERROR_CODE)], body.encode()
    error = f"<Error><Code>{_ERROR_CODE}</Code><Message>{escape(WITHOUT_THE_KEY)}</Message></Error>"
    return 403, [("Content-Type", "text/xml")], f"<ErrorResponse>{error}</ErrorResponse>".encode()


def _for_programs(start_response: StartResponse) -> StartResponse:
    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Callable[[bytes], object]:
        kept = [(name, value) for name, value in headers if not name.lower().startswith(_FOR_PAGES)]
        started: Callable[[bytes], object] = start_response(status, kept, *more)
        return started

    return start
