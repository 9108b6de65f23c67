"""OpenTelemetry's exporter for Prometheus, over the observer."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("opentelemetry.exporter.prometheus")

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

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


def test_no_name_adds_a_label_or_a_line(provider: MeterProvider) -> None:
    names = ['a"b', "a\\b", "a\\n", 'a",b="c', 'a"}1', "__name__", "#", "漢", "😀", "{}"]
    observer = OpenTelemetryObserver(meter_provider=provider, entity_ids=True)
    for name in names:
        observer(replace(acquire_event(), resource=name, entity_id=name))
    families = text_string_to_metric_families(generate_latest(REGISTRY).decode())
    samples = [each for family in families for each in family.samples if each.name == "zae_limiter_acquires_total"]
    assert [each.labels["zae_limiter_resource"] for each in samples] == names
    assert [each.labels["zae_limiter_entity_id"] for each in samples] == names
    assert {len(each.labels) for each in samples} == {len(samples[0].labels)}
