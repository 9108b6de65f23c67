"""A gauge of OpenTelemetry: which part of their limits the entities have used that an application names.

It needs ``zae-limiter-core[otel]``.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from opentelemetry import metrics

from ..exceptions import ValidationError, ZAELimiterError
from ..values.checks import Check
from ..values.limit_status import LimitStatus
from ..values.versions import core_version

log = logging.getLogger(__name__)
MOST_WATCHED: Final = 100
LEAST_SECONDS: Final = 1.0


class Checking(Protocol):
    """What the gauge needs of a ``SyncRateLimiter``."""

    def check(self, entity_id: str, resource: str, /) -> Check:
        """Return the state of the limits."""
        ...


def watch_use(
    limiter: Checking,
    watched: Iterable[tuple[str, str]],
    *,
    namespace: str = "default",
    every: float = 60.0,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Register the gauge ``zae_limiter.use`` for pairs of an entity and a resource, at most 100.

    It gives the part that is used of each of the entity's own limits, from 0 to 1, above 1 in debt, with its
    namespace, entity, resource and limit. A collection of metrics reads the buckets, one request for each pair, unless
    the last reading is younger than ``every`` seconds; a pair that cannot be read is left out, and logged. The
    limiter is a ``SyncRateLimiter``, since collections run in threads; an asyncio application opens one beside its own.
    Raises ``ValidationError`` for pairs that are none, for too many, and for ``every`` below a second.
    """
    if not every >= LEAST_SECONDS:
        raise ValidationError("every", every, f"must be at least {LEAST_SECONDS:g} second")
    gauge = _Gauge(limiter, _checked(watched), namespace, every)
    metrics.get_meter("zae_limiter", core_version(), meter_provider).create_observable_gauge(
        "zae_limiter.use", [gauge], "{limit}", "The part of a limit that is used, of watched entities"
    )


def _checked(watched: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs = list(watched)
    for pair in pairs:
        if not (isinstance(pair, tuple) and [type(each) for each in pair] == [str, str]):
            raise ValidationError("watched", pair, 'must be an entity and a resource, such as ("acme", "gpt-4")')
    if len(pairs) > MOST_WATCHED:
        raise ValidationError("watched", len(pairs), f"must be at most {MOST_WATCHED} pairs: each is read")
    return pairs


class _Gauge:
    """A callback that reads again once its observations are old."""

    def __init__(self, limiter: Checking, pairs: list[tuple[str, str]], namespace: str, every: float) -> None:
        self._limiter, self._pairs, self._namespace, self._every = limiter, pairs, namespace, every
        self._lock = threading.Lock()  # collections of several readers may overlap
        self._read_at = -every
        self._last: list[metrics.Observation] = []

    def __call__(self, _options: metrics.CallbackOptions, /) -> Iterable[metrics.Observation]:
        with self._lock:
            if time.monotonic() - self._read_at >= self._every:
                self._last = [*self._read()]
                self._read_at = time.monotonic()
            return self._last

    def _read(self) -> Iterator[metrics.Observation]:
        for entity, resource in self._pairs:
            try:
                statuses = self._limiter.check(entity, resource).statuses
            except ZAELimiterError as error:  # of one pair: the others are shown
                log.warning("the use of %s on %s is not known: %s", entity, resource, error)
                continue
            for status in statuses:
                if status.entity_id == entity and status.limit.burst:
                    yield metrics.Observation(_part(status), self._attributes(status))

    def _attributes(self, status: LimitStatus) -> dict[str, str]:
        return {
            "zae_limiter.namespace": self._namespace,
            "zae_limiter.entity_id": status.entity_id,
            "zae_limiter.resource": status.resource,
            "zae_limiter.limit": status.limit_name,
        }


def _part(status: LimitStatus) -> float:
    return (status.limit.burst - status.available) / status.limit.burst
