"""An observer for OpenTelemetry: metrics, and a span for each acquire. It needs ``zae-limiter-core[otel]``."""

import time
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.util.types import AttributeValue

from ..values.versions import core_version
from . import AcquireEvent, Event, LeaseEvent, limit_names

NAME: Final = "zae_limiter"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

Attributes = dict[str, AttributeValue]


class OpenTelemetryObserver:
    """Counts and times calls with a meter, and records each acquire and ``lease.consume`` as a span of the current one.

    The limit of a parent is ``parent/rpm``. The providers default to the global ones. With ``entity_ids``, metrics and
    spans have ``zae_limiter.entity_id``: a time series for each entity. The span of a refusal then has
    ``zae_limiter.refused_by``, too. ``spans=False`` records metrics alone.
    """

    def __init__(
        self,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        entity_ids: bool = False,
        spans: bool = True,
    ) -> None:
        self._entity_ids = entity_ids
        self._tracer = trace.get_tracer(NAME, core_version(), tracer_provider) if spans else None
        meter = metrics.get_meter(NAME, core_version(), meter_provider)
        count = meter.create_counter
        self._acquires = count("zae_limiter.acquires", "{acquire}", "Acquires and lease.consume calls, by outcome")
        self._shadowed = count(
            "zae_limiter.shadowed", "{refusal}", "Shadow limits that would have refused an admitted call"
        )
        self._refusals = count(
            "zae_limiter.refusals", "{refusal}", "Limits that were short of tokens in a refused call"
        )
        self._overflows = count(
            "zae_limiter.overflows", "{acquire}", "Acquires that their overflow served, by resource"
        )
        self._tokens = count(
            "zae_limiter.tokens", "{token}", "Tokens that ended blocks have used, corrections included"
        )
        self._bounded = count(
            "zae_limiter.bounded", "{settlement}", "Limits that were settled for their bound, because more was claimed"
        )
        self._lost = count("zae_limiter.lost_slots", "{lease}", "Leases that lost slots before their end, by limit")
        self._written = count("zae_limiter.write_units", "{unit}", "Write units of the table and its indexes")
        self._duration = _histogram(meter, "zae_limiter.acquire.duration", "How long an acquire took")
        self._waited = _histogram(
            meter, "zae_limiter.acquire.wait", "How long an admitted acquire waited for its tokens"
        )
        self._block = _histogram(meter, "zae_limiter.lease.duration", "How long a block held its lease, by its end")

    def __call__(self, event: Event, /) -> None:
        """Record the event."""
        if event.write_units:
            self._written.add(event.write_units, {"zae_limiter.namespace": event.namespace})
        attributes: Attributes = {"zae_limiter.namespace": event.namespace, "zae_limiter.resource": event.resource}
        if self._entity_ids:
            attributes["zae_limiter.entity_id"] = event.entity_id
        if isinstance(event, AcquireEvent):
            self._record_call(event, attributes)
        else:
            self._record_end(event, attributes)

    def _record_call(self, event: AcquireEvent, attributes: Attributes) -> None:
        for limit in limit_names(event, event.violations):
            self._refusals.add(1, attributes | {"zae_limiter.limit": limit})
        for limit in limit_names(event, event.shadowed):
            self._shadowed.add(1, attributes | {"zae_limiter.limit": limit})
        if event.overflow is not None and event.call == "acquire":
            early = event.overflowed_early is not None
            served: Attributes = {"zae_limiter.overflow": event.overflow, "zae_limiter.early": early}
            self._overflows.add(1, attributes | served)
        with_outcome = attributes | {"zae_limiter.call": event.call, "zae_limiter.outcome": event.outcome}
        if event.reason is not None:
            with_outcome["zae_limiter.reason"] = event.reason
        if event.error is not None:
            with_outcome["error.type"] = type(event.error).__qualname__
        self._acquires.add(1, with_outcome)
        self._duration.record(event.seconds, with_outcome)
        if event.waited:
            self._waited.record(event.waited, attributes)
        if self._tracer is not None:
            if self._entity_ids and event.refused_by is not None:
                with_outcome = with_outcome | {"zae_limiter.refused_by": event.refused_by}
            _record_span(self._tracer, event, with_outcome)

    def _record_end(self, event: LeaseEvent, attributes: Attributes) -> None:
        for name, amount in event.consumed.items():
            if amount:
                self._tokens.add(
                    amount, attributes | {"zae_limiter.limit": name, "zae_limiter.degraded": event.degraded}
                )
        for name in event.bounded:
            self._bounded.add(1, attributes | {"zae_limiter.limit": name})
        for name in event.lost_slots:
            self._lost.add(1, attributes | {"zae_limiter.limit": name})
        self._block.record(event.seconds, attributes | {"zae_limiter.ending": event.ending})


def _histogram(meter: metrics.Meter, name: str, description: str) -> metrics.Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=SECONDS)


def _record_span(tracer: trace.Tracer, event: AcquireEvent, attributes: Attributes) -> None:
    """Record a span that has ended already, in the caller's context."""
    end = time.time_ns()
    span = tracer.start_span(
        f"{NAME}.{event.call}", attributes=attributes, start_time=end - round(event.seconds * 1_000_000_000)
    )
    if span.is_recording():
        for name, amount in event.amounts.items():
            span.set_attribute(f"zae_limiter.amount.{name}", amount)
        if event.waited:
            span.set_attribute("zae_limiter.waited", event.waited)
        if event.overflow is not None:
            span.set_attribute("zae_limiter.overflow", event.overflow)
        if event.overflowed_early is not None:
            span.set_attribute("zae_limiter.early", limit_names(event, [event.overflowed_early]))
        if event.violations:
            span.set_attribute("zae_limiter.violations", limit_names(event, event.violations))
        if event.shadowed:
            span.set_attribute("zae_limiter.shadowed", limit_names(event, event.shadowed))
        if event.outcome == "failed" and event.error is not None:
            span.record_exception(event.error)
            span.set_status(trace.StatusCode.ERROR, str(event.error))
    span.end(end)
