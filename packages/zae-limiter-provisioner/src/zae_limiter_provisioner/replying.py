"""The reply to CloudFormation, sent once, whatever happens.

Lives here: the PUT, its retries, and the watch over the time. Never: what is replied.
"""

import http.client
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Final

from .deadline import Deadline

PUT_SECONDS: Final = 5.0
PAUSES: Final = (0.2, 1.0, 2.0)
WATCH_SECONDS: Final = 6.0  # before the end, so that a reply can still be sent

logger = logging.getLogger(__name__)


class ReplyFailed(Exception):
    """CloudFormation could not be told: the event has to come again."""


class Line:
    """The way back to CloudFormation: one reply is sent, and where none comes in time, ``late`` makes one."""

    def __init__(self, url: str, deadline: Deadline, late: Callable[[], bytes]) -> None:
        self._url = url
        self._deadline = deadline
        self._late = late
        self._lock = threading.Lock()
        self._sent = False
        watch_at = max(deadline.seconds_left - min(WATCH_SECONDS, deadline.seconds_left / 4), 0.0)
        self._watch = threading.Timer(watch_at, self._send_late)
        self._watch.daemon = True
        self._watch.start()

    def send(self, body: bytes) -> None:
        """Send the reply, unless one was sent. Raises ``ReplyFailed``."""
        self._watch.cancel()
        with self._lock:
            if not self._sent:
                _put(self._url, body, self._deadline)
                self._sent = True

    def _send_late(self) -> None:
        logger.error("the time is almost up: replying that it was not enough")
        try:
            self.send(self._late())
        except ReplyFailed:
            logger.exception("no reply could be sent")


def _put(url: str, body: bytes, deadline: Deadline) -> None:
    problem: Exception | None = None
    for pause in (*PAUSES, None):
        try:
            _put_once(url, body, timeout=max(min(PUT_SECONDS, deadline.seconds_left), 0.1))
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = error
            logger.warning("the reply was not taken: %s", error)
        else:
            return
        if pause is None or deadline.seconds_left <= pause:
            break
        time.sleep(pause)
    raise ReplyFailed(f"the ResponseURL takes no reply: {problem}") from problem


def _put_once(url: str, body: bytes, *, timeout: float) -> None:
    # The address is signed for a body without a type; urllib would add one.
    request = urllib.request.Request(url, body, {"Content-Type": ""}, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.close()  # it is an answer too, and holds the connection
        raise
