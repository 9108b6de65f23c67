"""Throttle the writes of a local stack's items for a while, as a table does that has reached its maximum."""

import json
import threading
import time
from typing import Final

from .wsgi import Answer

WRITES_A_SECOND: Final = 5
MOST_SECONDS: Final = 3600

_MESSAGE: Final = "Throughput exceeds the maximum OnDemandThroughput configured on table or index."
_REASON: Final = {
    "reason": "TableWriteMaxOnDemandThroughputExceeded",
    "resource": "arn:aws:dynamodb:us-east-1:123456789012:table/rehearsal",
}
THROTTLED: Final[Answer] = (
    400,
    [("Content-Type", "application/x-amz-json-1.0")],
    json.dumps(
        {
            "__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException",
            "message": _MESSAGE,
            "ThrottlingReasons": [_REASON],
        }
    ).encode(),
)


class Throttle:
    """Lets a few writes pass in each second until its end, and refuses the others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._second = 0
        self._passed = 0
        self._refused = 0

    def put(self, body: bytes) -> Answer:
        """Begin, go on or end, by a request's body: the number of seconds from now on. It answers how many writes were
        refused since the last time.
        """
        try:
            seconds = json.loads(body)["seconds"]
            if type(seconds) not in (int, float) or not 0 <= seconds <= MOST_SECONDS:
                raise ValueError(seconds)
        except (ValueError, KeyError, TypeError):
            message = f'the body must be {{"seconds": 0 to {MOST_SECONDS}}}'
            return 400, [("Content-Type", "text/plain")], message.encode()
        with self._lock:
            self._until = time.monotonic() + seconds
            refused, self._refused = self._refused, 0
        return 200, [("Content-Type", "text/plain")], str(refused).encode()

    def refused(self) -> Answer | None:
        """Return the refusal of a write; None for one that passes."""
        with self._lock:
            now = time.monotonic()
            if now >= self._until:
                return None
            if int(now) != self._second:
                self._second, self._passed = int(now), 0
            self._passed += 1
            if self._passed <= WRITES_A_SECOND:
                return None
            self._refused += 1
            return THROTTLED
