"""An explanation: the limit that binds is the one with the longest wait; a wait may be longer than a date can say."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from zae_limiter import Explanation, Limit
from zae_limiter.values import BucketExplanation, LimitExplanation

AT = datetime(2026, 1, 1, tzinfo=UTC)


def explained(*waits: float, shadow: bool = False) -> Explanation:
    """One bucket with a limit for each wait."""
    limits = tuple(
        LimitExplanation(Limit.per_minute(f"l{place}", 60, shadow=shadow), 1, 0, 0, wait)
        for place, wait in enumerate(waits)
    )
    return Explanation("e", "r", AT, None, False, (BucketExplanation("e", "r", "system", None, 1, limits),))


def test_the_longest_wait_binds() -> None:
    found = explained(0.0, 2.0, 7.5, 1.0)
    assert found.binding is not None
    assert (found.binding[1].limit.name, found.passes, found.wait_seconds) == ("l2", False, 7.5)
    assert found.passes_at == AT + timedelta(seconds=7.5)


@pytest.mark.parametrize("found", [explained(0.0, 0.0), explained(2.0, math.inf, shadow=True)])
def test_without_a_wait_of_an_enforced_limit_it_passes_at_once(found: Explanation) -> None:
    assert (found.binding, found.passes, found.wait_seconds, found.passes_at) == (None, True, 0.0, AT)


@pytest.mark.parametrize("wait", [math.inf, 1e12])
def test_a_wait_without_an_end_or_behind_the_last_date_has_no_instant(wait: float) -> None:
    assert explained(wait).passes_at is None
