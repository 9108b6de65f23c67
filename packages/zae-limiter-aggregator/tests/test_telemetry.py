import json
import logging
import sys
import time

import pytest

from zae_limiter_aggregator.aggregation import Account
from zae_limiter_aggregator.batch import Failure
from zae_limiter_aggregator.telemetry import METRICS, log_as_json, metrics

ACCOUNT = Account(
    records=100, snapshots=4, refills=1, splits=0, archived=2, failures=(Failure("7", "broken"),), duration_ms=12
)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_metrics_are_declared_as_cloudwatch_reads_them() -> None:
    told = metrics(ACCOUNT, "demo")
    (declared,) = told["_aws"]["CloudWatchMetrics"]
    assert declared["Namespace"] == "zae-limiter"
    assert declared["Dimensions"] == [["stack"]]
    assert {metric["Name"]: told[metric["Name"]] for metric in declared["Metrics"]} == {
        "records": 100,
        "snapshots": 4,
        "refills": 1,
        "splits": 0,
        "archived": 2,
        "failures": 1,
        "duration_ms": 12,
    }
    assert told["stack"] == "demo"
    assert abs(told["_aws"]["Timestamp"] - time.time() * 1000) < 60_000
    assert {metric["Unit"] for metric in declared["Metrics"]} == set(METRICS.values())


def test_a_log_line_is_json_with_its_fields_at_the_top(capsys: pytest.CaptureFixture[str]) -> None:
    log_as_json()
    logging.getLogger("zae_limiter_aggregator.handler").info("batch %d", 1, extra={"fields": metrics(ACCOUNT, "demo")})
    (line,) = lines(capsys)
    assert (line["level"], line["message"], line["records"], line["duration_ms"]) == ("INFO", "batch 1", 100, 12)
    assert "_aws" in line


def test_an_exception_stands_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_as_json()
    try:
        raise OSError("no route")
    except OSError:
        logging.getLogger("zae_limiter.anything").warning("it failed", exc_info=sys.exc_info())
    (line,) = lines(capsys)
    assert "OSError: no route" in str(line["exception"])


def test_a_line_is_written_once_however_often_the_lambda_is_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_as_json()
    log_as_json()
    logging.getLogger("zae_limiter_aggregator").info("once")
    assert [line["message"] for line in lines(capsys)] == ["once"]
