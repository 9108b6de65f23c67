"""Report thresholds that were crossed (``alert`` of a limit), as events of an EventBridge bus.

A crossing is sent first, and remembered in the table afterwards: whatever fails between them, it is sent again with the
same id, never lost. What the bus did not take is sent again with the next batch. Nothing here holds the stream up:
usage was counted before (docs/decisions/alerts.md).
"""

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from zae_limiter.maintenance import (
    BucketUse,
    Crossing,
    Key,
    Told,
    Upkeep,
    find_crossings,
    remember_told,
    watch,
)

from .problems import problem_of
from .records import BucketChange

SOURCE: Final = "zae-limiter"
DETAIL_TYPE: Final = "Limit threshold crossed"
ENTRIES: Final = 10  # of one request of EventBridge
MOST_REMEMBERED: Final = 10_000  # limits of an environment: what it forgets costs a read
MOST_UNTOLD: Final = 1_000

PutEvents = Callable[..., Mapping[str, Any]]
log = logging.getLogger(__name__)


class TellingResult(NamedTuple):
    """How many crossings the bus took, and how many did not get through, or could not be looked for."""

    told: int = 0
    failed: int = 0


class Alerts:
    """Finds and reports the crossings of batches; an environment keeps it, with what it knows was reported."""

    def __init__(self, upkeep: Upkeep, bus: str, open_bus: Callable[[], PutEvents]) -> None:
        self._upkeep = upkeep
        self._bus = bus
        self._open_bus = open_bus
        self._put: PutEvents | None = None
        self._told: OrderedDict[Key, Told] = OrderedDict()
        self._untold: dict[str, Crossing] = {}

    def tell(self, changes: Iterable[BucketChange], *, spread: bool) -> TellingResult:
        """Report what these changes crossed, and what was not reported before. Nothing that fails raises.

        ``spread``: the table's schema has suffixes in the indexes.
        """
        found, failed = self._find(changes)
        waiting = list({**self._untold, **{each.id: each for each in found}}.values())
        self._untold, told = {}, 0
        for first in range(0, len(waiting), ENTRIES):
            some = waiting[first : first + ENTRIES]
            taken = self._send(some)
            told += len(taken)
            failed += len(some) - len(taken) + sum(not self._remember(each, spread=spread) for each in taken)
            ids = {each.id for each in taken}
            self._untold |= {each.id: each for each in some if each.id not in ids}
        self._untold = dict(list(self._untold.items())[-MOST_UNTOLD:])
        return TellingResult(told, failed)

    def _find(self, changes: Iterable[BucketChange]) -> tuple[list[Crossing], int]:
        try:
            watched = watch(BucketUse(each.bucket, each.after, each.at_ms) for each in changes)
            return (self._upkeep.run(find_crossings(watched, self._told)) if watched else []), 0
        except Exception as error:  # noqa: BLE001  it is counted, and the next use of the bucket finds it
            _log("the thresholds of a batch could not be looked at", error)
            return [], 1

    def _send(self, crossings: Sequence[Crossing]) -> list[Crossing]:
        """Return those that the bus took."""
        try:
            self._put = put = self._put or self._open_bus()
            answer = put(Entries=[_entry(each, self._bus) for each in crossings])
            codes = [each.get("ErrorCode") for each in answer["Entries"]]
        except Exception as error:  # noqa: BLE001  they are counted, and sent again
            _log("the event bus did not take thresholds", error)
            return []
        if any(codes):
            fields = {"problem": ", ".join(sorted({str(code) for code in codes if code}))}
            log.warning("the event bus did not take thresholds", extra={"fields": fields})
        return [crossing for crossing, code in zip(crossings, codes, strict=True) if not code]

    def _remember(self, crossing: Crossing, *, spread: bool) -> bool:
        try:
            told = self._upkeep.run(remember_told(crossing, spread=spread))
        except Exception as error:  # noqa: BLE001  it is counted, and sent again with the same id
            _log("a reported threshold could not be remembered", error)
            return False
        self._told[crossing.key] = told
        self._told.move_to_end(crossing.key)
        while len(self._told) > MOST_REMEMBERED:
            self._told.popitem(last=False)
        return True


def detail(crossing: Crossing) -> dict[str, Any]:
    """Return the detail of the event: amounts in whole tokens, times in ISO 8601, ``None`` where there is none."""
    window = crossing.window
    return {
        "id": crossing.id,
        "namespace": crossing.namespace,
        "namespace_id": crossing.bucket.namespace_id,
        "entity": crossing.bucket.entity_id,
        "resource": crossing.bucket.resource,
        "limit": crossing.limit.name,
        "threshold": crossing.threshold,
        "used": crossing.used,
        "capacity": crossing.capacity,
        "window_start": _iso(window.start_ms),
        "window_end": _iso(window.end_ms),
        "at": _iso(crossing.at_ms),
        "seconds_left": crossing.seconds_left,
        **_money(crossing),
    }


def _money(crossing: Crossing) -> dict[str, Any]:
    """Return the currency of a limit of money, and its amounts for people; nothing for tokens."""
    limit = crossing.limit
    if not limit.unit:
        return {}
    return {
        "unit": limit.unit,
        "money": {"used": limit.show(crossing.used), "capacity": limit.show(crossing.capacity)},
    }


def open_bus() -> PutEvents:
    """Return the method ``put_events`` of a new EventBridge client."""
    import boto3

    put: PutEvents = boto3.client("events").put_events
    return put


def _entry(crossing: Crossing, bus: str) -> dict[str, Any]:
    return {
        "Source": SOURCE,
        "DetailType": DETAIL_TYPE,
        "Detail": json.dumps(detail(crossing)),
        "EventBusName": bus,
        "Time": datetime.fromtimestamp(crossing.at_ms / 1000, UTC),
    }


def _iso(at_ms: int | None) -> str | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _log(message: str, error: Exception) -> None:
    log.warning(message, extra={"fields": {"problem": problem_of(error)}})
