"""Unexpected output of a program: errors in the log, exceptions that nobody caught, coroutines nobody awaited.

Lives here: catching it. Never: the loop's own complaints (loops).
"""

import gc
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

LOST = " were not given back: "


class _Listener(logging.Handler):
    def __init__(self, heard: list[str], on_loss: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard
        self._on_loss = on_loss

    def emit(self, record: logging.LogRecord) -> None:
        if LOST in record.getMessage():
            self._on_loss(record.getMessage())
        broken = record.levelno >= logging.ERROR and record.exc_info  # a fault of ours; an outage has no traceback
        if broken or record.name.startswith("asyncio"):
            self._heard.append(f"log: {record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


@contextmanager
def listening(on_loss: Callable[[str], None]) -> Iterator[list[str]]:
    """The output until the end, when all garbage is collected.

    ``on_loss`` is called with each log line about tokens that were not given back.
    """
    heard: list[str] = []
    handler = _Listener(heard, on_loss)

    def unraisable(what: Any) -> None:
        heard.append(f"nobody could raise {what.exc_value!r} in {what.object!r}")

    with (
        warnings.catch_warnings(record=True) as warned,
        patch.object(sys, "unraisablehook", unraisable),
        patch("zae_limiter.runtime.log_throttle.A_LINE_MS", 0),  # each loss has its line
    ):
        warnings.simplefilter("always")
        with _attached(handler):
            gc.freeze()  # what was there before is not looked at
            try:
                yield heard
            finally:
                gc.collect()
                gc.unfreeze()
    heard += [str(warning.message) for warning in warned if issubclass(warning.category, RuntimeWarning)]


@contextmanager
def _attached(handler: logging.Handler) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("zae_limiter", "asyncio")]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
            logger.setLevel(level)
