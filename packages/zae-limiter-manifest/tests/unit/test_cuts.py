"""What a change takes away, where the limit keeps its kind, and where it becomes one of another kind or window."""

from typing import Any

import pytest

from zae_limiter_manifest import Address, Change, LimitDecl, ResourceDecl
from zae_limiter_manifest.cuts import largest_cut

BUCKET, DAILY, MONTHLY = LimitDecl(600), LimitDecl(600, window="day"), LimitDecl(600, window="month")
MONDAYS, TOTAL = LimitDecl(600, window="0 6 * * MON"), LimitDecl(600, kind="total")


def share(before: LimitDecl, after: LimitDecl) -> float:
    cut = largest_cut(Change(Address("r"), *(ResourceDecl({"rpm": each}) for each in (before, after))))
    return cut.share if cut else 0


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (BUCKET, LimitDecl(300), 0.5),
        (BUCKET, LimitDecl(600, refill_period=120), 0.5),
        (BUCKET, LimitDecl(600 * 1440, refill_period=86400), 0),
        (BUCKET, LimitDecl(0), 1),
        (DAILY, LimitDecl(150, window="day"), 0.75),
        (MONDAYS, LimitDecl(300, window="0 6 * * MON"), 0.5),
        (TOTAL, LimitDecl(300, kind="total"), 0.5),
        (DAILY, MONTHLY, 1 - 1 / 30),
        (MONTHLY, DAILY, 0),
        (DAILY, LimitDecl(600, window="year"), 1 - 1 / 365),
        (MONTHLY, LimitDecl(60, window="day"), 0),
        (BUCKET, DAILY, 1 - 1 / 1440),
        (BUCKET, LimitDecl(600, window="minute"), 0),
        (BUCKET, TOTAL, 1),
        (TOTAL, DAILY, 0),
        (DAILY, MONDAYS, 0),
        (BUCKET, LimitDecl(600, weights={"output": 4}), 0),
        (BUCKET, LimitDecl(1, window="day", shadow=True), 0),
    ],
)
def test_a_cut_is_the_share_that_is_lost(before: LimitDecl, after: LimitDecl, lost: Any) -> None:
    assert share(before, after) == pytest.approx(lost)
