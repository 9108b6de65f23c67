"""Ask a running local stack for its status, or to throttle."""

import json
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from ..errors import CommandError
from .credentials import authorization
from .state_dir import STATUS_PATH, THROTTLE_PATH, Running

TIMEOUT_SECONDS: Final = 10.0

T = TypeVar("T")


def readers(running: Running) -> list[dict[str, Any]]:
    """Return the counts of each reader of a stream. Raises ``CommandError`` if the stack does not answer."""
    told: list[dict[str, Any]] = _ask(running, "GET", STATUS_PATH, lambda answer: json.loads(answer.read()))
    return told


def put_throttle(running: Running, seconds: float) -> int:
    """Throttle the writes for so many seconds from now on, 0 to end it; return how many were refused since the last
    time. Raises ``CommandError`` if the stack does not answer.
    """
    body = json.dumps({"seconds": seconds})
    code, told = _ask(running, "PUT", THROTTLE_PATH, lambda answer: (answer.status, answer.read()), body)
    if code != HTTPStatus.OK:
        raise CommandError(f"{running.name} does not throttle: {told.decode(errors='replace')}")
    return int(told)


def _ask(running: Running, method: str, path: str, read: Callable[[HTTPResponse], T], body: str | None = None) -> T:
    connection = HTTPConnection(urlsplit(running.endpoint_url).netloc, timeout=TIMEOUT_SECONDS)
    signed = {"Authorization": authorization(running.credentials.access_key_id)}
    try:
        connection.request(method, path, body=body, headers=signed)
        return read(connection.getresponse())
    except (OSError, HTTPException, ValueError) as error:
        raise CommandError(
            f"{running.name} does not answer at {running.endpoint_url}: {error}; its process is {running.pid}"
        ) from error
    finally:
        connection.close()
