"""An observer for CloudWatch: lines in the embedded metric format, for Lambdas and whatever logs to CloudWatch."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO
from urllib.parse import quote

from . import AcquireEvent, Event, limit_names

NAMESPACE: Final = "zae-limiter"
MOST_RESOURCES: Final = 1000
OTHERS: Final = "all others"  # no resource has white space
_COUNTS: Final = (
    "admitted", "refused", "degraded", "failed", "cancelled", "refusals", "shadowed", "tokens", "bounded",
    "rolled_back", "ends_failed", "lost_slots", "write_units", "overflowed", "overflowed_early",
)  # fmt: skip
UNITS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_COUNTS, "Count"),
    **dict.fromkeys(("duration_ms", "waited_ms"), "Milliseconds"),
}


def embedded_metrics(
    dimensions: Mapping[str, str], figures: Mapping[str, float], units: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of a line from which CloudWatch extracts the figures, each in its unit."""
    declared = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": units[name]} for name in figures],
    }
    return {
        "_aws": {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [declared]},
        **dimensions,
        **figures,
    }


class EmbeddedMetricsObserver:
    """Writes lines of JSON to ``stream``, by default standard output; CloudWatch makes metrics of them.

    Dimensions are namespace and resource, and the limit for ``refusals``, ``shadowed``, ``tokens``, ``bounded`` and
    ``lost_slots``; that of a parent is ``parent/rpm``. After the first ``most_resources``, which may be names that
    clients made up, a further resource counts as ``all others``. The lines of a refusal have its ``reason`` in a field,
    which is not a dimension. With ``entity_ids``, so do all lines the entity, and those of a refusal ``refused_by``.
    """

    def __init__(
        self, *, stream: TextIO | None = None, entity_ids: bool = False, most_resources: int = MOST_RESOURCES
    ) -> None:
        self._stream = stream
        self._entity_ids = entity_ids
        self._most_resources = most_resources
        self._resources: set[tuple[str, str]] = set()

    def __call__(self, event: Event, /) -> None:
        """Write the lines of the event."""
        own = {"namespace": event.namespace, "resource": self._resource(event)}
        more = {"entity_id": event.entity_id} if self._entity_ids else {}
        if more and isinstance(event, AcquireEvent) and event.refused_by is not None:
            more["refused_by"] = event.refused_by
        if isinstance(event, AcquireEvent) and event.reason is not None:
            more["reason"] = event.reason
        lines = [(own, _figures(event))]
        lines += [({**own, "limit": limit}, figures) for limit, figures in _by_limit(event)]
        texts = [
            json.dumps({**embedded_metrics(dimensions, figures, UNITS), **more}) + "\n"
            for dimensions, figures in lines
            if figures
        ]
        stream = self._stream or sys.stdout
        stream.write("".join(texts))
        stream.flush()

    def _resource(self, event: Event) -> str:
        place = event.namespace, event.resource
        if place not in self._resources:
            if len(self._resources) >= self._most_resources:
                return OTHERS
            self._resources.add(place)
        # CloudWatch takes no name that is not ASCII or begins with a colon; with `%` encoded, no two become the same.
        name = event.resource
        taken = name.isascii() and not name.startswith(":") and "%" not in name
        return name if taken else quote(name, safe="/@|+")


def _figures(event: Event) -> dict[str, float]:
    """Return the figures of a resource."""
    figures: dict[str, float] = {"write_units": event.write_units} if event.write_units else {}
    if isinstance(event, AcquireEvent):
        figures |= {event.outcome: 1, "duration_ms": event.seconds * 1000}
        if event.waited:
            figures["waited_ms"] = event.waited * 1000
        if event.overflow is not None and event.call == "acquire":
            figures["overflowed"] = 1
        if event.overflowed_early is not None and event.call == "acquire":
            figures["overflowed_early"] = 1
    elif event.ending != "settled":
        figures["rolled_back" if event.ending == "rolled_back" else "ends_failed"] = 1
    return figures


def _by_limit(event: Event) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the figures of each limit."""
    if isinstance(event, AcquireEvent):
        for name in limit_names(event, event.violations):
            yield name, {"refusals": 1}
        for name in limit_names(event, event.shadowed):
            yield name, {"shadowed": 1}
    else:
        for name, amount in event.consumed.items():
            if amount:
                figures: dict[str, float] = {"tokens": amount}
                yield name, (figures | {"bounded": 1}) if name in event.bounded else figures
        for name in event.lost_slots:
            yield name, {"lost_slots": 1}
