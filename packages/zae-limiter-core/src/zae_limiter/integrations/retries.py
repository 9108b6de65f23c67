"""The key by which a retried request counts once: the ``Idempotency-Key`` field of its header.

A key of a client is made of its request line, its field and what its header says of the body, hashed: a key for another
path, query or size is another key, and no text of a client reaches the table or a log. The body itself has not come yet
where a middleware asks, and could be read but once. A client chooses its keys, and a repeat costs it nothing, so a
service that turns this on answers a repeat from what it has stored, and does not run it again.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from .answers import InvalidClientId

FIELD: Final = "Idempotency-Key"
OF_BODY: Final = ("Content-Length", "Content-Digest")
LONGEST_KEY: Final = 255


def key_of_request(method: str, target: str, fields: Sequence[str], of_body: Sequence[str] = ()) -> str | None:
    """Return the key of a request to a target, its path with its query; ``None`` without a field. ``of_body``: the
    values of ``OF_BODY``, each empty if there is none.

    Raises ``InvalidClientId`` for several fields, and for one that has not 1 to 255 printable characters of ASCII.
    """
    if not fields:
        return None
    field = fields[0].strip(" \t")
    if len(fields) > 1 or not (1 <= len(field) <= LONGEST_KEY and field.isascii() and field.isprintable()):
        problem = f"must be one field of 1 to {LONGEST_KEY} printable characters of ASCII"
        raise InvalidClientId(FIELD, field[:LONGEST_KEY], problem)
    return sha256("\n".join((method, target, field, *of_body)).encode("utf-8", "surrogateescape")).hexdigest()


def key_of_call(*parts: object) -> str:
    """Return a key that is made of these parts, as JSON has them."""
    return sha256(json.dumps(parts, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()
