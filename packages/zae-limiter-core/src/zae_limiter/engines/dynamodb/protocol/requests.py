"""Write signed requests as bytes."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from .body import write_body
from .signing import CONTENT_TYPE, Credentials, Signer

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(
    r"(?i:https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*/?"
)


class RequestWriter:
    """Writes the requests to one endpoint. Raises ``ValueError`` for a URL that is not like ``https://host:port/path``.

    The characters of the path are those that no URL encodes.
    """

    def __init__(self, url: str, *, region: str, user_agent: str) -> None:
        if not _URL.fullmatch(url):
            raise ValueError(url)
        parts = urlsplit(url)
        self.tls = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or DEFAULT_PORTS[parts.scheme]
        header = f"[{self.host}]" if ":" in self.host else self.host
        if self.port != DEFAULT_PORTS[parts.scheme]:
            header = f"{header}:{self.port}"
        self.netloc = header
        self.address = f"{parts.scheme}://{header}"
        path = parts.path or "/"
        self._signer = Signer(host=header, region=region, path=path)
        self._first_lines = (
            f"POST {path} HTTP/1.1\r\nHost: {header}\r\nContent-Type: {CONTENT_TYPE}\r\nUser-Agent: {user_agent}\r\n"
        )

    def write(self, name: str, request: Mapping[str, Any] | bytes, credentials: Credentials, seconds: float) -> bytes:
        """Return the bytes of a request, given as a mapping or as its body. ``seconds`` of the epoch date it."""
        body = request if isinstance(request, bytes) else write_body(request)
        signed = self._signer.headers(name, body, credentials, int(seconds))
        return f"{self._first_lines}{signed}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
