"""The gauge of what watched entities have used, over OpenTelemetry's own SDK."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from zae_limiter import Limit, RateLimiterUnavailable, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.observers.use import watch_use

Points = Callable[[], dict[tuple[str, str], float]]


@pytest.fixture
def limiter() -> Iterator[SyncRateLimiter]:
    repository = SyncRepository.in_memory()
    repository.create_entity("org")
    repository.create_entity("acme", parent_id="org", cascade=True)
    repository.set_limits("acme", ["rpm: 100/day UTC", "usd: $10/month"], "gpt-4")
    repository.set_limits("org", ["rpm: 1000/day UTC"])
    with SyncRateLimiter(repository) as limiter:
        yield limiter


def watched(limiter: Any, *pairs: tuple[str, str], every: float = 60.0) -> Points:
    reader = InMemoryMetricReader()
    watch_use(limiter, pairs, every=every, meter_provider=MeterProvider([reader], shutdown_on_exit=False))

    def points() -> dict[tuple[str, str], float]:
        data = reader.get_metrics_data()
        found = [
            (metric.name, point)
            for each in (data.resource_metrics if data else ())
            for metric in each.scope_metrics[0].metrics
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
        ]
        assert {name for name, _ in found} <= {"zae_limiter.use"}
        attributes = [(dict(point.attributes or {}), point.value) for _, point in found]
        assert all(each["zae_limiter.namespace"] == "default" for each, _ in attributes)
        return {(str(each["zae_limiter.entity_id"]), str(each["zae_limiter.limit"])): at for each, at in attributes}

    return points


def test_each_limit_of_a_watched_entity_has_the_part_that_is_used(limiter: SyncRateLimiter) -> None:
    points = watched(limiter, ("acme", "gpt-4"), ("org", "gpt-4"))
    with limiter.acquire("acme", "gpt-4", {"rpm": 25, "usd": Limit.money("usd", "2.50", per="day").capacity}):
        pass
    assert points() == {("acme", "rpm"): 0.25, ("acme", "usd"): 0.25, ("org", "rpm"): 0.025}


def test_a_debt_is_above_one(limiter: SyncRateLimiter) -> None:
    points = watched(limiter, ("org", "gpt-4"))
    with limiter.acquire("org", "gpt-4", {"rpm": 900}) as lease:
        lease.adjust(rpm=600)
    assert points() == {("org", "rpm"): 1.5}


def test_buckets_are_read_again_when_the_reading_is_old(
    limiter: SyncRateLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("zae_limiter.observers.use.time.monotonic", lambda: now)
    points = watched(limiter, ("org", "gpt-4"), every=30)
    assert points() == {("org", "rpm"): 0.0}
    with limiter.acquire("org", "gpt-4", {"rpm": 500}):
        pass
    now += 29.9
    assert points() == {("org", "rpm"): 0.0}
    now += 0.1
    assert points() == {("org", "rpm"): 0.5}


def test_a_pair_that_cannot_be_read_hides_no_other(limiter: SyncRateLimiter, caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        def check(self, entity_id: str, resource: str, /) -> Any:
            if entity_id == "gone":
                raise RateLimiterUnavailable("no answer")
            return limiter.check(entity_id, resource)

    assert watched(Failing(), ("gone", "gpt-4"), ("org", "gpt-4"))() == {("org", "rpm"): 0.0}
    assert "the use of gone on gpt-4 is not known: the rate limiter's store is unavailable: no answer" in caplog.text


@pytest.mark.parametrize(
    ("pairs", "every", "message"),
    [
        (["acme"], 60, "watched 'acme': must be an entity and a resource"),
        ([("acme",)], 60, "must be an entity and a resource"),
        ([("a", "b")] * 101, 60, "watched 101: must be at most 100 pairs"),
        ([("a", "b")], 0.5, "every 0.5: must be at least 1 second"),
        ([("a", "b")], float("nan"), "every nan: must be at least 1 second"),
    ],
)
def test_what_cannot_be_watched_is_refused(limiter: SyncRateLimiter, pairs: Any, every: float, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        watch_use(limiter, pairs, every=every)
    assert message in str(caught.value)
