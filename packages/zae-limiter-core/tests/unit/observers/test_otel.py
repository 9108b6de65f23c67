"""Over OpenTelemetry's own SDK."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from support.core.events import RPM, TPM, acquire_event, lease_event, refusal
from support.core.worlds import World
from zae_limiter import Limit, RateLimiterUnavailable, RateLimitExceeded
from zae_limiter.observers.otel import OpenTelemetryObserver

OWN = {"zae_limiter.namespace": "prod", "zae_limiter.resource": "gpt-4"}
ADMITTED = OWN | {"zae_limiter.call": "acquire", "zae_limiter.outcome": "admitted"}


class Recorded:
    """An observer with the SDK behind it, and what was recorded."""

    def __init__(self, **options: Any) -> None:
        self._reader, self._exporter = InMemoryMetricReader(), InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.observer = OpenTelemetryObserver(
            meter_provider=MeterProvider([self._reader], shutdown_on_exit=False),
            tracer_provider=self.tracers,
            **options,
        )

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        """The points of each metric: attributes and value; of a histogram the sum."""
        data = self._reader.get_metrics_data()
        assert data is not None
        (scope,) = data.resource_metrics[0].scope_metrics
        assert scope.scope.name == "zae_limiter"
        return {
            metric.name: [
                (dict(point.attributes or {}), point.value if hasattr(point, "value") else point.sum)
                for point in metric.data.data_points
            ]
            for metric in scope.metrics
        }

    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()


def test_an_admitted_acquire_is_counted_and_timed() -> None:
    recorded = Recorded()
    recorded.observer(acquire_event(waited=0.05, write_units=2.0))
    recorded.observer(acquire_event())
    assert recorded.metrics() == {
        "zae_limiter.acquires": [(ADMITTED, 2)],
        "zae_limiter.acquire.duration": [(ADMITTED, 0.2)],
        "zae_limiter.acquire.wait": [(OWN, 0.05)],
        "zae_limiter.write_units": [({"zae_limiter.namespace": "prod"}, 2)],
    }


def test_a_refusal_counts_the_limits_that_were_short() -> None:
    recorded = Recorded()
    recorded.observer(refusal(RPM))
    recorded.observer(refusal(RPM, TPM))
    metrics = recorded.metrics()
    assert metrics["zae_limiter.refusals"] == [
        (OWN | {"zae_limiter.limit": "rpm"}, 2),
        (OWN | {"zae_limiter.limit": "tpm"}, 1),
    ]
    assert [value for _, value in metrics["zae_limiter.acquires"]] == [2]


def test_an_admitted_call_counts_the_shadow_limits_that_would_have_refused_it() -> None:
    recorded = Recorded()
    recorded.observer(acquire_event(shadowed=refusal(RPM).violations))
    metrics = recorded.metrics()
    assert metrics["zae_limiter.shadowed"] == [(OWN | {"zae_limiter.limit": "rpm"}, 1)]
    assert metrics["zae_limiter.acquires"] == [(ADMITTED, 1)]
    [span] = recorded.spans()
    assert (span.attributes or {})["zae_limiter.shadowed"] == ("rpm",)


def test_an_overflow_is_counted_by_its_resource_and_whether_it_was_early() -> None:
    recorded = Recorded()
    (short,) = refusal(RPM).violations
    recorded.observer(acquire_event(overflow="credits"))
    recorded.observer(acquire_event(overflow="credits", overflowed_early=short))
    recorded.observer(acquire_event(overflow="credits", overflowed_early=short, call="consume"))
    served = OWN | {"zae_limiter.overflow": "credits"}
    assert recorded.metrics()["zae_limiter.overflows"] == [
        (served | {"zae_limiter.early": False}, 1),
        (served | {"zae_limiter.early": True}, 1),
    ]
    late, early, _ = (dict(span.attributes or {}) for span in recorded.spans())
    assert (late["zae_limiter.overflow"], late.get("zae_limiter.early")) == ("credits", None)
    assert early["zae_limiter.early"] == ("rpm",)


def test_the_end_of_a_block_counts_its_tokens() -> None:
    recorded = Recorded()
    recorded.observer(lease_event())
    recorded.observer(lease_event(ending="rolled_back", consumed={"rpm": 0}))
    metrics = recorded.metrics()
    counted = OWN | {"zae_limiter.degraded": False}
    assert metrics["zae_limiter.tokens"] == [
        (counted | {"zae_limiter.limit": "rpm"}, 1),
        (counted | {"zae_limiter.limit": "tpm"}, 700),
    ]
    assert metrics["zae_limiter.lease.duration"] == [
        (OWN | {"zae_limiter.ending": "settled"}, 2),
        (OWN | {"zae_limiter.ending": "rolled_back"}, 2),
    ]


def test_a_settlement_for_its_bound_is_counted_by_limit() -> None:
    recorded = Recorded()
    recorded.observer(lease_event(bounded=("tpm",)))
    assert recorded.metrics()["zae_limiter.bounded"] == [(OWN | {"zae_limiter.limit": "tpm"}, 1)]


def test_a_failure_has_the_type_of_its_error() -> None:
    recorded = Recorded()
    recorded.observer(acquire_event(outcome="failed", error=RateLimiterUnavailable("no answer")))
    ((attributes, _),) = recorded.metrics()["zae_limiter.acquires"]
    assert (attributes["zae_limiter.outcome"], attributes["error.type"]) == ("failed", "RateLimiterUnavailable")
    (span,) = recorded.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


def test_a_span_covers_the_call_and_says_what_was_short() -> None:
    recorded = Recorded()
    recorded.observer(refusal(RPM))
    (span,) = recorded.spans()
    assert span.name == "zae_limiter.acquire"
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time - span.start_time == 100_000_000
    assert dict(span.attributes or {}) == OWN | {
        "zae_limiter.call": "acquire",
        "zae_limiter.outcome": "refused",
        "zae_limiter.reason": "rate",
        "zae_limiter.amount.rpm": 1,
        "zae_limiter.violations": ("rpm",),
    }
    assert span.status.status_code is StatusCode.UNSET


def test_the_entity_is_named_on_request_alone() -> None:
    for asked in (False, True):
        recorded = Recorded(entity_ids=asked)
        recorded.observer(refusal(RPM))
        recorded.observer(lease_event())
        points = [attributes for each in recorded.metrics().values() for attributes, _ in each]
        points += [dict(span.attributes or {}) for span in recorded.spans()]
        assert [attributes.get("zae_limiter.entity_id") for attributes in points] == ["key-1" if asked else None] * 7


def test_spans_can_be_left_out() -> None:
    recorded = Recorded(spans=False)
    recorded.observer(acquire_event())
    assert recorded.spans() == ()


@pytest.mark.parametrize(
    ("reason", "limit", "asked"),
    [
        ("rate", Limit.per_minute("rpm", 1), 1),
        ("quota", Limit.per_month("rpm", 1), 1),
        ("concurrency", Limit.concurrent("rpm", 1), 1),
        ("disabled", Limit.per_minute("rpm", 0), 1),
        ("never", Limit.per_minute("rpm", 1), 2),
    ],
)
async def test_a_refused_acquire_has_its_reason(async_world: World, reason: str, limit: Limit, asked: int) -> None:
    recorded = Recorded()
    limiter, _ = await async_world.process(default_limits=[limit], observers=[recorded.observer])
    async with AsyncExitStack() as held:
        if limit.capacity and asked == 1:
            await held.enter_async_context(limiter.acquire("e", "r", {"rpm": 1}))
        with pytest.raises(RateLimitExceeded) as refusal:
            await held.enter_async_context(limiter.acquire("e", "r", {"rpm": asked}))
    assert refusal.value.reason == reason
    counted = [attributes for attributes, _ in recorded.metrics()["zae_limiter.acquires"]]
    assert [each.get("zae_limiter.reason") for each in counted] == [None] * (len(counted) - 1) + [reason]
    timed = [attributes for attributes, _ in recorded.metrics()["zae_limiter.acquire.duration"]]
    assert timed[-1]["zae_limiter.reason"] == reason
    assert (recorded.spans()[-1].attributes or {})["zae_limiter.reason"] == reason


async def test_the_span_of_an_acquire_is_a_child_of_the_callers(async_world: World) -> None:
    recorded = Recorded()
    limiter, _ = await async_world.process(default_limits=[Limit.per_minute("rpm", 60)], observers=[recorded.observer])
    with recorded.tracers.get_tracer("mine").start_as_current_span("request"):
        async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
            await lease.consume(rpm=1)
    acquire, consume, request = recorded.spans()
    assert [span.name for span in (acquire, consume)] == ["zae_limiter.acquire", "zae_limiter.consume"]
    assert request.context is not None
    assert {span.parent and span.parent.span_id for span in (acquire, consume)} == {request.context.span_id}


def test_the_refusal_of_a_parent_names_its_limit_and_its_id_on_request() -> None:
    for asked in (False, True):
        recorded = Recorded(entity_ids=asked)
        recorded.observer(refusal(RPM, entity_id="acme-corp"))
        ((attributes, number),) = recorded.metrics()["zae_limiter.refusals"]
        assert (attributes["zae_limiter.limit"], number) == ("parent/rpm", 1)
        (span,) = recorded.spans()
        told = span.attributes or {}
        assert told["zae_limiter.violations"] == ("parent/rpm",)
        assert told.get("zae_limiter.refused_by") == ("acme-corp" if asked else None)
