"""Write signed requests as bytes: JSON, by orjson where it is installed, under Signature Version 4.

https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
"""

import hmac
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from time import gmtime, strftime
from typing import Any, Final
from urllib.parse import urlsplit

from ....runtime.named_tuple import NamedTuple

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
TARGET: Final = "DynamoDB_20120810."
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SERVICE: Final = "dynamodb"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(
    r"(?i:https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*/?"
)
_dump: Final = json.JSONEncoder(separators=(",", ":")).encode
_load: Final = json.JSONDecoder().decode


class Credentials(NamedTuple):
    """An access key, with the session token of temporary credentials; ``account`` is the id of their account."""

    access_key: str
    secret_key: str
    token: str | None = None
    account: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, ...)"


@lru_cache(maxsize=16)  # requests of the same second have the same timestamp
def _timestamp(seconds: int) -> str:
    return strftime("%Y%m%dT%H%M%SZ", gmtime(seconds))


@lru_cache(maxsize=16)  # a key is good for a day
def _signing_key(secret_key: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (day, region, _SERVICE, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


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
        self._before_date = f"POST\n{path}\n\ncontent-type:{CONTENT_TYPE}\nhost:{header}\nx-amz-date:"
        self._region = region
        self._first_lines = (
            f"POST {path} HTTP/1.1\r\nHost: {header}\r\nContent-Type: {CONTENT_TYPE}\r\nUser-Agent: {user_agent}\r\n"
        )

    def write(self, name: str, request: Mapping[str, Any] | bytes, credentials: Credentials, seconds: float) -> bytes:
        """Return the bytes of a request, given as a mapping or as its body. ``seconds`` of the epoch date it."""
        body = request if isinstance(request, bytes) else write_body(request)
        date = _timestamp(int(seconds))
        token = credentials.token
        if token is None:
            signed, token_line, token_header = "content-type;host;x-amz-date;x-amz-target", "", ""
        else:
            signed = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
            token_line = f"x-amz-security-token:{' '.join(token.split())}\n"  # a server may fold spaces
            token_header = f"X-Amz-Security-Token: {token}\r\n"
        # What is signed is not what is sent: names in lower case, in alphabetical order, with a hash for the body.
        canonical = (
            f"{self._before_date}{date}\n{token_line}x-amz-target:{TARGET}{name}\n\n{signed}\n"
            f"{sha256(body).hexdigest()}"
        )
        scope = f"{date[:8]}/{self._region}/{_SERVICE}/aws4_request"
        to_sign = f"{_ALGORITHM}\n{date}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        key = _signing_key(credentials.secret_key, date[:8], self._region)
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        head = (
            f"{self._first_lines}X-Amz-Date: {date}\r\n{token_header}X-Amz-Target: {TARGET}{name}\r\n"
            f"Authorization: {_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={signed}, "
            f"Signature={signature}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1") + body


def write_body(request: Mapping[str, Any]) -> bytes:
    """Return the body of a request."""
    if orjson is not None:
        try:
            return orjson.dumps(request)
        except TypeError:  # a lone surrogate, which the store refuses
            pass
    return _dump(request).encode()


def read_body(body: bytes) -> dict[str, Any] | None:
    """Return the object of a body, an empty one for an empty body; ``None`` for anything else."""
    if not body:
        return {}
    try:
        answer = _load(body.decode()) if orjson is None else orjson.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
