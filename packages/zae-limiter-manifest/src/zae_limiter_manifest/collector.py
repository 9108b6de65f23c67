"""Pause Python's collector of cycles while a manifest is read.

Reading makes millions of objects, nearly all of which stay, and the collector would walk them again and again: a third
of the time for 50,000 entities. What reading drops is not a cycle, and goes without it.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pausing = 0  # blocks, of all threads
_was_on = False  # before the first of them


@contextmanager
def paused_collector() -> Iterator[None]:
    """Collect no cycles in the block, nor in other threads meanwhile."""
    global _pausing, _was_on
    with _lock:
        if not _pausing:
            _was_on = gc.isenabled()
            gc.disable()
        _pausing += 1
    try:
        yield
    finally:
        with _lock:
            _pausing -= 1
            if not _pausing and _was_on:
                gc.enable()
