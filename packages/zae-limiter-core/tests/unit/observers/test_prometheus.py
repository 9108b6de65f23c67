"""OpenTelemetry's exporter for Prometheus, over the observer."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("opentelemetry.exporter.prometheus")

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from support.core.events import RPM, acquire_event, lease_event, refusal
from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter.observers.otel import OpenTelemetryObserver
from zae_limiter.observers.use import watch_use

PROJECT = Path(__file__).resolve().parents[5]
GRAFANA = PROJECT / "examples/grafana"
DASHBOARD = GRAFANA / "zae-limiter.json"


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


def test_the_grafana_dashboard_asks_for_all_that_prometheus_gets_and_for_nothing_else(provider: MeterProvider) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    variables = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    exprs = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    labels_of = told_by(provider)
    words = {word for expr in [*variables, *exprs] for word in re.findall(r"\bzae_limiter_\w+", expr)}
    labels = {label for those in labels_of.values() for label in those}
    assert words <= labels_of.keys() | labels
    shown = words & labels_of.keys()
    histograms = {name.removesuffix("_bucket") for name in labels_of if name.endswith("_bucket")}
    assert shown == {name for name in labels_of if name.endswith(("_total", "_bucket", "_use"))}
    assert len(histograms) == 3
    for expr in exprs:
        names, asked = words_of(expr, shown), words_of(expr, labels)
        assert names, expr
        assert all(asked <= labels_of[name] for name in names), expr


def test_rules_ask_for_what_prometheus_gets_and_grafana_has_the_same(provider: MeterProvider) -> None:
    labels_of = told_by(provider)
    labels = {label for those in labels_of.values() for label in those}
    (group,) = yaml.safe_load((GRAFANA / "prometheus-rules.yaml").read_text("utf-8"))["groups"]
    (same,) = yaml.safe_load((GRAFANA / "grafana-alerts.yaml").read_text("utf-8"))["groups"]
    for rule, other in zip(group["rules"], same["rules"], strict=True):
        names, asked = words_of(rule["expr"], {*labels_of}), words_of(rule["expr"], labels)
        assert names, rule["alert"]
        assert all(asked <= labels_of[name] for name in names), rule["alert"]
        assert words_of(json.dumps(rule["annotations"]), labels) <= asked
        runbook = rule["annotations"]["runbook_url"].partition("/main/")[2]
        assert (PROJECT / runbook).is_file()
        asks, compares = (each["model"] for each in other["data"])
        (bound,) = compares["conditions"][0]["evaluator"]["params"]
        assert f"{asks['expr']} > {bound}" == rule["expr"]
        assert other["title"] == rule["alert"]
        assert all(other[key] == rule[key] for key in ("for", "labels", "annotations"))


def words_of(expr: str, known: set[str]) -> set[str]:
    return set(re.findall(r"\bzae_limiter_\w+", expr)) & known


def told_by(provider: MeterProvider) -> Mapping[str, set[str]]:
    """All names that the observer gives to Prometheus, each with its labels."""
    observer = OpenTelemetryObserver(meter_provider=provider)
    shadowed: dict[str, Any] = {"shadowed": refusal(RPM).violations}
    for event in (
        acquire_event(seconds=0.02, waited=0.01, write_units=1.0, **shadowed),
        refusal(RPM),
        lease_event(lost_slots=("slots",), bounded=("tpm",)),
    ):
        observer(event)
    watch_use(
        SyncRateLimiter(SyncRepository.in_memory(), default_limits=[RPM]), [("acme", "gpt-4")], meter_provider=provider
    )
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(generate_latest(REGISTRY).decode()):
        for sample in family.samples:
            if sample.name.startswith("zae_limiter_") and not sample.name.endswith("_created"):
                found.setdefault(sample.name, set()).update(sample.labels)
    return found
