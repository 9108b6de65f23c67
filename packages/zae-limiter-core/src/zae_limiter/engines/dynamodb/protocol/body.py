"""Write and read the bodies of requests and answers: JSON, by orjson where it is installed."""

import json
from collections.abc import Mapping
from typing import Any, Final

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

_dump: Final = json.JSONEncoder(separators=(",", ":")).encode


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
    try:
        answer = (json if orjson is None else orjson).loads(body or b"{}")
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
