"""OpenTelemetry's exporter for Prometheus, over the observer."""

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.exporter.prometheus")

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest

from support.core.events import RPM, acquire_event, lease_event, refusal
from zae_limiter.observers.otel import OpenTelemetryObserver


@pytest.fixture
def provider() -> Iterator[MeterProvider]:
    """Its reader is registered with the registry of the process until it is shut down."""
    provider = MeterProvider([PrometheusMetricReader()], shutdown_on_exit=False)
    yield provider
    provider.shutdown()


def test_prometheus_scrapes_what_the_observer_counts(provider: MeterProvider) -> None:
    observer = OpenTelemetryObserver(meter_provider=provider)
    for event in (acquire_event(seconds=0.02), refusal(RPM), lease_event()):
        observer(event)
    lines = [line for line in generate_latest(REGISTRY).decode().splitlines() if not line.startswith("#")]
    names = {line.partition("{")[0] for line in lines}
    assert {"zae_limiter_acquires_total", "zae_limiter_refusals_total", "zae_limiter_tokens_total"} < names
    (tokens,) = [line for line in lines if line.startswith("zae_limiter_tokens_total") and '"tpm"' in line]
    assert tokens.endswith(" 700.0")
    assert any(
        line.startswith("zae_limiter_acquire_duration_seconds_bucket")
        and 'le="0.025"' in line
        and line.endswith(" 1.0")
        for line in lines
    )
