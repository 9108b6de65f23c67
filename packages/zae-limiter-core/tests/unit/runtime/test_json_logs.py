import json
import logging
from collections.abc import Iterator

import pytest

from zae_limiter.runtime.json_logs import log_as_json

NAMES = ("a_lambda", "a_library")


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Loggers that no other test has met."""
    yield
    for name in NAMES:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_log_line_is_json_with_its_fields_at_the_top(capsys: pytest.CaptureFixture[str]) -> None:
    log_as_json(*NAMES)
    logging.getLogger("a_lambda.handler").info("batch %d", 1, extra={"fields": {"records": 100}})
    assert lines(capsys) == [{"level": "INFO", "logger": "a_lambda.handler", "message": "batch 1", "records": 100}]


def test_an_exception_stands_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_as_json(*NAMES)
    try:
        raise OSError("no route")
    except OSError:
        logging.getLogger("a_library.anything").warning("it failed", exc_info=True)
    (line,) = lines(capsys)
    assert "OSError: no route" in str(line["exception"])


def test_a_line_is_written_once_however_often_the_lambda_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    log_as_json(*NAMES)
    log_as_json(*NAMES)
    logging.getLogger("a_lambda").info("once")
    assert [line["message"] for line in lines(capsys)] == ["once"]
