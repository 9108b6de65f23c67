"""Ask a running local stack for its status."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from ..errors import CommandError
from .credentials import authorization
from .state_dir import STATUS_PATH, Running

TIMEOUT_SECONDS: Final = 10.0


def readers(running: Running) -> list[dict[str, Any]]:
    """Return the counts of each reader of a stream. Raises ``CommandError`` if the stack does not answer."""
    connection = HTTPConnection(urlsplit(running.endpoint_url).netloc, timeout=TIMEOUT_SECONDS)
    signed = {"Authorization": authorization(running.credentials.access_key_id)}
    try:
        connection.request("GET", STATUS_PATH, headers=signed)
        told: list[dict[str, Any]] = json.loads(connection.getresponse().read())
    except (OSError, HTTPException, ValueError) as error:
        raise CommandError(
            f"{running.name} does not answer at {running.endpoint_url}: {error}; its process is {running.pid}"
        ) from error
    finally:
        connection.close()
    return told
