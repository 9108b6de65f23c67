"""Count calls of functions, which do not depend on the machine.

Lives here: how they are counted. Never: a ceiling.
"""

import gc
import sys
import threading
from types import FrameType
from typing import Self


class CountedCalls:
    """A block whose calls are counted, builtins too: ``number``, afterwards. Those of threads that it starts count."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> Self:
        gc.disable()  # what is called at a collection is not a part of it
        threading.setprofile(self._count)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
        self.number -= 1  # this one

    def _count(self, frame: FrameType, event: str, arg: object) -> None:
        self.number += event in ("call", "c_call")
