"""The Lambda's entry: takes a batch of stream records and says which of them are to come again.

Lives here: the environment, the client, Lambda's words. Never: keys, attributes, or arithmetic of buckets.
"""

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypedDict

from zae_limiter.maintenance import SyncDriver, SyncDynamoDBStore, log_as_json

from .aggregation import Aggregator
from .archive import open_archive
from .settings import Settings
from .telemetry import metrics

LOGGERS: Final = ("zae_limiter", "zae_limiter_aggregator")
log = logging.getLogger(__name__)


class BatchAnswer(TypedDict):
    """What a stream's event source mapping reads: it sends again from the first of these records on."""

    batchItemFailures: list[dict[str, str]]


def on_event(event: Mapping[str, Any], context: object) -> BatchAnswer:  # noqa: ARG001  Lambda passes both
    """Count the usage of one batch, and do what else it asks for; every step may be taken again.

    The table is that of ``ZAEL_STACK``; region, endpoint and credentials are found as the SDK finds them. Raises
    ``ValidationError`` for an environment that is wrong, ``KeyError`` for an event that is no batch.
    """
    log_as_json(*LOGGERS)
    settings = Settings.read(os.environ)
    account = _aggregator(settings).take(event["Records"])
    for failure in account.failures:
        log.error("a record is to come again", extra={"fields": failure._asdict()})
    log.info("a batch", extra={"fields": metrics(account, settings.stack)})
    return {"batchItemFailures": [{"itemIdentifier": failure.sequence} for failure in account.failures]}


@cache
def _aggregator(settings: Settings) -> Aggregator:
    """What an environment keeps from batch to batch: clients, and a clock that the table's answers correct."""
    store = SyncDynamoDBStore(settings.stack)
    return Aggregator(SyncDriver(store), settings, clock=store.clock, open_archive=open_archive)
