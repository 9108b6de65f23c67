"""Log lines in JSON, one object per line, for both Lambdas."""

import json
import logging
import sys
from typing import Any


class JsonLines(logging.Handler):
    """Writes each log record as a line of JSON to standard output, with the record's ``fields`` at the top level."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line."""
        line: dict[str, Any] = {
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = (self.formatter or logging.Formatter()).formatException(record.exc_info)
        sys.stdout.write(json.dumps(line, default=str) + "\n")
        sys.stdout.flush()


def log_as_json(*loggers: str) -> None:
    """Make the loggers of these names write lines of JSON, and nothing else; a repeated call changes nothing."""
    for name in loggers:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, JsonLines) for handler in logger.handlers):
            logger.addHandler(JsonLines())
            logger.setLevel(logging.INFO)
            logger.propagate = False  # Lambda's own handler would write the line once more, not in JSON
