"""Count on a meter what the answers of DynamoDB say that they cost."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from ...schema.record import UNREADABLE
from ..meter import Meter
from .marshal import read_item

READS: Final = frozenset(("GetItem", "BatchGetItem", "Query", "Scan"))
COUNTED: Final = READS | {"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}


def count_refusal(meter: Meter, response: Mapping[str, Any]) -> None:
    """Count the units of an error answer: DynamoDB charges for failed conditions, but does not report it."""
    code = response.get("Error", {}).get("Code")
    with suppress(*UNREADABLE):  # the error of a damaged answer is its reader's
        if code == "ConditionalCheckFailedException":
            meter.count_failed([read_item(response.get("Item", {}))], transacted=False)
        elif code == "TransactionCanceledException":
            reasons = response.get("CancellationReasons", ())
            meter.count_failed([read_item(reason.get("Item", {})) for reason in reasons], transacted=True)


def count_answer(meter: Meter, name: str, answer: Mapping[str, Any]) -> None:
    """Count the units that an answer reports, to a request that asked for ``INDEXES``."""
    consumed = answer.get("ConsumedCapacity", [])
    with suppress(*UNREADABLE):
        for each in [consumed] if isinstance(consumed, Mapping) else consumed:
            total = float(each["CapacityUnits"])
            indexes = sum(float(part["CapacityUnits"]) for part in each.get("GlobalSecondaryIndexes", {}).values())
            if name in READS:
                meter.count_units(read=total)
            else:
                meter.count_units(write=total - indexes, index=indexes)
