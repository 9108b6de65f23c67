"""Send one reply to CloudFormation, whatever happens: the PUT, its retries, and a timer for the last moment.

``cloudformation`` makes the content of a reply.
"""

import http.client
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from queue import Empty, Queue
from typing import Final

from .deadline import Deadline

PUT_SECONDS: Final = 5.0
PAUSES: Final = (0.2, 1.0, 2.0)
WATCH_SECONDS: Final = 6.0  # before the end, so that a reply can still be sent

PROBLEMS: Final = (OSError, http.client.HTTPException, ValueError)

logger = logging.getLogger(__name__)


class ReplyFailed(Exception):
    """No reply reached CloudFormation: the event has to come again."""


class ReplyChannel:
    """Sends exactly one reply; if none is sent in time, the channel sends the one that ``late`` makes."""

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
        logger.error("the time is almost up: sending a failure as the reply")
        try:
            self.send(self._late())
        except ReplyFailed:
            logger.exception("no reply could be sent")


def _put(url: str, body: bytes, deadline: Deadline) -> None:
    problem: Exception | None = None
    for pause in (*PAUSES, None):
        try:
            _put_within(max(min(PUT_SECONDS, deadline.seconds_left), 0.1), url, body)
        except PROBLEMS as error:
            problem = error
            logger.warning("the reply was not accepted: %s", error)
        else:
            return
        if pause is None or deadline.seconds_left <= pause:
            break
        time.sleep(pause)
    raise ReplyFailed(f"the ResponseURL accepts no reply: {problem}") from problem


def _put_within(seconds: float, url: str, body: bytes) -> None:
    """Send a PUT in a thread, and leave it behind when the time is up.

    A host that answers byte by byte never lets a socket's time-out pass, and the look-up of a name has none.
    """
    outcome: Queue[Exception | None] = Queue()

    def put() -> None:
        try:
            _put_once(url, body, timeout=seconds)
        except PROBLEMS as error:
            outcome.put(error)
        else:
            outcome.put(None)

    threading.Thread(target=put, daemon=True).start()
    try:
        problem = outcome.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if problem is not None:
        raise problem


def _put_once(url: str, body: bytes, *, timeout: float) -> None:
    # The URL is signed for a body without a content type; urllib would add one.
    request = urllib.request.Request(url, body, {"Content-Type": ""}, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=timeout).close()  # its status is all that counts
    except urllib.error.HTTPError as error:
        error.close()  # an HTTPError is a response, too, and holds its connection
        raise
