"""The Lambda's entry point: it takes a batch of stream records and returns those that have to come again."""

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NotRequired, TypedDict

from zae_limiter.maintenance import log_as_json, open_upkeep

from .aggregation import Aggregator, BatchResult
from .archive import open_archive
from .dead_letters import open_queue
from .held import TumblingWindow
from .records import Record
from .settings import Settings
from .telemetry import metrics

LOGGERS: Final = ("zae_limiter", "zae_limiter_aggregator")
log = logging.getLogger(__name__)


class BatchAnswer(TypedDict):
    """The answer to the event source mapping, which sends the stream again from the first of these records on.

    A mapping with a tumbling window needs the ``state``, which comes with the next batch of the window.
    """

    batchItemFailures: list[dict[str, str]]
    state: NotRequired[dict[str, list[str]]]


def on_event(event: Mapping[str, Any], context: object) -> BatchAnswer:  # noqa: ARG001  Lambda passes both
    """Process one batch; every step may be repeated.

    ``ZAEL_STACK`` names the table; region, endpoint and credentials are found as the SDK finds them. Raises
    ``ValidationError`` for a wrong environment, ``ValueError`` for an event that is not a batch, ``HeldUsageError`` if
    usage that a window held cannot be written at its end.
    """
    _set_up_logs()
    settings = Settings.read(os.environ)
    records, window = _records(event), TumblingWindow.of_event(event)
    if window is None:
        return _answer(_process(records, settings))
    if not (records or window.texts):  # a window in which nothing waited ends
        return {"batchItemFailures": [], "state": {}}
    result = _process(records, settings, window)
    return {**_answer(result), "state": result.window.state}


def _process(records: list[Record], settings: Settings, *window: TumblingWindow) -> BatchResult:
    result = _aggregator(settings).process(records, *window)
    _log(result, settings.stack)
    return result


def _answer(result: BatchResult) -> BatchAnswer:
    return {"batchItemFailures": [{"itemIdentifier": failure.sequence} for failure in result.failures]}


def _set_up_logs() -> None:
    core, own = LOGGERS
    log_as_json(core, ids=False)  # its lines are for applications, too: some name a bucket
    log_as_json(own)


def _log(result: BatchResult, stack: str) -> None:
    """Log what happened, without a key: an item's key has ids of callers, and is in the dead letter."""
    for failure in result.failures:
        log.error("a record has to come again", extra={"fields": failure._asdict()})
    for letter in result.dead_letters:
        fields = {"sequence": letter.sequence, "problem": letter.problem, "stream": letter.stream}
        log.error("a record can never be processed", extra={"fields": fields})
    log.info("a batch", extra={"fields": metrics(result, stack)})


def _records(event: object) -> list[Record]:
    """Return the records of a batch. Raises ``ValueError`` for anything else, which Lambda never sends."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise ValueError("the event is not a batch of a stream: it has no list of Records")
    for number, record in enumerate(records):
        change = record.get("dynamodb") if isinstance(record, Mapping) else None
        if not (isinstance(change, Mapping) and isinstance(change.get("SequenceNumber"), str)):
            raise ValueError(f"the event is not a batch of a stream: Records[{number}] has no SequenceNumber")
    return records


@cache
def _aggregator(settings: Settings) -> Aggregator:
    """Return the aggregator, with clients and a clock that the table's answers correct; an environment keeps it from
    batch to batch.
    """
    return Aggregator(open_upkeep(settings.stack), settings, open_archive=open_archive, open_queue=open_queue)
