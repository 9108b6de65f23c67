"""Virtual time, and more, put in the place of what the library imports.

Lives here: names of modules replaced by value. Never: what replaces them (timeline, threads).
"""

import gc
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from zae_limiter.sync.guarded_store import THREAD_NAME

from .timeline import EPOCH_MS, Timeline

EXEMPT = ("zae_limiter.engines.memory.table", "zae_limiter.engines.meter")  # the table's side


def virtual_time(timeline: Timeline, sleep: Any) -> dict[int, Any]:
    """What replaces the module ``time`` and what is in it, by the identity of what is replaced."""
    fake = SimpleNamespace(
        monotonic=lambda: timeline.now,
        perf_counter=lambda: timeline.now,
        time=lambda: EPOCH_MS / 1000 + timeline.now,
        monotonic_ns=lambda: timeline.now_us * 1000,
        time_ns=lambda: EPOCH_MS * 10**6 + timeline.now_us * 1000,
        clock_gettime_ns=lambda _: timeline.now_us * 1000,
        clock_gettime=lambda _: timeline.now,
        sleep=sleep,
    )
    return {id(time): fake, **{id(getattr(time, name)): value for name, value in vars(fake).items()}}


@contextmanager
def replaced(values: Mapping[int, Any]) -> Iterator[None]:
    """Have all modules of the library use other values, wherever one of them stands under a name."""
    _end_real_threads()
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "zae_limiter" and name not in EXEMPT:
                for attribute, value in list(vars(module).items()):
                    if id(value) in values and not attribute.startswith("__"):
                        stack.enter_context(patch.object(module, attribute, values[id(value)]))
        yield


def _end_real_threads() -> None:
    """Wait for threads that a driver of an earlier test has left, for example a probe: they would get these values."""
    latest = time.monotonic() + 10
    while left := [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]:
        if time.monotonic() > latest:
            raise RuntimeError(f"threads of an earlier test go on: {left}")
        gc.collect()  # a prober ends with its store
        if left[0].is_alive():  # else it is about to begin
            left[0].join(0.2)
