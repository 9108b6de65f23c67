"""Count calls of functions, which do not depend on the machine.

Lives here: how they are counted. Never: a ceiling.
"""

import gc
import sys
import threading
from types import FrameType
from typing import Final, Self

START: Final = threading.Thread.start.__code__


class CountedCalls:
    """A block whose calls are counted, builtins too: ``number``, afterwards.

    Those of threads that it starts count; those of threads that others start meanwhile do not.
    """

    def __init__(self) -> None:
        self.number = 0
        self._started: list[threading.Thread] = []

    def __enter__(self) -> Self:
        gc.disable()  # what is called at a collection is not a part of it
        threading.setprofile(self._begin)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
        self.number -= 1  # this one

    def _begin(self, frame: FrameType, event: str, arg: object) -> None:
        """Count a thread from its first call on, or never."""
        is_ours = threading.current_thread() in self._started
        sys.setprofile(self._count if is_ours else None)
        if is_ours:
            self._count(frame, event, arg)

    def _count(self, frame: FrameType, event: str, arg: object) -> None:
        self.number += event in ("call", "c_call")
        if event == "call" and frame.f_code is START:
            self._started.append(frame.f_locals["self"])
