"""An exception hits a blocking call at each line of the library, one after the other, as a signal handler's does.

With ``anywhere`` also in what the library calls.
"""

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import zae_limiter
from zae_limiter import SyncRateLimiter

from ..callers import Interrupted, Plan, SyncCallers
from ..life import Life
from ..place import Place, ready

WAYS = ("alone", "among threads", "anywhere")
WEATHERS = ("fair",)
LIBRARY = str(Path(zae_limiter.__file__).parent)
HERE = str(Path(__file__).parents[1])
STRIDES = {"alone": 31, "among threads": 31, "anywhere": 211}  # each life begins at another line
SERVED_SECONDS = 6.0


def attend(life: Life) -> None:
    with life.process() as process:
        process.wait(life.patience + 20)


def program(place: Place) -> None:
    callers = SyncCallers(place, SyncRateLimiter(place.open_sync()))
    callers.one(place.entity_id)
    ready()
    over = threading.Event()
    others = [threading.Thread(target=go_on, args=(callers, over)) for _ in range(3 * (place.way == "among threads"))]
    for thread in others:
        thread.start()
    at_every_line(callers, "acquire", Plan(2, 0, 0, 0, fails=False, allows=False))
    at_every_line(callers, "more, and undone", Plan(2, 1, 0, 0, fails=True, allows=False))
    at_every_line(callers, "adjusted", Plan(2, 0, 3, 0, fails=False, allows=False))
    over.set()
    for thread in others:
        thread.join()
    callers.limiter.close()


def go_on(callers: SyncCallers, over: threading.Event) -> None:
    while not over.wait(0.001):
        callers.one(callers.place.entity_id)


def at_every_line(callers: SyncCallers, what: str, plan: Plan) -> None:
    """Until the call has fewer lines than that."""
    stride = STRIDES[callers.place.way]
    line = callers.place.seed % stride
    while struck(callers, plan, line):
        callers.still_served(SERVED_SECONDS, why=f"{what}, interrupted at line {line}")
        line += stride


def struck(callers: SyncCallers, plan: Plan, line: int) -> bool:
    """Whether the call was hit."""
    strike = Strike(line, anywhere=callers.place.way == "anywhere")
    sys.settrace(strike.enters)
    try:
        callers.take(callers.place.entity_id, plan)
    except Interrupted:
        pass
    finally:
        sys.settrace(None)
    if strike.left < 0:
        callers.book.mark(f"hit at {strike.where}")
    return strike.left < 0


class Strike:
    """Raises at one line of the library."""

    def __init__(self, left: int, *, anywhere: bool) -> None:
        self.left = left
        self._anywhere = anywhere
        self.where = ""

    def enters(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Look at the lines of this frame where it is the library's."""
        name = frame.f_code.co_filename
        ours = name.startswith(LIBRARY) or (self._anywhere and not name.startswith(HERE))
        return self.steps if ours else None

    def steps(self, frame: FrameType, event: str, argument: Any) -> Any:
        """One line further."""
        if event == "line" and self.left >= 0:
            self.left -= 1
            if self.left < 0:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise Interrupted(self.where)
        return self.steps
