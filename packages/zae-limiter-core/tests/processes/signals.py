"""An exception that a signal's handler raises in the main thread, wherever it is.

Lives here: where one may come, and what preempts a thread. Never: what becomes of it (the drivers).
"""

import dis
import linecache
import sys
from collections.abc import Callable
from functools import cache
from random import Random
from types import CodeType, FrameType
from typing import Any

import zae_limiter
from zae_limiter.flows import bucket_queue
from zae_limiter.sync import driver

from .threads import Actor, Scheduler

LIBRARY = zae_limiter.__file__.removesuffix("__init__.py")
OPCODES = sys.version_info < (3, 12)  # later ones crash when several threads are traced by opcodes: there, by lines
DRIVER = (driver.__file__, bucket_queue.__file__)


class Stopped(BaseException):
    """As ``KeyboardInterrupt``."""


class TimeLimit(Exception):
    """As Celery's ``SoftTimeLimitExceeded``."""


@cache
def points(code: CodeType) -> frozenset[int]:
    """Where the interpreter looks for signals: when a function begins, behind every call, at the end of a loop."""
    found, before = set(), ""
    for instruction in dis.get_instructions(code):
        if before.startswith("CALL") or before == "RESUME":
            found.add(instruction.offset)
        if instruction.opname == "JUMP_BACKWARD":
            found.add(instruction.argval)
        resumes = instruction.opname == "RESUME" and (instruction.arg or 0) & 3 < 2
        before = instruction.opname if instruction.opname != "RESUME" or resumes else ""
    return frozenset(found)


def _is_point(plan: FrameType, event: str) -> bool:
    if _opens_or_closes(plan.f_code.co_filename, plan.f_lineno or 0):
        return False
    return event == "line" or (event == "opcode" and plan.f_lasti in points(plan.f_code))


@cache
def _opens_or_closes(filename: str, line: int) -> bool:
    """Whether a line is a ``with``: when its block ends it comes up again, where no signal is looked for.

    The interpreter looks at the end of a call, inside the block; a trace sees the instruction behind it, outside.
    """
    return linecache.getline(filename, line).lstrip().startswith(("with ", "async with "))


class Signals:
    """Interrupts the main thread: at its ``n``-th point in the library, or when it waits for the ``n``-th time.

    ``hit`` is called when it has: whether it was at a point. With ``preempt``, another thread may go on at any point of
    the driver.
    """

    def __init__(self, scheduler: Scheduler, rng: Random, hit: Callable[[bool], None], *, preempt: bool) -> None:
        self.points = 0
        self._scheduler = scheduler
        self._rng = rng
        self._hit = hit
        self._preempt = preempt
        self._at_point = 0
        self._at_wait = 0
        self._what: type[BaseException] = Stopped
        scheduler.on_start = self._start
        scheduler.on_wait = self._wait

    def arm(self, what: type[BaseException], *, point: int = 0, wait: int = 0) -> None:
        """Interrupt, once."""
        self._what, self._at_point, self._at_wait = what, point, wait
        if point:
            sys.settrace(self._traced)

    @property
    def armed(self) -> bool:
        """Whether an interruption is still to come."""
        return bool(self._at_point or self._at_wait)

    def disarm(self) -> None:
        """None is to come."""
        self._at_point = self._at_wait = 0

    def _start(self, actor: Actor) -> None:
        if self._preempt or not actor.number:
            sys.settrace(self._traced)

    def _wait(self, actor: Actor) -> None:
        if not actor.number and self._at_wait:
            self._at_wait -= 1
            if not self._at_wait:
                self._hit(False)
                raise self._what

    def _traced(self, plan: FrameType, event: str, argument: Any) -> Any:
        name = plan.f_code.co_filename
        if self._scheduler.outside or self._scheduler.dead or not name.startswith(LIBRARY):
            return None
        plan.f_trace_opcodes, plan.f_trace_lines = OPCODES, not OPCODES
        return self._in_driver if self._preempt and name in DRIVER else self._in_library

    def _in_driver(self, plan: FrameType, event: str, argument: Any) -> Any:
        if _is_point(plan, event) and self._rng.random() < 0.05:
            self._scheduler.pause()
        self._in_library(plan, event, argument)
        return self._in_driver

    def _in_library(self, plan: FrameType, event: str, argument: Any) -> Any:
        main = not self._scheduler.current.number
        if main and _is_point(plan, event):
            self.points += 1
            if self._at_point:
                self._at_point -= 1
                if not self._at_point:
                    self._hit(True)
                    raise self._what
        return self._in_library
