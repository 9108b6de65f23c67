"""An exception hits a blocking call wherever a signal handler's can, at one point of the library after the other.

The interpreter checks for signals behind a call, at the beginning of a function and where a loop jumps back, and
nowhere else: a ``with`` that has entered is left, whatever happens. The mode ``anywhere`` adds the code that the
library calls.
"""

import opcode
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import zae_limiter
from zae_limiter import SyncRateLimiter

from ..callers import SyncCallers
from ..life import Life
from ..place import Place, ready
from ..plans import Interrupted, Plan

MODES = ("alone", "among threads", "anywhere")
NETWORKS = ("healthy",)
LIBRARY = str(Path(zae_limiter.__file__).parent)
CHECKS = ("CALL", "RESUME", "JUMP_BACKWARD")  # after these the interpreter checks for signals
HERE = str(Path(__file__).parents[1])
STRIDES = {"alone": 47, "among threads": 47, "anywhere": 499}  # each life begins at another point
SERVED_SECONDS = 20.0  # on a busy machine
LIFE_SECONDS = 120.0  # thousands of calls, traced, on a busy machine; a process that hangs hangs for ever


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait(LIFE_SECONDS)


def program(place: Place) -> None:
    callers = SyncCallers(place, SyncRateLimiter(place.open_sync()))
    callers.one(place.entity_id)
    ready()
    over = threading.Event()
    others = [threading.Thread(target=go_on, args=(callers, over)) for _ in range(3 * (place.mode == "among threads"))]
    for thread in others:
        thread.start()
    at_every_point(callers, "acquire", Plan(2, 0, 0, 0, fails=False, allows=False))
    at_every_point(callers, "more, and undone", Plan(2, 1, 0, 0, fails=True, allows=False))
    at_every_point(callers, "adjusted", Plan(2, 0, 3, 0, fails=False, allows=False))
    over.set()
    for thread in others:
        thread.join()
    callers.limiter.close()


def go_on(callers: SyncCallers, over: threading.Event) -> None:
    while not over.wait(0.001):
        callers.one(callers.place.entity_id)


def at_every_point(callers: SyncCallers, what: str, plan: Plan) -> None:
    """Until the call has fewer points than that."""
    stride = STRIDES[callers.place.mode]
    point = callers.place.seed % stride
    while interrupted(callers, plan, point):
        callers.still_served(SERVED_SECONDS, why=f"{what}, interrupted at point {point}")
        point += stride


def interrupted(callers: SyncCallers, plan: Plan, point: int) -> bool:
    """Whether the call was interrupted: it has more points than that."""
    interruption = Interruption(callers, point)
    sys.settrace(interruption.enters)
    with suppress(Interrupted):
        callers.take(callers.place.entity_id, plan)
    sys.settrace(None)
    return interruption.left < 0


class Interruption:
    """An exception at one point of the code that it traces; ``left`` is the number of points before it."""

    def __init__(self, callers: SyncCallers, left: int) -> None:
        self.left = left
        self._anywhere = callers.place.mode == "anywhere"
        self._mark = callers.ledger.mark
        self._before: dict[FrameType, str] = {}

    def enters(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace the frame where it may be interrupted."""
        name = frame.f_code.co_filename
        if not name.startswith(LIBRARY) and (not self._anywhere or name.startswith(HERE)):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self.steps

    def steps(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Count a point, and raise at the last."""
        if event == "return":
            self._before.pop(frame, None)
        if event != "opcode" or self.left < 0:
            return self.steps
        before = self._before.get(frame, "")
        self._before[frame] = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
        if before.startswith(CHECKS):
            self.left -= 1
            if self.left < 0:
                self._mark(f"interrupted at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
                raise Interrupted
        return self.steps
