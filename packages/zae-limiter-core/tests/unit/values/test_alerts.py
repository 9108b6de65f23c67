"""The thresholds of a limit: what they may be, how they are written, and who has them."""

from typing import Any

import pytest

from zae_limiter import Limit, ValidationError
from zae_limiter.schema.attributes import bucket_attributes, limit_attributes
from zae_limiter.schema.limit_fields import limit_fields, read_limit
from zae_limiter.values.alerts import read_alert, write_alert

LIMITS = [
    Limit.per_second("n", 5, alert=(80, 95)),
    Limit.per_minute("n", 5, alert=[80]),
    Limit.per_minute("n", 5, window="calendar", alert=(1, 2, 3, 4, 100)),
    Limit.per_hour("n", 5, alert=(80,)),
    Limit.per_hour("n", 5, window="calendar", alert=(80,)),
    Limit.per_day("n", 5, alert=(80,)),
    Limit.per_day("n", 5, window="calendar", alert=(80,)),
    Limit.per_week("n", 5, alert=(80,)),
    Limit.per_week("n", 5, window="calendar", alert=(80,)),
    Limit.per_month("n", 5, alert=(80,)),
    Limit.quota("n", 5, cron="0 6 * * MON", alert=(80,)),
    Limit.quota("n", 5, window=60, alert=(80,)),
    Limit.total("n", 5, alert=(80,)),
    Limit.custom("n", 5, shadow=True, prefetch=1, burst=10, alert=(80,)),
]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_every_kind_with_a_window_has_thresholds_and_keeps_them(limit: Limit) -> None:
    assert limit.alert
    assert Limit.from_dict(limit.to_dict()) == limit
    assert limit._rule.alert == limit.alert, "the bucket has them, so that the aggregator finds them"
    if not str(limit).endswith("}"):
        assert Limit.parse(str(limit)) == limit
    at = limit_attributes("n")
    assert read_limit(limit_fields(limit, at), "n", at) == limit
    of_bucket = bucket_attributes("n")
    stored = limit_fields(limit._rule, of_bucket, unit=1000)
    assert stored["b_n_al"] == write_alert(limit.alert)
    assert read_limit({"b_n_bx": limit._rule.burst * 1000, **stored}, "n", of_bucket, unit=1000) == limit._rule


def test_a_limit_without_thresholds_is_stored_as_before() -> None:
    for at in (limit_attributes("rpm"), bucket_attributes("rpm")):
        assert at.alert not in limit_fields(Limit.per_minute("rpm", 5), at)
    assert "alert" not in Limit.per_minute("rpm", 5).to_dict()


@pytest.mark.parametrize(
    "alert",
    [80, "80", b"80", None, {80}, [0], [101], [-1], [80.0], [True], [80, 80], [95, 80], [1, 2, 3, 4, 5, 6], ["80"]],
)
def test_anything_but_ascending_percentages_is_refused(alert: Any) -> None:
    with pytest.raises(ValidationError, match=r"alert of limit 'usd'.*80, 95"):
        Limit.per_month("usd", 250, alert=alert)


def test_slots_have_no_window() -> None:
    with pytest.raises(ValidationError, match="slots, which have no window"):
        Limit.custom("parallel", 5, kind="concurrent", alert=(80,))


@pytest.mark.parametrize("text", ["alert", "alert 80,", "alert 80 alert 90", "alert 0", "alert 95,80", "alert 80%"])
def test_a_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Limit.parse(f"rpm: 100/min {text}")


def test_texts_are_read_back() -> None:
    assert read_alert(write_alert((1, 50, 100))) == (1, 50, 100)
    assert str(Limit.per_minute("rpm", 100, alert=(80, 95), shadow=True)) == "rpm: 100/min alert 80,95 shadow"
