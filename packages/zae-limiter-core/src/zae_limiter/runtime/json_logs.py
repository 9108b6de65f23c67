"""Log lines in JSON, one object per line, for both Lambdas."""

import json
import logging
import sys
import traceback
from typing import Any


class JsonLines(logging.Handler):
    """Writes each log record as a line of JSON to standard output, with the record's ``fields`` at the top level.

    ``ids``: whether the lines have the texts that fill a message, which may have ids of callers.
    """

    def __init__(self, *, ids: bool = True) -> None:
        super().__init__()
        self._ids = ids

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line."""
        line: dict[str, Any] = {
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage() if self._ids else _without_ids(record),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and not self._ids:
            line["places"] = "".join(traceback.format_tb(record.exc_info[2]))
        elif record.exc_info:
            line["exception"] = (self.formatter or logging.Formatter()).formatException(record.exc_info)
        sys.stdout.write(json.dumps(line, default=str) + "\n")
        sys.stdout.flush()


def _without_ids(record: logging.LogRecord) -> str:
    """Return the message, with numbers and the kinds of errors alone among what fills it: its own text is constant."""
    values = record.args
    if not isinstance(values, tuple):
        return str(record.msg)
    return str(record.msg) % tuple(each if isinstance(each, int | float) else _Hidden(each) for each in values)


class _Hidden:
    def __init__(self, value: object) -> None:
        self._told = type(value).__name__ if isinstance(value, BaseException) else "..."

    def __repr__(self) -> str:
        return self._told


def log_as_json(*loggers: str, ids: bool = True) -> None:
    """Make the loggers of these names write lines of JSON, and nothing else; a repeated call changes nothing.

    Without ``ids`` a line has no text that fills a message: it may be a caller's.
    """
    for name in loggers:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, JsonLines) for handler in logger.handlers):
            logger.addHandler(JsonLines(ids=ids))
            logger.setLevel(logging.INFO)
            logger.propagate = False  # Lambda's own handler would write the line once more, not in JSON
