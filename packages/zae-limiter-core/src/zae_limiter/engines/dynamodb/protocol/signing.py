"""Signature Version 4 over the fixed headers of a DynamoDB request.

https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
"""

import hmac
from functools import lru_cache
from hashlib import sha256
from time import gmtime, strftime
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
TARGET: Final = "DynamoDB_20120810."
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SERVICE: Final = "dynamodb"


class Credentials(NamedTuple):
    """An access key, with the session token of temporary credentials; ``account`` is the id of their account."""

    access_key: str
    secret_key: str
    token: str | None = None
    account: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, ...)"


class Signer:
    """Signs ``POST`` requests to one host. ``path`` is URI-encoded."""

    def __init__(self, *, host: str, region: str, path: str = "/") -> None:
        self._before_date = f"POST\n{path}\n\ncontent-type:{CONTENT_TYPE}\nhost:{host}\nx-amz-date:"
        self._region = region

    def headers(self, name: str, body: bytes, credentials: Credentials, seconds: int) -> str:
        """Return the lines of the signed headers but Host and Content-Type, for the operation ``name``.

        ``seconds`` are of the epoch.
        """
        date = _timestamp(seconds)
        token = credentials.token
        if token is None:
            signed, token_line, token_header = "content-type;host;x-amz-date;x-amz-target", "", ""
        else:
            signed = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
            token_line = f"x-amz-security-token:{' '.join(token.split())}\n"  # a server may fold spaces
            token_header = f"X-Amz-Security-Token: {token}\r\n"
        request = (
            f"{self._before_date}{date}\n{token_line}x-amz-target:{TARGET}{name}\n\n{signed}\n"
            f"{sha256(body).hexdigest()}"
        )
        scope = f"{date[:8]}/{self._region}/{_SERVICE}/aws4_request"
        to_sign = f"{_ALGORITHM}\n{date}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        key = _signing_key(credentials.secret_key, date[:8], self._region)
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        return (
            f"X-Amz-Date: {date}\r\n{token_header}X-Amz-Target: {TARGET}{name}\r\n"
            f"Authorization: {_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={signed}, "
            f"Signature={signature}\r\n"
        )


@lru_cache(maxsize=16)  # requests of the same second have the same timestamp
def _timestamp(seconds: int) -> str:
    return strftime("%Y%m%dT%H%M%SZ", gmtime(seconds))


@lru_cache(maxsize=16)  # a key is good for a day
def _signing_key(secret_key: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (day, region, _SERVICE, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
