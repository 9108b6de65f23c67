"""How a Lambda's log lines look: one JSON object a line.

Lives here: the handler of logging that both Lambdas use. Never: what is worth a line.
"""

import json
import logging
import sys
from typing import Any


class JsonLines(logging.Handler):
    """Writes each log record as a line of JSON to standard output; ``fields`` of a record stand at its top."""

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
    """Have the loggers of these names write lines of JSON, and nothing else; once."""
    for name in loggers:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, JsonLines) for handler in logger.handlers):
            logger.addHandler(JsonLines())
            logger.setLevel(logging.INFO)
            logger.propagate = False  # Lambda's own handler would write the line once more, not in JSON
